//! Admission: what is decided about a write by looking at other objects.
//!
//! The rules themselves are pure and in `admission/`; here is what they need looked up, in
//! upstream's order.

use serde_json::Value;

use store::PageRequest;

use crate::admission::{
    default_class, default_toleration_seconds, limit_ranger, priority, storage_in_use_protection,
    taint_new_nodes,
};
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
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Error> {
    if old.is_some() {
        return Ok(());
    }
    expect_live_namespace(server, request).await?;
    let resource = &request.resource;
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "Pod") => {
            let ranges = find(server, "", "limitranges", &request.target.namespace).await?;
            limit_ranger::apply_defaults(&ranges, object);
            let classes = find(server, "scheduling.k8s.io", "priorityclasses", "").await?;
            priority::apply(object, &classes).map_err(|why| refuse(request, object, &why))?;
            default_toleration_seconds::apply(object);
        }
        ("", "PersistentVolumeClaim") => {
            let classes = find(server, "storage.k8s.io", "storageclasses", "").await?;
            default_class::apply_to_claim(object, &classes);
            storage_in_use_protection::apply(&resource.kind, object);
        }
        ("", "PersistentVolume") => storage_in_use_protection::apply(&resource.kind, object),
        ("", "Node") => taint_new_nodes::apply(object),
        ("networking.k8s.io", "Ingress") => {
            let classes = find(server, "networking.k8s.io", "ingressclasses", "").await?;
            default_class::apply_to_ingress(object, &classes);
        }
        _ => {}
    }
    Ok(())
}

/// Judges an object after it was checked.
pub async fn validate(
    server: &Server,
    request: &Request,
    object: &Value,
    _old: Option<&Value>,
) -> Result<(), Error> {
    let resource = &request.resource;
    let judged = match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "Pod") => {
            let ranges = find(server, "", "limitranges", &request.target.namespace).await?;
            limit_ranger::check_pod(&ranges, object)
        }
        ("", "PersistentVolumeClaim") => {
            let ranges = find(server, "", "limitranges", &request.target.namespace).await?;
            limit_ranger::check_claim(&ranges, object)
        }
        ("scheduling.k8s.io", "PriorityClass") => {
            let classes = find(server, "scheduling.k8s.io", "priorityclasses", "").await?;
            priority::check_class(object, &classes)
        }
        _ => Ok(()),
    };
    judged.map_err(|why| refuse(request, object, &why))
}

fn refuse(request: &Request, object: &Value, why: &str) -> Error {
    Error::forbidden(request.resource.about(), object::name(object), why)
}

/// All objects of a resource, in a namespace or everywhere.
async fn find(
    server: &Server,
    group: &str,
    plural: &str,
    namespace: &str,
) -> Result<Vec<Value>, Error> {
    let Some(resource) = server.registry.find(group, plural) else { return Ok(Vec::new()) };
    let range = resource.range(namespace);
    let page = server.store.list(&range, PageRequest::all(), None).await;
    let entries = page.map_err(store_failure)?.entries;
    Ok(entries.iter().map(|entry| stored(entry).object(entry.modified)).collect())
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
