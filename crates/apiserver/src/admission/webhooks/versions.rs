//! The object of a write in the version that a webhook knows, and back.

use std::sync::Arc;

use serde_json::Value;

use crate::conversion;
use crate::decode::strict;
use crate::quantity;
use crate::resources::Resource;
use crate::server::Server;
use crate::status::Error;

/// A kind with its group and version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupVersionKind {
    pub group: String,
    pub version: String,
    pub kind: String,
}

/// What the body of a write to a resource, or to a part of it, is.
pub fn kind_of(resource: &Resource, subresource: &str) -> GroupVersionKind {
    match resource.subresource(subresource) {
        Some(part) if !part.kind.is_empty() => GroupVersionKind {
            group: part.group.to_string(),
            version: part.version.to_string(),
            kind: part.kind.to_string(),
        },
        _ => GroupVersionKind {
            group: resource.group.clone(),
            version: resource.version.clone(),
            kind: resource.kind.clone(),
        },
    }
}

/// Other versions under which the same objects are served.
pub fn equivalents(server: &Server, resource: &Resource, subresource: &str) -> Vec<Arc<Resource>> {
    let registry = server.registry.now();
    let is_other = |one: &Resource| {
        (&one.group, &one.version) != (&resource.group, &resource.version)
            && (subresource.is_empty() || one.subresource(subresource).is_some())
    };
    registry.versions_of(resource).iter().filter(|one| is_other(one)).cloned().collect()
}

/// The object of one version as another one.
pub async fn convert(from: &Resource, to: &Resource, object: &Value) -> Result<Value, Error> {
    let stored = conversion::stored_object(from, object.clone()).await?;
    conversion::as_served(to, stored).await
}

/// Makes an object that somebody patched whole again: what its type does not know is gone, and
/// what was left out has its default.
pub fn complete(resource: &Resource, subresource: &str, object: &mut Value) -> Result<(), String> {
    let part = resource.subresource(subresource).filter(|part| *part.kind != *resource.kind);
    let of = match part {
        Some(part) => part.type_id.map(|id| id.get()),
        None => resource.builtin_type(),
    };
    if let Some(of) = of {
        strict::normalise(object, of, |text| quantity::rewritten(text).ok())
            .map_err(|error| error.to_string())?;
    }
    if part.is_none() {
        resource.strategy().default(object);
    }
    Ok(())
}
