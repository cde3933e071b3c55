//! The mysql backend.

use std::sync::Arc;

use crate::{Environment, Error, Retention, Store};

/// How to open it.
#[derive(Clone, Debug)]
pub struct Settings {
    pub host: String,
    pub port: u16,
    pub user: String,
    pub password: String,
    /// Made when missing.
    pub database: String,
    pub max_open_conns: usize,
    pub max_idle_conns: usize,
    pub tls: Tls,
}

/// How the connection is protected. Versions below TLS 1.2 are never spoken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    #[default]
    Off,
    /// With the machine's root certificates, or with those of a file.
    On { ca_file: Option<std::path::PathBuf> },
}

pub async fn open(
    _settings: &Settings,
    _retention: Retention,
    _environment: Arc<dyn Environment>,
) -> Result<Arc<dyn Store>, Error> {
    Err(Error::Invalid { what: "not built".into() })
}
