//! Where the measured stores live.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use store::backends::{self, Settings, embedded, etcd, mysql};
use store::{Environment, Retention, Store, System};

use super::Kind;
use crate::statistics::now;

/// A directory or a server that stores are made in.
pub struct Place {
    pub kind: Kind,
    pub directory: PathBuf,
    server: Server,
}

enum Server {
    None,
    Mysql(servers::MariaDb),
    Etcd(servers::Etcd),
}

/// One empty store.
pub struct Fresh {
    settings: Settings,
    directory: Option<PathBuf>,
}

impl Place {
    pub fn prepare(kind: Kind, directory: &Path) -> anyhow::Result<Place> {
        let server = match kind {
            Kind::Mysql => Server::Mysql(servers::MariaDb::start()?),
            Kind::Etcd => Server::Etcd(servers::Etcd::start()?),
            Kind::Memory | Kind::Embedded => Server::None,
        };
        Ok(Place { kind, directory: directory.to_owned(), server })
    }

    pub fn temporary(&self, name: &str) -> PathBuf {
        self.directory.join(format!(".setpoint-bench-{name}-{:016x}", System.random()))
    }

    pub fn fresh(&self) -> anyhow::Result<Fresh> {
        let name = format!("bench{:016x}", System.random());
        let (settings, directory) = match &self.server {
            Server::Mysql(server) => {
                let settings = mysql::Settings {
                    host: "127.0.0.1".into(),
                    port: server.port(),
                    user: server.user().into(),
                    password: server.password().into(),
                    database: name,
                    ..Default::default()
                };
                (Settings::Mysql(settings), None)
            }
            Server::Etcd(server) => {
                let endpoints = vec![server.endpoint()];
                let prefix = format!("/{name}");
                let settings = etcd::Settings { endpoints, prefix, ..Default::default() };
                (Settings::Etcd(settings), None)
            }
            Server::None if self.kind == Kind::Memory => (Settings::Memory, None),
            Server::None => {
                let directory = self.temporary("store");
                let settings = embedded::Settings { directory: directory.clone() };
                (Settings::Embedded(settings), Some(directory))
            }
        };
        Ok(Fresh { settings, directory })
    }
}

impl Fresh {
    pub async fn open(&self) -> anyhow::Result<Arc<dyn Store>> {
        let retention = Retention::default();
        Ok(backends::open(&self.settings, retention, Arc::new(System)).await?)
    }

    /// What reading all files takes, at the least.
    pub fn time_to_read(&self) -> anyhow::Result<Option<Duration>> {
        let Some(directory) = &self.directory else { return Ok(None) };
        let start = now();
        for entry in std::fs::read_dir(directory)? {
            std::fs::read(entry?.path())?;
        }
        Ok(Some(start.elapsed()))
    }

    pub fn bytes_on_disk(&self) -> anyhow::Result<Option<u64>> {
        let Some(directory) = &self.directory else { return Ok(None) };
        let mut bytes = 0;
        for entry in std::fs::read_dir(directory)? {
            bytes += entry?.metadata()?.len();
        }
        Ok(Some(bytes))
    }

    pub fn remove(&self) -> anyhow::Result<()> {
        if let Some(directory) = &self.directory {
            std::fs::remove_dir_all(directory)?;
        }
        Ok(())
    }
}
