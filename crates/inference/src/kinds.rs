//! The kinds that the operators read and write.

use reconcile::Kind;

pub const LEADER_WORKER_SET: Kind =
    Kind::namespaced("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets");
