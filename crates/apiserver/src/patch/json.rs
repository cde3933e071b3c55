//! JSON Patch: a list of operations, all of which must succeed.
//!
//! As clients of Kubernetes know it, which is looser than the RFC: a negative index counts from the
//! end, `replace` adds a member that is missing, a missing member is null to `copy` and `test`, and
//! only `test` may name the whole object.
//!
//! Upstream: RFC 6902, evanphx/json-patch v4

use serde_json::{Map, Value};

use super::{Error, depth_of};
use crate::decode::DEPTH_MAX;

/// The most operations of a patch.
pub const OPERATIONS_MAX: usize = 10_000;
/// How much the copies of a patch may add: as much as a request may bring.
pub const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;
/// How many moved values may be looked at to keep the depth of the object within its limit.
const MEASURED_MAX: usize = 10_000_000;

/// Patches a value. After an error it is in no particular state.
pub fn apply(object: &mut Value, patch: &Value) -> Result<(), Error> {
    let operations = match patch {
        Value::Array(operations) => operations.as_slice(),
        Value::Null => &[],
        other => return Err(Error::not_a_patch(other, "[]interface {}")),
    };
    if operations.len() > OPERATIONS_MAX {
        return Err(Error::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            operations.len()
        )));
    }
    let operations: Vec<&Map<String, Value>> = operations
        .iter()
        .map(|operation| operation.as_object())
        .collect::<Option<_>>()
        .ok_or_else(|| Error::Malformed("an operation of a JSON patch is an object".to_owned()))?;
    let depth_bound = depth_of(object);
    let mut document = Document { root: object, depth_bound, measured: 0, copied: 0 };
    for operation in operations {
        document.perform(operation)?;
    }
    Ok(())
}

fn refused(what: String) -> Error {
    Error::DoesNotApply(what)
}

/// The object, and what keeps the patch within limits.
struct Document<'a> {
    root: &'a mut Value,
    /// The object is not deeper than this.
    depth_bound: usize,
    measured: usize,
    copied: usize,
}

