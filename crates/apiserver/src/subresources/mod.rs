//! Parts of objects with paths and rules of their own.

pub mod scale;
pub mod token;
