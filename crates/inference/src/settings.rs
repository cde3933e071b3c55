//! What an installation may choose, as the file of the operator says it.

use reconcile::Kind;

use crate::checkpoint::storage::Storage;
use crate::kinds::{
    DESTINATION_RULE, INFERENCE_POOL, LEADER_WORKER_SET, POD_CLIQUE_SET, POD_GROUP, POD_SNAPSHOT,
    QUEUE, RESOURCE_CLAIM_TEMPLATE,
};

/// Where components find each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discovery {
    #[default]
    Kubernetes,
    Etcd,
}

#[derive(Clone, Debug)]
pub struct Settings {
    /// The version whose clients are served; graphs remember under which they were made.
    pub version: String,
    pub discovery: Discovery,
    pub infrastructure: Infrastructure,
    pub ingress: Ingress,
    pub roles: Roles,
    /// The secret with the keys of MPI, and the namespace it is copied from.
    pub ssh_secret: String,
    pub ssh_secret_namespace: String,
    /// The user that the operators are.
    pub principal: String,
    pub gates: Gates,
    /// What is used where the cluster can do it.
    pub allowed: Gates,
    /// What is to be used, so that without it nothing is begun.
    pub demanded: Vec<Kind>,
    /// Behind the names of services.
    pub cluster_domain: String,
    pub mesh: Mesh,
    /// How long a gang may be too small before it ends, as Grove reads it.
    pub termination_delay: String,
    /// The filter of system calls under which workers are frozen; empty for none.
    pub seccomp_profile: String,
    /// Where what was frozen is kept, and the image that removes it; none where others keep it.
    pub storage: Option<Storage>,
    pub cleanup_image: String,
    /// Where exporters of GPUs are asked; `%s` stands for the address of the exporter's pod.
    pub exporter: String,
    /// Whether nodes may be asked what GPUs they have.
    pub discovers_gpus: bool,
    /// Whether accounts of planners, pickers and profilers are ours to make. Where operators work
    /// in one namespace alone, whoever installs them does.
    pub manages_roles: bool,
}

/// What the cluster can do, and is to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    pub leader_worker_set: bool,
    /// Volcano can be told which pods belong together.
    pub pod_groups: bool,
    /// Graphs may be made as sets of cliques, which Grove starts.
    pub grove: bool,
    /// Pods of cliques are scheduled by KAI, or by Volcano.
    pub kai_scheduler: bool,
    pub volcano_scheduler: bool,
    /// Devices may be claimed.
    pub resource_claims: bool,
    /// Rules of a service mesh may be made.
    pub istio: bool,
    pub inference_pools: bool,
    /// Workers may be frozen and started from what was frozen.
    pub checkpoints: bool,
}

impl Default for Gates {
    fn default() -> Gates {
        Gates {
            leader_worker_set: true,
            pod_groups: false,
            grove: false,
            kai_scheduler: false,
            volcano_scheduler: false,
            resource_claims: false,
            istio: false,
            inference_pools: false,
            checkpoints: false,
        }
    }
}

impl Gates {
    /// What is used unless somebody says otherwise.
    pub fn allowed() -> Gates {
        let nothing = Gates::without(&[]);
        Gates { volcano_scheduler: false, checkpoints: false, ..nothing }
    }

    /// What can be done where these kinds are not known.
    pub fn without(unknown: &[Kind]) -> Gates {
        let knows = |kind: Kind| !unknown.contains(&kind);
        Gates {
            leader_worker_set: knows(LEADER_WORKER_SET),
            pod_groups: knows(POD_GROUP),
            grove: knows(POD_CLIQUE_SET),
            kai_scheduler: knows(QUEUE),
            volcano_scheduler: knows(POD_GROUP),
            resource_claims: knows(RESOURCE_CLAIM_TEMPLATE),
            istio: knows(DESTINATION_RULE),
            inference_pools: knows(INFERENCE_POOL),
            checkpoints: knows(POD_SNAPSHOT),
        }
    }

    /// What can be done and may be.
    pub fn and(self, allowed: Gates) -> Gates {
        Gates {
            leader_worker_set: self.leader_worker_set && allowed.leader_worker_set,
            pod_groups: self.pod_groups && allowed.pod_groups,
            grove: self.grove && allowed.grove,
            kai_scheduler: self.kai_scheduler && allowed.kai_scheduler,
            volcano_scheduler: self.volcano_scheduler && allowed.volcano_scheduler,
            resource_claims: self.resource_claims && allowed.resource_claims,
            istio: self.istio && allowed.istio,
            inference_pools: self.inference_pools && allowed.inference_pools,
            checkpoints: self.checkpoints && allowed.checkpoints,
        }
    }
}

/// How a mesh reaches a picker.
#[derive(Clone, Debug)]
pub struct Mesh {
    pub tls_mode: String,
    pub skips_verification: bool,
    /// Files, where both sides show who they are.
    pub client_certificate: String,
    pub private_key: String,
    pub authority: String,
}

impl Default for Mesh {
    fn default() -> Mesh {
        Mesh {
            tls_mode: "SIMPLE".to_owned(),
            skips_verification: true,
            client_certificate: String::new(),
            private_key: String::new(),
            authority: String::new(),
        }
    }
}

/// Addresses that containers are told, where there are any.
#[derive(Clone, Debug, Default)]
pub struct Infrastructure {
    pub nats: String,
    pub etcd: String,
    pub model_express: String,
    pub prometheus: String,
}

/// How frontends are reached from outside, where they are.
#[derive(Clone, Debug, Default)]
pub struct Ingress {
    /// The gateway of a mesh, where there is one.
    pub gateway: String,
    pub class: String,
    pub tls_secret: String,
    pub host_suffix: String,
}

/// Roles of accounts that every graph has.
#[derive(Clone, Debug)]
pub struct Roles {
    pub planner: String,
    pub picker: String,
    pub profiler: String,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            version: "1.5.0".to_owned(),
            discovery: Discovery::Kubernetes,
            infrastructure: Infrastructure::default(),
            ingress: Ingress::default(),
            roles: Roles {
                planner: "dynamo-operator-planner".to_owned(),
                picker: "dynamo-operator-epp".to_owned(),
                profiler: crate::request::PROFILING_ROLE.to_owned(),
            },
            ssh_secret: "mpi-run-ssh-secret".to_owned(),
            ssh_secret_namespace: crate::NAMESPACE.to_owned(),
            principal: format!(
                "system:serviceaccount:{}:{}",
                crate::NAMESPACE,
                crate::SERVICE_ACCOUNT
            ),
            gates: Gates::default(),
            allowed: Gates::allowed(),
            demanded: Vec::new(),
            cluster_domain: "cluster.local".to_owned(),
            mesh: Mesh::default(),
            termination_delay: "15m0s".to_owned(),
            seccomp_profile: "profiles/block-iouring.json".to_owned(),
            storage: None,
            cleanup_image: "busybox:1.36".to_owned(),
            exporter: "http://%s:9400/metrics".to_owned(),
            discovers_gpus: true,
            manages_roles: true,
        }
    }
}
