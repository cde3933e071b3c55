//! Order in which pods are evicted. Pure.
//!
//! Upstream: pkg/kubelet/eviction/helpers.go (rankMemoryPressure, rankDiskPressure,
//! rankPIDPressure)

use std::cmp::Reverse;
use std::sync::Arc;

use reconcile::Object;

use super::Resource;

/// A pod that may be evicted, with its use of the resource that is short.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub pod: Arc<Object>,
    pub priority: i64,
    pub usage: u64,
    pub request: u64,
}

/// Sorts the pods to evict first to the front: those that use more than they requested, then by
/// lower priority, then by how much more they use. Process ids are not requested.
pub fn rank(mut candidates: Vec<Candidate>, resource: Resource) -> Vec<Candidate> {
    candidates.sort_by_key(|candidate| {
        let Candidate { priority, usage, request, .. } = candidate;
        let is_within = resource != Resource::Pids && usage <= request;
        let excess = i128::from(*usage) - i128::from(*request);
        (is_within, *priority, Reverse(excess), candidate.pod.name.clone())
    });
    candidates
}
