//! Where the store keeps its state: one folder each, and one arm in [`open`].

pub mod embedded;
pub mod etcd;
pub mod memory;
pub mod mysql;

use std::sync::Arc;

use crate::{Environment, Error, Retention, Store};

/// Which backend, with its settings.
#[derive(Clone, Debug)]
pub enum Settings {
    Memory,
    Embedded(embedded::Settings),
    Mysql(mysql::Settings),
    Etcd(etcd::Settings),
}

/// Opens a store.
pub async fn open(
    settings: &Settings,
    retention: Retention,
    environment: Arc<dyn Environment>,
) -> Result<Arc<dyn Store>, Error> {
    match settings {
        Settings::Memory => Ok(memory::open(retention, environment)),
        Settings::Embedded(settings) => embedded::open(settings, retention, environment).await,
        Settings::Mysql(settings) => mysql::open(settings, retention, environment).await,
        Settings::Etcd(settings) => etcd::open(settings, retention, environment).await,
    }
}
