//! Which objects of a list or a watch are wanted.

use std::sync::Arc;

use store::{Interest, KeyRange, Revision};

use crate::persist::{Stored, stored};
use crate::registry::custom::{STAMP, Version};
use crate::request::options::Options;
use crate::resources::Resource;
use crate::selectors::{fields, labels};
use crate::status::Error;

/// The field of a pod that says where it runs.
const NODE: &str = "spec.nodeName";

/// Label and field selectors of a request, checked.
#[derive(Clone)]
pub struct Selection {
    labels: labels::Selector,
    fields: fields::Selector,
    /// For objects that were stored under another schema.
    custom: Option<Arc<Version>>,
}

impl Selection {
    pub fn parse(options: &Options, resource: &Resource) -> Result<Selection, Error> {
        let refused = |error: crate::selectors::Error| Error::bad_request(error.0);
        let labels = labels::parse(&options.label_selector).map_err(refused)?;
        let fields = fields::parse(&options.field_selector).map_err(refused)?;
        let custom = resource.custom().cloned();
        let fields = match &custom {
            None => fields.for_kind(&resource.group, &resource.kind),
            Some(version) => {
                fields.among(|field| version.selectable.iter().any(|(known, _)| known == field))
            }
        };
        Ok(Selection { labels, fields: fields.map_err(refused)?, custom })
    }

    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Where all that is wanted lies: one key, if the name is said.
    pub fn range(&self, resource: &Resource, namespace: &str) -> KeyRange {
        let name = self.fields.exact("metadata.name");
        let is_whole = !resource.namespaced || !namespace.is_empty();
        let key = name.filter(|_| is_whole).and_then(|name| resource.key(namespace, name).ok());
        key.map_or_else(|| resource.range(namespace), |key| KeyRange::single(&key))
    }

    /// What a watcher need not be woken for is told to the store: each node watches its own pods.
    pub fn interest(&self, resource: &Resource) -> Option<Interest> {
        let is_pod = resource.group.is_empty() && resource.kind == "Pod";
        // Pods without a node say nothing of it.
        let node = self.fields.exact(NODE).filter(|node| is_pod && !node.is_empty())?;
        Some(Interest { of: |entry| stored(entry).field(NODE), value: node.into() })
    }

    /// Whether an object is wanted; `relative` is its key behind the resource's prefix.
    pub fn matches(&self, stored: &Stored, relative: &str) -> bool {
        let (namespace, name) = relative.rsplit_once('/').unwrap_or(("", relative));
        let is_labelled = self.labels.matches(|key| stored.label(key));
        if !is_labelled || self.fields.is_everything() {
            return is_labelled;
        }
        let known = self.known(stored);
        self.fields.matches(|field| match (field, &known) {
            ("metadata.name", _) => Some(name),
            ("metadata.namespace", _) => Some(namespace),
            (other, None) => stored.field(other),
            (other, Some(known)) => {
                known.iter().find(|(name, _)| name == other).map(|(_, value)| value.as_str())
            }
        })
    }

    /// The fields of an object that does not have them beside it.
    fn known(&self, stored: &Stored) -> Option<Vec<(String, String)>> {
        let version = self.custom.as_ref().filter(|version| !version.selectable.is_empty())?;
        if stored.field(STAMP) == Some(version.stamp.as_str()) {
            return None;
        }
        let mut object = stored.object(Revision::ZERO);
        version.refresh(&mut object);
        let fields = version.selected(&object).into_iter();
        Some(fields.map(|(name, value)| (name.to_owned(), value)).collect())
    }
}
