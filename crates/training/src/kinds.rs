//! The kinds that the operators read and write.

use reconcile::Kind;

pub const CLUSTER_TRAINING_RUNTIME: Kind = Kind::cluster(
    api::training::GROUP,
    api::training::VERSION,
    "ClusterTrainingRuntime",
    "clustertrainingruntimes",
);
pub const CONFIG_MAP: Kind = Kind::namespaced("", "v1", "ConfigMap", "configmaps");
pub const COSCHEDULING_GROUP: Kind =
    Kind::namespaced("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups");
pub const JOB: Kind = Kind::namespaced("batch", "v1", "Job", "jobs");
pub const JOB_SET: Kind =
    Kind::namespaced(api::job_set::GROUP, api::job_set::VERSION, "JobSet", "jobsets");
pub const LIMIT_RANGE: Kind = Kind::namespaced("", "v1", "LimitRange", "limitranges");
pub const PERSISTENT_VOLUME_CLAIM: Kind =
    Kind::namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
pub const RUNTIME_CLASS: Kind =
    Kind::cluster("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses");
pub const SECRET: Kind = Kind::namespaced("", "v1", "Secret", "secrets");
pub const SERVICE: Kind = Kind::namespaced("", "v1", "Service", "services");
pub const TRAINING_RUNTIME: Kind = Kind::namespaced(
    api::training::GROUP,
    api::training::VERSION,
    "TrainingRuntime",
    "trainingruntimes",
);
pub const TRAIN_JOB: Kind =
    Kind::namespaced(api::training::GROUP, api::training::VERSION, "TrainJob", "trainjobs");
pub const VOLCANO_GROUP: Kind =
    Kind::namespaced("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups");
