//! TrainJobs: when their patches were made, and whether their runtime can run them.

use k8s_openapi::jiff::Timestamp;
use reconcile::conditions::time;
use reconcile::requests::Requests;
use reconcile::{Kind, Name, Object};
use serde_json::{Value, json};

use super::runtime::{DEPRECATION_POLICY, is_deprecated};
use super::{Answer, Question};
use crate::blueprint::Blueprint;
use crate::field_error::FieldError;
use crate::kinds::{CONFIG_MAP, JOB_SET, TRAINING_RUNTIME};
use crate::plugin::{Review, Settings};
use crate::plugins;
use crate::train_job::{TTL, TrainJob, runtime_kind, snapshot_name};
use crate::value::{find, list, text};

const PRIORITY_CLASS: Kind =
    Kind::cluster("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses");
/// The longest name of a pod, without the random end that it gets.
const POD_NAME_LENGTH_MAX: usize = 63 - "-abcde".len();

/// Says of each patch when it was made.
pub fn default(question: &Question<'_>, now: Timestamp) -> Answer {
    let mut spec = question.new["spec"].clone();
    let before = &question.old["spec"]["runtimePatches"];
    let mut is_changed = false;
    for patch in spec["runtimePatches"].as_array_mut().into_iter().flatten() {
        let old = find(before, "manager", text(&patch["manager"]));
        let time = match old {
            Some(old) if old["trainingRuntimeSpec"] == patch["trainingRuntimeSpec"] => {
                old["time"].clone()
            }
            Some(_) => json!(time(now)),
            None if patch["time"].is_null() => json!(time(now)),
            None => continue,
        };
        if patch["time"] != time && !time.is_null() {
            patch["time"] = time;
            is_changed = true;
        }
    }
    match is_changed {
        true => Answer::with_spec(spec, question.new),
        false => Answer::default(),
    }
}

pub async fn validate(requests: &Requests, question: &Question<'_>) -> Answer {
    // What goes must be let go, though its runtime has gone before it.
    if question.new["metadata"]["deletionTimestamp"].is_string() {
        return Answer::default();
    }
    let mut answer = judge(requests, question).await;
    if question.old.is_object() && question.old["spec"] == question.new["spec"] {
        // Who asks for nothing else than before is warned and not refused.
        answer.refusal = None;
    }
    answer
}

async fn judge(requests: &Requests, question: &Question<'_>) -> Answer {
    let (new, old) = (Object::new(question.new.clone()), Object::new(question.old.clone()));
    let job = TrainJob::of(&new);
    let before = question.old.is_object().then(|| TrainJob::of(&old));
    let Some(kind) = runtime_kind(&job.runtime_key()) else {
        return Answer::refuse(403, format!("unsupported runtime: {}", job.runtime_key()));
    };
    let runtime = match runtime(requests, &job, kind).await {
        Ok(runtime) => runtime,
        Err(error) => return Answer::judge_by(403, &[error]),
    };
    // What cannot be built is said when it is tried; what is wrong with the job is said here.
    let blueprint = plugins::enforce(&Settings::default(), &job, &runtime["spec"]);
    let blueprint = blueprint.unwrap_or_else(|_| Blueprint::begin(&job, &runtime["spec"]));
    let set = requests.get(JOB_SET, &new.name).await.ok().flatten();
    let classes = priority_classes(requests, &blueprint).await;
    let review = Review {
        job: &job,
        old: before.as_ref(),
        runtime: &runtime["spec"],
        blueprint: &blueprint,
        job_set: set.as_ref(),
        priority_classes: &classes,
    };
    let errors: Vec<FieldError> =
        plugins::ALL.iter().flat_map(|plugin| plugin.validate(&review)).collect();
    let mut answer = Answer::judge_by(403, &errors);
    answer.warnings = warnings(&job, kind, &runtime, &blueprint);
    answer
}

/// The runtime that a job began with, or the one that there is.
async fn runtime(requests: &Requests, job: &TrainJob<'_>, kind: Kind) -> Result<Value, FieldError> {
    let name = Name::new(job.namespace(), snapshot_name(job.name()));
    if !job.uid().is_empty()
        && let Ok(Some(map)) = requests.get(CONFIG_MAP, &name).await
        && map.controller() == Some(job.uid())
        && let Some(yaml) = map.value["data"]["runtime"].as_str()
        && let Ok(runtime) = serde_saphyr::from_str(yaml)
    {
        return Ok(runtime);
    }
    let namespace = if kind.namespaced { job.namespace() } else { "" };
    let name = Name::new(namespace, job.runtime_name());
    let why = match requests.get(kind, &name).await {
        Ok(Some(runtime)) => return Ok(runtime.value.clone()),
        Ok(None) => {
            format!("{}.{} {:?} not found", kind.plural, kind.group, job.runtime_name())
        }
        Err(error) => error.said(),
    };
    let (field, word) = match kind == TRAINING_RUNTIME {
        true => ("spec.runtimeRef", "trainingRuntime"),
        // Clients know it with this letter.
        false => ("spec.RuntimeRef", "clusterTrainingRuntime"),
    };
    let detail = format!("{why}: specified {word} must be created before the TrainJob is created");
    Err(FieldError::invalid(field, job.runtime_ref().clone(), detail))
}

/// The names of the priority classes that there are, if anybody asks.
async fn priority_classes(requests: &Requests, blueprint: &Blueprint) -> Vec<String> {
    if !blueprint.group_policy["volcano"].is_object() {
        return Vec::new();
    }
    let found = requests.read(&PRIORITY_CLASS.collection("")).await.unwrap_or_default();
    let names = list(&found["items"]).iter().map(|one| text(&one["metadata"]["name"]));
    names.map(str::to_owned).collect()
}

fn warnings(job: &TrainJob<'_>, kind: Kind, runtime: &Value, blueprint: &Blueprint) -> Vec<String> {
    let mut warnings = Vec::new();
    if kind != TRAINING_RUNTIME && is_deprecated(runtime) {
        warnings.push(format!(
            "Referenced ClusterTrainingRuntime {:?} is deprecated and will be removed in a future \
             release of Kubeflow Trainer. See runtime deprecation policy: {DEPRECATION_POLICY}",
            job.runtime_name()
        ));
    }
    let longest = (0..blueprint.pod_sets.len())
        .filter_map(|set| blueprint.last_endpoint(job, set))
        .filter_map(|host| host.split('.').next().map(str::len))
        .max();
    if longest.is_some_and(|length| length > POD_NAME_LENGTH_MAX) {
        warnings.push(format!(
            "the name {:?} is too long for the pods of this runtime: they will not be made",
            job.name()
        ));
    }
    if let Some(said) = job.object.annotation(TTL).filter(|said| said.parse::<u64>().is_err()) {
        warnings.push(format!(
            "the annotation {TTL} is {said:?} and no number of seconds: the job is kept when it \
             has ended"
        ));
    }
    warnings
}
