//! What the file of a family says of the process that runs it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::Operator;
use crate::config::LogLevel;
use crate::telemetry::Format;

/// What is not said is the process's to choose.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    pub health: Address,
    pub metrics: Address,
    pub secure: Address,
    /// Whether the work is done only while a lease is held.
    pub elects: Option<bool>,
    /// Which lease that is, of the operator that the file is for.
    pub lease: Option<Lease>,
    pub level: Option<LogLevel>,
    pub format: Option<Format>,
    pub only: Option<Only>,
    /// Where others put certificates; else they are made here.
    pub mounted: Option<PathBuf>,
}

/// The lease of one operator, where it is not the usual one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub operator: &'static str,
    pub name: &'static str,
    /// Else that of the installation.
    pub namespace: Option<String>,
}

impl Lease {
    /// The name and the namespace of the lease of an operator.
    pub fn of<'a>(
        said: Option<&'a Lease>,
        operator: &Operator,
        home: &'a str,
    ) -> (&'static str, &'a str) {
        match said.filter(|said| said.operator == operator.name) {
            Some(said) => (said.name, said.namespace.as_deref().unwrap_or(home)),
            None => (operator.lease, home),
        }
    }
}

/// Where to listen, as far as it is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Address {
    pub host: Option<IpAddr>,
    pub port: Option<u16>,
}

/// The one namespace that a process works in, and how long others believe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Only {
    pub namespace: String,
    pub lease: Duration,
    pub renew: Duration,
}

impl Only {
    pub fn of(namespace: String) -> Only {
        let (lease, renew) = (Duration::from_secs(30), Duration::from_secs(10));
        Only { namespace, lease, renew }
    }
}

impl Address {
    /// The address, where what is not said is everywhere, and a port that is usual.
    pub fn or(self, port: u16) -> SocketAddr {
        let host = self.host.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        SocketAddr::new(host, self.port.unwrap_or(port))
    }
}
