//! The certificates of an installation: an authority and what it signed for the listener, in one
//! Secret that all replicas share, renewed before they expire, and told to whoever asks us.
//!
//! Whoever sees first that something is due writes it, and a write that comes second is refused:
//! nobody has to be elected to serve. A new authority is told to all who ask before anything that
//! it signed is served, and the one before stays believed until it expires.
//!
//! The Secret is read again and again rather than watched: who may read one Secret by its name
//! need not be allowed to list any.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use apiserver::identity::certificates::{Authority, Issued, read_pair};
use apiserver::identity::key_files::{KeyFiles, Privacy};
use apiserver::identity::tls::Serving;
use apiserver::identity::{AlternativeName, Error};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reconcile::plan::Target;
use reconcile::requests::Requests;
use reconcile::{Environment, Kind, Name, Object};
use serde_json::{Value, json};
use tokio::sync::watch;
use tracing::{info, warn};

use super::installation::{Installation, clients_mut};
use super::readiness::Readiness;

/// How long a serving certificate holds, unless it is said.
pub const LIFE_SECONDS: i64 = 365 * 86_400;
/// A certificate is renewed when this part of its life is left.
const RENEWAL_PART: i64 = 3;
/// How often is looked; more often only where certificates live shorter than anybody's do.
pub const LOOK: Duration = Duration::from_secs(10);
const LOOK_MIN: Duration = Duration::from_secs(1);
/// How long another replica that was faster is let go on.
const CONFLICT_PAUSE: Duration = Duration::from_millis(100);

const SECRET: Kind = Kind::namespaced("", "v1", "Secret", "secrets");
/// What is waited for until they are there.
pub const WHAT: &str = "certificates";
const CERTIFICATE_BEGIN: &str = "-----BEGIN CERTIFICATE";

/// What keeping certificates takes.
pub struct Keeper {
    pub requests: Requests,
    pub environment: Arc<dyn Environment>,
    pub installation: Installation,
    pub life_seconds: i64,
}

/// What is served.
#[derive(Clone)]
pub struct Served {
    pub serving: Arc<Serving>,
    /// The first of what is shown, as it is sent.
    pub certificate: Arc<[u8]>,
    /// When it ends, in seconds since 1970.
    pub not_after: i64,
    /// The certificates that it is to be believed by.
    pub bundle_pem: Arc<str>,
}

/// Keeps certificates for ever; tells what is served through the channel. The caller drops it.
pub async fn keep(keeper: Keeper, readiness: &Readiness, told: watch::Sender<Option<Served>>) {
    let (asking, names) = (keeper.installation.asking(), keeper.installation.names());
    let look = Duration::from_secs(u64::try_from(keeper.life_seconds / 12).unwrap_or(0));
    let look = look.clamp(LOOK_MIN, LOOK);
    let again = |held| keeper.look(&asking, &names, held);
    look_again((readiness, &told), look, again).await;
}

/// Looks again and again, and tells what is served from then on. Who was slower than another
/// replica looks at what that one wrote.
pub async fn look_again<L: Future<Output = Result<Served>>>(
    (readiness, told): (&Readiness, &watch::Sender<Option<Served>>),
    pause: Duration,
    look: impl Fn(Option<Served>) -> L,
) {
    loop {
        let held = told.borrow().clone();
        let is_first = held.is_none();
        match look(held).await {
            Ok(served) => {
                readiness.done(WHAT);
                tell(told, served);
            }
            Err(error) if is_conflict(&error) => {
                tokio::time::sleep(CONFLICT_PAUSE).await;
                continue;
            }
            Err(error) => {
                let why = format!("{error:#}");
                if readiness.waits(WHAT, why.clone()) {
                    warn!("{why}");
                }
            }
        }
        tokio::time::sleep(if is_first { LOOK_MIN } else { pause }).await;
    }
}

/// Tells what is served from now on, if it is not what was.
fn tell(told: &watch::Sender<Option<Served>>, served: Served) {
    told.send_if_modified(|held| {
        let is_same = held.as_ref().is_some_and(|held| {
            held.bundle_pem == served.bundle_pem && held.certificate == served.certificate
        });
        *held = Some(served);
        !is_same
    });
}

