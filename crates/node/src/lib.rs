//! What makes a machine a node.
//!
//! `agent` registers this machine and runs the pods that are bound to it, through a `PodRuntime`.
//! `simulated` plays any number of nodes without running anything: for tests, benchmarks and for
//! trying out manifests for machines one does not have.

pub mod absence;
pub mod agent;
pub mod confinement;
#[cfg(test)]
mod contract;
pub mod devices;
pub mod failpoints;
pub mod image;
pub mod machine;
pub mod machines;
pub mod network;
pub mod pod;
pub mod pressure;
pub mod python;
pub mod register;
pub mod runtime;
pub mod runtimes;
pub mod server;
pub mod simulated;
mod volumes;

pub use volumes::unmount_all;

#[cfg(test)]
mod tests;
