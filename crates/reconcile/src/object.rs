//! An object as a cache holds it: JSON, shared, decoded to a type at most once.
//!
//! Watches carry JSON and not types, because an event that does not decode must not be lost: the
//! controller that cannot read an object says so about that object.

use std::any::Any;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};

use k8s_openapi::jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::Error;

/// The name of an object within its kind; the namespace is empty for kinds without.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Name {
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Name {
        Name { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{}", self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The JSON of an object, shared with others who have it. A clone is a JSON of one's own.
pub struct Json(Arc<Value>);

impl Deref for Json {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

/// What others have too is copied first.
impl DerefMut for Json {
    fn deref_mut(&mut self) -> &mut Value {
        Arc::make_mut(&mut self.0)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl PartialEq<Json> for Value {
    fn eq(&self, other: &Json) -> bool {
        *self == *other.0
    }
}

impl PartialEq<Value> for Json {
    fn eq(&self, other: &Value) -> bool {
        *self.0 == *other
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// An object at one revision.
pub struct Object {
    /// It may lack the revision and the owners of its fields.
    pub value: Json,
    pub name: Name,
    pub uid: String,
    pub revision: u64,
    typed: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl Object {
    pub fn new(value: Value) -> Object {
        let revision = value["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let revision = revision.parse().unwrap_or(0);
        Object::shared(Arc::new(value), revision)
    }

    /// An object that others have too.
    pub fn shared(value: Arc<Value>, revision: u64) -> Object {
        let metadata = &value["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default();
        let name = Name::new(text("namespace"), text("name"));
        let uid = text("uid").to_owned();
        Object { name, uid, revision, typed: OnceLock::new(), value: Json(value) }
    }

    /// The object as a type; decoded the first time it is asked for.
    pub fn read<T>(&self) -> Result<&T, Error>
    where
        T: DeserializeOwned + Send + Sync + 'static,
    {
        if self.typed.get().is_none() {
            let decoded: T = T::deserialize(&*self.value).map_err(|source| Error::Decode {
                object: self.describe(),
                reason: source.to_string(),
            })?;
            // Another task may have been faster; what it decoded is the same.
            let _ = self.typed.set(Box::new(decoded));
        }
        let found = self.typed.get().and_then(|typed| typed.downcast_ref());
        found.ok_or_else(|| Error::Decode {
            object: self.describe(),
            reason: "it was read as another type before".to_owned(),
        })
    }

    pub fn meta(&self, field: &str) -> &str {
        self.value["metadata"][field].as_str().unwrap_or_default()
    }

    pub fn label(&self, name: &str) -> Option<&str> {
        self.value["metadata"]["labels"][name].as_str()
    }

    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.value["metadata"]["annotations"][name].as_str()
    }

    pub fn generation(&self) -> i64 {
        self.value["metadata"]["generation"].as_i64().unwrap_or(0)
    }

    pub fn is_terminating(&self) -> bool {
        !self.meta("deletionTimestamp").is_empty()
    }

    pub fn created(&self) -> Option<Timestamp> {
        self.meta("creationTimestamp").parse().ok()
    }

    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        let list = self.value["metadata"]["finalizers"].as_array();
        list.into_iter().flatten().filter_map(Value::as_str)
    }

    /// The UID of the owner that controls it, if one does.
    pub fn controller(&self) -> Option<&str> {
        let owners = self.value["metadata"]["ownerReferences"].as_array()?;
        let controller = owners.iter().find(|owner| owner["controller"] == Value::Bool(true))?;
        controller["uid"].as_str()
    }

    /// For people: `apps/v1 Deployment default/web`.
    pub fn describe(&self) -> String {
        let text = |field: &str| self.value[field].as_str().unwrap_or("?");
        format!("{} {} {}", text("apiVersion"), text("kind"), self.name)
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.describe(), self.revision)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_decoded_once_and_says_what_it_cannot_read() {
        let object = Object::new(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "a", "name": "b", "resourceVersion": "7"},
            "data": {"k": "v"}}));
        let first: &ConfigMap = object.read().expect("a config map");
        let second: &ConfigMap = object.read().expect("a config map");
        assert!(std::ptr::eq(first, second));
        assert_eq!(object.revision, 7);
        let broken = Object::new(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "b"}, "data": 7}));
        let error = broken.read::<ConfigMap>().expect_err("data is no map").to_string();
        assert!(error.starts_with("could not read v1 ConfigMap b"), "{error}");
    }
}
