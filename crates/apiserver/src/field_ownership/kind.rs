//! What the ownership of fields asks about a resource, at each version it is served at.

use std::borrow::Cow;

use fields::Set;
use serde_json::Value;

use super::{reset, shape::Shape};
use crate::conversion::{self, Conversion};
use crate::decode;
use crate::facts;
use crate::quantity;
use crate::resources::Resource;

/// A resource as the `fields` crate sees it.
pub struct Kind<'r> {
    resource: &'r Resource,
    api_version: String,
}

impl Kind<'_> {
    pub fn of(resource: &Resource) -> Kind<'_> {
        Kind { resource, api_version: resource.api_version() }
    }

    /// The version of the endpoint.
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    fn conversion(&self, api_version: &str) -> Option<Conversion> {
        let (group, version) = split(api_version);
        conversion::builtin(group, version, &self.resource.kind)
    }
}

impl fields::Resource for Kind<'_> {
    type Shape<'a>
        = Shape<'a>
    where
        Self: 'a;

    fn shape<'a>(&'a self, api_version: &str) -> Option<Shape<'a>> {
        if api_version == self.api_version {
            return Some(self.resource.shape());
        }
        let (group, version) = split(api_version);
        if let Some(custom) = self.resource.custom() {
            let sibling = custom.life.schemas.get(version).filter(|_| group == custom.group)?;
            // What a webhook would make of the object at another version cannot be asked for here:
            // the object stays as it is, and is told by the version it has.
            return Some(match self.resource.conversion {
                Some(Conversion::Webhook { .. }) => self.resource.shape(),
                _ => Shape::Custom(&sibling.get().root),
            });
        }
        let sibling = facts::kind_of(group, version, &self.resource.kind)?;
        Some(Shape::of_type(sibling.type_id))
    }

    /// Go writes the structs of an object that nobody has set anything of.
    fn empty(&self, api_version: &str) -> Value {
        let mut empty = Value::Null;
        let (group, version) = split(api_version);
        if let Some(kind) = facts::kind_of(group, version, &self.resource.kind) {
            let canonical = |text: &str| quantity::rewritten(text).ok();
            let made = decode::strict::normalise(&mut empty, kind.type_id.get(), canonical);
            debug_assert!(made.is_ok(), "nothing is of every type");
        }
        if empty.is_null() { Value::Object(serde_json::Map::new()) } else { empty }
    }

    /// Through the version that is stored.
    fn convert<'v>(&self, object: &'v Value, api_version: &str) -> Result<Cow<'v, Value>, String> {
        let from = object["apiVersion"].as_str().unwrap_or(&self.api_version);
        if from == api_version {
            return Ok(Cow::Borrowed(object));
        }
        let mut converted = match self.conversion(from) {
            Some(Conversion::Functions { to_stored, .. }) => to_stored(object),
            _ => object.clone(),
        };
        if let Some(Conversion::Functions { to_served, .. }) = self.conversion(api_version) {
            converted = to_served(&converted);
        }
        converted["apiVersion"] = api_version.into();
        if let (Some(custom), Some(Conversion::Renamed { .. })) =
            (self.resource.custom(), &self.resource.conversion)
            && let Some(sibling) = custom.life.schemas.get(split(api_version).1)
        {
            // As whoever reads it at that version would see it.
            schema::prune(&mut converted, sibling.get());
        }
        Ok(Cow::Owned(converted))
    }

    fn reset_fields(&self, _api_version: &str, subresource: &str) -> Option<&Set> {
        reset::fields_of(self.resource, subresource)
    }
}

/// The group and the version: `apps/v1`, or `v1` of the core group.
fn split(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}
