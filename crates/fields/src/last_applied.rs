//! The annotation in which `kubectl apply` of old kept its configuration.
//!
//! Its fields belong to kubectl, whatever manager they are recorded under, so an apply by kubectl
//! takes them over; and while the annotation is there it is kept true, for clients that read it.

use serde_json::Value;

use crate::{
    set::Set,
    shape::Shape,
    walk::{compare::compare, fields_of::fields_of},
};

/// The field manager of kubectl, which alone is treated so.
pub const KUBECTL: &str = "kubectl";

pub const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// How long all annotations of an object may be together.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// The fields of the annotation that still have the values they have there.
pub fn unchanged_since<S: Shape>(shape: S, live: &Value, api_version: &str) -> Set {
    let Some(text) = live["metadata"]["annotations"][ANNOTATION].as_str() else {
        return Set::default();
    };
    let Ok(config) = serde_json::from_str::<Value>(text) else { return Set::default() };
    if config["apiVersion"].as_str() != Some(api_version) {
        return Set::default();
    }
    let differences = compare(shape, &config, live);
    fields_of(shape, &config)
        .difference(&differences.modified)
        .difference(&differences.added)
        .difference(&differences.removed)
}

/// Writes the configuration to the annotation, if the object has it. Whether that changed it.
pub fn refresh(object: &mut Value, config: &Value) -> bool {
    let annotations =
        object.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    let Some(Value::Object(annotations)) = annotations else { return false };
    let Some(before) = annotations.get(ANNOTATION).cloned() else { return false };
    let mut config = config.clone();
    if let Some(Value::Object(own)) = config.pointer_mut("/metadata/annotations") {
        own.remove(ANNOTATION);
    }
    let text = format!("{config}\n");
    let others = annotations.iter().filter(|(name, _)| *name != ANNOTATION);
    let bytes: usize =
        others.map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum::<usize>()
            + ANNOTATION.len()
            + text.len();
    if bytes > ANNOTATIONS_BYTES_MAX {
        annotations.remove(ANNOTATION);
        return true;
    }
    let changed = before.as_str() != Some(text.as_str());
    annotations.insert(ANNOTATION.to_owned(), text.into());
    changed
}
