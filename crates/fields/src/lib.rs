//! Server-side apply: who owns which field of an object, merging and conflicts.
//!
//! The algorithm of Kubernetes, for objects that are [`serde_json::Value`]. It knows nothing of a
//! server: the caller says what shape its objects have ([`Shape`]), how a kind's versions are
//! converted and what an endpoint cannot change ([`Resource`]), and who writes ([`Request`]).
//!
//! Two functions are all that a server calls:
//!
//! - [`apply`] lays a configuration over the live object, removes what its manager applied before
//!   and applies no more, and fails if that would change what others own;
//! - [`update`] keeps `metadata.managedFields` of every other write.
//!
//! ```
//! use fields::{Error, Force, OpenApi, Request, Resource, apply, update};
//! use serde_json::{Value, json};
//!
//! /// A kind with one version, whose schema is that of its definition.
//! struct Kind {
//!     schema: Value,
//! }
//!
//! impl Resource for Kind {
//!     type Shape<'a> = OpenApi<'a>;
//!
//!     fn shape<'a>(&'a self, api_version: &str) -> Option<OpenApi<'a>> {
//!         (api_version == "example.org/v1").then(|| OpenApi::new(&self.schema))
//!     }
//! }
//!
//! let kind = Kind {
//!     schema: json!({"type": "object", "properties": {
//!         "apiVersion": {"type": "string"},
//!         "kind": {"type": "string"},
//!         "metadata": {"type": "object"},
//!         "spec": {"type": "object", "properties": {
//!             "replicas": {"type": "integer"},
//!             "image": {"type": "string"},
//!         }},
//!     }}),
//! };
//! let request = |manager| Request {
//!     manager,
//!     api_version: "example.org/v1",
//!     subresource: "",
//!     time: "2024-01-01T00:00:00Z",
//! };
//! let wanted = |spec: Value| {
//!     let metadata = json!({"name": "a"});
//!     json!({"apiVersion": "example.org/v1", "kind": "Web", "metadata": metadata, "spec": spec})
//! };
//!
//! // One wants an image and three replicas.
//! let config = wanted(json!({"image": "web:1", "replicas": 3}));
//! let live = apply(&kind, None, &config, &request("deployer"), Force::No).unwrap().object;
//!
//! // Another scales it by an ordinary write, and owns the replicas from there on.
//! let mut scaled = live.clone();
//! scaled["spec"]["replicas"] = json!(5);
//! update(&kind, Some(&live), &mut scaled, &request("scaler")).unwrap();
//!
//! // So the first may not have three again...
//! let refused = apply(&kind, Some(&scaled), &config, &request("deployer"), Force::No);
//! let Err(Error::Conflicts(conflicts)) = refused else { panic!("it is a conflict") };
//! assert_eq!(
//!     conflicts.to_string(),
//!     "Apply failed with 1 conflict: \
//!      conflict with \"scaler\" using example.org/v1: .spec.replicas",
//! );
//!
//! // ...but can leave them to the other, and go on with the rest.
//! let config = wanted(json!({"image": "web:2"}));
//! let applied = apply(&kind, Some(&scaled), &config, &request("deployer"), Force::No).unwrap();
//! let live = applied.object;
//! assert_eq!(live["spec"], json!({"image": "web:2", "replicas": 5}));
//! ```
//!
//! # Shapes
//!
//! A walk asks of a node of a schema what it allows ([`Atom`]) and follows fields, values and
//! items. [`OpenApi`] reads a published JSON schema with its `x-kubernetes-*` extensions;
//! [`Deduced`] is for what has no schema. A server that keeps its types in tables implements
//! [`Shape`] over a reference into them.
//!
//! # What it costs
//!
//! An update does not decode the entries that it does not touch, a creation is one walk, and
//! a write that changes nothing is one comparison. `cargo run --release --example cost` prints
//! figures.

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
