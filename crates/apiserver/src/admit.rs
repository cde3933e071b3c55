//! Admission: what is decided about a write by looking at other objects.
//!
//! The rules themselves are pure and in `admission/`; here is what they need looked up, in
//! upstream's order.

use serde_json::Value;

use crate::endpoints::Request;
use crate::object;
use crate::persist::stored;
use crate::server::{Server, store_failure};
use crate::status::{About, Cause, Error};

/// Namespaces the system lives in.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];
const NAMESPACES: About<'static> = About { group: "", resource: "namespaces" };

/// Changes an object before it is checked.
pub async fn mutate(
    server: &Server,
    request: &Request,
    _object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Error> {
    if old.is_none() {
        expect_live_namespace(server, request).await?;
    }
    Ok(())
}

/// Judges an object after it was checked.
pub async fn validate(
    _server: &Server,
    _request: &Request,
    _object: &Value,
    _old: Option<&Value>,
) -> Result<(), Error> {
    Ok(())
}

/// Whether an object may be deleted at all.
pub fn allow_delete(request: &Request) -> Result<(), Error> {
    let is_namespace = request.resource.kind == "Namespace" && request.resource.group.is_empty();
    let name = request.target.name.as_str();
    if is_namespace && IMMORTAL.contains(&name) {
        return Err(Error::forbidden(NAMESPACES, name, "this namespace may not be deleted"));
    }
    Ok(())
}

/// Nothing is created in a namespace that is not there, or is going.
async fn expect_live_namespace(server: &Server, request: &Request) -> Result<(), Error> {
    let name = request.target.namespace.as_str();
    if !request.resource.namespaced || name.is_empty() {
        return Ok(());
    }
    let Some(namespaces) = server.registry.find("", "namespaces") else { return Ok(()) };
    let key = namespaces.key("", name)?;
    let entry = server.store.get(&key, None).await.map_err(store_failure)?;
    let entry = entry.ok_or_else(|| Error::not_found(NAMESPACES, name))?;
    let namespace = stored(&entry).object(entry.modified);
    if !object::is_terminating(&namespace) {
        return Ok(());
    }
    let why =
        format!("unable to create new content in namespace {name} because it is being terminated");
    let mut error = Error::forbidden(request.resource.about(), &request.target.name, &why);
    if let Some(details) = &mut error.details {
        details.causes.push(Cause {
            reason: "NamespaceTerminating".to_owned(),
            message: format!("namespace {name} is being terminated"),
            field: "metadata.namespace".to_owned(),
        });
    }
    Err(error)
}
