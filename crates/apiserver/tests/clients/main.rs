//! Real clients against a real server over TLS.

#![allow(clippy::unwrap_used, reason = "a failed test is a panic")]

mod cluster;
mod kubectl;
mod protobuf;
