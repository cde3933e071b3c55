//! The custom resources that operators of ours serve: kinds, schemas, defaults, rules and columns,
//! as the definitions that a cluster is given.
//!
//! A schema is written with the few words of `schema.rs`; what it shares with the built-in kinds,
//! a pod's specification above all, is taken from `core_types`. `value.rs` reads and changes such
//! objects, `field_error.rs` says what is wrong with one, `review.rs` says so to a server, and
//! `roles.rs` has what the operators are allowed.

pub mod add_ons;
pub mod core_types;
pub mod definition;
pub mod dynamo;
pub mod dynamo_alpha;
pub mod dynamo_checkpoint;
pub mod dynamo_component;
pub mod dynamo_model;
pub mod dynamo_request;
pub mod dynamo_request_alpha;
pub mod field_error;
pub mod job_set;
pub mod leader_worker_set;
pub mod optimization_job;
pub mod review;
pub mod roles;
pub mod runtime_patches;
pub mod schema;
pub mod training;
pub mod value;
pub mod wukong;
