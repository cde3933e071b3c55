//! Where a user may choose how the built-in controllers behave.

use std::sync::Arc;

/// The choices; the defaults are what Kubernetes does.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// `deployment.match`
    pub deployment_match: Match,
    /// The certificates of the cluster's authority, as PEM, which every namespace is given.
    pub authority_pem: Arc<str>,
    /// Finished pods that may be kept.
    pub finished_pods_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            deployment_match: Match::default(),
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
