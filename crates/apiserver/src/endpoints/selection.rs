//! Which objects of a list or a watch are wanted.

use std::sync::Arc;

use store::Revision;

use crate::persist::Stored;
use crate::registry::custom::{STAMP, Version};
use crate::request::options::Options;
use crate::resources::Resource;
use crate::selectors::{fields, labels};
use crate::status::Error;

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
