//! kubectl at home: what its user sees, one file a topic.

mod access;
mod apply;
mod basics;
mod change;
mod create;
mod custom;
mod custom_apply;
mod delete;
mod describe;
mod every_version;
mod get;
mod manifests;
pub mod run;
mod server_apply;
mod server_info;
mod wait;
mod workloads;
