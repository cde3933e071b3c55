//! The group `storage`: which store, and how each kind is reached.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};

use apiserver::history::churn::is_churn;
use store::backends::{self, embedded, etcd, mysql};
use store::{Retention, Thinning};

use super::section::{Expected, Section};
use super::{Remarks, duration, size};

const CONNECTIONS_MAX: u64 = 10_000;
const ENDPOINT: &str = "an address such as http://127.0.0.1:2379";
const ENDPOINTS: &str = "a list of addresses such as http://127.0.0.1:2379";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum StoreKind {
    /// Nothing is kept when the program ends.
    Memory,
    /// Files in the data directory.
    #[default]
    Embedded,
    /// A MySQL or MariaDB server.
    Mysql,
    /// An etcd server or cluster.
    Etcd,
}

impl fmt::Display for StoreKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            StoreKind::Memory => "memory",
            StoreKind::Embedded => "embedded",
            StoreKind::Mysql => "mysql",
            StoreKind::Etcd => "etcd",
        })
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Storage {
    pub kind: StoreKind,
    pub embedded: Embedded,
    pub mysql: Mysql,
    pub etcd: Etcd,
    pub history: History,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embedded {
    /// `store` in the data directory when nothing is said.
    pub directory: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Mysql {
    pub host: String,
    pub port: u16,
    pub user: String,
    pub password: Secret,
    pub database: String,
    pub max_open_conns: usize,
    pub max_idle_conns: usize,
    pub tls: bool,
    pub ca_file: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Etcd {
    pub endpoints: Vec<String>,
    pub dial_timeout: Duration,
    pub username: String,
    pub password: Secret,
    pub ca_file: Option<PathBuf>,
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct History {
    pub max_age: Duration,
    pub max_bytes: u64,
    /// When changes of the status alone are thinned out, and to one in which time.
    pub thin_after: Duration,
    pub thin_to: Duration,
}

/// Text that is never printed.
#[derive(Clone, Default, PartialEq)]
pub struct Secret(String);

impl Secret {
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("(hidden)")
    }
}

impl Default for Mysql {
    fn default() -> Mysql {
        Mysql {
            host: "localhost".to_owned(),
            port: 3306,
            user: "root".to_owned(),
            password: Secret("password".to_owned()),
            database: "k3".to_owned(),
            max_open_conns: 10,
            max_idle_conns: 5,
            tls: false,
            ca_file: None,
        }
    }
}

impl Default for Etcd {
    fn default() -> Etcd {
        Etcd {
            endpoints: vec!["http://127.0.0.1:2379".to_owned()],
            dial_timeout: Duration::from_secs(5),
            username: String::new(),
            password: Secret::default(),
            ca_file: None,
            cert_file: None,
            key_file: None,
        }
    }
}

impl Default for History {
    fn default() -> History {
        let Retention { age_max, bytes_max, .. } = Retention::default();
        History {
            max_age: age_max,
            max_bytes: bytes_max,
            thin_after: Duration::from_secs(60 * 60),
            thin_to: Duration::from_secs(60),
        }
    }
}

impl Storage {
    /// What the store is opened with.
    pub fn settings(&self, data_directory: &Path) -> backends::Settings {
        match self.kind {
            StoreKind::Memory => backends::Settings::Memory,
            StoreKind::Embedded => {
                let directory = self.embedded.directory.clone();
                let directory = directory.unwrap_or_else(|| data_directory.join("store"));
                backends::Settings::Embedded(embedded::Settings { directory })
            }
            StoreKind::Mysql => backends::Settings::Mysql(self.mysql.settings()),
            StoreKind::Etcd => backends::Settings::Etcd(self.etcd.settings()),
        }
    }

    pub fn retention(&self) -> Retention {
        let History { max_age, max_bytes, thin_after, thin_to } = self.history;
        let thinning = Thinning { after: thin_after, interval: thin_to, is_churn };
        Retention {
            age_max: max_age,
            bytes_max: max_bytes,
            thinning: Some(thinning),
            ..Retention::default()
        }
    }

    pub(super) fn read(mut section: Section<'_>, remarks: &mut Remarks) -> Result<Storage> {
        let expected = "memory, embedded, mysql or etcd";
        let kind = section.read("type", expected, |text| {
            let kinds = [StoreKind::Memory, StoreKind::Embedded, StoreKind::Mysql, StoreKind::Etcd];
            kinds.into_iter().find(|kind| kind.to_string() == text)
        })?;
        let storage = Storage {
            kind: kind.unwrap_or_default(),
            embedded: Embedded::read(section.section("embedded")?, remarks)?,
            mysql: Mysql::read(section.section("mysql")?, remarks)?,
            etcd: Etcd::read(section.section("etcd")?, remarks)?,
            history: History::read(section.section("history")?, remarks)?,
        };
        section.finish(remarks);
        Ok(storage)
    }
}

impl Embedded {
    fn read(mut section: Section<'_>, remarks: &mut Remarks) -> Result<Embedded> {
        let directory = section.path("directory")?;
        section.finish(remarks);
        Ok(Embedded { directory })
    }
}

impl Mysql {
    fn read(mut section: Section<'_>, remarks: &mut Remarks) -> Result<Mysql> {
        let default = Mysql::default();
        let port = section.number("port", 1, u64::from(u16::MAX))?;
        let open = section.number("max_open_conns", 1, CONNECTIONS_MAX)?;
        let idle = section.number("max_idle_conns", 0, CONNECTIONS_MAX)?;
        let max_open_conns = open.map_or(default.max_open_conns, to_usize);
        let mysql = Mysql {
            host: section.text("host")?.unwrap_or(default.host),
            port: port.and_then(|port| u16::try_from(port).ok()).unwrap_or(default.port),
            user: section.text("user")?.unwrap_or(default.user),
            password: section.text("password")?.map_or(default.password, Secret),
            database: section.text("database")?.unwrap_or(default.database),
            max_open_conns,
            // More idle connections than connections cannot be, as in Go's database/sql.
            max_idle_conns: idle.map_or(default.max_idle_conns, to_usize).min(max_open_conns),
            tls: section.flag("tls")?.unwrap_or(default.tls),
            ca_file: section.path("ca_file")?,
        };
        if mysql.ca_file.is_some() && !mysql.tls {
            let what = "has no effect while storage.mysql.tls is off";
            remarks.warnings.push(section.about("ca_file", what));
        }
        section.finish(remarks);
        Ok(mysql)
    }

    fn settings(&self) -> mysql::Settings {
        let tls = match self.tls {
            true => mysql::Tls::On { ca_file: self.ca_file.clone() },
            false => mysql::Tls::Off,
        };
        mysql::Settings {
            host: self.host.clone(),
            port: self.port,
            user: self.user.clone(),
            password: self.password.expose().to_owned(),
            database: self.database.clone(),
            max_open_conns: self.max_open_conns,
            max_idle_conns: self.max_idle_conns,
            tls,
        }
    }
}

impl Etcd {
    fn read(mut section: Section<'_>, remarks: &mut Remarks) -> Result<Etcd> {
        let default = Etcd::default();
        let expected = Expected { list: ENDPOINTS, item: ENDPOINT };
        let endpoints = section.read_list("endpoints", expected, endpoint)?;
        let dial_timeout = section.read("dial_timeout", duration::EXPECTED, |text| {
            duration::parse(text).filter(|timeout| !timeout.is_zero())
        })?;
        let etcd = Etcd {
            endpoints: endpoints.unwrap_or(default.endpoints),
            dial_timeout: dial_timeout.unwrap_or(default.dial_timeout),
            username: section.text("username")?.unwrap_or(default.username),
            password: section.text("password")?.map_or(default.password, Secret),
            ca_file: section.path("ca_file")?,
            cert_file: section.path("cert_file")?,
            key_file: section.path("key_file")?,
        };
        let (given, missing) = match (&etcd.cert_file, &etcd.key_file) {
            (Some(_), None) => ("cert_file", "key_file"),
            (None, Some(_)) => ("key_file", "cert_file"),
            (None, None) | (Some(_), Some(_)) => {
                section.finish(remarks);
                return Ok(etcd);
            }
        };
        let what = format!("needs storage.etcd.{missing}; give both or neither");
        bail!(section.about(given, &what))
    }

    fn settings(&self) -> etcd::Settings {
        etcd::Settings {
            endpoints: self.endpoints.clone(),
            dial_timeout: self.dial_timeout,
            username: self.username.clone(),
            password: self.password.expose().to_owned(),
            tls: etcd::Tls {
                ca_file: self.ca_file.clone(),
                cert_file: self.cert_file.clone(),
                key_file: self.key_file.clone(),
            },
            prefix: String::new(),
            compact_server: true,
        }
    }
}

impl History {
    fn read(mut section: Section<'_>, remarks: &mut Remarks) -> Result<History> {
        let default = History::default();
        let max_age = section.read("max_age", duration::EXPECTED, duration::parse)?;
        let max_bytes = section.read("max_bytes", size::EXPECTED, size::parse)?;
        let thin_after = section.read("thin_after", duration::EXPECTED, duration::parse)?;
        let thin_to = section.read("thin_to", duration::EXPECTED, duration::parse)?;
        section.finish(remarks);
        Ok(History {
            thin_after: thin_after.unwrap_or(default.thin_after),
            thin_to: thin_to.unwrap_or(default.thin_to),
            max_age: max_age.unwrap_or(default.max_age),
            max_bytes: max_bytes.unwrap_or(default.max_bytes),
        })
    }
}

/// An endpoint with its scheme; `http` when none is written.
fn endpoint(text: &str) -> Option<String> {
    let (scheme, address) = text.split_once("://").unwrap_or(("http", text));
    let is_address = !address.is_empty() && !address.contains(char::is_whitespace);
    let is_known = matches!(scheme, "http" | "https");
    (is_known && is_address).then(|| format!("{scheme}://{address}"))
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
