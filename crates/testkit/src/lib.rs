//! A cluster in a test: the real API server on the memory store, real controllers, played pods.
//!
//! For tests only: what cannot be set up panics.

pub mod cluster;
pub mod faults;
pub mod manifests;
pub mod nodes;
pub mod oracle;
pub mod pods;
mod prepared;
pub mod record;
pub mod reviews;
pub mod rights;
pub mod simulation;
pub mod users;
pub mod world;

pub use cluster::Cluster;
