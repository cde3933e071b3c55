//! Machines that really boot, and images that are really brought in.
#![allow(clippy::unwrap_used, reason = "a failed test is a panic")]

mod boots;
mod bridged;
mod console;
mod imports;
