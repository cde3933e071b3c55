//! What goes wrong with keys and certificates of the server itself.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not read {name}")]
    ReadKeyFile {
        name: String,
        #[source]
        source: io::Error,
    },
    #[error("could not write {name}")]
    WriteKeyFile {
        name: String,
        #[source]
        source: io::Error,
    },
    #[error("{name} is damaged: {why}; restore it from a backup, or remove it to make another")]
    DamagedKeyFile { name: String, why: &'static str },
    #[error("could not {doing}: the cryptographic library failed")]
    Cryptography { doing: &'static str },
    #[error("could not {doing}")]
    Tls {
        doing: &'static str,
        #[source]
        source: rustls::Error,
    },
    #[error("could not merge into the kubeconfig: {why}")]
    Kubeconfig { why: String },
}

/// For the functions of aws-lc-rs, whose errors say nothing on purpose.
pub(crate) fn cryptography<E>(doing: &'static str) -> impl FnOnce(E) -> Error {
    move |_| Error::Cryptography { doing }
}
