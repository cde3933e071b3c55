//! Between the version that a resource is served in and the one that is stored.
//!
//! Most resources are stored as they are served and pass through untouched. The others are
//! converted at the edge of the store, so that everything between sees the served version: what is
//! read is converted before anybody looks at it, what is written after everybody has.
//!
//! Both directions are asynchronous, take many objects at once and can fail, since a converter may
//! be somebody else's program.

use std::sync::Arc;

use serde_json::Value;
use store::Entry;

use crate::object;
use crate::persist::{self, stored};
use crate::registry::builtin::{event, horizontal_pod_autoscaler};
use crate::resources::Resource;
use crate::status::Error;

/// How a served version and the stored one become each other.
#[derive(Clone, Debug)]
pub enum Conversion {
    /// By two functions of ours, which cannot fail.
    Functions { to_stored: fn(&Value) -> Value, to_served: fn(&Value) -> Value },
}

impl Conversion {
    async fn to_stored(&self, objects: Vec<Value>) -> Result<Vec<Value>, Error> {
        match self {
            Conversion::Functions { to_stored, .. } => Ok(objects.iter().map(to_stored).collect()),
        }
    }

    async fn to_served(&self, objects: Vec<Value>) -> Result<Vec<Value>, Error> {
        match self {
            Conversion::Functions { to_served, .. } => Ok(objects.iter().map(to_served).collect()),
        }
    }
}

/// The conversion of a built-in resource that is not stored in the version it is served in.
pub fn builtin(group: &str, version: &str, kind: &str) -> Option<Conversion> {
    match (group, version, kind) {
        ("events.k8s.io", "v1", "Event") => Some(Conversion::Functions {
            to_stored: event::convert::to_core,
            to_served: event::convert::to_new,
        }),
        ("autoscaling", "v1", "HorizontalPodAutoscaler") => Some(Conversion::Functions {
            to_stored: horizontal_pod_autoscaler::convert::to_v2,
            to_served: horizontal_pod_autoscaler::convert::to_v1,
        }),
        _ => None,
    }
}

/// An object that was read, as it is served.
pub async fn served_object(resource: &Resource, object: Value) -> Result<Value, Error> {
    match &resource.conversion {
        None => Ok(object),
        Some(conversion) => one(conversion.to_served(vec![object]).await?),
    }
}

/// An object that is to be written, as it is stored.
pub async fn stored_object(resource: &Resource, object: Value) -> Result<Value, Error> {
    match &resource.conversion {
        None => Ok(object),
        Some(conversion) => one(conversion.to_stored(vec![object]).await?),
    }
}

/// Entries that were read, as if they had been stored as they are served.
pub async fn served(
    resource: &Resource,
    entries: Vec<Arc<Entry>>,
) -> Result<Vec<Arc<Entry>>, Error> {
    let Some(conversion) = &resource.conversion else { return Ok(entries) };
    let objects = entries.iter().map(|entry| stored(entry).object(entry.modified)).collect();
    let objects = conversion.to_served(objects).await?;
    if objects.len() != entries.len() {
        return Err(wrong_number());
    }
    Ok(entries.iter().zip(objects).map(|(entry, object)| replaced(entry, object)).collect())
}

pub async fn served_entry(resource: &Resource, entry: Arc<Entry>) -> Result<Arc<Entry>, Error> {
    if resource.conversion.is_none() {
        return Ok(entry);
    }
    one(served(resource, vec![entry]).await?)
}

/// The entry with another value; its revisions are those of what is stored.
fn replaced(entry: &Entry, mut object: Value) -> Arc<Entry> {
    object::remove_meta(&mut object, "resourceVersion");
    let value = persist::encode(&object, &[]);
    Arc::new(Entry::new(entry.key.clone(), value, entry.created, entry.modified))
}

fn one<T>(converted: Vec<T>) -> Result<T, Error> {
    let [one] = <[T; 1]>::try_from(converted).map_err(|_| wrong_number())?;
    Ok(one)
}

fn wrong_number() -> Error {
    Error::internal("a conversion answered with another number of objects than it was given")
}
