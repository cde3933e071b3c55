//! The expression language of Kubernetes (CEL): parsed, type-checked, costed, and evaluated within
//! a budget.
//!
//! ```text
//! source -> syntax (tokens, tree, macros) -> check (types, overloads) -> Program
//!                                                  Program -> cost: what it may cost at most
//!                                                  Program -> evaluate: over borrowed JSON
//! ```
//!
//! A rule is compiled once, against the declared types of its variables. It must not be trusted:
//! its nesting is bounded, every step of its evaluation is paid from a [`Budget`], and a regular
//! expression runs in linear time.
//!
//! This crate knows no schemas and no HTTP: whoever compiles a rule says what its variables are
//! with [`Declared`], and words its own refusals around [`Problems`] and [`Failure`].

mod admission;
pub mod authorizer;
mod check;
mod compile;
mod cost;
pub mod declared;
mod evaluate;
mod library;
mod problems;
mod syntax;
mod types;
mod value;

pub use crate::compile::{Expected, Program, Scope, Variable, VariableKind, compile};
pub use crate::cost::{Estimate, RULE_COST_MAX, SCHEMA_COST_MAX};
pub use crate::declared::{Declared, Field, ListKind, MapKind, Object, Property};
pub use crate::evaluate::{
    Binding, Bindings, Budget, CALL_COST_MAX, Failure, FailureKind, OBJECT_COST_MAX,
};
pub use crate::problems::{Problem, Problems};
pub use crate::types::Type;
pub use crate::value::Value;
