//! An apply to `scale`: the applier owns the replicas of the object itself.
//!
//! Upstream: apimachinery/pkg/util/managedfields/scalehandler.go

use fields::walk::validate::{self, Duplicates};
use serde_json::{Value, json};

use super::scale::{check_replicas, scale};
use crate::answer::Answer;
use crate::endpoints::Request;
use crate::endpoints::apply::read_config;
use crate::endpoints::patch::unbind;
use crate::endpoints::write::{change, normalise};
use crate::facts;
use crate::field_ownership::{self, Expected, Shape, refusal};
use crate::object;
use crate::server::Server;
use crate::status::Error;

const SCALE: Expected<'static> = Expected { api_version: "autoscaling/v1", kind: "Scale" };

pub async fn apply(server: &Server, request: &Request) -> Result<Answer, Error> {
    let wanted = read_config(request, SCALE)?;
    check_type(&wanted)?;
    let config = of_object(request, &wanted)?;
    let outcome = change(server, request, |current| {
        let applied = field_ownership::apply(server, request, Some(current), &config);
        let mut object = applied.map_err(|error| refusal(at_scale(error)))?.object;
        normalise(request, &mut object)?;
        unbind(&mut object, current);
        Ok(object)
    });
    Ok(Answer::value(200, &scale(request, &outcome.await?.object())?))
}

fn check_type(wanted: &Value) -> Result<(), Error> {
    let shape = Shape::of_type(scale_type().ok_or_else(Error::no_such_resource)?);
    validate::check(shape, wanted, Duplicates::Refused).map_err(|reason| {
        let object = format!(
            "{}/{}; {}, Kind={}",
            object::namespace(wanted),
            object::name(wanted),
            SCALE.api_version,
            SCALE.kind,
        );
        refusal(fields::Error::Untyped { role: "patch", object, reason })
    })
}

/// The type of the bodies of `scale`, whichever kind has it.
fn scale_type() -> Option<facts::TypeId> {
    let deployments = facts::kind("apps", "v1", "deployments")?;
    deployments.subresource("scale")?.type_id
}

/// The same wish about the object that is scaled.
fn of_object(request: &Request, wanted: &Value) -> Result<Value, Error> {
    let mut config = json!({
        "apiVersion": request.resource.api_version(),
        "kind": request.resource.kind,
        "metadata": {"name": request.target.name},
    });
    for name in ["resourceVersion", "uid"] {
        if !object::meta(wanted, name).is_empty() {
            object::set_meta(&mut config, name, object::meta(wanted, name));
        }
    }
    let replicas = &wanted["spec"]["replicas"];
    if let Some(replicas) = replicas.as_i64() {
        check_replicas(request, replicas)?;
    }
    if !replicas.is_null() {
        config["spec"] = json!({"replicas": replicas});
    }
    Ok(config)
}

/// Who scales sees the other owners as if they had scaled too.
fn at_scale(mut error: fields::Error) -> fields::Error {
    if let fields::Error::Conflicts(conflicts) = &mut error {
        for conflict in &mut conflicts.0 {
            conflict.owner.api_version = SCALE.api_version.to_owned();
        }
    }
    error
}
