//! Custom resources through the whole server: definitions, and the objects that they define.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod apply;
mod bad_definitions;
mod cluster;
mod large;
mod life;
mod objects;
mod subresources;
mod versions;
