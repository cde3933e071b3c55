//! PyTorch: what `torchrun` reads from its environment.

pub mod tune;
mod validate;

pub use validate::reserved;

use serde_json::{Value, json};

use crate::blueprint::{Blueprint, NODE, open_port, set_env};
use crate::field_error::FieldError;
use crate::plugin::{PORT, Plugin, Review, completion_index};
use crate::resources;
use crate::train_job::TrainJob;
use crate::value::{find_mut, list, text};

pub struct Torch;

/// How many processes a node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processes {
    Number(i64),
    /// As many as there are devices.
    Auto,
}

impl Processes {
    fn of(job: &TrainJob<'_>, blueprint: &Blueprint) -> Processes {
        if let Some(number) = job.processes_per_node() {
            return Processes::Number(number);
        }
        let resources = blueprint.resources_per_node();
        if resources::gpus(resources) > 0 {
            return Processes::Auto;
        }
        Processes::Number(resources::cpus(resources).max(1))
    }

    fn text(self) -> String {
        match self {
            Processes::Number(number) => number.to_string(),
            Processes::Auto => "auto".to_owned(),
        }
    }
}

impl Plugin for Torch {
    fn name(&self) -> &'static str {
        "Torch"
    }

    fn validate(&self, review: &Review<'_>) -> Vec<FieldError> {
        if !review.blueprint.policy["torch"].is_object() {
            return Vec::new();
        }
        validate::validate(review)
    }

    fn enforce_policy(&self, job: &TrainJob<'_>, blueprint: &mut Blueprint) -> Result<(), String> {
        if !blueprint.policy["torch"].is_object() {
            return Ok(());
        }
        blueprint.count_nodes(job);
        let Some(set) = blueprint.trainer_set() else { return Ok(()) };
        let processes = Processes::of(job, blueprint);
        let tunes = tune::is_tune(job.trainer());
        let environment = environment(job, blueprint, processes);
        if job.trainer().is_object()
            && let Some(node) = blueprint.container_mut(set, NODE)
        {
            set_env(node, job.env());
            // The endpoint is a word of the command.
            set_env(node, &environment[..if tunes { 3 } else { 5 }]);
            open_port(node, PORT);
        }
        if tunes {
            let command = tune::command(job, blueprint, processes);
            blueprint.trainer["command"] = json!(command);
        }
        inject(blueprint, &environment)
    }
}

/// The five variables: nodes, processes, rank, and where the first node is.
fn environment(job: &TrainJob<'_>, blueprint: &Blueprint, processes: Processes) -> [Value; 5] {
    let count = blueprint.trainer_set().map_or(1, |set| blueprint.pod_sets[set].count);
    [
        json!({"name": "PET_NNODES", "value": count.to_string()}),
        json!({"name": "PET_NPROC_PER_NODE", "value": processes.text()}),
        json!({"name": "PET_NODE_RANK", "valueFrom": completion_index()}),
        json!({"name": "PET_MASTER_ADDR", "value": blueprint.first_node(job)}),
        json!({"name": "PET_MASTER_PORT", "value": PORT.to_string()}),
    ]
}

/// Gives other containers, which the runtime names, the same.
fn inject(blueprint: &mut Blueprint, environment: &[Value]) -> Result<(), String> {
    let targets = blueprint.policy["torch"]["envInjection"]["targets"].clone();
    for target in list(&targets) {
        let job = text(&target["jobName"]);
        for name in list(&target["containerNames"]).iter().map(text) {
            let missing =
                || format!("envInjection target podSet {job:?} container {name:?} not found");
            let set = blueprint.find(job).ok_or_else(missing)?;
            let pod = blueprint.pod_mut(set);
            let places = ["containers", "initContainers"];
            let has = |place: &&&str| find_mut(&mut pod[**place].clone(), "name", name).is_some();
            let place = places.iter().find(has).ok_or_else(missing)?;
            if let Some(container) = find_mut(&mut pod[*place], "name", name) {
                set_env(container, environment);
            }
        }
    }
    Ok(())
}
