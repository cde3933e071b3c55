//! Certificates that others make and renew: read from the files that they are mounted as, again and
//! again, because whoever mounts them changes them without a word.
//!
//! Who asks before objects are written is told whom to believe by those who made the certificates;
//! who converts them is told by us, because definitions are installed by nobody but us.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use apiserver::identity::key_files::{Directory, KeyFiles};
use apiserver::identity::tls::{self, Serving};
use reconcile::Kind;
use reconcile::requests::Requests;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::watch;
use tracing::info;

use super::certificates::{LOOK, Served, inject, look_again};
use super::installation::Installation;
use super::readiness::Readiness;

const CERTIFICATES: &str = "tls.crt";
const KEY: &str = "tls.key";
/// Who signed them; where it is missing, whoever asks must know already.
const AUTHORITY: &str = "ca.crt";
const DEFINITION: &str = "CustomResourceDefinition";

/// What reading them takes.
pub struct Reader {
    pub requests: Requests,
    pub installation: Installation,
    pub directory: PathBuf,
}

/// Serves what is mounted for as long as the caller lets it.
pub async fn keep(reader: Reader, readiness: &Readiness, told: watch::Sender<Option<Served>>) {
    let mut asking = reader.installation.asking();
    asking.retain(|(kind, _)| kind.kind == DEFINITION);
    let again = |held| reader.look(&asking, held);
    look_again((readiness, &told), LOOK, again).await;
}

impl Reader {
    async fn look(&self, asking: &[(Kind, String)], held: Option<Served>) -> Result<Served> {
        let files = Directory { path: self.directory.clone() };
        let pair = Pair::read(&files).with_context(|| {
            format!(
                "the certificate in {} cannot be used; mount a Secret with {CERTIFICATES} and \
                 {KEY} there, or set server.webhook.certProvisionMode to auto",
                self.directory.display()
            )
        })?;
        if let Some(authority) = &pair.authority_pem {
            inject(&self.requests, &self.installation, (asking, authority)).await?;
        }
        pair.serve(held)
    }
}

/// What is mounted.
struct Pair {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    not_after: i64,
    certificates_pem: String,
    authority_pem: Option<String>,
}

impl Pair {
    fn read(files: &dyn KeyFiles) -> Result<Pair> {
        let read = |name: &str| files.read(name).with_context(|| format!("could not read {name}"));
        let there = |name: &str| read(name)?.ok_or_else(|| anyhow!("there is no {name}"));
        let (certificates, key) = (there(CERTIFICATES)?, there(KEY)?);
        let chain = CertificateDer::pem_slice_iter(&certificates)
            .collect::<Result<Vec<_>, _>>()
            .with_context(|| format!("{CERTIFICATES} is not PEM"))?;
        let first = chain.first().ok_or_else(|| anyhow!("{CERTIFICATES} has no certificate"))?;
        let not_after =
            tls::expiry(first).ok_or_else(|| anyhow!("{CERTIFICATES} cannot be read"))?;
        let key = PrivateKeyDer::from_pem_slice(&key)
            .with_context(|| format!("{KEY} has no key that can be read"))?;
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).ok();
        let authority_pem = read(AUTHORITY)?.and_then(text).filter(|pem| !pem.trim().is_empty());
        let certificates_pem = text(certificates).unwrap_or_default();
        Ok(Pair { chain, key, not_after, certificates_pem, authority_pem })
    }

    /// Puts it in the place of what is served.
    fn serve(self, held: Option<Served>) -> Result<Served> {
        let first: &[u8] = self.chain.first().map_or(&[], |first| first.as_ref());
        let certificate: Arc<[u8]> = Arc::from(first);
        let serving = match held {
            None => Serving::of_chain(self.chain, self.key)?,
            Some(held) => {
                if held.certificate != certificate {
                    held.serving.swap_chain(self.chain, self.key)?;
                    info!(until = self.not_after, "another certificate is mounted");
                }
                held.serving
            }
        };
        // One that signed itself is believed by itself.
        let bundle_pem = self.authority_pem.unwrap_or(self.certificates_pem).into();
        Ok(Served { serving, certificate, not_after: self.not_after, bundle_pem })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io;
    use std::sync::Mutex;

    use apiserver::identity::AlternativeName;
    use apiserver::identity::certificates::Authority;
    use apiserver::identity::key_files::Privacy;

    use super::*;

    const NOW: i64 = 1_800_000_000;

    #[derive(Default)]
    struct Files(Mutex<BTreeMap<String, Vec<u8>>>);

    impl KeyFiles for Files {
        fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
            Ok(self.0.lock().unwrap().get(name).cloned())
        }

        fn write(&self, name: &str, bytes: &[u8], _: Privacy) -> io::Result<()> {
            self.0.lock().unwrap().insert(name.to_owned(), bytes.to_vec());
            Ok(())
        }
    }

    #[test]
    fn what_is_mounted_is_served_and_what_takes_its_place_too() {
        let files = Files::default();
        let missing = Pair::read(&files).err().expect("nothing is there").to_string();
        assert_eq!(missing, "there is no tls.crt");
        let authority = Authority::load_or_create(&files, NOW).expect("an authority");
        let names = [AlternativeName::Dns("a".to_owned())];
        let mut held = None;
        for begin in [NOW, NOW + 60] {
            let issued = authority.issue_serving(&names, begin).expect("a certificate");
            for (name, text) in [
                (CERTIFICATES, issued.certificate_pem()),
                (KEY, issued.key_pem()),
                (AUTHORITY, authority.bundle_pem()),
            ] {
                files.write(name, text.as_bytes(), Privacy::Private).expect("written");
            }
            let served = Pair::read(&files).expect("it is there").serve(held).expect("served");
            assert_eq!(served.not_after, issued.not_after);
            assert_eq!(*served.bundle_pem, *authority.bundle_pem());
            held = Some(served);
        }
        files.write(KEY, b"junk", Privacy::Private).expect("written");
        let wrong = Pair::read(&files).err().expect("it is no key").to_string();
        assert_eq!(wrong, "tls.key has no key that can be read");
    }
}
