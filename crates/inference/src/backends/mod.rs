//! The engines below workers, and how their commands are changed when a replica is many pods.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/internal/dynamo/backend_*.go

mod commands;
mod sglang;
#[cfg(test)]
mod tests;
mod trtllm;
mod vllm;

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::value::{list, text};

pub use commands::quoted;

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framework {
    Sglang,
    Vllm,
    Trtllm,
}

impl Framework {
    pub const ALL: [Framework; 3] = [Framework::Vllm, Framework::Sglang, Framework::Trtllm];

    pub fn name(self) -> &'static str {
        match self {
            Framework::Sglang => "sglang",
            Framework::Vllm => "vllm",
            Framework::Trtllm => "trtllm",
        }
    }

    pub fn named(name: &str) -> Option<Framework> {
        Framework::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// Which pod of a replica is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The only one.
    Main,
    Leader,
    Worker,
}

/// Who starts the pods of a replica, and so how they find each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deployer<'a> {
    LeaderWorkerSet,
    /// The name of the component in lower case.
    Grove(&'a str),
    /// The same where each rank has a clique of its own, whose pods stand in for each other.
    GroveRank(&'a str, i64),
}

impl Deployer<'_> {
    pub fn leader(&self) -> String {
        match self {
            Deployer::LeaderWorkerSet => "$(LWS_LEADER_ADDRESS)".to_owned(),
            Deployer::Grove(service) => format!(
                "$(GROVE_PCSG_NAME)-$(GROVE_PCSG_INDEX)-{service}-ldr-0.$(GROVE_HEADLESS_SERVICE)"
            ),
            Deployer::GroveRank(service, _) => format!(
                "$(GROVE_PCSG_NAME)-$(GROVE_PCSG_INDEX)-{service}-ldr-$(GROVE_PCLQ_POD_INDEX).\
                 $(GROVE_HEADLESS_SERVICE)"
            ),
        }
    }

    fn rank(&self) -> String {
        match self {
            Deployer::LeaderWorkerSet => "$(LWS_WORKER_INDEX)".to_owned(),
            Deployer::Grove(_) => "$((GROVE_PCLQ_POD_INDEX + 1))".to_owned(),
            Deployer::GroveRank(_, rank) => rank.to_string(),
        }
    }

    /// Whether ranks are computed by a shell.
    fn needs_shell(&self) -> bool {
        matches!(self, Deployer::Grove(_))
    }

    /// Whether names of workers may not be known yet when the leader starts.
    fn waits_for_names(&self) -> bool {
        matches!(self, Deployer::LeaderWorkerSet)
    }

    fn hosts(&self, nodes: i64) -> Vec<String> {
        let mut hosts = vec![self.leader()];
        for worker in 1..nodes {
            hosts.push(match self {
                Deployer::LeaderWorkerSet => {
                    format!("$(echo \"$LWS_LEADER_ADDRESS\" | sed 's/\\./-{worker}\\./')")
                }
                Deployer::Grove(service) => format!(
                    "$(GROVE_PCSG_NAME)-$(GROVE_PCSG_INDEX)-{service}-wkr-{}.\
                     $(GROVE_HEADLESS_SERVICE)",
                    worker - 1
                ),
                Deployer::GroveRank(service, _) => format!(
                    "$(GROVE_PCSG_NAME)-$(GROVE_PCSG_INDEX)-{service}-wkr-{worker}-\
                     $(GROVE_PCLQ_POD_INDEX).$(GROVE_HEADLESS_SERVICE)"
                ),
            });
        }
        hosts
    }
}

/// What is known of a pod of a replica of many.
pub struct Place<'a> {
    pub nodes: i64,
    pub role: Role,
    pub deployer: Deployer<'a>,
    /// The annotations of its template.
    pub annotations: &'a Value,
    /// The secret with the keys that let the leader of MPI in.
    pub ssh_secret: &'a str,
    /// The object with the script that waits for a leader.
    pub wait_script: &'a str,
}

/// Changes the main container of a pod, and the pod around it, for its engine.
pub fn rewrite(
    framework: Framework,
    container: &mut Value,
    pod: &mut Value,
    place: &Place<'_>,
) -> Result<(), String> {
    match framework {
        Framework::Sglang => sglang::rewrite(container, place),
        Framework::Vllm => vllm::rewrite(container, pod, place),
        Framework::Trtllm => trtllm::rewrite(container, pod, place),
    }
    Ok(())
}

/// Adds flags to the engine that a container starts.
pub fn add_flags(container: &mut Value, flags: &str, framework: Framework) {
    commands::inject(container, flags, false, framework);
}

/// The engine that a command starts; an error if it starts two.
pub fn detect(container: &Value) -> Result<Option<Framework>, String> {
    static STARTS: LazyLock<Vec<(Framework, Regex)>> = LazyLock::new(|| {
        let pattern = |framework: Framework| {
            let name = framework.name();
            let text = format!(r"python[0-9.]*\s+[^|&;]*-m\s+[^|&;]*dynamo\.{name}[^|&;]*");
            Regex::new(&text).expect("the pattern must be one")
        };
        Framework::ALL.into_iter().map(|one| (one, pattern(one))).collect()
    });
    let line = words(container).join(" ");
    let found = STARTS.iter().filter(|(_, starts)| starts.is_match(&line));
    let found: Vec<Framework> = found.map(|(framework, _)| *framework).collect();
    match found[..] {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        _ => {
            let names: Vec<&str> = found.iter().map(|one| one.name()).collect();
            Err(format!("multiple backend frameworks detected from command: {names:?}"))
        }
    }
}

/// The engine of a worker: what its command starts, which must be what was said.
pub fn choose(container: &Value, said: &str) -> Result<Option<Framework>, String> {
    let said = Framework::named(said);
    match (detect(container)?, said) {
        (Some(found), Some(said)) if found != said => Err(format!(
            "backend framework mismatch: detected {:?} from command but explicitly configured as \
             {:?}",
            found.name(),
            said.name()
        )),
        (found, said) => Ok(found.or(said)),
    }
}

/// The words of a container's command and arguments.
fn words(container: &Value) -> Vec<&str> {
    let parts = [&container["command"], &container["args"]];
    parts.into_iter().flat_map(list).map(text).collect()
}

/// The number after a flag.
pub fn flag_value(line: &str, flag: &str) -> Option<i64> {
    let mut words = line.split_whitespace();
    words.find(|word| *word == flag)?;
    words.next()?.parse().ok()
}

/// The GPUs that a container may use.
pub fn gpus(container: &Value) -> i64 {
    let limits = container["resources"]["limits"].as_object().into_iter().flatten();
    let amounts = limits.filter(|(name, _)| name.starts_with("nvidia.com/gpu"));
    let amounts = amounts.map(|(_, amount)| match amount {
        Value::String(text) => text.parse().unwrap_or(0),
        other => other.as_i64().unwrap_or(0),
    });
    amounts.sum()
}

fn drop_probes(container: &mut Value) {
    if let Some(container) = container.as_object_mut() {
        for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
            container.remove(probe);
        }
    }
}
