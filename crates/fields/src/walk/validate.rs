//! Whether an object fits its shape well enough to be merged.
//!
//! This is not the validation of the API: it checks only that every field is declared, that
//! values are of the right kind, and that the items of lists can be told apart.

use serde_json::Value;

use crate::{
    element::{self, Element, Path},
    go_text,
    shape::{Form, List, Map, Scalar, Shape},
    walk::items::element_of,
};

/// Whether items of a list that cannot be told apart are an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// In what is live, which may be older than the rule.
    Allowed,
    /// In what is applied.
    Refused,
}

/// Checks an object; the error is all that is wrong, as one text.
pub fn check<S: Shape>(shape: S, object: &Value, duplicates: Duplicates) -> Result<(), String> {
    let mut check = Check { duplicates, path: Vec::new(), errors: Vec::new() };
    check.value(shape, object);
    match check.errors.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("errors:\n  {}", many.join("\n  "))),
    }
}

struct Check {
    duplicates: Duplicates,
    path: Path,
    errors: Vec<String>,
}

impl Check {
    fn refuse(&mut self, reason: &str) {
        let path = element::display(&self.path);
        let separator = if path.is_empty() { "" } else { ": " };
        self.errors.push(format!("{path}{separator}{reason}"));
    }

    fn below<S: Shape>(&mut self, element: Element, shape: S, value: &Value) {
        self.path.push(element);
        self.value(shape, value);
        self.path.pop();
    }

    fn value<S: Shape>(&mut self, shape: S, value: &Value) {
        if value.is_null() {
            return;
        }
        match shape.atom().form(value) {
            Some(Form::Scalar(scalar)) => self.scalar(scalar, value),
            Some(Form::List(list)) => match value {
                Value::Array(values) => self.items(shape, list, values),
                other => self.refuse(&format!("expected list, got {}", go_text::pointer(other))),
            },
            Some(Form::Map(map)) => match value {
                Value::Object(fields) => self.fields(shape, map, fields),
                other => self.refuse(&format!("expected map, got {}", go_text::pointer(other))),
            },
            None => self.refuse("schema error: invalid atom"),
        }
    }

    fn scalar(&mut self, scalar: Scalar, value: &Value) {
        let expected = match (scalar, value) {
            (Scalar::Numeric, Value::Number(_))
            | (Scalar::String, Value::String(_))
            | (Scalar::Boolean, Value::Bool(_)) => return,
            (Scalar::Untyped, other) if !other.is_object() && !other.is_array() => return,
            (Scalar::Numeric, _) => "numeric (int or float)",
            (Scalar::String, _) => "string",
            (Scalar::Boolean, _) => "boolean",
            (Scalar::Untyped, _) => "any scalar",
        };
        let got = go_text::syntax(value);
        self.refuse(&format!("expected {expected}, got &value.valueUnstructured{{Value:{got}}}"));
    }

    fn items<S: Shape>(&mut self, shape: S, list: List<'_>, values: &[Value]) {
        let item_shape = shape.items();
        let mut seen: Vec<Element> = Vec::new();
        for (at, item) in values.iter().enumerate() {
            let element = match element_of(list, item_shape, at, item) {
                Ok(element) => element,
                Err(reason) => {
                    // Nothing below can be named, so nothing below is checked.
                    self.refuse(&format!("element {at}: {reason}"));
                    return;
                }
            };
            if !matches!(list, List::Atomic) {
                match seen.binary_search(&element) {
                    Ok(_) if self.duplicates == Duplicates::Refused => {
                        self.refuse(&format!("duplicate entries for key {element}"));
                    }
                    Ok(_) => {}
                    Err(at) => seen.insert(at, element.clone()),
                }
            }
            if let Some(shape) = item_shape {
                self.below(element, shape, item);
            }
        }
    }

    fn fields<S: Shape>(&mut self, shape: S, map: Map, fields: &serde_json::Map<String, Value>) {
        for (name, value) in fields {
            let element = Element::field(name);
            match shape.member(name) {
                Some(shape) => self.below(element, shape, value),
                // What is replaced whole may hold anything where its schema says nothing.
                None if map == Map::Atomic && shape.atom().scalar.is_some() => {}
                None => {
                    self.path.push(element);
                    self.refuse("field not declared in schema");
                    self.path.pop();
                    return;
                }
            }
        }
    }
}
