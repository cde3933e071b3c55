//! The authority of a cluster, and the certificates it issues.
//!
//! A key and its certificates are one file, so that a crash between two writes cannot part them.
//! Times are passed in, as seconds since 1970.

use std::fmt;

use aws_lc_rs::digest;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::error::cryptography;
use super::key_files::{self, KeyFiles};
use super::x509::{self, AlternativeName, Name, Purpose, Statement};
use super::{Error, GROUP_AUTHENTICATED, User, pem};

const DAY: i64 = 86_400;
const AUTHORITY_SECONDS: i64 = 3650 * DAY;
const SERVING_SECONDS: i64 = 365 * DAY;
/// A certificate holds from a little before it was made: clocks differ.
pub(super) const BACKDATED_SECONDS: i64 = 300;
/// Authorities of the past that are still believed.
const AUTHORITIES_MAX: usize = 4;
/// Octets of a key's hash that name it.
const KEY_ID_OCTETS: usize = 20;

const AUTHORITY_FILE: &str = "ca.pem";
const SERVING_FILE: &str = "serving.pem";
const AUTHORITY_NAME: &str = "setpoint-ca";
const SERVING_NAME: &str = "setpoint-api";

/// A certificate with its key.
#[derive(Clone)]
pub struct Issued {
    pub certificate: CertificateDer<'static>,
    /// PKCS#8.
    key: Vec<u8>,
    pub not_before: i64,
    pub not_after: i64,
}

/// Never shows the key.
impl fmt::Debug for Issued {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Issued { not_before, not_after, .. } = self;
        formatter
            .debug_struct("Issued")
            .field("not_before", not_before)
            .field("not_after", not_after)
            .finish_non_exhaustive()
    }
}

impl Issued {
    /// Whether two thirds of its life are over, or it is not yet valid.
    pub fn needs_renewal(&self, now: i64) -> bool {
        now < self.not_before || now >= self.renewal()
    }

    /// When it is to be replaced.
    pub fn renewal(&self) -> i64 {
        self.not_before + (self.not_after - self.not_before) / 3 * 2
    }

    pub fn certificate_pem(&self) -> String {
        pem::encode(pem::CERTIFICATE, &self.certificate)
    }

    pub fn key_pem(&self) -> String {
        pem::encode(pem::PRIVATE_KEY, &self.key)
    }

    pub fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.clone()).into()
    }

    fn read(key: Vec<u8>, certificate: Vec<u8>) -> Result<Issued, &'static str> {
        let summary = x509::summary(&certificate).ok_or("its certificate cannot be read")?;
        let pair = key_pair(&key).map_err(|_| "its key cannot be read")?;
        if x509::public_key_info(pair.public_key().as_ref()) != summary.public_key {
            return Err("its key is not that of its certificate");
        }
        let (not_before, not_after) = (summary.not_before, summary.not_after);
        Ok(Issued { certificate: certificate.into(), key, not_before, not_after })
    }
}

/// Who a client certificate is for.
#[derive(Clone, Copy, Debug)]
pub struct ClientRequest<'a> {
    pub user: &'a User,
    pub lifetime_seconds: i64,
}

/// Signs certificates, and says which signatures are believed.
#[derive(Debug)]
pub struct Authority {
    own: Issued,
    pair: EcdsaKeyPair,
    key_id: Vec<u8>,
    /// Certificates of authorities before this one.
    former: Vec<CertificateDer<'static>>,
}

impl Authority {
    /// Reads the authority, or makes it if there is none.
    pub fn load_or_create(files: &dyn KeyFiles, now: i64) -> Result<Authority, Error> {
        match key_files::read(files, AUTHORITY_FILE)? {
            Some(bytes) => Authority::read(&bytes)
                .map_err(|why| Error::DamagedKeyFile { name: AUTHORITY_FILE.to_owned(), why }),
            None => Authority::create(files, Vec::new(), now),
        }
    }

