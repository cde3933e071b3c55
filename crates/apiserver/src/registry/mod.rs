//! Which kinds exist, and what is special about each.
//!
//! The rules here are pure: they read and change JSON objects, and never touch the store, the
//! clock or another object.

pub mod strategy;

pub mod builtin;

pub mod metadata;

pub mod names;

pub mod amount;
pub mod checks;
pub mod custom;
pub mod edit;
pub mod field;
pub mod label_selector;

mod base64;
