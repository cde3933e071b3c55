//! Structural schemas of custom resources: checking them, and pruning, defaulting and validating
//! objects by them.
//!
//! Pure: JSON in, JSON and violations out. It knows no server, no clock and no store.
//!
//! The order of a request: [`prune()`], [`coerce`], [`default()`], admission, [`validate()`]. On a
//! read from the store: [`prune()`], [`default()`].
//!
//! Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/{schema,validation}

mod cel;
pub mod check;
mod default;
mod formats;
pub mod jsonpath;
mod limits;
mod metadata;
mod node;
mod number;
mod parse;
mod path;
mod pattern;
mod prune;
pub mod publish;
mod rules;
pub mod shape;
pub mod structural;
pub mod validate;
mod violation;

pub use cel::Cel;
pub use default::default;
pub use limits::{DEPTH_MAX, NODES_MAX};
pub use metadata::{Embedded, Malformed, coerce};
pub use node::{Additional, Bounds, Kind, Node, Reason, Refused, Rule, Schema};
pub use path::Path;
pub use pattern::Pattern;
pub use prune::prune;
pub use rules::{Compiled, Compiler, Failure, NoRules, Program, RuleTree};
pub use validate::{Options, Outcome, validate};
pub use violation::{Problem, Violation};
