//! vLLM over many pods: processes of its own, Ray, or data parallelism, as its flags and GPUs ask.

use serde_json::{Value, json};

use super::commands::{inject, single_quoted};
use super::{Deployer, Framework, Place, Role, drop_probes, flag_value, gpus, quoted, words};
use crate::value::{list_mut, text, upsert};

/// Where the leader of processes waits for the others.
const MASTER_PORT: u16 = 29_500;
const DATA_PARALLEL_PORT: u16 = 13_445;
const RAY_PORT: u16 = 6_379;
const SYSTEM_PORT: u16 = 9_090;

const EXECUTOR: &str = "nvidia.com/vllm-distributed-executor-backend";
const ORIGIN: &str = "nvidia.com/dynamo-operator-origin-version";
/// The volume of the script that waits for a leader, and where it is.
const SCRIPT: &str = "wait-leader-script";
const SCRIPTS: &str = "/scripts";

pub fn rewrite(container: &mut Value, pod: &mut Value, place: &Place<'_>) {
    if place.role == Role::Main {
        return rewrite_alone(container);
    }
    let line = words(container).join(" ");
    let flag = |name: &str| flag_value(&line, name).unwrap_or(1);
    let tensor = flag("--tensor-parallel-size");
    let world = tensor.saturating_mul(flag("--pipeline-parallel-size"));
    let data = flag("--data-parallel-size");
    let own = gpus(container);
    let with_processes = uses_processes(place.annotations);
    if own > 0 && world > own && with_processes {
        processes(container, pod, place);
    } else if own > 0 && world > own {
        ray(container, place);
    } else if line.split_whitespace().any(|word| word == "--enable-elastic-ep") {
        elastic(container, place);
    } else if own > 0 && world.saturating_mul(data) > own {
        data_parallel(container, place, own / world.max(1), data);
    }
    if with_processes {
        let address = json!({"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "valueFrom":
            {"fieldRef": {"fieldPath": "status.podIP"}}});
        upsert(&mut container["env"], "name", address);
    }
    if place.role == Role::Worker {
        drop_probes(container);
    }
}

/// Graphs that were made by older operators used Ray, and keep it.
fn uses_processes(annotations: &Value) -> bool {
    match text(&annotations[EXECUTOR]).to_ascii_lowercase().as_str() {
        "mp" => true,
        "ray" => false,
        _ => {
            let origin = text(&annotations[ORIGIN]).trim_start_matches('v');
            let major = origin.split('.').next().and_then(|major| major.parse::<u64>().ok());
            major.is_some_and(|major| major >= 1) && !origin.starts_with("1.0.0-")
        }
    }
}

fn processes(container: &mut Value, pod: &mut Value, place: &Place<'_>) {
    let (leader, nodes) = (place.deployer.leader(), place.nodes);
    let mut flags = format!(
        "--distributed-executor-backend mp --nnodes {nodes} --master-addr {leader} \
         --master-port {MASTER_PORT}"
    );
    let mut needs_shell = false;
    match place.role {
        Role::Main | Role::Leader => flags.push_str(" --node-rank 0"),
        Role::Worker => {
            flags.push_str(&format!(" --node-rank {} --headless", place.deployer.rank()));
            needs_shell = place.deployer.needs_shell();
        }
    }
    inject(container, &flags, needs_shell, Framework::Vllm);
    let is_changed = words(container).join(" ").contains("--distributed-executor-backend mp");
    if place.role == Role::Worker && is_changed {
        wait_for_leader(container, pod, place);
    }
}

/// A worker that begins before its leader answers would give up.
fn wait_for_leader(container: &Value, pod: &mut Value, place: &Place<'_>) {
    let leader = place.deployer.leader().replace("$(", "${").replace(')', "}");
    let command = format!(
        "export LEADER_HOST=\"{leader}\" LEADER_PORT=\"{MASTER_PORT}\" && \
         exec python3 {SCRIPTS}/wait-for-leader.py"
    );
    let waits = json!({
        "name": "wait-for-leader-mp",
        "image": container["image"],
        "command": ["sh", "-c"],
        "args": [command],
        "volumeMounts": [{"name": SCRIPT, "mountPath": SCRIPTS, "readOnly": true}],
    });
    upsert(&mut pod["initContainers"], "name", waits);
    let volume = json!({"name": SCRIPT, "configMap": {"name": place.wait_script}});
    upsert(&mut pod["volumes"], "name", volume);
}

