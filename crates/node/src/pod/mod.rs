//! The life of a pod on this node: what is known of it, what is done next, what is said of it.

pub mod admission;
pub mod cache_directories;
pub mod confinement;
mod container_status;
pub mod environment;
mod ephemeral;
pub mod follow;
mod handlers;
mod hooks;
pub mod host_environment;
pub mod images;
pub mod lifecycle;
pub mod prepare;
mod probes;
pub mod readable;
pub mod resources;
pub mod restart;
pub mod sandbox;
pub mod spec;
pub mod status;
mod termination;
pub mod worker;

#[cfg(test)]
mod tests;
