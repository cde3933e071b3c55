//! What is to be done, and how it ended, as data between the loop and its tasks.

use std::sync::Arc;
use std::time::Duration;

use reconcile::plan::Notice;
use reconcile::{Name, Object};
use serde_json::Value;

use crate::gang::group::GroupKey;
use crate::plugins::volume_binding::Step;
use crate::pod::PodInfo;

/// Something to be written.
#[derive(Debug)]
pub enum Work {
    /// A pod gets its node, after a while.
    Bind {
        pod: Arc<PodInfo>,
        node: Arc<str>,
        after: Duration,
    },
    /// Claims of a reservation get their volumes, or somebody is told to make them.
    Volumes {
        reservation: u64,
        steps: Vec<(Step, Arc<str>)>,
    },
    /// A pod is told that it has no node, and why.
    Report {
        pod: Arc<PodInfo>,
        report: Report,
    },
    /// Pods go so that another gets their room.
    Preempt {
        pod: Arc<PodInfo>,
        report: Report,
        victims: Vec<Arc<PodInfo>>,
    },
    /// The status of a group.
    Group {
        key: GroupKey,
        group: Arc<Object>,
        status: Value,
        failures: u32,
    },
    Notice {
        pod: Arc<PodInfo>,
        notice: Notice,
    },
}

/// What a pod without a node is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub message: String,
    /// The node on which room is made for it; empty for none.
    pub nominated: Arc<str>,
}

/// How something ended.
#[derive(Debug)]
pub enum Done {
    Bind {
        pod: Arc<PodInfo>,
        node: Arc<str>,
        ended: Bound,
    },
    Volumes {
        reservation: u64,
        is_done: bool,
    },
    /// With the revision of what was written; 0 if nothing was, none if it failed.
    Report {
        uid: Arc<str>,
        written: Option<u64>,
    },
    Preempt {
        pod: Arc<PodInfo>,
        written: Option<u64>,
    },
    Group {
        key: GroupKey,
        written: Option<u64>,
    },
    Notice,
}

/// What became of a binding.
#[derive(Debug)]
pub enum Bound {
    Done,
    /// The server says that it has no node.
    Not,
    /// The pod is not there any more.
    Gone(Name),
    /// Another was faster, or the answer was lost.
    Elsewhere(Arc<Object>),
}
