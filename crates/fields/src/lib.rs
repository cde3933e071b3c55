//! Server-side apply: sets of fields, who owns them, merging and conflicts.
//!
//! Knows nothing of a server: objects are JSON, their shape is told by the caller.

mod apply;
mod cap;
mod codec;
mod conflict;
mod element;
mod error;
mod go_text;
mod last_applied;
mod managed;
mod open_api;
mod order;
mod prune;
mod raw;
mod resource;
mod set;
mod shape;
mod stripped;
mod update;
mod versions;
pub mod walk;

pub use apply::{Applied, BEFORE_FIRST_APPLY, apply};
pub use cap::ANCIENT;
pub use codec::DEPTH_MAX;
pub use conflict::{Cause, Conflict, Conflicts};
pub use element::{Element, Path, display};
pub use error::Error;
pub use last_applied::{ANNOTATION as LAST_APPLIED_ANNOTATION, KUBECTL};
pub use managed::{Entry, Fields, Identity, Managed, Operation, is_reset, strip};
pub use open_api::OpenApi;
pub use order::{compare as compare_values, equal};
pub use resource::{Force, Request, Resource, UPDATE_MANAGERS_MAX};
pub use set::{Node, Set};
pub use shape::{Atom, Deduced, Form, Keys, List, Map, Scalar, Shape};
pub use stripped::stripped;
pub use update::update;
