//! Attacks on a running program, each of which must fail: one file per theme.

mod files;
mod hidden;
mod isolation;
