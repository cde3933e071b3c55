//! What is special about built-in kinds, asked of a server in this process.
#![allow(clippy::unwrap_used, reason = "tests")]

mod bootstrap;
mod certificates;
mod cluster;
mod conversion;
mod pods;
mod services;
