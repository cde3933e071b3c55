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
        let refused = |error: crate::selectors::Error| Error::bad_request(error.0);
        let labels = labels::parse(&options.label_selector).map_err(refused)?;
        let fields = fields::parse(&options.field_selector).map_err(refused)?;
        let fields = fields.for_kind(&resource.group, &resource.kind).map_err(refused)?;
        Ok(Selection { labels, fields })
    }

    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
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
