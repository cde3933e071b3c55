//! TLS as the server speaks it, and the user a client's certificate makes.
//!
//! A client may come without a certificate, and is then known by its token or by nothing. One that
//! shows a certificate which does not hold gets no further than the handshake.

use std::fmt::Write;
use std::sync::{Arc, PoisonError, RwLock};

use aws_lc_rs::digest;
use rustls::crypto::{CryptoProvider, aws_lc_rs as provider};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::{RootCertStore, ServerConfig, version};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::certificates::Issued;
use super::{CREDENTIAL_ID, Error, User, x509};

/// Enough for a client that opens one connection after the other.
const TICKETS_PER_HANDSHAKE: usize = 1;

/// The certificate that is served; another can take its place while connections go on.
#[derive(Debug)]
pub struct Serving {
    current: RwLock<Arc<CertifiedKey>>,
}

impl Serving {
    pub fn new(issued: &Issued) -> Result<Arc<Serving>, Error> {
        Ok(Arc::new(Serving { current: RwLock::new(certified(issued)?) }))
    }

    /// Serves another certificate from the next handshake on.
    pub fn swap(&self, issued: &Issued) -> Result<(), Error> {
        self.put(certified(issued)?);
        Ok(())
    }

    /// Serves what others made: a certificate, those that vouch for it, and its key, of any kind.
    pub fn of_chain(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Arc<Serving>, Error> {
        Ok(Arc::new(Serving { current: RwLock::new(chained(chain, key)?) }))
    }

    /// The same in the place of what is served.
    pub fn swap_chain(
        &self,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<(), Error> {
        self.put(chained(chain, key)?);
        Ok(())
    }

    fn put(&self, next: Arc<CertifiedKey>) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next;
    }
}

/// When a certificate ends, in seconds since 1970; nothing if it cannot be read.
pub fn expiry(certificate: &[u8]) -> Option<i64> {
    x509::summary(certificate).map(|summary| summary.not_after)
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

#[derive(Clone, Debug)]
pub struct Options {
    pub serving: Arc<Serving>,
    /// Who signs client certificates that are believed.
    pub client_authorities: Vec<CertificateDer<'static>>,
    pub clock: Arc<dyn TimeProvider>,
}

/// What an acceptor needs: TLS 1.3 and 1.2, HTTP/2 and HTTP/1.1, session tickets.
pub fn server_config(options: Options) -> Result<ServerConfig, Error> {
    let provider = Arc::new(provider::default_provider());
    let mut roots = RootCertStore::empty();
    for authority in options.client_authorities {
        roots.add(authority).map_err(tls("take the client authority in"))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .map_err(|error| {
            tls("make the verifier of clients")(rustls::Error::General(error.to_string()))
        })?;
    let mut config = ServerConfig::builder_with_details(provider, options.clock)
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .map_err(tls("choose versions of TLS"))?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(options.serving);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.ticketer = provider::Ticketer::new().map_err(tls("make keys for session tickets"))?;
    config.send_tls13_tickets = TICKETS_PER_HANDSHAKE;
    Ok(config)
}

/// The same for those who ask nobody for a certificate.
pub fn open_server_config(serving: Arc<Serving>) -> Result<ServerConfig, Error> {
    let provider = Arc::new(provider::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .map_err(tls("choose versions of TLS"))?
        .with_no_client_auth()
        .with_cert_resolver(serving);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Who holds a certificate that a handshake has verified.
#[derive(Clone, Debug)]
pub struct Holder {
    user: Arc<User>,
    not_before: i64,
    not_after: i64,
}

impl Holder {
    pub fn of_certificate(certificate: &[u8]) -> Option<Holder> {
        let summary = x509::summary(certificate)?;
        let subject = summary.subject;
        if subject.common_name.is_empty() {
            return None;
        }
        let mut user = User::authenticated(&subject.common_name, subject.organizations);
        user.uid = subject.uid;
        let hash = digest::digest(&digest::SHA256, certificate);
        let mut id = "X509SHA256=".to_owned();
        for byte in hash.as_ref() {
            let _ = write!(id, "{byte:02x}");
        }
        user.extra.insert(CREDENTIAL_ID.to_owned(), vec![id]);
        let (not_before, not_after) = (summary.not_before, summary.not_after);
        Some(Holder { user: Arc::new(user), not_before, not_after })
    }

    pub(super) fn name(&self) -> &str {
        &self.user.name
    }

    pub(super) fn not_before(&self) -> i64 {
        self.not_before
    }

    /// The user, while the certificate holds. The time is looked at again for each request,
    /// because connections and session tickets outlive certificates.
    pub fn user(&self, now: i64) -> Option<Arc<User>> {
        let holds = (self.not_before..=self.not_after).contains(&now);
        holds.then(|| self.user.clone())
    }
}

pub(super) fn certified(issued: &Issued) -> Result<Arc<CertifiedKey>, Error> {
    chained(vec![issued.certificate.clone()], issued.private_key())
}

fn chained(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<CertifiedKey>, Error> {
    let provider: &CryptoProvider = &provider::default_provider();
    CertifiedKey::from_der(chain, key, provider)
        .map(Arc::new)
        .map_err(tls("use the serving certificate"))
}

fn tls(doing: &'static str) -> impl FnOnce(rustls::Error) -> Error {
    move |source| Error::Tls { doing, source }
}
