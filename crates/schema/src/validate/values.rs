//! The walk over an object and its schema, keyword by keyword.
//!
//! Upstream: kube-openapi/pkg/validation/validate/{schema,object_validator,slice_validator}.go

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{correlate, junctors, numbers, types};
use crate::node::{Additional, Bounds, Node};
use crate::number::{json_text, same};
use crate::path::Path;
use crate::violation::{Problem, Violation};

pub(super) fn check(
    value: &Value,
    old: Option<&Value>,
    node: &Node,
    prefix: Option<&str>,
) -> Vec<Violation> {
    let walk = Walk { prefix };
    let mut out = Vec::new();
    walk.node(value, old, (node, &Path::root()), &mut out);
    let mut seen = HashSet::new();
    out.retain(|violation| seen.insert(violation.to_string()));
    out
}

/// How many checks a value passed: the branch of an `anyOf` with the most explains a failure.
pub(super) type Passed = u32;

/// A node and where the value it applies to is.
pub(super) type Place<'p> = (&'p Node, &'p Path<'p>);

pub(super) struct Walk<'a> {
    /// Where the value is, if it is a part of something else.
    prefix: Option<&'a str>,
}

impl Walk<'_> {
    /// Checks a value. What is wrong with one that did not change is taken back.
    pub(super) fn node(
        &self,
        value: &Value,
        old: Option<&Value>,
        place: Place<'_>,
        out: &mut Vec<Violation>,
    ) -> Passed {
        let before = out.len();
        let passed = match value {
            Value::Null => self.null(place, out),
            _ => self.keywords(value, old, place, out),
        };
        let (node, _) = place;
        if out.len() > before && old.is_some_and(|old| correlate::unchanged(value, old, node)) {
            out.truncate(before);
        }
        passed
    }

    fn null(&self, (node, path): Place<'_>, out: &mut Vec<Violation>) -> Passed {
        let passed = match types::refuses_null(node) {
            Some(wanted) => {
                out.push(self.wrong_type(path, &wanted, "null"));
                0
            }
            None => 1,
        };
        self.enumeration(&Value::Null, (node, path), out);
        passed
    }

    fn keywords(
        &self,
        value: &Value,
        old: Option<&Value>,
        place: Place<'_>,
        out: &mut Vec<Violation>,
    ) -> Passed {
        let (node, path) = place;
        let mut passed = 1;
        match types::check(value, node) {
            types::Verdict::Untyped => {}
            types::Verdict::Right => passed += 2,
            types::Verdict::Wrong { wanted, found } => {
                out.push(self.wrong_type(path, &wanted, found));
                passed += 1;
            }
        }
        passed += 1 + junctors::check(self, value, place, out);
        let bounds = node.bounds.as_deref();
        match value {
            Value::String(text) => {
                passed += 1;
                self.string(text, (node, path), out);
            }
            Value::Number(number) => {
                passed += 2;
                if let Some(bounds) = bounds {
                    for (value, detail) in numbers::check(number, bounds) {
                        let detail = format!("{path} in body should be {detail}");
                        out.push(self.report(Problem::Invalid, path, value, detail));
                    }
                }
            }
            Value::Array(list) => passed += 2 + self.list(list, old, place, out),
            _ => {}
        }
        passed += 1;
        self.enumeration(value, place, out);
        if let Value::Object(map) = value {
            passed += 1 + self.object(map, old, place, out);
        }
        passed
    }

    fn string(&self, text: &str, (node, path): Place<'_>, out: &mut Vec<Violation>) {
        if let Some(bounds) = &node.bounds {
            out.extend(self.text_bounds(text, bounds, path));
        }
        if let Some(format) = types::effective_format(node)
            && crate::formats::matches(format, text) == Some(false)
        {
            out.push(self.wrong_type(path, format, text));
        }
    }

    fn text_bounds(&self, text: &str, bounds: &Bounds, path: &Path<'_>) -> Option<Violation> {
        let sized = bounds.max_length.is_some() || bounds.min_length.is_some();
        let length = if sized { text.chars().count() as i64 } else { 0 };
        if let Some(length_max) = bounds.max_length
            && length > length_max
        {
            let mut violation = Violation::too_long(path, length_max);
            violation.path = self.at(path);
            return Some(violation);
        }
        if let Some(length_min) = bounds.min_length
            && length < length_min
        {
            let detail = format!("{path} in body should be at least {length_min} chars long");
            return Some(self.report(Problem::Invalid, path, text, detail));
        }
        let pattern = bounds.pattern.as_ref()?;
        let detail = match pattern.compile() {
            Ok(expression) if expression.is_match(text) => return None,
            Ok(_) => format!("{path} in body should match '{}'", pattern.text),
            Err(error) => {
                let text = &pattern.text;
                format!("{path} in body should match '{text}, but pattern is invalid: {error}'")
            }
        };
        Some(self.report(Problem::Invalid, path, text, detail))
    }

    fn list(
        &self,
        list: &[Value],
        old: Option<&Value>,
        (node, path): Place<'_>,
        out: &mut Vec<Violation>,
    ) -> Passed {
        let mut passed = 0;
        if let Some(items) = &node.items {
            let mut olds = correlate::Items::new(node, old);
            for (index, value) in list.iter().enumerate() {
                let old = olds.find(index, value);
                passed += self.node(value, old, (items, &path.index(index)), out);
            }
        }
        let Some(bounds) = &node.bounds else {
            return passed;
        };
        let length = list.len() as i64;
        if let Some(items_min) = bounds.min_items
            && length < items_min
        {
            let detail = format!("{path} in body should have at least {items_min} items");
            out.push(self.report(Problem::Invalid, path, length, detail));
        }
        if let Some(items_max) = bounds.max_items
            && length > items_max
        {
            out.push(self.too_many(path, list.len(), items_max));
        }
        if bounds.unique_items && has_duplicates(list) {
            let detail = format!("{path} in body shouldn't contain duplicates");
            out.push(self.report(Problem::Invalid, path, "", detail));
        }
        passed
    }

    fn object(
        &self,
        map: &Map<String, Value>,
        old: Option<&Value>,
        (node, path): Place<'_>,
        out: &mut Vec<Violation>,
    ) -> Passed {
        if let Some(violation) = self.object_size(map, (node, path)) {
            out.push(violation);
            return 0;
        }
        let old = old.and_then(Value::as_object);
        let mut passed = 0;
        for (name, value) in map {
            let child: &Arc<Node> = match (node.properties.get(name.as_str()), &node.additional) {
                (Some(child), _) => child,
                (None, Some(Additional::Schema(child))) => child,
                (None, Some(Additional::Allowed(false))) => {
                    let detail = format!("{path}.{name} in body is a forbidden property");
                    out.push(self.report(Problem::Invalid, path, name.as_str(), detail));
                    continue;
                }
                _ => continue,
            };
            let old = old.and_then(|old| old.get(name));
            passed += self.node(value, old, (child, &path.field(name)), out);
        }
        for name in node.required.iter().filter(|name| !map.contains_key(&***name)) {
            out.push(self.report(Problem::Required, &path.field(name), Value::Null, ""));
        }
        passed
    }

    fn object_size(&self, map: &Map<String, Value>, (node, path): Place<'_>) -> Option<Violation> {
        let bounds = node.bounds.as_ref()?;
        let count = map.len() as i64;
        if let Some(properties_min) = bounds.min_properties
            && count < properties_min
        {
            let detail = format!("{path} in body should have at least {properties_min} properties");
            return Some(self.report(Problem::Invalid, path, count, detail));
        }
        match bounds.max_properties {
            Some(properties_max) if count > properties_max => {
                Some(self.too_many(path, map.len(), properties_max))
            }
            _ => None,
        }
    }

    fn enumeration(&self, value: &Value, (node, path): Place<'_>, out: &mut Vec<Violation>) {
        let allowed = &node.enumeration;
        if allowed.is_empty() || allowed.iter().any(|one| same(one, value)) {
            return;
        }
        let texts: Vec<String> = allowed
            .iter()
            .map(|one| match one {
                Value::String(text) => text.clone(),
                other => json_text(other),
            })
            .collect();
        let supported = texts.iter().map(String::as_str);
        let mut violation = Violation::not_supported(path, value.clone(), supported);
        violation.path = self.at(path);
        out.push(violation);
    }

    fn too_many(&self, path: &Path<'_>, found: usize, items_max: i64) -> Violation {
        let mut violation = Violation::too_many(path, found, items_max);
        violation.path = self.at(path);
        violation
    }

    fn wrong_type(&self, path: &Path<'_>, wanted: &str, found: &str) -> Violation {
        let detail = format!("{path} in body must be of type {wanted}: {found:?}");
        self.report(Problem::TypeInvalid, path, found, detail)
    }

    /// An error of the value as a whole, which has no path but that of the object.
    pub(super) fn composite(&self, detail: String) -> Violation {
        self.report(Problem::Invalid, &Path::root(), "", detail)
    }

    fn report(
        &self,
        problem: Problem,
        path: &Path<'_>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Violation {
        Violation { problem, path: self.at(path), value: value.into(), detail: detail.into() }
    }

    fn at(&self, path: &Path<'_>) -> String {
        match self.prefix {
            None => path.text(),
            Some(prefix) if path.is_root() => prefix.to_owned(),
            Some(prefix) => format!("{prefix}.{path}"),
        }
    }
}

fn has_duplicates(list: &[Value]) -> bool {
    let mut seen = HashSet::new();
    !list.iter().all(|value| seen.insert(super::unique::canonical(value)))
}
