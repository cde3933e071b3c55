//! The messages of CRI v1, with the fields that are used here and their numbers; at the end those
//! of containerd's own events.
//!
//! Written by hand so that the build needs no protobuf compiler. Fields that are not listed are
//! skipped when a message is read. Requests and answers that look alike share a message.
//!
//! Upstream: k8s.io/cri-api pkg/apis/runtime/v1/api.proto

mod containers;
mod images;
mod sandboxes;

use std::collections::BTreeMap;

pub use containers::*;
pub use images::*;
pub use sandboxes::*;

pub type Map = BTreeMap<String, String>;