impl Document<'_> {
    fn perform(&mut self, operation: &Map<String, Value>) -> Result<(), Error> {
        let name = text(operation, "op")?;
        let path = text(operation, "path")?;
        if (name, path) == ("test", "") {
            let is_equal = operation.get("value").is_some_and(|value| *value == *self.root);
            return if is_equal { Ok(()) } else { Err(failed_test(path)) };
        }
        let path = Pointer::read(path)?;
        let value = || operation.get("value").cloned().unwrap_or_default();
        match name {
            "add" => {
                let value = value();
                let depth = depth_of(&value);
                self.add(&path, value, depth)
            }
            "remove" => self.remove(&path).map(drop),
            "replace" => {
                let value = value();
                self.replace(&path, value)
            }
            "move" => {
                let from = Pointer::read(text(operation, "from")?)?;
                let value = self.remove(&from)?;
                let depth = self.depth_of_moved(&value, &path)?;
                self.add(&path, value, depth)
            }
            "copy" => {
                let from = Pointer::read(text(operation, "from")?)?;
                let value = self.copy(&from)?;
                let depth = depth_of(&value);
                self.add(&path, value, depth)
            }
            "test" => self.test(&path, operation.get("value").unwrap_or(&Value::Null)),
            other => Err(refused(format!("Unexpected kind: {other}"))),
        }
    }

    fn add(&mut self, path: &Pointer<'_>, value: Value, depth: usize) -> Result<(), Error> {
        self.deepen(path, depth)?;
        let missing = || refused(format!("add operation does not apply: no {:?}", path.text));
        match self.parent_mut(path).ok_or_else(missing)? {
            Value::Object(map) => {
                map.insert(path.last(), value);
            }
            Value::Array(list) => {
                let last = path.last();
                // The element that is added counts already.
                let length = list.len() + 1;
                let index = if last == "-" { Some(list.len()) } else { index_of(&last, length) };
                list.insert(index.ok_or_else(|| bad_index(path))?, value);
            }
            _ => return Err(missing()),
        }
        Ok(())
    }

    fn remove(&mut self, path: &Pointer<'_>) -> Result<Value, Error> {
        let missing = || refused(format!("remove operation does not apply: no {:?}", path.text));
        match self.parent_mut(path).ok_or_else(missing)? {
            Value::Object(map) => map.remove(&path.last()).ok_or_else(missing),
            Value::Array(list) => {
                let index = index_of(&path.last(), list.len()).ok_or_else(|| bad_index(path))?;
                Ok(list.remove(index))
            }
            _ => Err(missing()),
        }
    }

    fn replace(&mut self, path: &Pointer<'_>, value: Value) -> Result<(), Error> {
        self.deepen(path, depth_of(&value))?;
        let missing = || refused(format!("replace operation does not apply: no {:?}", path.text));
        match self.parent_mut(path).ok_or_else(missing)? {
            Value::Object(map) => {
                map.insert(path.last(), value);
            }
            parent => *child_mut(parent, &path.last()).ok_or_else(missing)? = value,
        }
        Ok(())
    }

    fn copy(&mut self, from: &Pointer<'_>) -> Result<Value, Error> {
        let value = self.get(from)?.clone();
        self.copied = self.copied.saturating_add(value.to_string().len());
        match self.copied {
            0..=COPIED_BYTES_MAX => Ok(value),
            copied => Err(refused(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied}, \
                 exceeding the limit {COPIED_BYTES_MAX}"
            ))),
        }
    }

    fn test(&mut self, path: &Pointer<'_>, value: &Value) -> Result<(), Error> {
        match self.get(path)? == value {
            true => Ok(()),
            false => Err(failed_test(path.text)),
        }
    }

    /// What is at a path; a member that is missing is null.
    fn get(&mut self, path: &Pointer<'_>) -> Result<&Value, Error> {
        let missing = || refused(format!("operation does not apply: no {:?}", path.text));
        match self.parent_mut(path).ok_or_else(missing)? {
            Value::Object(map) => Ok(map.get(&path.last()).unwrap_or(&Value::Null)),
            parent => child_mut(parent, &path.last()).map(|value| &*value).ok_or_else(missing),
        }
    }

    fn parent_mut(&mut self, path: &Pointer<'_>) -> Option<&mut Value> {
        let mut value = &mut *self.root;
        for step in &path.steps[..path.steps.len() - 1] {
            value = child_mut(value, &unescape(step))?;
        }
        Some(value)
    }

    /// Keeps the object within its depth when a value of a depth is put at a path.
    fn deepen(&mut self, path: &Pointer<'_>, depth: usize) -> Result<(), Error> {
        let depth = path.steps.len() + depth;
        if depth > DEPTH_MAX {
            return Err(refused("exceeded max depth".to_owned()));
        }
        self.depth_bound = self.depth_bound.max(depth);
        Ok(())
    }

    /// The depth of a value that moves to a path. It is not deeper than the object was, and is
    /// measured only where that says too little.
    fn depth_of_moved(&mut self, value: &Value, path: &Pointer<'_>) -> Result<usize, Error> {
        if path.steps.len() + self.depth_bound <= DEPTH_MAX {
            return Ok(self.depth_bound);
        }
        self.measured += count(value);
        match self.measured {
            0..=MEASURED_MAX => Ok(depth_of(value)),
            _ => Err(refused("too many values are moved too deep".to_owned())),
        }
    }
}

fn count(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(count).sum::<usize>(),
        Value::Object(map) => 1 + map.values().map(count).sum::<usize>(),
        _ => 1,
    }
}

fn text<'a>(operation: &'a Map<String, Value>, field: &str) -> Result<&'a str, Error> {
    let text = operation.get(field).and_then(Value::as_str);
    text.ok_or_else(|| refused(format!("operation missing {field} field: missing value")))
}

fn failed_test(path: &str) -> Error {
    refused(format!("testing value {path} failed: test failed"))
}

fn bad_index(path: &Pointer<'_>) -> Error {
    refused(format!("Unable to access invalid index: {}: invalid index referenced", path.text))
}

fn child_mut<'a>(value: &'a mut Value, step: &str) -> Option<&'a mut Value> {
    match value {
        Value::Object(map) => map.get_mut(step),
        Value::Array(list) => {
            let index = index_of(step, list.len())?;
            list.get_mut(index)
        }
        _ => None,
    }
}

/// The place in a list of a length; negative ones count from the end.
fn index_of(step: &str, length: usize) -> Option<usize> {
    let index: i64 = step.parse().ok()?;
    let index = match usize::try_from(index) {
        Ok(index) => index,
        Err(_) => length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?,
    };
    (index < length).then_some(index)
}

/// A place in the object, never the whole of it.
struct Pointer<'a> {
    text: &'a str,
    /// At least one; escaped.
    steps: Vec<&'a str>,
}

impl<'a> Pointer<'a> {
    fn read(text: &'a str) -> Result<Pointer<'a>, Error> {
        match text.strip_prefix('/') {
            Some(steps) => Ok(Pointer { text, steps: steps.split('/').collect() }),
            None => Err(refused(format!("operation does not apply: no {text:?}: missing value"))),
        }
    }

    fn last(&self) -> String {
        unescape(self.steps.last().copied().unwrap_or_default())
    }
}

fn unescape(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}
