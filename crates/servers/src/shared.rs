//! One MariaDB and one etcd for all tests of a process, or of a whole `cargo xtask test`.
//!
//! Tests that share a server keep to a database or a key prefix of their own, and never stop it.

use std::env;
use std::sync::OnceLock;

use crate::error::Error;
use crate::etcd::Etcd;
use crate::mariadb::{self, MariaDb};

/// Names a running MariaDB, as `host:port`, to be used in place of one of our own.
pub const MARIADB_VARIABLE: &str = "SETPOINT_TEST_MARIADB";

/// Names a running etcd, as a URL, to be used in place of one of our own.
pub const ETCD_VARIABLE: &str = "SETPOINT_TEST_ETCD";

/// Where the shared MariaDB listens, and who may do everything there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedMariaDb {
    pub host: String,
    pub port: u16,
    pub user: &'static str,
    pub password: &'static str,
}

/// Where the shared etcd listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedEtcd {
    pub endpoint: String,
}

/// The MariaDB that [`MARIADB_VARIABLE`] names, or else one that lives as long as this process.
pub fn shared_mariadb() -> Result<&'static SharedMariaDb, &'static Error> {
    static SHARED: OnceLock<Result<(SharedMariaDb, Option<MariaDb>), Error>> = OnceLock::new();
    let start = || match env::var(MARIADB_VARIABLE) {
        Ok(value) => Ok((parse_mariadb(&value)?, None)),
        Err(_) => {
            let ours = MariaDb::start()?;
            Ok((at("127.0.0.1", ours.port()), Some(ours)))
        }
    };
    SHARED.get_or_init(start).as_ref().map(|(shared, _)| shared)
}

/// The etcd that [`ETCD_VARIABLE`] names, or else one that lives as long as this process.
pub fn shared_etcd() -> Result<&'static SharedEtcd, &'static Error> {
    static SHARED: OnceLock<Result<(SharedEtcd, Option<Etcd>), Error>> = OnceLock::new();
    let start = || match env::var(ETCD_VARIABLE) {
        Ok(value) => Ok((parse_etcd(&value)?, None)),
        Err(_) => {
            let ours = Etcd::start()?;
            Ok((SharedEtcd { endpoint: ours.endpoint() }, Some(ours)))
        }
    };
    SHARED.get_or_init(start).as_ref().map(|(shared, _)| shared)
}

fn at(host: &str, port: u16) -> SharedMariaDb {
    let (user, password) = (mariadb::USER, mariadb::PASSWORD);
    SharedMariaDb { host: host.to_owned(), port, user, password }
}

fn parse_mariadb(value: &str) -> Result<SharedMariaDb, Error> {
    let parts = value.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    match parts.and_then(|(host, port)| Some((host, port.parse().ok()?))) {
        Some((host, port)) => Ok(at(host, port)),
        None => Err(Error::BadAddress {
            variable: MARIADB_VARIABLE,
            value: value.to_owned(),
            expected: "a host and a port (`127.0.0.1:3306`)",
        }),
    }
}

fn parse_etcd(value: &str) -> Result<SharedEtcd, Error> {
    match value.starts_with("http://") || value.starts_with("https://") {
        true => Ok(SharedEtcd { endpoint: value.to_owned() }),
        false => Err(Error::BadAddress {
            variable: ETCD_VARIABLE,
            value: value.to_owned(),
            expected: "a URL (`http://127.0.0.1:2379`)",
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::thread;

    use super::*;

    #[test]
    fn shared_servers_are_one_each_and_outlive_the_thread_that_asked_first() {
        let first = thread::spawn(|| (shared_mariadb().unwrap(), shared_etcd().unwrap()));
        let (mariadb, etcd) = first.join().unwrap();
        assert_eq!(shared_mariadb().unwrap(), mariadb);
        assert_eq!(shared_etcd().unwrap(), etcd);
        TcpStream::connect((mariadb.host.as_str(), mariadb.port)).unwrap();
        TcpStream::connect(etcd.endpoint.strip_prefix("http://").unwrap()).unwrap();
    }

    #[test]
    fn an_address_that_cannot_be_read_is_refused_with_its_variable() {
        assert_eq!(parse_mariadb("db.example:3307").unwrap(), at("db.example", 3307));
        for value in ["", "3306", ":3306", "db:port"] {
            let error = parse_mariadb(value).unwrap_err().to_string();
            assert!(error.starts_with(MARIADB_VARIABLE), "{error}");
        }
        assert!(parse_etcd("127.0.0.1:2379").is_err());
    }
}
