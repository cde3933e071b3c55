//! Watches, answers and limits over real TLS sockets.

#![allow(clippy::unwrap_used, reason = "a failed test is a panic")]

mod answers;
mod burst;
mod client;
mod cluster;
mod ends;
mod invariants;
mod limits;
mod places;
mod starts;
