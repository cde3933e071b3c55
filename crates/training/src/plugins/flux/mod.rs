//! Flux: pods become a cluster of brokers, and the first of them runs the command across all.

mod curve;
mod scripts;

use reconcile::Kind;
use serde_json::{Value, json};

use crate::blueprint::{Blueprint, NODE};
use crate::field_error::FieldError;
use crate::kinds::{CONFIG_MAP, SECRET};
use crate::plugin::{Make, Plugin, Review, Unless, Wanted};
use crate::resources;
use crate::train_job::TrainJob;
use crate::value::{find, list, list_mut, text, upsert};

const INSTALLER: &str = "flux-installer";
const CONFIG_DIRECTORY: &str = "/etc/flux-config";

pub struct Flux;

fn scripts_name(job: &str) -> String {
    format!("{job}-flux-entrypoint")
}

fn curve_name(job: &str) -> String {
    format!("{job}-flux-curve")
}

impl Plugin for Flux {
    fn name(&self) -> &'static str {
        "Flux"
    }

    fn makes(&self, job: &str) -> Vec<(Kind, String)> {
        vec![(CONFIG_MAP, scripts_name(job)), (SECRET, curve_name(job))]
    }

    fn validate(&self, review: &Review<'_>) -> Vec<FieldError> {
        let blueprint = review.blueprint;
        if !blueprint.policy["flux"].is_object() {
            return Vec::new();
        }
        let pod = blueprint.find(NODE).map(|set| &blueprint.template(set)["spec"]);
        let taken = pod.and_then(|pod| find(&pod["initContainers"], "name", INSTALLER));
        let is_own = taken.is_some_and(is_installer);
        if taken.is_none() || is_own {
            return Vec::new();
        }
        let detail = format!("InitContainer '{INSTALLER}' is reserved");
        vec![FieldError::invalid("spec.trainer.initContainers", INSTALLER, detail)]
    }

    fn enforce_policy(&self, job: &TrainJob<'_>, blueprint: &mut Blueprint) -> Result<(), String> {
        if !blueprint.policy["flux"].is_object() {
            return Ok(());
        }
        let Some(set) = blueprint.find(NODE) else { return Ok(()) };
        rewrite_command(blueprint, set);
        let image = setting(job, blueprint, "FLUX_VIEW_IMAGE");
        let (scripts, curve) = (scripts_name(job.name()), curve_name(job.name()));
        let pod = blueprint.pod_mut(set);
        for volume in [
            json!({"name": "spack-install", "emptyDir": {}}),
            json!({"name": "flux-install", "emptyDir": {}}),
            json!({"name": scripts, "configMap": {"name": scripts, "defaultMode": 0o755}}),
            json!({"name": "shared-memory", "emptyDir": {"medium": "Memory"}}),
            json!({"name": "flux-curve", "secret": {"secretName": curve, "defaultMode": 0o400}}),
        ] {
            upsert(&mut pod["volumes"], "name", volume);
        }
        if find(&pod["initContainers"], "name", INSTALLER).is_none() {
            list_mut(&mut pod["initContainers"]).push(installer(&image, &scripts));
        }
        if let Some(node) = blueprint.container_mut(set, NODE) {
            for mount in mounts(&scripts) {
                upsert(&mut node["volumeMounts"], "mountPath", mount);
            }
        }
        Ok(())
    }

    fn objects(&self, make: &Make<'_>) -> Result<Vec<Wanted>, String> {
        let (job, blueprint) = (make.job, make.blueprint);
        if !blueprint.policy["flux"].is_object() {
            return Ok(Vec::new());
        }
        let cluster = cluster(job, blueprint);
        let mut scripts = job.child(CONFIG_MAP, &scripts_name(job.name()));
        scripts["data"] = json!({"init.sh": cluster.init(), "entrypoint.sh": cluster.entrypoint()});
        let mut secret = job.child(SECRET, &curve_name(job.name()));
        secret["type"] = json!("Opaque");
        secret["data"] = json!({"curve.cert": curve::certificate(job.name(), job.uid())?});
        Ok(vec![
            Wanted { kind: CONFIG_MAP, object: scripts, unless: Unless::Same },
            Wanted { kind: SECRET, object: secret, unless: Unless::Same },
        ])
    }
}

