//! Asking programs of others over HTTPS, for admission and for conversion.
//!
//! | file | |
//! |---|---|
//! | `target.rs` | where a webhook is, as a configuration says |
//! | `addresses.rs` | which addresses that means, and who may name them |
//! | `trust.rs` | whose certificates are believed |
//! | `client.rs` | one question, one answer, over a connection that is used again |
//! | `writer.rs` | whether a part of this program wrote a configuration |
//! | `within.rs` | parts of this program that are asked without a connection |
//! | `convert.rs` | ConversionReview |
//!
//! Nothing here holds a lock while it waits, so that whoever is asked may ask this server first.

pub mod addresses;
pub mod client;
pub mod convert;
pub mod target;
pub mod trust;
pub mod within;
pub mod writer;
