//! The objects that a binding hands to its policy, as they are now.
//!
//! Upstream: apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go

use std::sync::Arc;

use serde_json::Value;

use super::binding::{Binding, Named, Reference, WhenMissing};
use super::policy::Policy;
use crate::admission::lookup;
use crate::conversion;
use crate::resources::Resource;
use crate::server::Server;
use crate::status::Error;

/// One for each evaluation: null where the policy takes none, and nothing where none was found and
/// that is allowed.
pub async fn of(
    server: &Server,
    policy: &Policy,
    binding: &Binding,
    namespace: &str,
) -> Result<Vec<Value>, Error> {
    let (Some(kind), Some(reference)) = (&policy.parameters, &binding.parameters) else {
        return Ok(vec![Value::Null]);
    };
    let resource = resource(server, kind)?;
    let namespace = namespace_of(&resource, reference, namespace)?;
    let found = find(server, &resource, reference, namespace).await?;
    match found.is_empty() && reference.when_missing == WhenMissing::Deny {
        true => Err(Error::unusable(
            "no params found for policy binding with `Deny` parameterNotFoundAction",
        )),
        false => Ok(found),
    }
}

fn resource(
    server: &Server,
    (api_version, kind): &(String, String),
) -> Result<Arc<Resource>, Error> {
    let registry = server.registry.now();
    let is_meant = |one: &&Arc<Resource>| one.api_version() == *api_version && one.kind == *kind;
    registry.all().find(is_meant).cloned().ok_or_else(|| {
        let why = format!("paramKind kind `{api_version}, Kind={kind}` not known");
        Error::unusable(&why)
    })
}

fn namespace_of<'a>(
    resource: &Resource,
    reference: &'a Reference,
    namespace: &'a str,
) -> Result<&'a str, Error> {
    match (resource.namespaced, reference.namespace.as_str()) {
        (false, "") => Ok(""),
        (false, _) => Err(Error::unusable(
            "paramRef.namespace must not be provided for a cluster-scoped `paramKind`",
        )),
        (true, "") if namespace.is_empty() => Err(Error::unusable(
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped \
             resources",
        )),
        (true, "") => Ok(namespace),
        (true, own) => Ok(own),
    }
}

async fn find(
    server: &Server,
    resource: &Resource,
    reference: &Reference,
    namespace: &str,
) -> Result<Vec<Value>, Error> {
    let (group, plural) = (resource.group.as_str(), resource.plural.as_str());
    let mut found: Vec<Value> = match &reference.named {
        Named::One(name) => {
            lookup::one(server, group, plural, (namespace, name)).await?.into_iter().collect()
        }
        Named::Selected(selector) => {
            let selector = selector.as_ref().map_err(|why| Error::unusable(why))?;
            let all = lookup::all(server, group, plural, namespace).await?;
            all.into_iter().filter(|one| selector.matches_object(one)).collect()
        }
    };
    for one in &mut found {
        *one = conversion::as_served(resource, one.take()).await?;
    }
    Ok(found)
}
