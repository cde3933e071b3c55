//! A cluster in a test: the real API server on the memory store, real controllers, played pods.
//!
//! For tests only: what cannot be set up panics.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

pub mod cluster;
pub mod faults;
pub mod pods;
pub mod simulation;
pub mod world;

pub use cluster::Cluster;
