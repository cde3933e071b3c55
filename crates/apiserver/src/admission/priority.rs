//! Priority: the number behind a pod's priority class.
//!
//! Upstream: plugin/pkg/admission/priority/admission.go

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Attributes, Plugin, Refusal, lookup};
use crate::registry::edit::{self, object, set_default, text};
use crate::server::Server;
use crate::status::Error;

const GROUP: &str = "scheduling.k8s.io";
const CLASSES: &str = "priorityclasses";

/// Sets a new pod's class, number and policy from the classes of the cluster.
pub fn apply(pod: &mut Value, classes: &[Value]) -> Result<(), Refusal> {
    let name = text(pod, &["spec", "priorityClassName"]).to_owned();
    let class = match name.as_str() {
        "" => default_class(classes),
        name => {
            let found = classes.iter().find(|it| text(it, &["metadata", "name"]) == name);
            Some(found.ok_or(format!("no PriorityClass with name {name} was found"))?)
        }
    };
    let value = class.and_then(|it| edit::int(it, &["value"])).unwrap_or(0);
    let policy = class.map(|it| text(it, &["preemptionPolicy"])).unwrap_or("");
    let policy = if policy.is_empty() { "PreemptLowerPriority" } else { policy };
    let Some(spec) = object(pod, "spec") else { return Ok(()) };
    let given = edit::int(spec, &["priority"]);
    if given.is_some_and(|given| given != value) {
        return Err(format!(
            "the integer value of priority ({}) must not be provided in pod spec; priority \
             admission controller computed {value} from the given PriorityClass name",
            given.unwrap_or(0)
        ));
    }
    edit::set(spec, "priority", value);
    if let Some(class) = class {
        edit::set(spec, "priorityClassName", text(class, &["metadata", "name"]));
    }
    let given = text(spec, &["preemptionPolicy"]);
    if !given.is_empty() && given != policy {
        return Err(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; \
             priority admission controller computed {policy} from the given PriorityClass name"
        ));
    }
    set_default(spec, "preemptionPolicy", policy);
    Ok(())
}

/// Of several that call themselves the default, the least.
fn default_class(classes: &[Value]) -> Option<&Value> {
    let marked = classes.iter().filter(|it| it.get("globalDefault") == Some(&json!(true)));
    marked.min_by_key(|it| edit::int(it, &["value"]).unwrap_or(0))
}

/// There is one default.
pub fn check_class(class: &Value, others: &[Value]) -> Result<(), Refusal> {
    let name = |it: &Value| text(it, &["metadata", "name"]).to_owned();
    if class.get("globalDefault") != Some(&json!(true)) {
        return Ok(());
    }
    match default_class(others).filter(|it| name(it) != name(class)) {
        None => Ok(()),
        Some(other) => Err(format!(
            "PriorityClass {} is already marked as default. Only one default can exist",
            name(other)
        )),
    }
}

/// A changed pod that leaves its number out keeps it.
pub fn keep(pod: &mut Value, old: &Value) {
    let same_class =
        text(pod, &["spec", "priorityClassName"]) == text(old, &["spec", "priorityClassName"]);
    if !same_class {
        return;
    }
    let Some(spec) = object(pod, "spec") else { return };
    for name in ["priority", "preemptionPolicy"] {
        if !edit::has(spec, &[name]) {
            edit::copy_field(spec, edit::at(old, &["spec"]), name);
        }
    }
}

pub struct Priority;

#[async_trait]
impl Plugin for Priority {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        let is_written = |group: &str, plural: &str| {
            attributes.creates(group, plural) || attributes.updates(group, plural)
        };
        is_written("", "pods") || is_written(GROUP, CLASSES)
    }

    async fn mutate(
        &self,
        server: &Server,
        attributes: &Attributes<'_>,
        object: &mut Value,
    ) -> Result<(), Error> {
        if attributes.resource.kind != "Pod" {
            return Ok(());
        }
        if let Some(old) = attributes.old {
            keep(object, old);
            return Ok(());
        }
        let classes = lookup::all(server, GROUP, CLASSES, "").await?;
        apply(object, &classes).map_err(|why| attributes.refuse(object, &why))
    }

    async fn validate(
        &self,
        server: &Server,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<(), Error> {
        if attributes.resource.kind == "Pod" {
            return Ok(());
        }
        let classes = lookup::all(server, GROUP, CLASSES, "").await?;
        check_class(object, &classes).map_err(|why| attributes.refuse(object, &why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, value: i64, default: bool) -> Value {
        json!({"metadata": {"name": name}, "value": value, "globalDefault": default,
            "preemptionPolicy": "Never"})
    }

    #[test]
    fn a_pod_gets_the_number_of_its_class() {
        let classes = [class("low", 5, true), class("high", 9, false)];
        let cases = [
            (json!({}), Ok((5, "low"))),
            (json!({"priorityClassName": "high"}), Ok((9, "high"))),
            (json!({"priorityClassName": "x"}), Err("no PriorityClass with name x was found")),
        ];
        for (spec, expected) in cases {
            let mut pod = json!({"spec": spec});
            match (apply(&mut pod, &classes), expected) {
                (Ok(()), Ok((value, name))) => {
                    assert_eq!(pod["spec"]["priority"], value);
                    assert_eq!(pod["spec"]["priorityClassName"], name);
                    assert_eq!(pod["spec"]["preemptionPolicy"], "Never");
                }
                (found, expected) => {
                    assert_eq!(found.err().as_deref(), expected.err());
                }
            }
        }
        let mut pod = json!({"spec": {}});
        assert_eq!(apply(&mut pod, &[]), Ok(()));
        assert_eq!(pod["spec"], json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}));
    }
}
