//! The kinds that the scheduler looks at.

use reconcile::Kind;

pub const POD: Kind = Kind::namespaced("", "v1", "Pod", "pods");
pub const NODE: Kind = Kind::cluster("", "v1", "Node", "nodes");
pub const CLAIM: Kind =
    Kind::namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
pub const VOLUME: Kind = Kind::cluster("", "v1", "PersistentVolume", "persistentvolumes");
pub const CLASS: Kind = Kind::cluster("storage.k8s.io", "v1", "StorageClass", "storageclasses");
pub const NAMESPACE: Kind = Kind::cluster("", "v1", "Namespace", "namespaces");
pub const BUDGET: Kind =
    Kind::namespaced("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets");
pub const GROUP: Kind =
    Kind::namespaced("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups");
pub const VOLCANO_GROUP: Kind =
    Kind::namespaced("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups");
