//! The embedded backend.

use std::sync::Arc;

use crate::{Environment, Error, Retention, Store};

/// How to open it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The directory of the store; made when missing.
    pub directory: std::path::PathBuf,
}

pub async fn open(
    _settings: &Settings,
    _retention: Retention,
    _environment: Arc<dyn Environment>,
) -> Result<Arc<dyn Store>, Error> {
    Err(Error::Invalid { what: "not built".into() })
}
