//! What becomes of writes: admission, quotas, roles, secrets and limits, through the whole server.

#![allow(clippy::unwrap_used, reason = "a failed test is a panic")]

mod admission;
mod api;
mod apply;
mod bounds;
mod owners;
mod ownership;
mod policies;
mod quotas;
mod roles;
mod secrets;
mod terms;
mod tokens;
