//! Serves the Kubernetes HTTP API over a [`store::Store`].
//!
//! Generic verbs, special kinds: one file per verb for all kinds, and a small strategy per kind
//! where a kind is special. The crate knows no custom resources of ours.

pub mod age;
pub mod field_error;
pub mod quantity;
pub mod selectors;
pub mod status;
pub mod table;
pub mod timestamp;
