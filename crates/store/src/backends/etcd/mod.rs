//! The etcd backend.

use std::sync::Arc;

use crate::{Environment, Error, Retention, Store};

/// How to open it.
#[derive(Clone, Debug)]
pub struct Settings {
    pub endpoints: Vec<String>,
    pub dial_timeout: std::time::Duration,
    /// Empty when the server asks for none.
    pub username: String,
    pub password: String,
    pub tls: Tls,
    /// Before every key, so that several stores can share a server. Empty by default.
    pub prefix: String,
    /// Whether etcd's own history is compacted too. Off where others use the same server's.
    pub compact_server: bool,
}

/// Certificates for `https` endpoints; the machine's roots when nothing is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    pub ca_file: Option<std::path::PathBuf>,
    pub cert_file: Option<std::path::PathBuf>,
    pub key_file: Option<std::path::PathBuf>,
}

pub async fn open(
    _settings: &Settings,
    _retention: Retention,
    _environment: Arc<dyn Environment>,
) -> Result<Arc<dyn Store>, Error> {
    Err(Error::Invalid { what: "not built".into() })
}
