//! Real clients against a real server: over TLS, and without a socket.

#![allow(clippy::unwrap_used, reason = "a failed test is a panic")]

mod cluster;
mod custom;
mod kube_rs;
mod kubectl;
mod local;
mod node;
mod operators;
mod protobuf;
mod python;
mod watchers;
