//! `metadata.managedFields`: who owns which fields of an object.

use serde_json::{Map, Value};

use crate::{error::Error, raw, set::Set};

/// How a manager came to own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Apply,
    Update,
}

impl Operation {
    pub fn text(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// Who owns the fields of an entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    pub manager: String,
    pub operation: Operation,
    /// Of an apply it says at which version the set is, and is no part of the identity.
    pub api_version: String,
    /// Empty for the resource itself.
    pub subresource: String,
}

impl Identity {
    /// Whether two entries are one: an applier is the same at every version.
    pub fn is(&self, other: &Identity) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }
}

/// One owner and its fields.
#[derive(Clone, Debug)]
pub struct Entry {
    pub identity: Identity,
    /// RFC 3339 in UTC; None if it was never known.
    pub time: Option<String>,
    pub fields: Fields,
}

/// The fields of an entry, decoded when they are needed.
#[derive(Clone, Debug)]
pub enum Fields {
    Raw(Value),
    Decoded(Set),
}

impl Fields {
    /// The set. Raw fields were checked when they came in.
    pub fn set(&self) -> Result<Set, Error> {
        match self {
            Fields::Raw(raw) => Set::from_value(raw),
            Fields::Decoded(set) => Ok(set.clone()),
        }
    }

    pub fn take(self) -> Result<Set, Error> {
        match self {
            Fields::Raw(raw) => Set::from_value(&raw),
            Fields::Decoded(set) => Ok(set),
        }
    }

    /// Whether any path of a set is among the fields.
    pub fn touches(&self, set: &Set) -> bool {
        match self {
            Fields::Raw(raw) => raw::touches(raw, set),
            Fields::Decoded(fields) => !fields.intersection(set).is_empty(),
        }
    }

    /// Whether every path of a set is among the fields.
    pub fn contains(&self, set: &Set) -> bool {
        match self {
            Fields::Raw(raw) => raw::contains(raw, set),
            Fields::Decoded(fields) => set.is_within(fields),
        }
    }

    pub fn is_empty(&self) -> bool {
        match self {
            Fields::Raw(raw) => raw.as_object().is_none_or(Map::is_empty),
            Fields::Decoded(set) => set.is_empty(),
        }
    }

    fn into_value(self) -> Value {
        match self {
            Fields::Raw(raw) => raw,
            Fields::Decoded(set) => set.to_value(),
        }
    }
}

/// All entries of an object.
#[derive(Clone, Debug, Default)]
pub struct Managed {
    pub entries: Vec<Entry>,
}

impl Managed {
    /// Reads the entries of an object. Their fields are not decoded, only taken to be objects:
    /// use it for what this crate wrote.
    pub fn of_stored(object: &Value) -> Result<Managed, Error> {
        let Some(list) = list_of(object) else { return Ok(Managed::default()) };
        let mut managed = Managed::default();
        for (at, value) in list.iter().enumerate() {
            let entry = read_entry(at, value)?;
            // Of entries with one identity the last holds.
            match managed.position(&entry.identity) {
                Some(at) => managed.entries[at] = entry,
                None => managed.entries.push(entry),
            }
        }
        Ok(managed)
    }

    /// Reads the entries of an object that a client sent, fields and all.
    pub fn of_request(object: &Value) -> Result<Managed, Error> {
        let managed = Managed::of_stored(object)?;
        for (at, entry) in managed.entries.iter().enumerate() {
            if let Fields::Raw(raw) = &entry.fields {
                Set::from_value(raw).map_err(|error| Error::ManagedFields {
                    reason: format!("error decoding managed fields entry {at}: {error}"),
                })?;
            }
        }
        Ok(managed)
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn position(&self, identity: &Identity) -> Option<usize> {
        self.entries.iter().position(|entry| entry.identity.is(identity))
    }

    pub fn get(&self, identity: &Identity) -> Option<&Entry> {
        self.position(identity).map(|at| &self.entries[at])
    }

    /// Drops entries that own nothing.
    pub fn drop_empty(&mut self) {
        self.entries.retain(|entry| !entry.fields.is_empty());
    }

    /// Writes the entries to an object, sorted; none leaves the field out.
    pub fn write(mut self, object: &mut Value) {
        self.entries.sort_by(|left, right| sort_key(left).cmp(&sort_key(right)));
        let list: Vec<Value> = self.entries.into_iter().map(entry_value).collect();
        if list.is_empty() {
            strip(object);
            return;
        }
        if let Value::Object(fields) = object {
            let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(metadata) = metadata {
                metadata.insert("managedFields".to_owned(), Value::Array(list));
            }
        }
    }
}

/// Takes `metadata.managedFields` off an object.
pub fn strip(object: &mut Value) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
}

/// The entries of an object as they are; None where there are none or null.
pub fn list_of(object: &Value) -> Option<&[Value]> {
    object.get("metadata")?.get("managedFields")?.as_array().map(Vec::as_slice)
}

/// Whether a client asks that all ownership be forgotten: `[]` or `[{}]`.
pub fn is_reset(object: &Value) -> bool {
    match list_of(object) {
        Some([]) => true,
        Some([Value::Object(entry)]) => entry.values().all(Value::is_null),
        _ => false,
    }
}

fn sort_key(entry: &Entry) -> (Operation, &str, &str, &str, &str) {
    let Identity { manager, operation, api_version, subresource } = &entry.identity;
    (*operation, entry.time.as_deref().unwrap_or_default(), manager, api_version, subresource)
}

fn read_entry(at: usize, value: &Value) -> Result<Entry, Error> {
    let refuse = |reason: String| Err(Error::ManagedFields { reason });
    let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let operation = match value["operation"].as_str() {
        Some("Apply") => Operation::Apply,
        Some("Update") => Operation::Update,
        _ => return refuse("operation must be `Apply` or `Update`".to_owned()),
    };
    let api_version = text("apiVersion");
    if api_version.is_empty() {
        return refuse("apiVersion must not be empty".to_owned());
    }
    match value["fieldsType"].as_str() {
        Some("FieldsV1") => {}
        None | Some("") => {
            return refuse(format!("missing fieldsType in managed fields entry {at}"));
        }
        Some(other) => {
            return refuse(format!("invalid fieldsType {other:?} in managed fields entry {at}"));
        }
    }
    let fields = match value.get("fieldsV1") {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(fields @ Value::Object(_)) => fields.clone(),
        Some(other) => {
            return refuse(format!("fieldsV1 of managed fields entry {at} is {other}"));
        }
    };
    Ok(Entry {
        identity: Identity {
            manager: text("manager"),
            operation,
            api_version,
            subresource: text("subresource"),
        },
        time: value["time"].as_str().map(str::to_owned),
        fields: Fields::Raw(fields),
    })
}

fn entry_value(entry: Entry) -> Value {
    let Identity { manager, operation, api_version, subresource } = entry.identity;
    let mut value = Map::new();
    value.insert("apiVersion".to_owned(), api_version.into());
    value.insert("fieldsType".to_owned(), "FieldsV1".into());
    value.insert("fieldsV1".to_owned(), entry.fields.into_value());
    value.insert("manager".to_owned(), manager.into());
    value.insert("operation".to_owned(), operation.text().into());
    if !subresource.is_empty() {
        value.insert("subresource".to_owned(), subresource.into());
    }
    if let Some(time) = entry.time {
        value.insert("time".to_owned(), time.into());
    }
    Value::Object(value)
}
