//! Label and field selectors: parsed once per request, matched against many objects.
//!
//! Matching asks for one value at a time, so that a cache can keep labels and fields in whatever
//! form is small. Nothing here reads the store.

pub mod field_table;
pub mod fields;
mod label_object;
mod label_text;
pub mod labels;
pub mod names;

/// Why a selector in a request cannot be used; the text is the message of a 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);