/// The command runs inside a script that starts the brokers.
fn rewrite_command(blueprint: &mut Blueprint, set: usize) {
    let trainer = &blueprint.trainer;
    let runtime = blueprint.container(set, NODE).map_or(&Value::Null, |node| &node["command"]);
    let command = if trainer["command"].is_null() { runtime } else { &trainer["command"] };
    let words = list(command).iter().chain(list(&trainer["args"])).map(text);
    let words: Vec<&str> = words.collect();
    let entrypoint = format!("{CONFIG_DIRECTORY}/entrypoint.sh");
    let command = json!(["/bin/bash", entrypoint, words.join(" ")]);
    if blueprint.trainer.is_object() {
        blueprint.trainer["command"] = command;
        blueprint.trainer["args"] = Value::Null;
    } else if let Some(node) = blueprint.container_mut(set, NODE) {
        node["command"] = command;
    }
}

/// A setting: of the job, else of the runtime, else as it usually is.
fn setting(job: &TrainJob<'_>, blueprint: &Blueprint, name: &str) -> String {
    let usual = match name {
        "FLUX_VIEW_IMAGE" => "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy",
        "FLUX_NETWORK_DEVICE" => "eth0",
        _ => "fcfs",
    };
    let node = blueprint.trainer_set().and_then(|set| blueprint.container(set, NODE));
    let runtime = node.and_then(|node| find(&node["env"], "name", name));
    let own = job.env().iter().find(|one| one["name"] == name);
    let said = own.or(runtime).and_then(|one| one["value"].as_str());
    said.unwrap_or(usual).to_owned()
}

fn cluster(job: &TrainJob<'_>, blueprint: &Blueprint) -> scripts::Cluster {
    let count = blueprint.find(NODE).map_or(1, |set| blueprint.pod_sets[set].count);
    let runtime = blueprint.policy["flux"]["numProcPerNode"].as_i64();
    scripts::Cluster {
        job: job.name().to_owned(),
        namespace: job.namespace().to_owned(),
        subdomain: blueprint.subdomain(job).to_owned(),
        nodes: count,
        tasks: job.processes_per_node().or(runtime).unwrap_or(1),
        gpus: resources::gpus(blueprint.resources_per_node()),
        device: setting(job, blueprint, "FLUX_NETWORK_DEVICE"),
        queue_policy: setting(job, blueprint, "FLUX_QUEUE_POLICY"),
    }
}

fn installer(image: &str, scripts: &str) -> Value {
    json!({
        "name": INSTALLER,
        "image": image,
        "command": ["/bin/bash", format!("{CONFIG_DIRECTORY}/init.sh")],
        "volumeMounts": [
            {"name": "flux-install", "mountPath": "/mnt/flux"},
            {"name": scripts, "mountPath": CONFIG_DIRECTORY, "readOnly": true},
        ],
    })
}

fn is_installer(container: &Value) -> bool {
    container["command"][1] == format!("{CONFIG_DIRECTORY}/init.sh").as_str()
}

fn mounts(scripts: &str) -> [Value; 5] {
    [
        json!({"name": "flux-install", "mountPath": "/mnt/flux"}),
        json!({"name": "spack-install", "mountPath": "/opt/software"}),
        json!({"name": scripts, "mountPath": CONFIG_DIRECTORY, "readOnly": true}),
        json!({"name": "flux-curve", "mountPath": "/curve", "readOnly": true}),
        json!({"name": "shared-memory", "mountPath": "/dev/shm", "readOnly": true}),
    ]
}
