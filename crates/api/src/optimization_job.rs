//! `trainer.kubeflow.org/v1alpha1` OptimizationJob: a search for good parameters by many TrainJobs.
//!
//! Upstream serves the kind and has no controller for it yet; so do we.

use serde_json::{Value, json};

use crate::definition::Definition;
use crate::schema::{
    atomic_list, choice, condition, integer, list_by, object, rule, string, text, with,
};
use crate::training::{self, GROUP, VERSION};

/// How many trials, and how many of them at once.
const TRIALS_MAX: u64 = 100;

pub fn definition() -> Value {
    Definition {
        group: GROUP,
        version: VERSION,
        kind: "OptimizationJob",
        plural: "optimizationjobs",
        singular: "optimizationjob",
        is_namespaced: true,
        schema: object([("spec", spec()), ("status", status())]),
        has_status: true,
        columns: json!([]),
    }
    .manifest()
}

fn spec() -> Value {
    let direction = with(choice(&["Maximize", "Minimize"]), json!({"default": "Minimize"}));
    let objective = object([("direction", direction), ("metric!", text(1, 63))]);
    let objectives = with(atomic_list(objective, Some(1)), json!({"minItems": 1}));
    let trials = || with(integer(), json!({"minimum": 1, "maximum": TRIALS_MAX, "default": 1}));
    let spec = object([
        ("numTrials", trials()),
        ("objectives!", objectives),
        ("parallelTrials", trials()),
        ("parameters!", with(list_by("name", parameter(), Some(100)), json!({"minItems": 1}))),
        ("searchAlgorithm", algorithm()),
        ("trainJobTemplate!", template()),
    ]);
    let spec = rule(spec, "self == oldSelf", "field is immutable");
    let spec = rule(
        spec,
        "self.parallelTrials <= self.numTrials",
        "parallelTrials must be less than or equal to numTrials",
    );
    rule(
        spec,
        "!has(self.searchAlgorithm.grid) || \
         self.parameters.all(one, has(one.searchSpace.categorical))",
        "grid search requires all parameters to be categorical",
    )
}

fn algorithm() -> Value {
    let seed = json!({"type": "integer", "format": "int64"});
    let algorithm =
        object([("grid", json!({"type": "object"})), ("random", object([("seed", seed)]))]);
    let algorithm = with(algorithm, json!({"default": {"random": {}}}));
    one_of(algorithm, &["random", "grid"])
}

fn parameter() -> Value {
    // A number is written as text when it has a fraction, as everywhere in this API.
    let number = || json!({"x-kubernetes-int-or-string": true});
    let range = || object([("max!", number()), ("min!", number()), ("type", text(1, 63))]);
    let choices = with(atomic_list(text(0, 1_024), Some(100)), json!({"minItems": 1}));
    let space = object([
        ("categorical", object([("choices!", choices)])),
        ("logUniform", range()),
        ("uniform", range()),
    ]);
    let space = one_of(space, &["uniform", "logUniform", "categorical"]);
    object([("name!", text(1, 63)), ("searchSpace!", space)])
}

/// Jobs are named by whoever makes them, in the namespace of the search.
fn template() -> Value {
    let texts = || json!({"type": "object", "additionalProperties": string()});
    let metadata = object([("annotations", texts()), ("labels", texts())]);
    object([("metadata", metadata), ("spec!", training::spec())])
}

fn status() -> Value {
    let parameter = object([("name!", text(1, 63)), ("value!", string())]);
    let result = object([
        ("parameters", list_by("name", parameter, Some(100))),
        ("trainJobName", text(1, 253)),
    ]);
    object([("conditions", list_by("type", condition(), Some(100))), ("result", result)])
}

/// The same with exactly one of its fields.
fn one_of(schema: Value, fields: &[&str]) -> Value {
    let present: Vec<String> = fields.iter().map(|field| format!("has(self.{field})")).collect();
    let test = format!("[{}].filter(one, one).size() == 1", present.join(", "));
    rule(schema, &test, &format!("exactly one of {} must be set", fields.join(", ")))
}
