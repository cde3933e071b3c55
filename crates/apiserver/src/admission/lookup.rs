//! Other objects that plugins decide by, as they are now.

use std::sync::Arc;

use serde_json::Value;
use store::{Entry, PageRequest};

use crate::persist::stored;
use crate::server::{Server, store_failure};
use crate::status::Error;

/// All objects of a resource, in a namespace or everywhere.
pub async fn all(
    server: &Server,
    group: &str,
    plural: &str,
    namespace: &str,
) -> Result<Vec<Value>, Error> {
    Ok(entries(server, group, plural, namespace).await?.iter().map(|entry| read(entry)).collect())
}

pub async fn entries(
    server: &Server,
    group: &str,
    plural: &str,
    namespace: &str,
) -> Result<Vec<Arc<Entry>>, Error> {
    let Some(resource) = server.registry.find(group, plural) else { return Ok(Vec::new()) };
    let range = resource.range(namespace);
    let page = server.store.list(&range, PageRequest::all(), None).await;
    Ok(page.map_err(store_failure)?.entries)
}

/// One object; a name that cannot be one is that of nothing.
pub async fn one(
    server: &Server,
    group: &str,
    plural: &str,
    (namespace, name): (&str, &str),
) -> Result<Option<Value>, Error> {
    Ok(entry(server, group, plural, (namespace, name)).await?.map(|entry| read(&entry)))
}

/// One object, not parsed.
pub async fn entry(
    server: &Server,
    group: &str,
    plural: &str,
    (namespace, name): (&str, &str),
) -> Result<Option<Arc<Entry>>, Error> {
    let Some(resource) = server.registry.find(group, plural) else { return Ok(None) };
    let Ok(key) = resource.key(namespace, name) else { return Ok(None) };
    server.store.get(&key, None).await.map_err(store_failure)
}

pub fn read(entry: &Entry) -> Value {
    stored(entry).object(entry.modified)
}
