//! Runs controllers: watch, queue, observe, plan, act.
//!
//! A controller is a [`Reconciler`]. It says which kind it is for and what else wakes it
//! (`watches`), reads what it needs (`observe`), decides what to do as data (`plan`, a pure
//! function), and this crate does it (`act`): steps in order, status once and last, events after
//! that. Whatever fails leaves the reconcile; the queue tries again with back-off.
//!
//! What holds for every controller:
//! - One object is reconciled by one task at a time; a bounded number of objects at once.
//! - No reconcile starts from a cache that is older than the object's own last write.
//! - Deletes carry the UID that was seen; children have names that follow from their owner.
//! - A crash between any two steps is just another reconcile.
//!
//! This crate knows `kube::Client` and nothing of the server behind it.

pub mod act;
pub mod backoff;
pub mod cache;
pub mod caches;
pub mod conditions;
pub mod context;
pub mod conversion;
mod defects;
pub mod elsewhere;
pub mod entry;
pub mod environment;
pub mod error;
pub mod follow;
pub mod handover;
pub mod health;
mod kept;
pub mod kind;
mod labelled;
pub mod leader;
pub mod lines;
pub mod metrics;
mod name_set;
pub mod names;
pub mod notices;
pub mod object;
pub mod owned_cache;
pub mod owners;
mod packed;
pub mod plan;
pub mod queue;
pub mod reconciler;
pub mod requests;
pub mod resource_metrics;
pub mod run;
mod selecting;
pub mod selector;
pub mod supervise;
mod tuning;
pub mod value;

pub use cache::{Cache, Change};
pub use caches::Caches;
pub use context::Context;
pub use elsewhere::Elsewhere;
pub use entry::Entry;
pub use environment::Environment;
pub use error::Error;
pub use kind::Kind;
pub use object::{Name, Object};
pub use owned_cache::{CachedObject, OwnedCache, PartialObject};
pub use plan::{Plan, Step, Wake};
pub use reconciler::{Reconciler, Watches};
pub use selector::Selector;
pub use tuning::Tuning;
