//! What makes a machine a node.
//!
//! `simulated` plays any number of nodes without running anything: for tests, benchmarks and for
//! trying out manifests for machines one does not have.

pub mod simulated;
