//! Private servers for tests: MariaDB and etcd on free loopback ports with temporary data,
//! containerd on a socket, and a TCP proxy that cuts connections. Also what tests need of other
//! languages: client libraries.
//!
//! A server dies with the process that started it, however that process ends, and its data goes
//! with it. Nothing here touches a server that the machine runs for other purposes.
//!
//! This crate must not know any of our other crates, nor a client library of Rust: it asks
//! only whether a server answers.

mod clock;
mod containerd;
mod cutter;
mod databases;
mod directory;
mod engine;
mod error;
mod etcd;
mod guest;
mod libraries;
mod mariadb;
mod port;
mod process;
mod program;
mod registry;
mod server;
mod shared;

pub use containerd::{Containerd, SANDBOX_IMAGE, shell_archive};
pub use cutter::{Admit, Cutter};
pub use engine::Engine;
pub use error::Error;
pub use etcd::Etcd;
pub use guest::guest_image;
pub use libraries::{
    go, go_program, node_client, python_client, python_dynamo, python_kopf, python_kubeflow,
};
pub use mariadb::MariaDb;
pub use program::{PACKAGES, missing_packages};
pub use registry::Registry;
pub use shared::{ETCD_VARIABLE, MARIADB_VARIABLE};
pub use shared::{SharedEtcd, SharedMariaDb, shared_etcd, shared_mariadb};
