//! Which objects of a list or a watch are wanted.

use crate::persist::Stored;
use crate::request::options::Options;
use crate::resources::Resource;
use crate::selectors::{fields, labels};
use crate::status::Error;

/// Label and field selectors of a request, checked.
#[derive(Clone, Debug)]
pub struct Selection {
    labels: labels::Selector,
    fields: fields::Selector,
}

impl Selection {
    pub fn parse(options: &Options, resource: &Resource) -> Result<Selection, Error> {
        let labels = labels::Selector::parse(&options.label_selector)
            .map_err(|error| Error::bad_request(error.to_string()))?;
        let fields = fields::Selector::parse(&options.field_selector)
            .map_err(|error| Error::bad_request(error.to_string()))?;
        fields
            .check_supported(&resource.group, &resource.kind)
            .map_err(|error| Error::bad_request(error.to_string()))?;
        Ok(Selection { labels, fields })
    }

    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// The one name that can match, if only one can.
    pub fn single_name(&self) -> Option<&str> {
        self.fields.exact("metadata.name")
    }

    /// Whether an object is wanted; `relative` is its key behind the resource's prefix.
    pub fn matches(&self, stored: &Stored, relative: &str) -> bool {
        let (namespace, name) = relative.rsplit_once('/').unwrap_or(("", relative));
        self.labels.matches(|key| stored.label(key))
            && self.fields.matches(|field| match field {
                "metadata.name" => Some(name),
                "metadata.namespace" => Some(namespace),
                other => stored.field(other),
            })
    }
}
