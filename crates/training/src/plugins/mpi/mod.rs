//! MPI: a launcher reaches its workers over SSH, with a key of the job's own and a list of hosts.

mod ssh_key;

use reconcile::Kind;
use serde_json::{Value, json};

use crate::blueprint::{Blueprint, LAUNCHER, NODE, PodSet, set_variable};
use crate::field_error::FieldError;
use crate::kinds::{CONFIG_MAP, SECRET};
use crate::plugin::{Found, Make, Plugin, Review, Unless, Wanted};
use crate::plugins::torch::reserved;
use crate::resources;
use crate::train_job::TrainJob;
use crate::value::{text, upsert};

const RESERVED: [&str; 4] = [
    "OMPI_MCA_orte_default_hostfile",
    "OMPI_MCA_plm_rsh_args",
    "OMPI_MCA_orte_keep_fqdn_hostnames",
    "OMPI_MCA_orte_set_default_slots",
];
const AUTH_VOLUME: &str = "mpi-ssh-auth";
const HOSTS_VOLUME: &str = "mpi-hostfile";
const HOSTS_DIRECTORY: &str = "/etc/mpi";
/// Each has a line of the hosts' file, which is made at once; a map holds fewer still.
const NODES_MAX: i64 = 100_000;

pub struct Mpi;

fn secret_name(job: &str) -> String {
    format!("{job}-mpi-ssh-auth")
}

fn hosts_name(job: &str) -> String {
    format!("{job}-mpi-hostfile")
}

impl Plugin for Mpi {
    fn name(&self) -> &'static str {
        "MPI"
    }

    fn makes(&self, job: &str) -> Vec<(Kind, String)> {
        vec![(SECRET, secret_name(job)), (CONFIG_MAP, hosts_name(job))]
    }

    fn validate(&self, review: &Review<'_>) -> Vec<FieldError> {
        let (job, blueprint) = (review.job, review.blueprint);
        if !blueprint.policy["mpi"].is_object() {
            return Vec::new();
        }
        let mut errors = Vec::new();
        let nodes = job.num_nodes().unwrap_or(1);
        let has_both = [LAUNCHER, NODE].iter().all(|name| blueprint.find(name).is_some());
        if nodes >= 2 && blueprint.launcher_is_node() && !has_both {
            let detail = "must have 1 when MPI trainingRuntime with enabled runLauncherAsNode \
                          does not have either launcher and node";
            errors.push(FieldError::invalid("spec.trainer.numNodes", nodes, detail));
        }
        // What cannot be built is judged as it began, without the number that the job says.
        let mut counted = blueprint.clone();
        count(job, &mut counted);
        if let Err(detail) = check_nodes(&counted) {
            errors.push(FieldError::invalid("spec.trainer.numNodes", nodes, detail));
        }
        errors.extend(reserved(job, &RESERVED));
        errors
    }

    fn enforce_policy(&self, job: &TrainJob<'_>, blueprint: &mut Blueprint) -> Result<(), String> {
        let policy = blueprint.policy["mpi"].clone();
        if !policy.is_object() {
            return Ok(());
        }
        count(job, blueprint);
        check_nodes(blueprint)?;
        let slots = slots(job, blueprint);
        for name in [NODE, LAUNCHER] {
            let Some(set) = blueprint.find(name) else { continue };
            let is_launcher = name == LAUNCHER;
            let pod = blueprint.pod_mut(set);
            upsert(&mut pod["volumes"], "name", auth_volume(job.name()));
            if is_launcher {
                upsert(&mut pod["volumes"], "name", hosts_volume(job.name()));
            }
            let Some(node) = blueprint.container_mut(set, NODE) else { continue };
            let path = policy["sshAuthMountPath"].as_str().unwrap_or("/root/.ssh");
            mount(node, AUTH_VOLUME, path);
            if is_launcher {
                mount(node, HOSTS_VOLUME, HOSTS_DIRECTORY);
                set_launcher_env(node, &policy, slots)?;
            }
        }
        Ok(())
    }

    fn fresh(
        &self,
        job: &TrainJob<'_>,
        blueprint: &Blueprint,
        found: &Found,
    ) -> Result<Value, String> {
        let is_there = found.contains_key(&(SECRET, secret_name(job.name())));
        match blueprint.policy["mpi"].is_object() && !is_there {
            true => ssh_key::make(),
            false => Ok(Value::Null),
        }
    }

    fn objects(&self, make: &Make<'_>) -> Result<Vec<Wanted>, String> {
        let (job, blueprint) = (make.job, make.blueprint);
        if !blueprint.policy["mpi"].is_object() {
            return Ok(Vec::new());
        }
        let mut secret = job.child(SECRET, &secret_name(job.name()));
        secret["type"] = json!("kubernetes.io/ssh-auth");
        secret["immutable"] = json!(true);
        secret["data"] = make.fresh.get(self.name()).cloned().unwrap_or_default();
        let mut hosts = job.child(CONFIG_MAP, &hosts_name(job.name()));
        hosts["data"] = json!({"hostfile": hosts_file(job, blueprint)});
        Ok(vec![
            Wanted { kind: SECRET, object: secret, unless: Unless::There },
            Wanted { kind: CONFIG_MAP, object: hosts, unless: Unless::Same },
        ])
    }
}

