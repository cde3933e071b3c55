//! Where a user may choose how the built-in controllers behave.

/// The choices; the defaults are what Kubernetes does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// `deployment.match`
    pub deployment_match: Match,
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
