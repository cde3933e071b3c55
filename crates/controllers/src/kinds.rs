//! The kinds that built-in controllers read and write.

use reconcile::Kind;

pub const CLUSTER_ROLE: Kind =
    Kind::cluster("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles");
pub const CONFIG_MAP: Kind = Kind::namespaced("", "v1", "ConfigMap", "configmaps");
pub const CONTROLLER_REVISION: Kind =
    Kind::namespaced("apps", "v1", "ControllerRevision", "controllerrevisions");
pub const CRON_JOB: Kind = Kind::namespaced("batch", "v1", "CronJob", "cronjobs");
pub const DAEMON_SET: Kind = Kind::namespaced("apps", "v1", "DaemonSet", "daemonsets");
pub const DEFINITION: Kind = Kind::cluster(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
);
pub const DEPLOYMENT: Kind = Kind::namespaced("apps", "v1", "Deployment", "deployments");
pub const DISRUPTION_BUDGET: Kind =
    Kind::namespaced("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets");
pub const ENDPOINTS: Kind = Kind::namespaced("", "v1", "Endpoints", "endpoints");
pub const ENDPOINT_SLICE: Kind =
    Kind::namespaced("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices");
pub const JOB: Kind = Kind::namespaced("batch", "v1", "Job", "jobs");
pub const LEASE: Kind = Kind::namespaced("coordination.k8s.io", "v1", "Lease", "leases");
pub const NAMESPACE: Kind = Kind::cluster("", "v1", "Namespace", "namespaces");
pub const NODE: Kind = Kind::cluster("", "v1", "Node", "nodes");
pub const PERSISTENT_VOLUME: Kind =
    Kind::cluster("", "v1", "PersistentVolume", "persistentvolumes");
pub const PERSISTENT_VOLUME_CLAIM: Kind =
    Kind::namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
pub const POD: Kind = Kind::namespaced("", "v1", "Pod", "pods");
pub const REPLICA_SET: Kind = Kind::namespaced("apps", "v1", "ReplicaSet", "replicasets");
pub const RESOURCE_QUOTA: Kind = Kind::namespaced("", "v1", "ResourceQuota", "resourcequotas");
pub const SERVICE: Kind = Kind::namespaced("", "v1", "Service", "services");
pub const SERVICE_ACCOUNT: Kind = Kind::namespaced("", "v1", "ServiceAccount", "serviceaccounts");
pub const STATEFUL_SET: Kind = Kind::namespaced("apps", "v1", "StatefulSet", "statefulsets");
pub const STORAGE_CLASS: Kind =
    Kind::cluster("storage.k8s.io", "v1", "StorageClass", "storageclasses");
