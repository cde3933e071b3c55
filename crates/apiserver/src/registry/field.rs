//! A JSON value and where it was found, so that an error can name its place.
//!
//! Reading is total: what is absent or of another type reads as empty. Paths cost nothing until
//! an error is made.
//!
//! Upstream: apimachinery/pkg/util/validation/field/path.go

use serde_json::Value;

use crate::field_error::{FieldError, Problem};

static NULL: Value = Value::Null;

/// A value inside an object.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    pub value: &'a Value,
    parent: Option<&'a Field<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Name(&'a str),
    Item(&'a str, usize),
    Key(&'a str, &'a str),
}

impl<'a> Field<'a> {
    pub fn root(value: &'a Value) -> Field<'a> {
        Field { value, parent: None, step: Step::Root }
    }

    /// The field of that name; null when there is none.
    pub fn at<'b>(&'b self, name: &'b str) -> Field<'b> {
        Field { value: self.raw(name), parent: Some(self), step: Step::Name(name) }
    }

    /// The elements of the list of that name.
    pub fn items<'b>(&'b self, name: &'b str) -> impl Iterator<Item = Field<'b>> {
        self.list(name).iter().enumerate().map(move |(index, value)| Field {
            value,
            parent: Some(self),
            step: Step::Item(name, index),
        })
    }

    /// The entries of the map of that name.
    pub fn entries<'b>(&'b self, name: &'b str) -> impl Iterator<Item = (&'b str, Field<'b>)> {
        self.map(name).into_iter().flatten().map(move |(key, value)| {
            (key.as_str(), Field { value, parent: Some(self), step: Step::Key(name, key) })
        })
    }

    /// The entry of the map of that name; null when there is none.
    pub fn key<'b>(&'b self, name: &'b str, key: &'b str) -> Field<'b> {
        let value = self.raw(name).get(key).unwrap_or(&NULL);
        Field { value, parent: Some(self), step: Step::Key(name, key) }
    }

    pub fn raw(&self, name: &str) -> &'a Value {
        self.value.get(name).unwrap_or(&NULL)
    }

    /// The text of that name, or empty.
    pub fn text(&self, name: &str) -> &'a str {
        self.raw(name).as_str().unwrap_or("")
    }

    pub fn int(&self, name: &str) -> Option<i64> {
        self.raw(name).as_i64()
    }

    pub fn flag(&self, name: &str) -> bool {
        self.raw(name).as_bool().unwrap_or(false)
    }

    pub fn list(&self, name: &str) -> &'a [Value] {
        self.raw(name).as_array().map_or(&[], Vec::as_slice)
    }

    pub fn map(&self, name: &str) -> Option<&'a serde_json::Map<String, Value>> {
        self.raw(name).as_object()
    }

    pub fn has(&self, name: &str) -> bool {
        !self.raw(name).is_null()
    }

    /// How many elements or entries the list or map of that name has.
    pub fn count(&self, name: &str) -> usize {
        match self.raw(name) {
            Value::Array(list) => list.len(),
            Value::Object(map) => map.len(),
            _ => 0,
        }
    }

    pub fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    pub fn as_text(&self) -> &'a str {
        self.value.as_str().unwrap_or("")
    }

    pub fn as_int(&self) -> Option<i64> {
        self.value.as_i64()
    }

    /// As users write it: `spec.containers[0].image`.
    pub fn path(&self) -> String {
        let mut path = self.parent.map(Field::path).unwrap_or_default();
        if !path.is_empty() && !matches!(self.step, Step::Root) {
            path.push('.');
        }
        match self.step {
            Step::Root => {}
            Step::Name(name) => path.push_str(name),
            Step::Item(name, index) => path.push_str(&format!("{name}[{index}]")),
            Step::Key(name, key) => path.push_str(&format!("{name}[{key}]")),
        }
        path
    }

    pub fn required(&self, detail: &str) -> FieldError {
        FieldError::required(self.path(), detail)
    }

    pub fn invalid(&self, detail: impl Into<String>) -> FieldError {
        FieldError::invalid(self.path(), self.value.clone(), detail)
    }

    /// Invalid, but showing another value than the one at this place.
    pub fn invalid_value(&self, value: impl Into<Value>, detail: impl Into<String>) -> FieldError {
        FieldError::invalid(self.path(), value, detail)
    }

    pub fn forbidden(&self, detail: impl Into<String>) -> FieldError {
        FieldError::forbidden(self.path(), detail)
    }

    pub fn not_supported(&self, supported: &[&str]) -> FieldError {
        FieldError::not_supported(self.path(), self.value.clone(), supported)
    }

    pub fn duplicate(&self) -> FieldError {
        FieldError::duplicate(self.path(), self.value.clone())
    }

    pub fn not_found(&self) -> FieldError {
        FieldError::not_found(self.path(), self.value.clone())
    }

    pub fn too_long(&self, bytes_max: usize) -> FieldError {
        FieldError::too_long(self.path(), bytes_max)
    }

    pub fn too_many(&self, count_max: usize) -> FieldError {
        let detail = format!("must have at most {count_max} items");
        let count = self.value.as_array().map_or(0, Vec::len);
        FieldError::new(Problem::TooMany, self.path(), count, detail)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_reads_as_users_write_it() {
        let object = json!({"spec": {"containers": [{"limits": {"cpu": "1"}}]}});
        let root = Field::root(&object);
        let spec = root.at("spec");
        let container = spec.items("containers").next().unwrap();
        assert_eq!(container.key("limits", "cpu").path(), "spec.containers[0].limits[cpu]");
        assert_eq!(container.key("limits", "cpu").as_text(), "1");
        assert_eq!(container.at("image").path(), "spec.containers[0].image");
    }
}