    /// Makes another authority in the place of this one, which stays believed until it expires.
    /// Whoever serves must then take the new bundle, and issue what it serves with again.
    pub fn rotate(&self, files: &dyn KeyFiles, now: i64) -> Result<Authority, Error> {
        let holds = |one: &&CertificateDer<'static>| {
            x509::summary(one).is_some_and(|summary| summary.not_after > now)
        };
        let before = std::iter::once(&self.own.certificate).chain(&self.former);
        let former = before.filter(holds).take(AUTHORITIES_MAX - 1).cloned().collect();
        Authority::create(files, former, now)
    }

    /// Whether the authority is to be rotated.
    pub fn needs_renewal(&self, now: i64) -> bool {
        self.own.needs_renewal(now)
    }

    /// Every authority whose signatures are believed, the signing one first.
    pub fn bundle(&self) -> Vec<CertificateDer<'static>> {
        std::iter::once(&self.own.certificate).chain(&self.former).cloned().collect()
    }

    /// The bundle as clients and pods get it.
    pub fn bundle_pem(&self) -> String {
        self.bundle().iter().map(|one| pem::encode(pem::CERTIFICATE, one)).collect()
    }

    /// The server's certificate: the stored one, or another if that one is old, cannot be read, is
    /// not signed by an authority of the bundle, or lacks a name. Nothing is lost with a serving
    /// certificate.
    pub fn serving(
        &self,
        files: &dyn KeyFiles,
        names: &[AlternativeName],
        now: i64,
    ) -> Result<Issued, Error> {
        if let Some(bytes) = key_files::read(files, SERVING_FILE)?
            && let Some(stored) = read_pair(&bytes)
            && !stored.needs_renewal(now)
            && self.accepts(&stored, names)
        {
            return Ok(stored);
        }
        let issued = self.issue_serving(names, now)?;
        let text = format!("{}{}", issued.key_pem(), issued.certificate_pem());
        key_files::write_private(files, SERVING_FILE, text.as_bytes())?;
        Ok(issued)
    }

    /// Signs the stored serving certificate again, for the same names and a full life.
    pub(super) fn renew_serving(&self, files: &dyn KeyFiles, now: i64) -> Result<(), Error> {
        let stored = key_files::read(files, SERVING_FILE)?;
        let Some(stored) = stored.and_then(|bytes| read_pair(&bytes)) else { return Ok(()) };
        let Some(summary) = x509::summary(&stored.certificate) else { return Ok(()) };
        let issued = self.issue_serving(&summary.alternative_names, now)?;
        let text = format!("{}{}", issued.key_pem(), issued.certificate_pem());
        key_files::write_private(files, SERVING_FILE, text.as_bytes())
    }

    /// Whether a certificate is signed by this authority or a former one, and for all of the names.
    fn accepts(&self, issued: &Issued, names: &[AlternativeName]) -> bool {
        let id = |certificate: &CertificateDer<'_>| {
            // An authority has signed itself.
            x509::summary(certificate).map(|summary| summary.authority_key_id)
        };
        let by = id(&issued.certificate);
        let is_former = by.is_some() && self.former.iter().any(|former| id(former) == by);
        let has = |summary: x509::Summary| {
            names.iter().all(|name| summary.alternative_names.contains(name))
        };
        self.vouches_for(issued, names)
            || (is_former && x509::summary(&issued.certificate).is_some_and(has))
    }

    /// Whether a certificate is signed by this authority, and for all of the names.
    pub fn vouches_for(&self, issued: &Issued, names: &[AlternativeName]) -> bool {
        x509::summary(&issued.certificate).is_some_and(|summary| {
            summary.authority_key_id == self.key_id
                && names.iter().all(|name| summary.alternative_names.contains(name))
        })
    }

    pub fn issue_serving(&self, names: &[AlternativeName], now: i64) -> Result<Issued, Error> {
        self.issue_serving_for(SERVING_SECONDS, names, now)
    }

    /// The same with a life of its own.
    pub fn issue_serving_for(
        &self,
        seconds: i64,
        names: &[AlternativeName],
        now: i64,
    ) -> Result<Issued, Error> {
        let subject = Name { common_name: SERVING_NAME.to_owned(), ..Name::default() };
        self.issue(&subject, &Purpose::Server(names.to_vec()), now, seconds)
    }

    /// A certificate that lets its holder be the user.
    pub fn issue_client(&self, request: ClientRequest<'_>, now: i64) -> Result<Issued, Error> {
        let groups = request.user.groups.iter().filter(|group| &***group != GROUP_AUTHENTICATED);
        let subject = Name {
            common_name: request.user.name.to_string(),
            organizations: groups.map(ToString::to_string).collect(),
            uid: request.user.uid.clone(),
        };
        self.issue(&subject, &Purpose::Client, now, request.lifetime_seconds)
    }

    fn issue(
        &self,
        subject: &Name,
        purpose: &Purpose,
        now: i64,
        seconds: i64,
    ) -> Result<Issued, Error> {
        let key = new_key()?;
        let pair = key_pair(&key)?;
        let not_before = now - BACKDATED_SECONDS;
        let not_after = (now + seconds).min(self.own.not_after);
        let certificate = sign(
            &self.pair,
            &Statement {
                serial: serial()?,
                issuer: &authority_name(),
                subject,
                purpose,
                not_before: now - BACKDATED_SECONDS,
                not_after: (now + seconds).min(self.own.not_after),
                public_key: pair.public_key().as_ref(),
                key_id: &key_id(&pair),
                issuer_key_id: &self.key_id,
            },
        )?;
        Ok(Issued { certificate, key, not_before, not_after })
    }

    fn create(
        files: &dyn KeyFiles,
        former: Vec<CertificateDer<'static>>,
        now: i64,
    ) -> Result<Authority, Error> {
        let key = new_key()?;
        let pair = key_pair(&key)?;
        let (name, id) = (authority_name(), key_id(&pair));
        let (not_before, not_after) = (now - BACKDATED_SECONDS, now + AUTHORITY_SECONDS);
        let certificate = sign(
            &pair,
            &Statement {
                serial: serial()?,
                issuer: &name,
                subject: &name,
                purpose: &Purpose::Authority,
                not_before,
                not_after,
                public_key: pair.public_key().as_ref(),
                key_id: &id,
                issuer_key_id: &id,
            },
        )?;
        let own = Issued { certificate, key, not_before, not_after };
        let authority = Authority { own, pair, key_id: id, former };
        let text = format!("{}{}", authority.own.key_pem(), authority.bundle_pem());
        key_files::write_private(files, AUTHORITY_FILE, text.as_bytes())?;
        Ok(authority)
    }

    fn read(bytes: &[u8]) -> Result<Authority, &'static str> {
        let sections = pem::decode(bytes).ok_or("it is not PEM")?;
        let [key] = &sections.private_keys[..] else { return Err("it does not have one key") };
        let [first, former @ ..] = &sections.certificates[..] else {
            return Err("it has no certificate");
        };
        let own = Issued::read(key.clone(), first.clone())?;
        let pair = key_pair(key).map_err(|_| "its key cannot be read")?;
        let former = former.iter().cloned().map(CertificateDer::from).collect();
        Ok(Authority { own, key_id: key_id(&pair), pair, former })
    }
}

