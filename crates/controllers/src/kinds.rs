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
pub const SERVICE: Kind = Kind::namespaced("", "v1", "Service", "services");
pub const ENDPOINTS: Kind = Kind::namespaced("", "v1", "Endpoints", "endpoints");
pub const ENDPOINT_SLICE: Kind =
    Kind::namespaced("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices");
pub const NODE: Kind = Kind::cluster("", "v1", "Node", "nodes");
pub const LEASE: Kind = Kind::namespaced("coordination.k8s.io", "v1", "Lease", "leases");