fn ray(container: &mut Value, place: &Place<'_>) {
    let line = match place.role {
        Role::Worker => {
            format!("ray start --address={}:{RAY_PORT} --block", place.deployer.leader())
        }
        Role::Main | Role::Leader => format!(
            "ray start --head --port={RAY_PORT} && {} --distributed-executor-backend ray",
            quoted(&words(container))
        ),
    };
    container["command"] = json!(["/bin/sh", "-c"]);
    container["args"] = json!([line]);
}

/// Experts that come and go: Ray first, then the engine.
fn elastic(container: &mut Value, place: &Place<'_>) {
    let line = match place.role {
        Role::Worker => {
            let leader = place.deployer.leader();
            format!(
                "for i in $(seq 1 720); do python3 -c \"import urllib.request; \
                 urllib.request.urlopen('http://{leader}:{SYSTEM_PORT}/live', timeout=5)\" \
                 2>/dev/null && break; sleep 15; done; \
                 exec ray start --address={leader}:{RAY_PORT} --block"
            )
        }
        Role::Main | Role::Leader => {
            let start = format!("ray start --head --port={RAY_PORT} --block &");
            format!("{start} {}{}", wait_for_ray(), single_quoted(&words(container)))
        }
    };
    container["command"] = json!(["/bin/sh", "-c"]);
    container["args"] = json!([line]);
}

fn wait_for_ray() -> String {
    format!(
        "for i in $(seq 1 150); do python3 -c \"import socket; \
         socket.create_connection(('127.0.0.1', {RAY_PORT}), 2).close()\" 2>/dev/null && break; \
         sleep 2; done; "
    )
}

/// A single pod needs Ray only where its flags ask for it.
fn rewrite_alone(container: &mut Value) {
    let line = words(container).join(" ");
    let all: Vec<&str> = line.split_whitespace().collect();
    let asks_ray = all
        .windows(2)
        .any(|pair| matches!(pair[0], "--data-parallel-backend" | "-dpb") && pair[1] == "ray");
    let has_command = container["command"].as_array().is_some_and(|words| !words.is_empty());
    if !(all.contains(&"--enable-elastic-ep") && asks_ray && has_command) {
        return;
    }
    let start =
        format!("ray start --head --port={RAY_PORT} --node-ip-address=\"$POD_IP\" --block &");
    let engine = single_quoted(&words(container));
    container["command"] = json!(["/bin/sh", "-c"]);
    container["args"] = json!([format!("{start} {}exec {engine}", wait_for_ray())]);
    for name in ["POD_IP", "VLLM_DP_MASTER_IP"] {
        let address = json!({"name": name, "valueFrom":
            {"fieldRef": {"fieldPath": "status.podIP"}}});
        upsert(&mut container["env"], "name", address);
    }
    list_mut(&mut container["env"])
        .sort_by(|one, other| text(&one["name"]).cmp(text(&other["name"])));
}

fn data_parallel(container: &mut Value, place: &Place<'_>, local: i64, size: i64) {
    let leader = place.deployer.leader();
    let line = words(container).join(" ");
    let mut flags = String::from("--data-parallel-hybrid-lb");
    if !line.split_whitespace().any(|word| word == "--data-parallel-size") {
        let size = if size == 1 { local * place.nodes } else { size };
        flags.push_str(&format!(" --data-parallel-size {size}"));
    }
    let (start, needs_shell) = match place.role {
        Role::Main | Role::Leader => ("0".to_owned(), false),
        Role::Worker => match place.deployer {
            Deployer::GroveRank(_, rank) => ((local * rank).to_string(), false),
            _ => (format!("$(( {local} * {} ))", place.deployer.rank()), true),
        },
    };
    flags.push_str(&format!(
        " --data-parallel-size-local {local} --data-parallel-start-rank {start} \
         --data-parallel-address {leader} --data-parallel-rpc-port {DATA_PARALLEL_PORT}"
    ));
    inject(container, &flags, needs_shell, Framework::Vllm);
}
