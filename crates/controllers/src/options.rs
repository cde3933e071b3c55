//! Where a user may choose how the built-in controllers behave.

use std::sync::Arc;
use std::time::Duration;

/// The choices; the defaults are what Kubernetes does.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// `deployment.match`
    pub deployment_match: Match,
    pub nodes: Nodes,
    /// The certificates of the cluster's authority, as PEM, which every namespace is given.
    pub authority_pem: Arc<str>,
    /// Finished pods that may be kept.
    pub finished_pods_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            deployment_match: Match::default(),
            nodes: Nodes::default(),
            authority_pem: "".into(),
            finished_pods_max: 12_500,
        }
    }
}

/// How a Deployment knows its pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Match {
    /// `owners`: by the owner references of its ReplicaSets.
    #[default]
    Owners,
    /// `adopt`: a pod of nobody's that its selector matches gets the label of the newest
    /// ReplicaSet, which adopts it.
    Adopt,
    /// `labels`: a pod of nobody's that its selector matches counts as one of its replicas and is
    /// left as it is.
    Labels,
}

/// How long nodes may be silent.
#[derive(Clone, Debug, PartialEq)]
pub struct Nodes {
    /// After this nobody knows how a node is.
    pub grace: Duration,
    /// The same for a node that has not reported yet.
    pub start_grace: Duration,
    /// `heartbeat_interval`: how often a node without a lease reports its status. Such a node is
    /// not given up before it has missed two.
    pub heartbeat_interval: Duration,
}

impl Default for Nodes {
    fn default() -> Nodes {
        Nodes {
            grace: Duration::from_secs(50),
            start_grace: Duration::from_secs(60),
            heartbeat_interval: Duration::from_secs(30),
        }
    }
}
