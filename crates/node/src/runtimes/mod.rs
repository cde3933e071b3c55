//! The runtimes there are.

pub mod fake;
pub mod process;
