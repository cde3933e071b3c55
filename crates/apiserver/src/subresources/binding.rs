//! `pods/binding` and `bindings`: a pod gets its node.
//!
//! Upstream: pkg/registry/core/pod/storage/storage.go (BindingREST)

use serde_json::{Value, json};

use super::success;
use crate::admission::webhooks::admit_posted;
use crate::answer::Answer;
use crate::endpoints::Request;
use crate::endpoints::write::{change_by_server, decode_as};
use crate::facts;
use crate::field_error::FieldError;
use crate::object;
use crate::registry::edit::{self, text};
use crate::server::Server;
use crate::status::{About, Error};
use crate::time::rfc3339;

const ABOUT: About<'static> = About { group: "", resource: "pods/binding" };

pub async fn create(server: &Server, request: &Request) -> Result<Answer, Error> {
    let of =
        facts::type_by_name("io.k8s.api.core.v1.Binding").ok_or_else(Error::no_such_resource)?;
    let mut binding = decode_as(request, of)?;
    let mut of_pod = request.clone();
    of_pod.resource = server.registry.find("", "pods").ok_or_else(Error::no_such_resource)?;
    of_pod.target.subresource = "binding".to_owned();
    match (request.target.name.as_str(), object::name(&binding)) {
        ("", "") => return Err(Error::bad_request("name is required in the Binding object")),
        ("", name) => of_pod.target.name = name.to_owned(),
        (_, "") => {}
        (path, name) if path == name => {}
        _ => {
            let text = "name in URL does not match name in Binding object";
            return Err(Error::bad_request(text));
        }
    }
    let namespace = object::namespace(&binding);
    if !namespace.is_empty() && namespace != request.target.namespace {
        return Err(Error::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let mut posted = request.clone();
    posted.target = of_pod.target.clone();
    posted.resource = of_pod.resource.clone();
    admit_posted(server, &posted, &mut binding).await?;
    let errors = faults(&binding);
    if !errors.is_empty() {
        return Err(Error::invalid("Binding", "", object::name(&binding), &errors));
    }
    let now = rfc3339(server.environment.now());
    let bound = change_by_server(server, &of_pod, |pod| Ok(bind(pod, &binding, &now)?.into()));
    bound.await?;
    Ok(success())
}

fn faults(binding: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let kind = text(binding, &["target", "kind"]);
    if !["", "Node"].contains(&kind) {
        let supported = ["Node", "<empty>"];
        errors.push(FieldError::not_supported("target.kind", kind, &supported));
    }
    if text(binding, &["target", "name"]).is_empty() {
        errors.push(FieldError::required("target.name", ""));
    }
    errors
}

/// The pod on its node.
fn bind(pod: &Value, binding: &Value, now: &str) -> Result<Value, Error> {
    let name = object::name(pod);
    let refuse = |why: String| Err(Error::conflict(ABOUT, name, &why));
    let uid = object::uid(binding);
    if !uid.is_empty() && uid != object::uid(pod) {
        return refuse(format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            object::uid(pod)
        ));
    }
    if object::is_terminating(pod) {
        return refuse(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let node = text(pod, &["spec", "nodeName"]);
    if !node.is_empty() {
        return refuse(format!("pod {name} is already assigned to node {node:?}"));
    }
    if !edit::list(pod, &["spec", "schedulingGates"]).is_empty() {
        return refuse(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    let mut bound = pod.clone();
    // Only a revision that the binding itself names binds it to that revision.
    match object::meta(binding, "resourceVersion") {
        "" => {
            object::remove_meta(&mut bound, "resourceVersion");
        }
        named => object::set_meta(&mut bound, "resourceVersion", named),
    }
    if let Some(spec) = edit::object(&mut bound, "spec") {
        edit::set(spec, "nodeName", text(binding, &["target", "name"]));
    }
    merge(&mut bound, binding, "annotations");
    merge(&mut bound, binding, "labels");
    if let Some(status) = edit::object(&mut bound, "status") {
        edit::remove(status, "nominatedNodeName");
        set_condition(status, condition("PodScheduled", now));
    }
    Ok(bound)
}

/// Labels and annotations of the binding are the pod's too.
fn merge(pod: &mut Value, binding: &Value, field: &str) {
    let Some(given) = edit::map(binding, &["metadata", field]).filter(|map| !map.is_empty()) else {
        return;
    };
    let Some(metadata) = edit::object(pod, "metadata") else { return };
    let Some(own) = edit::object(metadata, field) else { return };
    for (key, value) in given {
        edit::set(own, key, value.clone());
    }
}

/// A condition that holds.
pub fn condition(kind: &str, now: &str) -> Value {
    json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": now})
}

/// Replaces the condition of the same type; one that did not change keeps its time.
pub fn set_condition(status: &mut Value, mut condition: Value) {
    let Some(map) = status.as_object_mut() else { return };
    let list = map.entry("conditions").or_insert_with(|| json!([]));
    if list.is_null() {
        *list = json!([]);
    }
    let Some(list) = list.as_array_mut() else { return };
    match list.iter_mut().find(|it| it.get("type") == condition.get("type")) {
        None => list.push(condition),
        Some(known) => {
            if known.get("status") == condition.get("status") {
                edit::copy_field(&mut condition, known, "lastTransitionTime");
            }
            *known = condition;
        }
    }
}