/// Another replica was faster; what it wrote is read next.
fn is_conflict(error: &anyhow::Error) -> bool {
    error.downcast_ref::<reconcile::Error>().is_some_and(reconcile::Error::is_conflict)
}

impl Keeper {
    /// Looks at everything once, and does what is due.
    async fn look(
        &self,
        asking: &[(Kind, String)],
        names: &[AlternativeName],
        held: Option<Served>,
    ) -> Result<Served> {
        let now = self.environment.now().as_second();
        let (mut secret, mut keys) = self.read().await?;
        let (authority, pem) = authority(&keys.authority_pem, now)?;
        if let Some(pem) = pem {
            info!("a certificate authority is made");
            keys.authority_pem = pem;
            secret = Some(self.write(secret.as_ref(), &keys).await?);
        }
        let bundle = authority.bundle_pem();
        let is_told = inject(&self.requests, &self.installation, (asking, &bundle)).await;
        let stored = read_pair(keys.serving_pem.as_bytes());
        let is_good = |issued: &Issued| {
            let left = issued.not_after - now;
            issued.not_before <= now && left > self.life_seconds / RENEWAL_PART
        };
        // What an old authority signed is good until everybody knows the new one.
        let is_vouched = |issued: &Issued| authority.vouches_for(issued, names) || is_told.is_err();
        let issued = match stored {
            Some(issued) if is_good(&issued) && is_vouched(&issued) => issued,
            _ => {
                let issued = authority.issue_serving_for(self.life_seconds, names, now)?;
                keys.serving_pem = format!("{}{}", issued.key_pem(), issued.certificate_pem());
                self.write(secret.as_ref(), &keys).await?;
                info!(until = issued.not_after, "a serving certificate is made");
                issued
            }
        };
        is_told?;
        serve(held, issued, bundle.into())
    }

    async fn read(&self) -> Result<(Option<Object>, Keys)> {
        let found = self.requests.get(SECRET, &self.secret()).await;
        let found = found.with_context(|| format!("could not read Secret {}", self.secret()))?;
        let keys = found.as_ref().map(|secret| Keys::of(&secret.value)).unwrap_or_default();
        Ok((found, keys))
    }

    fn secret(&self) -> Name {
        Name::new(&*self.installation.namespace, self.installation.home().secret)
    }

    async fn write(&self, found: Option<&Object>, keys: &Keys) -> Result<Object> {
        let written = match found {
            Some(found) => {
                let mut secret = found.value.clone();
                keys.put(&mut secret);
                self.requests.replace(&Target::unchanged(SECRET, found), &secret).await
            }
            None => {
                let name = self.secret();
                let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata":
                    {"namespace": &*name.namespace, "name": &*name.name}, "type": "Opaque"});
                keys.put(&mut secret);
                self.requests.create(SECRET, &secret).await
            }
        };
        Ok(written?)
    }
}

/// Tells whoever asks us whom to believe. What is not there does not ask.
pub async fn inject(
    requests: &Requests,
    installation: &Installation,
    (asking, bundle): (&[(Kind, String)], &str),
) -> Result<()> {
    let bundle = json!(STANDARD.encode(bundle));
    for (kind, name) in asking {
        let name = Name::new("", name.as_str());
        let Some(found) = requests.get(*kind, &name).await? else { continue };
        let mut changed = found.value.clone();
        for client in clients_mut(&mut changed) {
            if installation.is_reached_by(client) {
                client["caBundle"] = bundle.clone();
            }
        }
        if changed != found.value {
            requests.replace(&Target::unchanged(*kind, &found), &changed).await?;
            info!(%kind, %name, "told whom to believe");
        }
    }
    Ok(())
}

/// Puts a certificate in the place of the one that is served.
fn serve(held: Option<Served>, issued: Issued, bundle_pem: Arc<str>) -> Result<Served> {
    let serving = match held {
        None => Serving::new(&issued)?,
        Some(held) => {
            if *held.certificate != *issued.certificate {
                held.serving.swap(&issued)?;
            }
            held.serving
        }
    };
    let certificate: Arc<[u8]> = Arc::from(&*issued.certificate);
    Ok(Served { serving, certificate, not_after: issued.not_after, bundle_pem })
}

