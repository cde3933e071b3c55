//! What will run: the specification of a JobSet, as plugins fill it in.

use serde_json::{Value, json};

use crate::resources;
use crate::runtime_patches;
use crate::train_job::TrainJob;
use crate::value::{find, find_mut, list, overlay, text, upsert};

/// On the Jobs of a runtime: which step of a TrainJob they are.
pub const ANCESTOR: &str = "trainer.kubeflow.org/trainjob-ancestor-step";
pub const TRAINER: &str = "trainer";
pub const DATASET_INITIALIZER: &str = "dataset-initializer";
pub const MODEL_INITIALIZER: &str = "model-initializer";
/// The container that trains, and the job of its pods.
pub const NODE: &str = "node";
pub const LAUNCHER: &str = "launcher";

/// What a JobSet takes of the metadata of templates.
const META: [&str; 2] = ["labels", "annotations"];

#[derive(Clone, Debug)]
pub struct Blueprint {
    /// Of the JobSet.
    pub labels: Value,
    pub annotations: Value,
    /// The specification of the JobSet.
    pub spec: Value,
    /// One for each replicated job, in their order.
    pub pod_sets: Vec<PodSet>,
    /// `mlPolicy` and `podGroupPolicy` of the runtime.
    pub policy: Value,
    pub group_policy: Value,
    /// Of every pod, for those who schedule it.
    pub pod_labels: Value,
    pub pod_annotations: Value,
    /// `spec.trainer` as plugins have rewritten it.
    pub trainer: Value,
}

/// The pods of one replicated job.
#[derive(Clone, Debug)]
pub struct PodSet {
    pub name: String,
    pub ancestor: Option<String>,
    pub count: i64,
    pub replicas: i64,
}

impl Blueprint {
    /// What a job and the specification of its runtime come to, before any plugin.
    pub fn begin(job: &TrainJob<'_>, runtime: &Value) -> Blueprint {
        let template = &runtime["template"];
        let mut meta = json!({"labels": {}, "annotations": {}});
        for field in META {
            overlay(&mut meta, field, &template["metadata"][field]);
        }
        let mut spec = template["spec"].clone();
        for patch in job.patches() {
            let patch = &patch["trainingRuntimeSpec"]["template"];
            for field in META {
                overlay(&mut meta, field, &patch["metadata"][field]);
            }
            if patch["spec"].is_object() {
                runtime_patches::apply(&mut spec, &patch["spec"]);
            }
        }
        let policy = runtime["mlPolicy"].clone();
        let pod_sets = list(&spec["replicatedJobs"]).iter().map(|one| pod_set(one, &policy));
        let mut blueprint = Blueprint {
            labels: meta["labels"].take(),
            annotations: meta["annotations"].take(),
            pod_sets: pod_sets.collect(),
            spec,
            policy,
            group_policy: runtime["podGroupPolicy"].clone(),
            pod_labels: json!({}),
            pod_annotations: json!({}),
            trainer: job.trainer().clone(),
        };
        blueprint.merge_resources(job);
        blueprint
    }

    fn merge_resources(&mut self, job: &TrainJob<'_>) {
        let asked = &job.trainer()["resourcesPerNode"];
        if asked.is_null() {
            return;
        }
        for set in 0..self.pod_sets.len() {
            let PodSet { name, ancestor, .. } = &self.pod_sets[set];
            let is_node =
                ancestor.as_deref() == Some(TRAINER) || (self.launcher_is_node() && name == NODE);
            if let Some(container) = self.container_mut(set, NODE).filter(|_| is_node) {
                resources::merge(&mut container["resources"], asked);
            }
        }
    }

    pub fn launcher_is_node(&self) -> bool {
        self.policy["mpi"]["runLauncherAsNode"] == true
    }

    pub fn find(&self, name: &str) -> Option<usize> {
        self.pod_sets.iter().position(|set| set.name == name)
    }

    /// The pods that train: the first that say so.
    pub fn trainer_set(&self) -> Option<usize> {
        self.ancestor(TRAINER)
    }

    pub fn ancestor(&self, step: &str) -> Option<usize> {
        self.pod_sets.iter().position(|set| set.ancestor.as_deref() == Some(step))
    }

    /// The specification of the Jobs of a set.
    pub fn job_mut(&mut self, set: usize) -> &mut Value {
        &mut self.spec["replicatedJobs"][set]["template"]["spec"]
    }

    /// The template of the pods of a set.
    pub fn template(&self, set: usize) -> &Value {
        &self.spec["replicatedJobs"][set]["template"]["spec"]["template"]
    }

    pub fn pod_mut(&mut self, set: usize) -> &mut Value {
        &mut self.job_mut(set)["template"]["spec"]
    }

    pub fn container(&self, set: usize, name: &str) -> Option<&Value> {
        find(&self.template(set)["spec"]["containers"], "name", name)
    }

    pub fn container_mut(&mut self, set: usize, name: &str) -> Option<&mut Value> {
        find_mut(&mut self.pod_mut(set)["containers"], "name", name)
    }