/// The launcher is one pod. It may train itself; then there is one worker less, but always one.
fn count(job: &TrainJob<'_>, blueprint: &mut Blueprint) {
    let nodes = job.num_nodes();
    let runtime = blueprint.policy["numNodes"].as_i64();
    if let Some(set) = blueprint.find(LAUNCHER) {
        blueprint.pod_sets[set].count = 1;
        // The number of nodes in the runtime is for the workers.
        if let (Some(node), Some(runtime), None) = (blueprint.find(NODE), runtime, nodes)
            && runtime > 1
        {
            let less = i64::from(blueprint.launcher_is_node());
            blueprint.pod_sets[node].count = (runtime - less).max(1);
        }
    }
    if let (Some(node), Some(nodes)) = (blueprint.find(NODE), nodes) {
        let workers = if blueprint.launcher_is_node() { (nodes - 1).max(1) } else { nodes };
        blueprint.pod_sets[node].count = workers;
    }
}

fn is_host(pods: &PodSet, blueprint: &Blueprint) -> bool {
    pods.name == NODE || (pods.name == LAUNCHER && blueprint.launcher_is_node())
}

/// That the file of the hosts can be made.
fn check_nodes(blueprint: &Blueprint) -> Result<(), String> {
    let hosts = blueprint.pod_sets.iter().filter(|pods| is_host(pods, blueprint));
    let nodes =
        hosts.fold(0_i64, |sum, pods| sum.saturating_add(pods.count.saturating_mul(pods.replicas)));
    match nodes > NODES_MAX {
        true => Err(format!("MPI takes at most {NODES_MAX} nodes, and these are {nodes}")),
        false => Ok(()),
    }
}

fn slots(job: &TrainJob<'_>, blueprint: &Blueprint) -> i64 {
    let runtime = blueprint.policy["mpi"]["numProcPerNode"].as_i64().unwrap_or(1);
    let gpus = resources::gpus(blueprint.resources_per_node());
    match job.processes_per_node() {
        Some(said) => said,
        None if runtime == 1 && gpus > 1 => gpus,
        None => runtime,
    }
}

fn hosts_file(job: &TrainJob<'_>, blueprint: &Blueprint) -> String {
    let slots = slots(job, blueprint);
    let mut text = String::new();
    for (set, pods) in blueprint.pod_sets.iter().enumerate() {
        if is_host(pods, blueprint) {
            for host in blueprint.endpoints(job, set) {
                text.push_str(&format!("{host} slots={slots}\n"));
            }
        }
    }
    text
}

fn auth_volume(job: &str) -> Value {
    let item = |key: &str, path: &str, mode: u32| json!({"key": key, "path": path, "mode": mode});
    json!({"name": AUTH_VOLUME, "secret": {
        "secretName": secret_name(job),
        "defaultMode": 0o400,
        "items": [
            item("ssh-privatekey", "id_rsa", 0o640),
            item("ssh-publickey", "id_rsa.pub", 0o644),
            item("ssh-publickey", "authorized_keys", 0o644),
        ],
    }})
}

fn hosts_volume(job: &str) -> Value {
    json!({"name": HOSTS_VOLUME, "configMap": {
        "name": hosts_name(job),
        "items": [{"key": "hostfile", "path": "hostfile", "mode": 0o444}],
    }})
}

fn mount(container: &mut Value, name: &str, path: &str) {
    let mount = json!({"name": name, "mountPath": path});
    upsert(&mut container["volumeMounts"], "mountPath", mount);
}

fn set_launcher_env(node: &mut Value, policy: &Value, slots: i64) -> Result<(), String> {
    let implementation = policy["mpiImplementation"].as_str().unwrap_or("OpenMPI");
    if implementation != "OpenMPI" {
        let known = text(&policy["mpiImplementation"]);
        return Err(format!("MPI implementation for {known:?} is not supported"));
    }
    set_variable(node, RESERVED[0], format!("{HOSTS_DIRECTORY}/hostfile"));
    set_variable(node, RESERVED[2], "true");
    set_variable(node, RESERVED[3], slots.to_string());
    set_variable(node, RESERVED[1], "-o ConnectionAttempts=10");
    Ok(())
}