/// The authority of a text, or another where that one is old, damaged or not there; and its text
/// if it is another.
fn authority(held_pem: &str, now: i64) -> Result<(Authority, Option<String>)> {
    let held = Some(held_pem.as_bytes().to_vec()).filter(|pem| !pem.is_empty());
    let file = OneFile(Mutex::new(held));
    let mut authority = match Authority::load_or_create(&file, now) {
        Err(Error::DamagedKeyFile { why, .. }) => {
            // Nothing is lost with it: everybody who must believe us is told by us.
            warn!(why, "the certificate authority cannot be used; another takes its place");
            file.clear();
            Authority::load_or_create(&file, now)?
        }
        loaded => loaded?,
    };
    if authority.needs_renewal(now) {
        authority = authority.rotate(&file, now)?;
    }
    let pem = String::from_utf8(file.bytes()).context("keys must be text")?;
    Ok((authority, (pem != held_pem).then_some(pem)))
}

/// What the Secret holds: each key with its certificates.
#[derive(Default)]
struct Keys {
    authority_pem: String,
    serving_pem: String,
}

impl Keys {
    fn of(secret: &Value) -> Keys {
        let text = |name: &str| {
            let encoded = secret["data"][name].as_str().unwrap_or_default();
            let bytes = STANDARD.decode(encoded).unwrap_or_default();
            String::from_utf8(bytes).unwrap_or_default()
        };
        Keys {
            authority_pem: text("ca.key") + &text("ca.crt"),
            serving_pem: text("tls.key") + &text("tls.crt"),
        }
    }

    fn put(&self, secret: &mut Value) {
        for (pem, key_name, certificate_name) in
            [(&self.authority_pem, "ca.key", "ca.crt"), (&self.serving_pem, "tls.key", "tls.crt")]
        {
            let at = pem.find(CERTIFICATE_BEGIN).unwrap_or(pem.len());
            let (key, certificates) = pem.split_at(at);
            secret["data"][key_name] = json!(STANDARD.encode(key));
            secret["data"][certificate_name] = json!(STANDARD.encode(certificates));
        }
    }
}

/// A file in memory, whatever its name.
struct OneFile(Mutex<Option<Vec<u8>>>);

impl OneFile {
    fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
    }
}

impl KeyFiles for OneFile {
    fn read(&self, _: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn write(&self, _: &str, bytes: &[u8], _: Privacy) -> io::Result<()> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes.to_vec());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;
    const YEAR: i64 = 365 * 86_400;

    #[test]
    fn an_authority_is_kept_and_its_successor_believes_it() {
        let (first, pem) = authority("", NOW).expect("made");
        let pem = pem.expect("it is another");
        let (same, again) = authority(&pem, NOW + YEAR).expect("read");
        assert!(again.is_none());
        assert_eq!(same.bundle_pem(), first.bundle_pem());
        let (next, another) = authority(&pem, NOW + 8 * YEAR).expect("renewed");
        assert!(another.is_some());
        assert!(next.bundle_pem().ends_with(&first.bundle_pem()));
    }

    #[test]
    fn what_cannot_be_read_is_replaced() {
        let (_, pem) = authority("junk", NOW).expect("made");
        assert!(pem.is_some_and(|pem| pem.contains(CERTIFICATE_BEGIN)));
    }

    #[test]
    fn a_secret_holds_what_was_put_into_it() {
        let (_, pem) = authority("", NOW).expect("made");
        let keys = Keys { authority_pem: pem.expect("another"), serving_pem: String::new() };
        let mut secret = json!({"data": {"other": "eA=="}});
        keys.put(&mut secret);
        assert_eq!(Keys::of(&secret).authority_pem, keys.authority_pem);
        assert_eq!(secret["data"]["other"], "eA==");
        let key = STANDARD.decode(secret["data"]["ca.key"].as_str().expect("text")).expect("data");
        assert!(!String::from_utf8_lossy(&key).contains("CERTIFICATE"));
    }
}
