//! The life of a pod on this node: what is known of it, what is done next, what is said of it.

pub mod confinement;
pub mod environment;
mod handlers;
pub mod lifecycle;
pub mod prepare;
mod probes;
pub mod resources;
pub mod restart;
pub mod sandbox;
pub mod spec;
pub mod status;
pub mod worker;

#[cfg(test)]
mod tests;
