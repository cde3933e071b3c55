//! What was asked: path, options, representation.

pub mod cause;
pub mod negotiate;
pub mod options;
pub mod path;
pub mod route;
pub mod trace;
