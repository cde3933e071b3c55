//! The etcd backend against real servers that are killed, cut off, filled up and written to by
//! others. What every backend must do is in the contract suite.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must say where")]

mod cuts;
mod errors;
mod foreign;
mod history;
mod limits;
mod login;
mod processes;
mod restart;
#[path = "../thinned/mod.rs"]
mod thinned;
mod thinning;
mod world;
