//! Walks over a value along its shape.
//!
//! Each is a pure function of a shape and one or two values. A value is expected to have passed
//! [`validate::check`]; where it has not, an item that cannot be told apart goes by its index.

pub mod compare;
pub mod created;
pub mod fields_of;
pub mod items;
pub mod merge;
pub mod named;
pub mod reconcile;
pub mod remove;
pub mod validate;
