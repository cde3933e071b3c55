//! Webhooks through the whole server: a program of its own behind HTTPS is asked.

#![allow(clippy::unwrap_used, reason = "a failed test is a panic")]

mod admission;
mod calls;
mod conversion;
mod failures;
mod setting;
