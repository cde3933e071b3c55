//! Who is of a group: noted on the StatefulSet of its workers once they are all there, so that one
//! who was replaced is found, whoever replaced it and whoever was looking.
//!
//! A pod that is deleted without grace is gone before its group is looked at, and its StatefulSet
//! makes another of the name at once.

use std::sync::Arc;

use reconcile::{Object, names};

/// On the StatefulSet of workers: a digest of the pods that it had when they were first all there.
pub const MEMBERS: &str = "inference.setpoint.dev/members";

/// A short text that stands for these pods and no others.
pub fn digest(pods: &[Arc<Object>]) -> String {
    let mut uids: Vec<&str> = pods.iter().map(|pod| pod.uid.as_str()).collect();
    uids.sort_unstable();
    names::digest(&uids)
}
