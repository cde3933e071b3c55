//! The templates that a set has had, kept as ControllerRevisions: a group is made again from the
//! template that it was made from, whatever the set says by then.
//!
//! A template that comes back finds its revision again, so that an update that is taken back
//! replaces no group that it had not reached.
//!
//! Upstream: kubernetes-sigs/lws, pkg/utils/revision

use std::sync::Arc;

use reconcile::{Object, owners};
use serde_json::{Map, Value, json};

use super::labels;
use crate::kinds::{CONTROLLER_REVISION, LEADER_WORKER_SET};

/// What of a set makes groups different.
const FIELDS: [&str; 2] = ["networkConfig", "leaderWorkerTemplate"];
/// The longest part of a set's name in the name of a revision.
const PREFIX_BYTES_MAX: usize = 223;
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The revision that a set is of.
#[derive(Debug)]
pub struct Current {
    /// By which its groups know it.
    pub key: String,
    /// The object that has to be made first, if there is none.
    pub made: Option<Value>,
}

/// The revision of a set's own template among those that it has.
pub fn current(set: &Object, held: &[Arc<Object>]) -> Current {
    let data = data(&set.value["spec"]);
    let wanted = normal(&data);
    let found = held.iter().filter(|one| normal(&one.value["data"]) == wanted);
    if let Some(found) = found.max_by_key(|one| number(one)) {
        let key = found.label(labels::REVISION).unwrap_or_default().to_owned();
        return Current { key, made: None };
    }
    let number = held.iter().map(|one| number(one)).max().unwrap_or(0).saturating_add(1);
    let key = hash(&data);
    let name = &*set.name.name;
    let name = format!("{}-{key}-{number}", &name[..name.len().min(PREFIX_BYTES_MAX)]);
    let mut made = owners::child(CONTROLLER_REVISION, &name, LEADER_WORKER_SET, set);
    made["metadata"]["labels"] = json!({labels::NAME: &*set.name.name, labels::REVISION: key});
    made["data"] = data;
    made["revision"] = json!(number);
    Current { key, made: Some(made) }
}

/// The newest revision that groups of a key were made from.
pub fn find<'a>(held: &'a [Arc<Object>], key: &str) -> Option<&'a Arc<Object>> {
    let of_key = held.iter().filter(|one| one.label(labels::REVISION) == Some(key));
    of_key.max_by_key(|one| number(one))
}

/// The `spec` that a revision keeps: what makes groups, and nothing else.
pub fn restored(revision: &Object) -> Value {
    let kept = &revision.value["data"]["spec"];
    let fields = FIELDS.iter().filter(|field| kept[**field].is_object());
    let plain = |field: &str| {
        let mut value = kept[field].clone();
        if let Some(fields) = value.as_object_mut() {
            fields.remove("$patch");
        }
        value
    };
    fields.map(|field| ((*field).to_owned(), plain(field))).collect::<Map<_, _>>().into()
}

fn data(spec: &Value) -> Value {
    let mut kept = Map::new();
    for field in FIELDS.into_iter().filter(|field| spec[*field].is_object()) {
        let mut value = spec[field].clone();
        value["$patch"] = json!("replace");
        kept.insert(field.to_owned(), value);
    }
    json!({"spec": kept})
}

/// Without what says nothing: clients differ in whether they write it.
fn normal(value: &Value) -> Value {
    let says = |value: &Value| match value {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    };
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), normal(value)));
            Value::Object(fields.filter(|(_, value)| says(value)).collect())
        }
        Value::Array(items) => items.iter().map(normal).collect(),
        other => other.clone(),
    }
}

/// FNV over 32 bits, its digits spelled with letters that make no words.
fn hash(data: &Value) -> String {
    let fold = |hash: u32, byte: u8| hash.wrapping_mul(0x0100_0193) ^ u32::from(byte);
    let sum = data.to_string().bytes().fold(0x811c_9dc5, fold);
    let letter = |digit: u8| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]);
    sum.to_string().bytes().map(letter).collect()
}

fn number(revision: &Object) -> i64 {
    revision.value["revision"].as_i64().unwrap_or(0)
}