    /// What a node asks for, the job's wishes laid over the runtime's.
    pub fn resources_per_node(&self) -> &Value {
        let is_node = |set: &PodSet| set.name == NODE || set.ancestor.as_deref() == Some(TRAINER);
        let set = self.pod_sets.iter().position(is_node);
        let container = set.and_then(|set| self.container(set, NODE));
        container.map_or(&Value::Null, |container| &container["resources"])
    }

    /// Sets the number of the pods that train, where the job says one.
    pub fn count_nodes(&mut self, job: &TrainJob<'_>) {
        if let (Some(set), Some(nodes)) = (self.trainer_set(), job.num_nodes()) {
            self.pod_sets[set].count = nodes;
        }
    }

    /// The domain of the pods.
    pub fn subdomain<'a>(&'a self, job: &'a TrainJob<'_>) -> &'a str {
        let named = self.spec["network"]["subdomain"].as_str().filter(|name| !name.is_empty());
        named.unwrap_or(job.name())
    }

    /// The names of the pods of a set, in order. Whoever asks has made sure that they are not too
    /// many.
    pub fn endpoints(&self, job: &TrainJob<'_>, set: usize) -> Vec<String> {
        let PodSet { name, replicas, count, .. } = &self.pod_sets[set];
        let (job_name, subdomain) = (job.name(), self.subdomain(job));
        let pods = |replica: i64| {
            (0..*count).map(move |pod| format!("{job_name}-{name}-{replica}-{pod}.{subdomain}"))
        };
        (0..*replicas).flat_map(pods).collect()
    }

    /// The name of the last of the pods of a set, which is the longest: whoever wants no other must
    /// not make as many names as a job has nodes.
    pub fn last_endpoint(&self, job: &TrainJob<'_>, set: usize) -> Option<String> {
        let PodSet { name, replicas, count, .. } = &self.pod_sets[set];
        let (replica, pod) = (replicas - 1, count - 1);
        let is_there = replica >= 0 && pod >= 0;
        let subdomain = self.subdomain(job);
        is_there.then(|| format!("{}-{name}-{replica}-{pod}.{subdomain}", job.name()))
    }

    /// The name of the first of the pods that train.
    pub fn first_node(&self, job: &TrainJob<'_>) -> String {
        let set = self.trainer_set().map_or(NODE, |set| self.pod_sets[set].name.as_str());
        format!("{}-{set}-0-0.{}", job.name(), self.subdomain(job))
    }

    /// Whether the pods of a set start with the others. Those that must end before others begin
    /// cannot: each would wait for the other.
    pub fn is_in_gang(&self, set: usize) -> bool {
        let name = self.pod_sets[set].name.as_str();
        let waits_for_end = |job: &Value| {
            let mut on = list(&job["dependsOn"]).iter();
            on.any(|on| on["name"] == name && on["status"] == "Complete")
        };
        !list(&self.spec["replicatedJobs"]).iter().any(waits_for_end)
    }

    /// How many pods of a set must be able to start for any of the gang to. Those that are made
    /// once others are ready come later.
    pub fn gang_members(&self, set: usize) -> i64 {
        let job = &self.spec["replicatedJobs"][set];
        let comes_later = list(&job["dependsOn"]).iter().any(|on| on["status"] == "Ready");
        let counts = self.is_in_gang(set) && !comes_later;
        if counts { self.pod_sets[set].count * self.pod_sets[set].replicas } else { 0 }
    }

    /// Writes the counts into the Jobs.
    pub fn sync_counts(&mut self) {
        for set in 0..self.pod_sets.len() {
            let count = self.pod_sets[set].count;
            let job = self.job_mut(set);
            job["parallelism"] = json!(count);
            job["completions"] = json!(count);
        }
    }
}

fn pod_set(job: &Value, policy: &Value) -> PodSet {
    let ancestor = job["template"]["metadata"]["labels"][ANCESTOR].as_str().map(str::to_owned);
    let count = if ancestor.as_deref() == Some(TRAINER) && policy.is_object() {
        policy["numNodes"].as_i64()
    } else {
        job["template"]["spec"]["parallelism"].as_i64()
    };
    PodSet {
        name: text(&job["name"]).to_owned(),
        ancestor,
        count: count.unwrap_or(1).max(1),
        replicas: job["replicas"].as_i64().unwrap_or(1),
    }
}

/// Sets environment variables of a container, each in its place or last.
pub fn set_env<'a>(container: &mut Value, variables: impl IntoIterator<Item = &'a Value>) {
    for variable in variables {
        upsert(&mut container["env"], "name", variable.clone());
    }
}

/// Sets one variable.
pub fn set_variable(container: &mut Value, name: &str, value: impl Into<Value>) {
    upsert(&mut container["env"], "name", json!({"name": name, "value": value.into()}));
}

/// Opens a port of a container, once.
pub fn open_port(container: &mut Value, port: u16) {
    upsert(&mut container["ports"], "containerPort", json!({"containerPort": port}));
}
