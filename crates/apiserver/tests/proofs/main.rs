//! What must hold of the server whatever it is sent: answers as data, bad input, access to every
//! route, and inputs that nobody thought of.
#![allow(clippy::unwrap_used, reason = "a test may end at what it did not expect")]

mod authorization;
mod bad_input;
mod fuzz;
mod golden;
#[path = "../security/mod.rs"]
mod security;
mod world;
