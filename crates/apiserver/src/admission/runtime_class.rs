//! RuntimeClass: what a pod's runtime costs, and where it is.
//!
//! Upstream: plugin/pkg/admission/runtimeclass/admission.go

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Attributes, Plugin, Refusal, lookup};
use crate::registry::edit::{self, object, set_default, text};
use crate::server::Server;
use crate::status::Error;

/// `class` is the one that the pod names, if it exists.
pub fn apply(pod: &mut Value, class: Option<&Value>) -> Result<(), Refusal> {
    let name = text(pod, &["spec", "runtimeClassName"]).to_owned();
    let overhead = edit::at(pod, &["spec", "overhead"]).clone();
    if name.is_empty() {
        return match edit::is_empty(&overhead) {
            true => Ok(()),
            false => {
                Err("pod rejected: Pod Overhead set without corresponding RuntimeClass Overhead"
                    .to_owned())
            }
        };
    }
    let Some(class) = class else {
        return Err(format!("pod rejected: RuntimeClass {name:?} not found"));
    };
    let cost = edit::at(class, &["overhead", "podFixed"]);
    if !edit::is_empty(&overhead) && overhead != *cost {
        return Err(
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned()
        );
    }
    let Some(spec) = object(pod, "spec") else { return Ok(()) };
    if !edit::is_empty(cost) {
        edit::set(spec, "overhead", cost.clone());
    }
    place(spec, edit::at(class, &["scheduling"]))
}

fn place(spec: &mut Value, scheduling: &Value) -> Result<(), Refusal> {
    for (key, value) in edit::map(scheduling, &["nodeSelector"]).into_iter().flatten() {
        let Some(selector) = object(spec, "nodeSelector") else { continue };
        if edit::has(selector, &[key]) && selector.get(key) != Some(value) {
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; \
                 pod.spec.nodeSelector[{key}] = {}",
                value.as_str().unwrap_or(""),
                text(selector, &[key])
            ));
        }
        set_default(selector, key, value.clone());
    }
    for toleration in edit::list(scheduling, &["tolerations"]) {
        set_default(spec, "tolerations", json!([]));
        if let Some(all) = spec.get_mut("tolerations").and_then(Value::as_array_mut)
            && !all.contains(toleration)
        {
            all.push(toleration.clone());
        }
    }
    Ok(())
}

pub struct RuntimeClass;

#[async_trait]
impl Plugin for RuntimeClass {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.creates("", "pods")
    }

    async fn mutate(
        &self,
        server: &Server,
        attributes: &Attributes<'_>,
        object: &mut Value,
    ) -> Result<(), Error> {
        let name = text(object, &["spec", "runtimeClassName"]);
        let class = match name {
            "" => None,
            name => lookup::one(server, "node.k8s.io", "runtimeclasses", ("", name)).await?,
        };
        apply(object, class.as_ref()).map_err(|why| attributes.refuse(object, &why))
    }
}
