//! Webhooks through the whole server: a program of its own behind HTTPS is asked.

#![allow(clippy::unwrap_used, reason = "a failed test is a panic")]

mod admission;
mod calls;
#[path = "../security/connect_webhooks.rs"]
mod connect_webhooks;
mod conversion;
mod failures;
#[path = "../security/loopback_webhooks.rs"]
mod loopback_webhooks;
mod setting;
