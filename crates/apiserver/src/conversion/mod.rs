//! Between the version that a resource is served in and the one that is stored.
//!
//! Most resources are stored as they are served and pass through untouched. The others are
//! converted at the edge of the store, so that everything between sees the served version: what is
//! read is converted before anybody looks at it, what is written after everybody has.
//!
//! Both directions are asynchronous, take many objects at once and can fail, since a converter may
//! be somebody else's program.

use std::sync::{Arc, Weak};

use serde_json::{Value, json};
use store::Entry;

use crate::object;
use crate::persist::{self, stored};
use crate::registry::builtin::{event, horizontal_pod_autoscaler};
use crate::registry::custom::STAMP;
use crate::resources::Resource;
use crate::server::Server;
use crate::status::Error;
use crate::webhooks::convert::{ConversionWebhook, convert};

/// How a served version and the stored one become each other.
#[derive(Clone)]
pub enum Conversion {
    /// By two functions of ours, which cannot fail.
    Functions { to_stored: fn(&Value) -> Value, to_served: fn(&Value) -> Value },
    /// Versions of a custom resource that differ in name only; `stored` is the `apiVersion` in
    /// which objects are written.
    Renamed { stored: String },
    /// Versions of a custom resource that somebody else's program converts.
    Webhook { server: Weak<Server>, config: Arc<ConversionWebhook>, stored: String },
}

impl Conversion {
    async fn to_stored(&self, objects: Vec<Value>) -> Result<Vec<Value>, Error> {
        match self {
            Conversion::Functions { to_stored, .. } => Ok(objects.iter().map(to_stored).collect()),
            Conversion::Renamed { stored } | Conversion::Webhook { stored, .. } => {
                self.to_version(stored, objects).await
            }
        }
    }

    async fn to_served(
        &self,
        resource: &Resource,
        objects: Vec<Value>,
    ) -> Result<Vec<Value>, Error> {
        let mut objects = match self {
            Conversion::Functions { to_served, .. } => objects.iter().map(to_served).collect(),
            _ => self.to_version(&resource.api_version(), objects).await?,
        };
        if let Some(version) = resource.custom() {
            objects.iter_mut().for_each(|object| version.refresh(object));
        }
        Ok(objects)
    }

    /// Converts those that are of another version, with one question for each such version.
    async fn to_version(&self, wanted: &str, mut objects: Vec<Value>) -> Result<Vec<Value>, Error> {
        let Conversion::Webhook { server, config, .. } = self else {
            objects.iter_mut().for_each(|object| object["apiVersion"] = json!(wanted));
            return Ok(objects);
        };
        loop {
            let other = objects.iter().map(|object| &object["apiVersion"]);
            let Some(other) = other.into_iter().find(|version| **version != wanted).cloned() else {
                return Ok(objects);
            };
            let is_other = |at: &usize| objects[*at]["apiVersion"] == other;
            let places: Vec<usize> = (0..objects.len()).filter(is_other).collect();
            let given = places.iter().map(|at| objects[*at].clone()).collect();
            let server = server.upgrade().ok_or_else(|| Error::internal("the server stops"))?;
            let converted = convert(&server, config, given, wanted).await?;
            let is_whole = converted.len() == places.len()
                && converted.iter().all(|object| object["apiVersion"] == wanted);
            if !is_whole {
                return Err(wrong_number());
            }
            for (at, object) in places.into_iter().zip(converted) {
                objects[at] = object;
            }
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

/// An object that is to be written, as it is stored.
pub async fn stored_object(resource: &Resource, object: Value) -> Result<Value, Error> {
    match &resource.conversion {
        None => Ok(object),
        Some(conversion) => one(conversion.to_stored(vec![object]).await?),
    }
}

/// An object as it is stored, as it is served.
pub async fn as_served(resource: &Resource, object: Value) -> Result<Value, Error> {
    match &resource.conversion {
        None => Ok(object),
        Some(conversion) => one(conversion.to_served(resource, vec![object]).await?),
    }
}

/// Entries that were read, as if they had been stored as they are served.
pub async fn served(
    resource: &Resource,
    entries: Vec<Arc<Entry>>,
) -> Result<Vec<Arc<Entry>>, Error> {
    let Some(conversion) = &resource.conversion else { return Ok(entries) };
    let other: Vec<usize> =
        (0..entries.len()).filter(|at| !is_as_served(resource, &entries[*at])).collect();
    if other.is_empty() {
        return Ok(entries);
    }
    let object = |at: &usize| stored(&entries[*at]).object(entries[*at].modified);
    let objects = conversion.to_served(resource, other.iter().map(object).collect()).await?;
    if objects.len() != other.len() {
        return Err(wrong_number());
    }
    let mut entries = entries;
    for (at, object) in other.into_iter().zip(objects) {
        entries[at] = replaced(resource, &entries[at], object);
    }
    Ok(entries)
}

/// Whether an object of a custom resource was written in the form in which it is served: it can be
/// sent without looking at it.
fn is_as_served(resource: &Resource, entry: &Entry) -> bool {
    let version = resource.custom();
    version.is_some_and(|version| stored(entry).field(STAMP) == Some(version.stamp.as_str()))
}

pub async fn served_entry(resource: &Resource, entry: Arc<Entry>) -> Result<Arc<Entry>, Error> {
    if resource.conversion.is_none() {
        return Ok(entry);
    }
    one(served(resource, vec![entry]).await?)
}

/// The entry with another value; its revisions are those of what is stored.
fn replaced(resource: &Resource, entry: &Entry, mut object: Value) -> Arc<Entry> {
    object::remove_meta(&mut object, "resourceVersion");
    let value = match resource.custom() {
        Some(version) => persist::encode(&object, &version.selected(&object)),
        None => persist::encode(&object, &[]),
    };
    Arc::new(Entry::new(entry.key.clone(), value, entry.created, entry.modified))
}

fn one<T>(converted: Vec<T>) -> Result<T, Error> {
    let [one] = <[T; 1]>::try_from(converted).map_err(|_| wrong_number())?;
    Ok(one)
}

fn wrong_number() -> Error {
    Error::internal("a conversion answered with another number of objects than it was given")
}
