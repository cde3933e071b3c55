//! What a job may not ask of PyTorch and torchtune.

use super::tune::{self, Mode, OVERRIDES};
use super::{Processes, Torch};
use crate::blueprint::Blueprint;
use crate::field_error::FieldError;
use crate::plugin::{Plugin, Review};
use crate::train_job::TrainJob;
use crate::value::{find, list, text};

const RESERVED: [&str; 5] =
    ["PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"];
const MODELS: [&str; 4] = ["llama3_2/1B", "llama3_2/3B", "llama3_3/70B", "qwen2_5/1.5B"];
const MULTI_NODE: &str = "llama3_3/70B";
const NO_QLORA: &str = "qwen2_5/1.5B";

pub fn validate(review: &Review<'_>) -> Vec<FieldError> {
    debug_assert_eq!(Torch.name(), "Torch");
    let (job, blueprint) = (review.job, review.blueprint);
    let mut errors = missing_targets(job, blueprint);
    errors.extend(reserved(job, &RESERVED));
    if tune::is_tune(job.trainer()) {
        validate_tune(&mut errors, job, blueprint);
    }
    errors
}

/// Names that the operator sets itself.
pub fn reserved(job: &TrainJob<'_>, names: &[&str]) -> Option<FieldError> {
    let env = job.env().iter().map(|one| text(&one["name"]));
    let mut taken: Vec<&str> = env.filter(|name| names.contains(name)).collect();
    taken.sort_unstable();
    taken.dedup();
    let detail =
        format!("must not have reserved envs, invalid envs configured: [{}]", taken.join(" "));
    (!taken.is_empty())
        .then(|| FieldError::invalid("spec.trainer.env", job.trainer()["env"].clone(), detail))
}

fn missing_targets(job: &TrainJob<'_>, blueprint: &Blueprint) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for target in list(&blueprint.policy["torch"]["envInjection"]["targets"]) {
        let set = blueprint.find(text(&target["jobName"]));
        for name in list(&target["containerNames"]).iter().map(text) {
            let has = |place: &str| {
                set.is_some_and(|set| {
                    find(&blueprint.template(set)["spec"][place], "name", name).is_some()
                })
            };
            if !has("containers") && !has("initContainers") {
                let detail = format!(
                    "envInjection target podSet {:?} container {name:?} not found in runtime \
                     template",
                    text(&target["jobName"])
                );
                let value = job.runtime_ref().clone();
                errors.push(FieldError::invalid("spec.runtimeRef", value, detail));
            }
        }
    }
    errors
}

fn validate_tune(errors: &mut Vec<FieldError>, job: &TrainJob<'_>, blueprint: &Blueprint) {
    let trainer = job.trainer();
    let model = tune::model(job.runtime_name());
    if !MODELS.contains(&model.as_str()) {
        let detail =
            format!("must have a supported pretrained model, invalid model configured: {model}");
        errors.push(FieldError::invalid("spec.runtimeRef.name", job.runtime_name(), detail));
    }
    let nodes = job.num_nodes().unwrap_or(1);
    if nodes > 1 && model != MULTI_NODE {
        let detail = format!("must be 1 for {model} model");
        errors.push(FieldError::invalid("spec.trainer.numNodes", nodes, detail));
    }
    let mode = Mode::of(trainer);
    let (count, is_single) = tune::devices(blueprint, Processes::of(job, blueprint));
    let (_, suffix) = tune::recipe(count, is_single, mode);
    if suffix.contains("_qlora") {
        validate_qlora(errors, job, (&model, suffix));
    }
    if mode != Mode::Full && nodes > 1 {
        let detail = "LoRA fine-tuning is not supported for multi-node training in TorchTune";
        errors.push(FieldError::invalid("spec.trainer.numNodes", nodes, detail));
    }
    for (number, arg) in list(&trainer["args"]).iter().map(text).enumerate() {
        let key = arg.split('=').next().unwrap_or_default();
        if OVERRIDES.contains(&key) {
            let detail = format!(
                "must not set immutable config {key:?} in trainer args; it is managed by the \
                 runtime"
            );
            let field = format!("spec.trainer.args[{number}]");
            errors.push(FieldError::invalid(field, arg, detail));
        }
    }
}

fn validate_qlora(errors: &mut Vec<FieldError>, job: &TrainJob<'_>, (model, suffix): (&str, &str)) {
    if model == NO_QLORA {
        let detail = format!("QLoRA is not supported for {model} model");
        errors.push(FieldError::invalid("spec.runtimeRef.name", job.runtime_name(), detail));
    }
    if matches!(model, "llama3_2/1B" | "llama3_2/3B") && suffix != "_qlora_single_device" {
        let processes = job.trainer()["numProcPerNode"].clone();
        let detail = format!("must be auto or 1 for {model} model when using QLoRA");
        errors.push(FieldError::invalid("spec.trainer.numProcPerNode", processes, detail));
        let resources = job.trainer()["resourcesPerNode"].clone();
        let detail =
            format!("must have gpu resource with value 1 for {model} model when using QLoRA");
        errors.push(FieldError::invalid("spec.trainer.resourcesPerNode", resources, detail));
    }
}
