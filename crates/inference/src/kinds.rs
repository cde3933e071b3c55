//! The kinds that the operators read and write.

use reconcile::Kind;

const APPS: &str = "apps";

pub const CONTROLLER_REVISION: Kind =
    Kind::namespaced(APPS, "v1", "ControllerRevision", "controllerrevisions");
pub const ENDPOINT_SLICE: Kind =
    Kind::namespaced("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices");
pub const LEADER_WORKER_SET: Kind = Kind::namespaced(
    api::leader_worker_set::GROUP,
    api::leader_worker_set::VERSION,
    "LeaderWorkerSet",
    "leaderworkersets",
);
pub const MODEL: Kind = Kind::namespaced(
    api::dynamo_model::GROUP,
    api::dynamo_model::VERSION,
    "DynamoModel",
    "dynamomodels",
);
pub const NODE: Kind = Kind::cluster("", "v1", "Node", "nodes");
pub const POD: Kind = Kind::namespaced("", "v1", "Pod", "pods");
pub const SERVICE: Kind = Kind::namespaced("", "v1", "Service", "services");
pub const STATEFUL_SET: Kind = Kind::namespaced(APPS, "v1", "StatefulSet", "statefulsets");
