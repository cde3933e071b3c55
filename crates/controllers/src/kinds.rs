//! The kinds that built-in controllers read and write.

use reconcile::Kind;

pub const POD: Kind = Kind::namespaced("", "v1", "Pod", "pods");
pub const REPLICA_SET: Kind = Kind::namespaced("apps", "v1", "ReplicaSet", "replicasets");
pub const NAMESPACE: Kind = Kind::cluster("", "v1", "Namespace", "namespaces");
pub const DEFINITION: Kind = Kind::cluster(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
);
pub const JOB: Kind = Kind::namespaced("batch", "v1", "Job", "jobs");
pub const CRON_JOB: Kind = Kind::namespaced("batch", "v1", "CronJob", "cronjobs");
pub const NODE: Kind = Kind::cluster("", "v1", "Node", "nodes");
