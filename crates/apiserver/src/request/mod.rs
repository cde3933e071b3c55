//! What was asked: path, options, representation.

pub mod negotiate;
pub mod options;
pub mod path;
