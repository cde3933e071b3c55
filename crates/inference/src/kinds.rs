//! The kinds that the operators read and write.

use api::dynamo::{GROUP, HUB, SPOKE};
use reconcile::Kind;

const APPS: &str = "apps";
const NETWORKING: &str = "networking.k8s.io";
const GROVE: &str = "grove.io";
const ISTIO: &str = "networking.istio.io";
const RBAC: &str = "rbac.authorization.k8s.io";

pub const ADAPTER: Kind = Kind::namespaced(
    GROUP,
    HUB,
    "DynamoGraphDeploymentScalingAdapter",
    "dynamographdeploymentscalingadapters",
);
pub const CHECKPOINT: Kind =
    Kind::namespaced(GROUP, SPOKE, "DynamoCheckpoint", "dynamocheckpoints");
pub const CLUSTER_ROLE: Kind = Kind::cluster(RBAC, "v1", "ClusterRole", "clusterroles");
pub const COMPONENT: Kind =
    Kind::namespaced(GROUP, HUB, "DynamoComponentDeployment", "dynamocomponentdeployments");
pub const CONFIG_MAP: Kind = Kind::namespaced("", "v1", "ConfigMap", "configmaps");
pub const CONTROLLER_REVISION: Kind =
    Kind::namespaced(APPS, "v1", "ControllerRevision", "controllerrevisions");
pub const DEPLOYMENT: Kind = Kind::namespaced("apps", "v1", "Deployment", "deployments");
pub const DESTINATION_RULE: Kind =
    Kind::namespaced(ISTIO, "v1beta1", "DestinationRule", "destinationrules");
pub const ENDPOINT_SLICE: Kind =
    Kind::namespaced("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices");
pub const GRAPH: Kind =
    Kind::namespaced(GROUP, HUB, "DynamoGraphDeployment", "dynamographdeployments");
pub const INFERENCE_POOL: Kind =
    Kind::namespaced("inference.networking.k8s.io", "v1", "InferencePool", "inferencepools");
pub const INGRESS: Kind = Kind::namespaced(NETWORKING, "v1", "Ingress", "ingresses");
pub const JOB: Kind = Kind::namespaced("batch", "v1", "Job", "jobs");
pub const LEADER_WORKER_SET: Kind = Kind::namespaced(
    api::leader_worker_set::GROUP,
    api::leader_worker_set::VERSION,
    "LeaderWorkerSet",
    "leaderworkersets",
);
pub const MODEL: Kind = Kind::namespaced(GROUP, SPOKE, "DynamoModel", "dynamomodels");
pub const NODE: Kind = Kind::cluster("", "v1", "Node", "nodes");
pub const PERSISTENT_VOLUME_CLAIM: Kind =
    Kind::namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
pub const POD: Kind = Kind::namespaced("", "v1", "Pod", "pods");
pub const POD_CLIQUE: Kind = Kind::namespaced(GROVE, "v1alpha1", "PodClique", "podcliques");
pub const POD_CLIQUE_SCALING_GROUP: Kind =
    Kind::namespaced(GROVE, "v1alpha1", "PodCliqueScalingGroup", "podcliquescalinggroups");
pub const POD_CLIQUE_SET: Kind =
    Kind::namespaced(GROVE, "v1alpha1", "PodCliqueSet", "podcliquesets");
pub const POD_GROUP: Kind =
    Kind::namespaced("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups");
pub const POD_SNAPSHOT: Kind = Kind::namespaced(GROUP, SPOKE, "PodSnapshot", "podsnapshots");
pub const QUEUE: Kind = Kind::cluster("scheduling.run.ai", "v2", "Queue", "queues");
pub const REQUEST: Kind =
    Kind::namespaced(GROUP, HUB, "DynamoGraphDeploymentRequest", "dynamographdeploymentrequests");
pub const RESOURCE_CLAIM_TEMPLATE: Kind =
    Kind::namespaced("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates");
pub const ROLE: Kind = Kind::namespaced(RBAC, "v1", "Role", "roles");
pub const ROLE_BINDING: Kind = Kind::namespaced(RBAC, "v1", "RoleBinding", "rolebindings");
pub const SECRET: Kind = Kind::namespaced("", "v1", "Secret", "secrets");
pub const SERVICE: Kind = Kind::namespaced("", "v1", "Service", "services");
pub const SERVICE_ACCOUNT: Kind = Kind::namespaced("", "v1", "ServiceAccount", "serviceaccounts");
pub const STATEFUL_SET: Kind = Kind::namespaced(APPS, "v1", "StatefulSet", "statefulsets");
pub const VIRTUAL_SERVICE: Kind =
    Kind::namespaced(ISTIO, "v1beta1", "VirtualService", "virtualservices");

/// What the operators make use of where a cluster knows it.
pub const OPTIONAL: &[Kind] = &[
    LEADER_WORKER_SET,
    POD_CLIQUE_SET,
    QUEUE,
    RESOURCE_CLAIM_TEMPLATE,
    DESTINATION_RULE,
    VIRTUAL_SERVICE,
    INFERENCE_POOL,
    POD_SNAPSHOT,
];
