//! What an installation may choose, as the file of the operator says it.

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
    /// Whether nodes may be asked what GPUs they have.
    pub discovers_gpus: bool,
    /// Whether accounts of planners, pickers and profilers are ours to make. Where operators work
    /// in one namespace alone, whoever installs them does.
    pub manages_roles: bool,
}

/// What the cluster can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    pub leader_worker_set: bool,
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
            gates: Gates { leader_worker_set: true },
            discovers_gpus: true,
            manages_roles: true,
        }
    }
}
