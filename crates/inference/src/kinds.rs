//! The kinds that the operators read and write.

use api::dynamo::{GROUP, HUB, SPOKE};
use reconcile::Kind;

const NETWORKING: &str = "networking.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";

pub const ADAPTER: Kind = Kind::namespaced(
    GROUP,
    HUB,
    "DynamoGraphDeploymentScalingAdapter",
    "dynamographdeploymentscalingadapters",
);
pub const CLUSTER_ROLE: Kind = Kind::cluster(RBAC, "v1", "ClusterRole", "clusterroles");
pub const COMPONENT: Kind =
    Kind::namespaced(GROUP, HUB, "DynamoComponentDeployment", "dynamocomponentdeployments");
pub const CONFIG_MAP: Kind = Kind::namespaced("", "v1", "ConfigMap", "configmaps");
pub const DEPLOYMENT: Kind = Kind::namespaced("apps", "v1", "Deployment", "deployments");
pub const GRAPH: Kind =
    Kind::namespaced(GROUP, HUB, "DynamoGraphDeployment", "dynamographdeployments");
pub const INGRESS: Kind = Kind::namespaced(NETWORKING, "v1", "Ingress", "ingresses");
pub const LEADER_WORKER_SET: Kind =
    Kind::namespaced("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets");
pub const PERSISTENT_VOLUME_CLAIM: Kind =
    Kind::namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
pub const POD: Kind = Kind::namespaced("", "v1", "Pod", "pods");
pub const ROLE: Kind = Kind::namespaced(RBAC, "v1", "Role", "roles");
pub const ROLE_BINDING: Kind = Kind::namespaced(RBAC, "v1", "RoleBinding", "rolebindings");
pub const SECRET: Kind = Kind::namespaced("", "v1", "Secret", "secrets");
pub const SERVICE: Kind = Kind::namespaced("", "v1", "Service", "services");
pub const SERVICE_ACCOUNT: Kind = Kind::namespaced("", "v1", "ServiceAccount", "serviceaccounts");
pub const WORKER_METADATA: Kind =
    Kind::namespaced(GROUP, SPOKE, "DynamoWorkerMetadata", "dynamoworkermetadatas");
