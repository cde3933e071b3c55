//! Whose certificates are believed: those of the configuration's bundle, else the system's.
//!
//! A certificate that is itself in the bundle is believed too, even where it says it is an
//! authority: many webhooks make one certificate for both ends. Verification is never optional.

use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::aws_lc_rs as provider;
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    version,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::identity::x509;

/// How to speak TLS to somebody whose certificate the bundle vouches for.
pub fn client_config(bundle: &[u8]) -> Result<Arc<ClientConfig>, String> {
    let (roots, known) = match bundle.is_empty() {
        true => (of_system(), Vec::new()),
        false => of_bundle(bundle)?,
    };
    let provider = Arc::new(provider::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
        .build()
        .map_err(|error| format!("unable to load root certificates: {error}"))?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { verifier, known }))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Whether a bundle has a certificate to believe.
pub fn is_bundle(bundle: &[u8]) -> bool {
    of_bundle(bundle).is_ok()
}

type Bundle = (Arc<RootCertStore>, Vec<CertificateDer<'static>>);

fn of_bundle(bundle: &[u8]) -> Result<Bundle, String> {
    let none = "unable to load root certificates: unable to parse bytes as PEM block";
    let known: Vec<_> = CertificateDer::pem_slice_iter(bundle).filter_map(Result::ok).collect();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(known.iter().cloned());
    if added == 0 {
        return Err(none.to_owned());
    }
    Ok((roots.into(), known))
}

/// Read once: the system's are many.
fn of_system() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    ROOTS
        .get_or_init(|| {
            let found = rustls_native_certs::load_native_certs();
            if found.certs.is_empty() {
                tracing::warn!("the system has no certificates of authorities");
            }
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(found.certs);
            roots.into()
        })
        .clone()
}

/// Believes what the authorities signed, and the certificates of the bundle themselves.
#[derive(Debug)]
struct Verifier {
    verifier: Arc<WebPkiServerVerifier>,
    known: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.known.iter().any(|known| known == certificate) {
            return self.verifier.verify_server_cert(certificate, intermediates, name, ocsp, now);
        }
        let bad = Error::InvalidCertificate(CertificateError::BadEncoding);
        let summary = x509::summary(certificate).ok_or(bad)?;
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if now < summary.not_before {
            return Err(Error::InvalidCertificate(CertificateError::NotValidYet));
        }
        if now > summary.not_after {
            return Err(Error::InvalidCertificate(CertificateError::Expired));
        }
        verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// Why a certificate was not believed, as users know it.
pub fn why(error: &Error) -> String {
    let Error::InvalidCertificate(fault) = error else { return format!("tls: {error}") };
    let text = match fault {
        CertificateError::UnknownIssuer => "certificate signed by unknown authority".to_owned(),
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            "certificate has expired or is not yet valid".to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let expected = expected.to_str();
            let bare = |name: &String| {
                name.split_once('(')
                    .map_or(name.as_str(), |(_, name)| name.trim_end_matches(')'))
                    .trim_matches('"')
                    .to_owned()
            };
            let presented: Vec<String> = presented.iter().map(bare).collect();
            format!("certificate is valid for {}, not {expected}", presented.join(", "))
        }
        other => other.to_string(),
    };
    format!("tls: failed to verify certificate: x509: {text}")
}
