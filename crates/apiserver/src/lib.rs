//! Serves the Kubernetes HTTP API over a [`store::Store`].
//!
//! Generic verbs, special kinds: one file per verb for all kinds, and a small strategy per kind
//! where a kind is special. The crate knows no custom resources of ours.

pub mod field_error;
pub mod identity;
pub mod rbac;
pub mod secrets_at_rest;
pub mod status;
