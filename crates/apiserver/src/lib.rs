//! Serves the Kubernetes HTTP API over a [`store::Store`].
//!
//! Generic verbs, special kinds: one file per verb for all kinds, and a small strategy per kind
//! where a kind is special. The crate knows no custom resources of ours.

pub mod admission;
pub mod age;
pub mod allocation;
pub mod answer;
mod asked;
pub mod audit;
pub mod authenticate;
pub mod beside;
pub mod bootstrap;
pub mod calendar;
pub mod connected;
pub mod console;
pub mod conversion;
pub mod decode;
pub mod docs;
pub mod endpoints;
pub mod expiry;
pub mod extension;
pub mod facts;
pub mod field_error;
pub mod field_ownership;
pub mod finish;
pub mod first_objects;
pub mod handover;
pub mod health;
pub mod history;
pub mod identity;
pub mod ids;
pub mod local;
pub mod metrics;
pub mod object;
pub mod open_metrics;
pub mod openapi;
pub mod patch;
mod paths;
pub mod persist;
pub mod planted;
pub mod profile;
pub mod rbac;
pub mod registry;
pub mod request;
pub mod resources;
pub mod secrets_at_rest;
pub mod selectors;
pub mod serve;
pub mod server;
pub mod start;
pub mod status;
pub mod streams;
pub mod subresources;
pub mod support;
pub mod table;
pub mod tasks;
pub mod time;
pub mod timestamp;
pub mod traffic;
pub mod version;
pub mod webhooks;

pub use amounts::quantity;
