//! `scale`: how many replicas a workload wants and has, the same for every kind.
//!
//! Upstream: pkg/registry/apps/deployment/storage (ScaleREST)

use serde_json::{Value, json};

use super::scale_apply;
use crate::answer::Answer;
use crate::endpoints::write::{change, decode_as, read};
use crate::endpoints::{Request, apply};
use crate::facts;
use crate::field_error::FieldError;
use crate::field_ownership::is_apply;
use crate::object;
use crate::patch;
use crate::request::negotiate::media_type;
use crate::selectors::labels::Selector;
use crate::server::Server;
use crate::status::Error;

pub async fn get(server: &Server, request: &Request) -> Result<Answer, Error> {
    let current = read(server, request).await?;
    let current =
        current.ok_or_else(|| Error::not_found(request.resource.about(), &request.target.name))?;
    Ok(Answer::value(200, &scale(request, &current.object)?))
}

pub async fn update(server: &Server, request: &Request) -> Result<Answer, Error> {
    let of = facts::type_by_name("io.k8s.api.autoscaling.v1.Scale")
        .ok_or_else(Error::no_such_resource)?;
    let wanted = decode_as(request, of)?;
    set(server, request, |_| Ok(wanted.clone())).await
}

pub async fn patch(server: &Server, request: &Request) -> Result<Answer, Error> {
    apply::check_options(request)?;
    if is_apply(request) {
        return scale_apply::apply(server, request).await;
    }
    let body: Value = match request.carried.body() {
        Some(body) => body,
        None => serde_json::from_slice(&request.body)
            .map_err(|error| Error::bad_request(format!("error decoding patch: {error}")))?,
    };
    set(server, request, |current| {
        let mut wanted = current.clone();
        let applied = match media_type(&request.content_type) {
            "application/json-patch+json" => patch::json::apply(&mut wanted, &body),
            "application/merge-patch+json" | "application/strategic-merge-patch+json" => {
                patch::merge::apply(&mut wanted, body.clone())
            }
            _ => return Err(Error::unsupported_media_type("application/merge-patch+json")),
        };
        applied.map_err(|error| Error::bad_request(error.to_string()))?;
        Ok(wanted)
    })
    .await
}

async fn set(
    server: &Server,
    request: &Request,
    wanted: impl Fn(&Value) -> Result<Value, Error>,
) -> Result<Answer, Error> {
    let outcome = change(server, request, |current| {
        let wanted = wanted(&scale(request, current).unwrap_or_else(|_| empty(current)))?;
        let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or(0);
        check_replicas(request, replicas)?;
        let mut object = current.clone();
        object::remove_meta(&mut object, "resourceVersion");
        let named = object::meta(&wanted, "resourceVersion");
        if !named.is_empty() && named != object::meta(current, "resourceVersion") {
            return Err(Error::modified(request.resource.about(), &request.target.name));
        }
        set_replicas(request, &mut object, replicas);
        Ok(object)
    })
    .await?;
    Ok(Answer::value(200, &scale(request, &outcome.object())?))
}

/// Says in the object itself how many replicas are wanted.
pub fn set_replicas(request: &Request, object: &mut Value, replicas: i64) {
    match request.resource.custom().and_then(|version| version.scale.as_ref()) {
        Some(scale) => scale.set(object, replicas),
        None => object["spec"]["replicas"] = json!(replicas),
    }
}

pub(super) fn check_replicas(request: &Request, replicas: i64) -> Result<(), Error> {
    if replicas >= 0 {
        return Ok(());
    }
    let detail = "must be greater than or equal to 0";
    let error = FieldError::invalid("spec.replicas", replicas, detail);
    Err(Error::invalid("Scale", "autoscaling", &request.target.name, &[error]))
}

pub fn scale(request: &Request, object: &Value) -> Result<Value, Error> {
    match request.resource.custom().and_then(|version| version.scale.as_ref()) {
        None => Ok(builtin(object)),
        Some(paths) => {
            let (wanted, found, selector) = paths.of(object)?;
            let mut scale = empty(object);
            scale["spec"]["replicas"] = json!(wanted);
            scale["status"] = json!({"replicas": found});
            if !selector.is_empty() {
                scale["status"]["selector"] = json!(selector);
            }
            Ok(scale)
        }
    }
}

/// The scale of an object that does not say how many replicas it wants.
fn empty(object: &Value) -> Value {
    let mut scale = builtin(object);
    scale["spec"] = json!({});
    scale
}

fn builtin(object: &Value) -> Value {
    let selector = match &object["spec"]["selector"] {
        // The oldest kind has plain labels.
        Value::Object(map) if map.values().all(Value::is_string) => {
            let pairs = map
                .iter()
                .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
            pairs.collect::<Vec<_>>().join(",")
        }
        selector => Selector::from_object(Some(selector), "spec.selector")
            .map(|selector| selector.to_string())
            .unwrap_or_default(),
    };
    let metadata = &object["metadata"];
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {"replicas": object["spec"]["replicas"]},
        "status": {
            "replicas": object["status"]["replicas"].as_i64().unwrap_or(0),
            "selector": selector,
        },
    })
}
