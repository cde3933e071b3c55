//! torchtune: `tune run` becomes a whole command, with the recipe that fits model and devices.

use serde_json::Value;

use super::Processes;
use crate::blueprint::{Blueprint, NODE};
use crate::plugin::PORT;
use crate::resources;
use crate::train_job::TrainJob;
use crate::value::{list, text};

/// What the runtime decides, and a job may not.
pub const OVERRIDES: [&str; 4] =
    ["output_dir", "tokenizer.path", "checkpointer.checkpoint_dir", "tokenizer.merges_file"];

const LORA: &str = "model.lora_attn_modules";
const QUANTIZE: &str = "model.quantize_base";
const DORA: &str = "model.use_dora";

pub fn is_tune(trainer: &Value) -> bool {
    let words: Vec<&str> = list(&trainer["command"]).iter().map(text).collect();
    words == ["tune", "run"]
}

/// How the weights are trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Full,
    Lora,
    Qlora,
}

impl Mode {
    pub fn of(trainer: &Value) -> Mode {
        let args: Vec<&str> = list(&trainer["args"]).iter().map(text).collect();
        let is_true = |key: &str| {
            args.iter().any(|arg| {
                let (name, value) = arg.split_once('=').unwrap_or((arg, ""));
                name.contains(key) && value.eq_ignore_ascii_case("true")
            })
        };
        if is_true(QUANTIZE) && !is_true(DORA) {
            Mode::Qlora
        } else if args.iter().any(|arg| arg.contains(LORA)) {
            Mode::Lora
        } else {
            Mode::Full
        }
    }
}

/// The model that the name of a runtime says: `torchtune-llama3.2-1b` is `llama3_2/1B`.
pub fn model(runtime: &str) -> String {
    let parts: Vec<&str> = runtime.split('-').collect();
    match parts[..] {
        [_, family, size] => format!("{}/{}", family.replace('.', "_"), size.to_uppercase()),
        _ => String::new(),
    }
}

/// The recipe and the end of the name of its configuration.
pub fn recipe(nodes: i64, is_single_device: bool, mode: Mode) -> (&'static str, &'static str) {
    if nodes > 1 {
        return ("full_finetune_distributed", "_full_multinode");
    }
    match (is_single_device, mode) {
        (true, Mode::Qlora) => ("lora_finetune_single_device", "_qlora_single_device"),
        (true, Mode::Lora) => ("lora_finetune_single_device", "_lora_single_device"),
        (true, Mode::Full) => ("full_finetune_single_device", "_full_single_device"),
        (false, Mode::Qlora) => ("lora_finetune_distributed", "_qlora"),
        (false, Mode::Lora) => ("lora_finetune_distributed", "_lora"),
        (false, Mode::Full) => ("full_finetune_distributed", "_full"),
    }
}

/// Nodes, and whether each has one device.
pub fn devices(blueprint: &Blueprint, processes: Processes) -> (i64, bool) {
    let nodes = blueprint.trainer_set().map_or(1, |set| blueprint.pod_sets[set].count);
    let gpus = resources::gpus(blueprint.resources_per_node());
    (nodes, processes == Processes::Number(1) || gpus == 1)
}

pub fn command(job: &TrainJob<'_>, blueprint: &Blueprint, processes: Processes) -> Vec<String> {
    let (nodes, is_single) = devices(blueprint, processes);
    let gpus = resources::gpus(blueprint.resources_per_node());
    let mut words = vec!["tune".to_owned(), "run".to_owned()];
    let is_many = match processes {
        Processes::Number(number) => number > 1,
        Processes::Auto => gpus > 1,
    };
    if nodes > 1 || is_many {
        words.push(format!("--rdzv_endpoint={}:{PORT}", blueprint.first_node(job)));
    }
    let (recipe, suffix) = recipe(nodes, is_single, Mode::of(job.trainer()));
    let config = format!("{}{suffix}", model(job.runtime_name()));
    words.extend([recipe.to_owned(), "--config".to_owned(), config]);
    let node = blueprint.trainer_set().and_then(|set| blueprint.container(set, NODE));
    let said = node.map_or(&[][..], |node| list(&node["command"]));
    let is_override =
        |word: &&str| word.split_once('=').is_some_and(|(key, _)| OVERRIDES.contains(&key));
    words.extend(said.iter().map(text).filter(is_override).map(str::to_owned));
    words
}
