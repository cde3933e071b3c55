//! The names by which the objects of a set know each other.

pub const NAME: &str = "leaderworkerset.sigs.k8s.io/name";
pub const GROUP_INDEX: &str = "leaderworkerset.sigs.k8s.io/group-index";
pub const GROUP_KEY: &str = "leaderworkerset.sigs.k8s.io/group-key";
pub const WORKER_INDEX: &str = "leaderworkerset.sigs.k8s.io/worker-index";
pub const REVISION: &str = "leaderworkerset.sigs.k8s.io/template-revision-hash";
pub const SUBGROUP_INDEX: &str = "leaderworkerset.sigs.k8s.io/subgroup-index";
pub const SUBGROUP_KEY: &str = "leaderworkerset.sigs.k8s.io/subgroup-key";

/// Annotations.
pub const SIZE: &str = "leaderworkerset.sigs.k8s.io/size";
pub const REPLICAS: &str = "leaderworkerset.sigs.k8s.io/replicas";
pub const LEADER_NAME: &str = "leaderworkerset.sigs.k8s.io/leader-name";
pub const TOPOLOGY: &str = "leaderworkerset.sigs.k8s.io/exclusive-topology";
pub const SUBGROUP_TOPOLOGY: &str = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology";
pub const SUBGROUP_SIZE: &str = "leaderworkerset.sigs.k8s.io/subgroup-size";
pub const SUBGROUP_TYPE: &str = "leaderworkerset.sigs.k8s.io/subgroup-policy-type";
pub const SUBDOMAIN: &str = "leaderworkerset.sigs.k8s.io/subdomainPolicy";
pub const LEADER_USES_TPUS: &str = "leaderworkerset.sigs.k8s.io/leader-requests-tpus";
pub const AFTER_START: &str = "leaderworkerset.sigs.k8s.io/experimental-recreate-group-after-start";

/// The worker index of a leader.
pub const LEADER: &str = "0";
