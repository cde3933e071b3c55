//! What an update or an apply has to be told: the kind of the object, and the request.

use std::borrow::Cow;

use serde_json::Value;

use crate::{set::Set, shape::Shape};

/// A kind of object at all versions it is served at.
pub trait Resource {
    type Shape<'a>: Shape
    where
        Self: 'a;

    /// The schema at a version; None where the version is not served. Fields that are owned at
    /// such a version are forgotten.
    fn shape<'a>(&'a self, api_version: &str) -> Option<Self::Shape<'a>>;

    /// The object that a kind has before it has anything, without `apiVersion` and `kind`. For a
    /// custom resource that is `{}`. For a type whose structs are encoded even when nobody set
    /// them it holds these, so that nobody owns them for their mere presence.
    fn empty(&self, _api_version: &str) -> Value {
        Value::Object(serde_json::Map::new())
    }

    /// The object at another version. The default is for kinds whose versions differ in name.
    ///
    /// Errors: a text, which fails the request.
    fn convert<'v>(&self, object: &'v Value, api_version: &str) -> Result<Cow<'v, Value>, String> {
        if object["apiVersion"].as_str() == Some(api_version) {
            return Ok(Cow::Borrowed(object));
        }
        let mut converted = object.clone();
        converted["apiVersion"] = api_version.into();
        Ok(Cow::Owned(converted))
    }

    /// The fields that a write to this endpoint cannot change, at a version: `status` for the
    /// resource itself, `spec` for its status. What is below them is meant too.
    fn reset_fields(&self, _api_version: &str, _subresource: &str) -> Option<&Set> {
        None
    }
}

/// Who writes, where and when.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The field manager; empty becomes `unknown`.
    pub manager: &'a str,
    /// The version of the endpoint: `v1`, `apps/v1`. Objects are given and returned at it.
    pub api_version: &'a str,
    /// Empty for the resource itself.
    pub subresource: &'a str,
    /// RFC 3339 in UTC, whole seconds.
    pub time: &'a str,
}

/// What an apply does about fields of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// Fails.
    No,
    /// Takes them.
    Yes,
}

/// The most managers with operation Update that are kept apart.
pub const UPDATE_MANAGERS_MAX: usize = 10;