fn authority_name() -> Name {
    Name { common_name: AUTHORITY_NAME.to_owned(), ..Name::default() }
}

/// A certificate and its key, of their PEM.
pub fn read_pair(bytes: &[u8]) -> Option<Issued> {
    let sections = pem::decode(bytes)?;
    let (key, certificate) = (sections.private_keys.first()?, sections.certificates.first()?);
    Issued::read(key.clone(), certificate.clone()).ok()
}

fn new_key() -> Result<Vec<u8>, Error> {
    EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new())
        .map(|document| document.as_ref().to_vec())
        .map_err(cryptography("make a key"))
}

fn key_pair(pkcs8: &[u8]) -> Result<EcdsaKeyPair, Error> {
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8)
        .map_err(cryptography("read a key"))
}

fn key_id(pair: &EcdsaKeyPair) -> Vec<u8> {
    let hash = digest::digest(&digest::SHA256, pair.public_key().as_ref());
    hash.as_ref()[..KEY_ID_OCTETS].to_vec()
}

fn serial() -> Result<[u8; 16], Error> {
    let mut serial = [0; 16];
    SystemRandom::new().fill(&mut serial).map_err(cryptography("draw a serial number"))?;
    Ok(serial)
}

fn sign(pair: &EcdsaKeyPair, what: &Statement<'_>) -> Result<CertificateDer<'static>, Error> {
    let statement = x509::statement(what);
    let signature =
        pair.sign(&SystemRandom::new(), &statement).map_err(cryptography("sign a certificate"))?;
    Ok(x509::certificate(&statement, signature.as_ref()).into())
}

#[cfg(test)]
mod tests {
    use super::super::key_files::Privacy;
    use super::super::key_files::tests::Memory;
    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn names() -> Vec<AlternativeName> {
        vec![
            AlternativeName::Dns("kubernetes.default.svc".to_owned()),
            AlternativeName::Address("127.0.0.1".parse().unwrap()),
            AlternativeName::Address("::1".parse().unwrap()),
        ]
    }

    #[test]
    fn the_authority_is_made_once_and_its_file_is_private() {
        let files = Memory::default();
        let first = Authority::load_or_create(&files, NOW).unwrap();
        let again = Authority::load_or_create(&files, NOW + 1).unwrap();
        assert_eq!(first.bundle(), again.bundle());
        assert!(files.files.lock().unwrap().values().all(|(_, it)| *it == Privacy::Private));
        assert!(!first.needs_renewal(NOW + 6 * 365 * DAY));
        assert!(first.needs_renewal(NOW + 7 * 365 * DAY));
    }

    #[test]
    fn a_damaged_authority_is_never_replaced_in_silence() {
        let files = Memory::default();
        let text = |name: &str| files.files.lock().unwrap()[name].0.clone();
        Authority::load_or_create(&files, NOW).unwrap();
        let other = Memory::default();
        Authority::load_or_create(&other, NOW).unwrap();
        let other = other.files.lock().unwrap()[AUTHORITY_FILE].0.clone();
        let good = text(AUTHORITY_FILE);
        let cut = |bytes: &[u8]| {
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            let end = text.find("-----BEGIN CERTIFICATE").unwrap();
            (text[..end].to_owned(), text[end..].to_owned())
        };
        let mixed = cut(&other).0 + &cut(&good).1;
        for bad in [&b""[..], b"junk", cut(&good).0.as_bytes(), mixed.as_bytes(), &good[..300]] {
            files.write(AUTHORITY_FILE, bad, Privacy::Private).unwrap();
            let error = Authority::load_or_create(&files, NOW).unwrap_err();
            assert!(matches!(error, Error::DamagedKeyFile { .. }), "{error}");
            assert_eq!(text(AUTHORITY_FILE), bad);
        }
    }

    #[test]
    fn a_serving_certificate_is_kept_while_it_serves() {
        let files = Memory::default();
        let authority = Authority::load_or_create(&files, NOW).unwrap();
        let first = authority.serving(&files, &names(), NOW).unwrap();
        let kept = authority.serving(&files, &names()[..1], NOW + 200 * DAY).unwrap();
        assert_eq!(first.certificate, kept.certificate);

        let renewed = authority.serving(&files, &names(), NOW + 245 * DAY).unwrap();
        assert_ne!(first.certificate, renewed.certificate);
        assert!(renewed.not_after > first.not_after);

        let more = [names(), vec![AlternativeName::Dns("api.example".to_owned())]].concat();
        let renamed = authority.serving(&files, &more, NOW + 245 * DAY).unwrap();
        assert_ne!(renamed.certificate, renewed.certificate);

        let rotated = authority.rotate(&files, NOW + 245 * DAY).unwrap();
        let kept = rotated.serving(&files, &more, NOW + 245 * DAY).unwrap();
        assert_eq!(kept.certificate, renamed.certificate, "clients of the former one go on");
        let resigned = rotated.serving(&files, &more, NOW + 490 * DAY).unwrap();
        assert!(rotated.vouches_for(&resigned, &more), "the overlap ends");
        let mut stored = files.files.lock().unwrap();
        stored.insert(SERVING_FILE.to_owned(), (b"junk".to_vec(), Privacy::Private));
        drop(stored);
        assert!(rotated.serving(&files, &more, NOW + 245 * DAY).is_ok());
    }

    #[test]
    fn a_rotated_authority_still_believes_the_ones_before() {
        let files = Memory::default();
        let mut authority = Authority::load_or_create(&files, NOW).unwrap();
        let first = authority.bundle().remove(0);
        authority = authority.rotate(&files, NOW + DAY).unwrap();
        assert_eq!(authority.bundle().len(), 2);
        assert_eq!(authority.bundle()[1], first);
        let again = Authority::load_or_create(&files, NOW + DAY).unwrap();
        assert_eq!(again.bundle(), authority.bundle());
        authority = authority.rotate(&files, NOW + 3650 * DAY + 1).unwrap();
        assert!(!authority.bundle().contains(&first), "it has expired");
        for _ in 0..5 {
            authority = authority.rotate(&files, NOW + 3650 * DAY + 1).unwrap();
        }
        assert_eq!(authority.bundle().len(), AUTHORITIES_MAX);
    }

    #[test]
    fn what_is_issued_says_what_was_asked() {
        let files = Memory::default();
        let authority = Authority::load_or_create(&files, NOW).unwrap();
        let serving = authority.issue_serving(&names(), NOW).unwrap();
        let summary = x509::summary(&serving.certificate).unwrap();
        assert_eq!(summary.alternative_names, names());
        assert_eq!((summary.not_before, summary.not_after), (NOW - 300, NOW + 365 * DAY));
        assert!(!serving.needs_renewal(NOW) && serving.needs_renewal(NOW - 301));

        let user = User { uid: "7".to_owned(), ..User::authenticated("ann", ["a", "b", "c"]) };
        let request = ClientRequest { user: &user, lifetime_seconds: 3600 };
        let client = authority.issue_client(request, NOW).unwrap();
        let summary = x509::summary(&client.certificate).unwrap();
        assert_eq!(summary.subject.common_name, "ann");
        assert_eq!(summary.subject.organizations, ["a", "b", "c"]);
        assert_eq!(summary.subject.uid, "7");
        // Nothing outlives its authority.
        let late = authority.issue_serving(&names(), NOW + 3600 * DAY).unwrap();
        assert_eq!(late.not_after, NOW + AUTHORITY_SECONDS);
        assert!(!format!("{client:?}").contains("key"));
    }
}
