//! Isolation: how much of the host the process pods of a namespace see, by the label
//! `setpoint.dev/isolation` of the namespace.
//!
//! Only users who may update all namespaces change the label, because `host` gives the pods of the
//! namespace the files of the host. A pod has the level that its namespace had when the pod was
//! created, as an annotation that clients can neither set nor change: a running pod keeps its
//! level.

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Attributes, Operation, Plugin, lookup};
use crate::field_error::FieldError;
use crate::persist::stored;
use crate::rbac;
use crate::registry::edit;
use crate::server::Server;
use crate::status::Error;

/// Label of namespaces, and annotation of pods.
pub const ISOLATION: &str = "setpoint.dev/isolation";
const LEVELS: [&str; 2] = ["host", "isolated"];

pub struct Isolation;

#[async_trait]
impl Plugin for Isolation {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        let is_written = matches!(attributes.operation, Operation::Create | Operation::Update);
        let resource = attributes.resource;
        let is_known = ["pods", "namespaces"].contains(&&*resource.plural);
        is_written && is_known && resource.group.is_empty()
    }

    async fn mutate(
        &self,
        server: &Server,
        attributes: &Attributes<'_>,
        object: &mut Value,
    ) -> Result<(), Error> {
        if attributes.resource.plural != "pods" {
            return Ok(());
        }
        let level = match (attributes.operation, attributes.old) {
            (Operation::Create, _) if attributes.subresource.is_empty() => {
                let name = ("", attributes.namespace);
                let namespace = lookup::entry(server, "", "namespaces", name).await?;
                namespace.and_then(|it| stored(&it).label(ISOLATION).map(str::to_owned))
            }
            (_, Some(old)) => annotation(old).map(str::to_owned),
            (_, None) => return Ok(()),
        };
        set_annotation(object, level.as_deref());
        Ok(())
    }

    async fn validate(
        &self,
        server: &Server,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<(), Error> {
        if attributes.resource.plural != "namespaces" {
            return Ok(());
        }
        let level = label(object);
        if level == attributes.old.and_then(label) {
            return Ok(());
        }
        if let Some(unknown) = level.filter(|level| !LEVELS.contains(level)) {
            let path = format!("metadata.labels[{ISOLATION}]");
            let error = FieldError::not_supported(path, unknown, &LEVELS);
            return Err(Error::invalid("Namespace", "", attributes.name, &[error]));
        }
        let asked =
            rbac::Attributes { verb: "update", resource: "namespaces", ..Default::default() };
        if server.authorizer.authorize(attributes.user, &asked).is_allowed() {
            return Ok(());
        }
        let why = format!(
            "label {ISOLATION} decides how much of the host pods see: only users who may update \
             namespaces at cluster scope can set, change or remove it"
        );
        Err(attributes.refuse(object, &why))
    }
}

fn label(object: &Value) -> Option<&str> {
    object["metadata"]["labels"][ISOLATION].as_str()
}

fn annotation(pod: &Value) -> Option<&str> {
    pod["metadata"]["annotations"][ISOLATION].as_str()
}

fn set_annotation(pod: &mut Value, level: Option<&str>) {
    match level {
        Some(level) => {
            let Some(metadata) = edit::object(pod, "metadata") else { return };
            edit::set_default(metadata, "annotations", json!({}));
            metadata["annotations"][ISOLATION] = json!(level);
        }
        None => {
            let annotations = pod.pointer_mut("/metadata/annotations");
            if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
                annotations.remove(ISOLATION);
            }
        }
    }
}
