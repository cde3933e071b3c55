//! Objects as the store keeps them: their JSON without a resourceVersion, and behind it what
//! readers need to filter and to send them without parsing.
//!
//! ```text
//! {"apiVersion":...,"metadata":{ ... },...}  splice labels fields  length  marker
//! ```
//!
//! The revision is put in where the splice says when the object is sent. A value that is plain
//! JSON, written by somebody else, is parsed once when it is first read.

use std::io::Write;
use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::Value;
use store::{Entry, Revision};

use crate::table::LastingRow;

/// Ends a value of ours; JSON ends in a brace.
const MARKER: u8 = 0x01;

type Pairs = Box<[(Box<str>, Box<str>)]>;

/// An object as read, shared by all who read the same entry.
pub struct Stored {
    json: Bytes,
    splice: usize,
    pub labels: Pairs,
    pub fields: Pairs,
    /// Its row in a table, if it has one that lasts.
    row: OnceLock<Option<Box<LastingRow>>>,
    is_terminating: OnceLock<bool>,
    /// How long the metadata are, from where the revision goes: every Table asks for them.
    metadata_length: OnceLock<u32>,
}

/// The type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    Added,
    Modified,
    Deleted,
}

impl EventType {
    pub fn name(self) -> &'static str {
        match self {
            EventType::Added => "ADDED",
            EventType::Modified => "MODIFIED",
            EventType::Deleted => "DELETED",
        }
    }
}

/// The bytes of an object for the store. Its resourceVersion must be gone.
pub fn encode(object: &Value, fields: &[(&str, String)]) -> Bytes {
    let (mut bytes, splice) = encode_json(object);
    let json_length = bytes.len();
    put_number(&mut bytes, splice);
    let labels = crate::object::labels(object);
    put_number(&mut bytes, labels.len());
    for (key, value) in labels {
        put_text(&mut bytes, key);
        put_text(&mut bytes, value);
    }
    put_number(&mut bytes, fields.len());
    for (name, value) in fields {
        put_text(&mut bytes, name);
        put_text(&mut bytes, value);
    }
    let trailer_length = (bytes.len() - json_length) as u32;
    bytes.extend_from_slice(&trailer_length.to_le_bytes());
    bytes.push(MARKER);
    // It is kept as long as the object is: copied, so as not to keep the room that it grew into.
    Bytes::copy_from_slice(&bytes)
}

/// The JSON and the offset just inside its metadata's brace.
fn encode_json(object: &Value) -> (Vec<u8>, usize) {
    let mut bytes = Vec::with_capacity(4_096);
    let mut splice = 0;
    bytes.push(b'{');
    let members = object.as_object().into_iter().flatten();
    for (position, (key, value)) in members.enumerate() {
        if position > 0 {
            bytes.push(b',');
        }
        write_json(&mut bytes, &Value::from(key.as_str()));
        bytes.push(b':');
        if key == "metadata" {
            splice = bytes.len() + 1;
        }
        write_json(&mut bytes, value);
    }
    bytes.push(b'}');
    (bytes, splice)
}

fn write_json(out: &mut Vec<u8>, value: &Value) {
    serde_json::to_writer(out, value).expect("JSON values always serialise into memory");
}

/// Reads an entry, once for all readers.
pub fn stored(entry: &Entry) -> &Stored {
    entry.derived.get_or_make(|| Stored::read(&entry.value))
}

impl Stored {
    /// Reads the bytes of an entry, decrypted if need be.
    pub fn read(value: &Bytes) -> Stored {
        Stored::read_trailer(value).unwrap_or_else(|| Stored::read_foreign(value))
    }

    fn read_trailer(value: &Bytes) -> Option<Stored> {
        let body = value.strip_suffix(&[MARKER])?;
        let (body, length) = body.split_last_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        let json_length = body.len().checked_sub(length)?;
        let mut trailer = &body[json_length..];
        let splice = get_number(&mut trailer)?;
        let labels = get_pairs(&mut trailer)?;
        let fields = get_pairs(&mut trailer)?;
        let json = value.slice(..json_length);
        Some(Stored::of(json, splice, labels, fields))
    }

    fn read_foreign(value: &Bytes) -> Stored {
        let object = parse(value);
        let (json, splice) = encode_json(&object);
        let pair = |(key, value): (&str, &str)| (Box::from(key), Box::from(value));
        let labels = crate::object::labels(&object).into_iter().map(pair).collect();
        Stored::of(json.into(), splice, labels, Box::default())
    }

    fn of(json: Bytes, splice: usize, labels: Pairs, fields: Pairs) -> Stored {
        let (row, is_terminating, metadata_length) = Default::default();
        Stored { json, splice, labels, fields, row, is_terminating, metadata_length }
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        find(&self.labels, key)
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        find(&self.fields, name)
    }

    /// The JSON without its revision.
    pub fn text(&self) -> &[u8] {
        &self.json
    }

    /// How long the JSON is, about.
    pub fn length(&self) -> usize {
        self.json.len() + 48
    }

    /// The JSON with its revision, appended to a buffer.
    pub fn write(&self, revision: Revision, out: &mut Vec<u8>) {
        if self.splice == 0 {
            out.extend_from_slice(&self.json);
            return;
        }
        let (before, after) = self.json.split_at(self.splice);
        out.extend_from_slice(before);
        write_revision(revision, after.first() != Some(&b'}'), out);
        out.extend_from_slice(after);
    }

    /// The metadata with its revision, appended to a buffer.
    pub fn write_metadata(&self, revision: Revision, out: &mut Vec<u8>) {
        let metadata = match self.splice {
            0 => b"}",
            splice => {
                let measure = || object_length(&self.json[splice..]);
                let length = *self.metadata_length.get_or_init(|| to_u32(measure())) as usize;
                &self.json[splice..splice + length]
            }
        };
        out.push(b'{');
        write_revision(revision, metadata != b"}", out);
        out.extend_from_slice(metadata);
    }

    /// The row of a table; `None` if it must be made anew each time.
    pub fn row(&self, make: impl FnOnce(&Value) -> Option<LastingRow>) -> Option<&LastingRow> {
        let row = self.row.get_or_init(|| make(&parse(&self.json)).map(Box::new));
        row.as_deref()
    }

    /// Whether somebody has asked for its deletion.
    pub fn is_terminating(&self) -> bool {
        *self.is_terminating.get_or_init(|| crate::object::is_terminating(&parse(&self.json)))
    }

    pub fn json(&self, revision: Revision) -> Bytes {
        let mut out = Vec::with_capacity(self.length());
        self.write(revision, &mut out);
        out.into()
    }

    /// The object parsed, with its revision.
    pub fn object(&self, revision: Revision) -> Value {
        let mut object = parse(&self.json);
        crate::object::set_meta(&mut object, "resourceVersion", revision.to_string());
        object
    }

    /// A line of a watch, appended to a buffer. It is not kept for the next watcher: putting it
    /// together costs no more than copying it would.
    pub fn write_event(&self, kind: EventType, revision: Revision, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(kind.name().as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        self.write(revision, out);
        out.extend_from_slice(b"}\n");
    }
}

fn write_revision(revision: Revision, has_more: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"resourceVersion\":\"");
    // Written without a text of its own: this is done for every object that is sent.
    let _ = write!(out, "{revision}");
    out.extend_from_slice(if has_more { b"\"," } else { b"\"" });
}

/// No object is larger than what a request may carry.
fn to_u32(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// How long the rest of an object of compact JSON is, from inside its opening brace on.
fn object_length(rest: &[u8]) -> usize {
    let (mut depth, mut is_text, mut is_escaped) = (1, false, false);
    for (at, byte) in rest.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            b'{' if !is_text => depth += 1,
            b'}' if !is_text => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    rest.len()
}

/// With the same limit of depth as bodies have: what was accepted can be read back.
fn parse(json: &[u8]) -> Value {
    crate::decode::json::parse_accepted(json).unwrap_or_default()
}

fn find<'a>(pairs: &'a Pairs, key: &str) -> Option<&'a str> {
    pairs.iter().find(|(known, _)| **known == *key).map(|(_, value)| &**value)
}

fn put_number(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn get_number(input: &mut &[u8]) -> Option<usize> {
    let mut number = 0;
    for shift in (0..35).step_by(7) {
        let (byte, rest) = input.split_first()?;
        *input = rest;
        number |= usize::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

fn get_text(input: &mut &[u8]) -> Option<Box<str>> {
    let length = get_number(input)?;
    let (text, rest) = input.split_at_checked(length)?;
    *input = rest;
    std::str::from_utf8(text).ok().map(Box::from)
}

fn get_pairs(input: &mut &[u8]) -> Option<Pairs> {
    let count = get_number(input)?;
    let mut pairs = Vec::new();
    for _ in 0..count {
        pairs.push((get_text(input)?, get_text(input)?));
    }
    Some(pairs.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "labels": {"app": "web", "tier": "front"}},
            "spec": {"nodeName": "n1"}
        })
    }

    #[test]
    fn an_object_is_sent_with_its_revision() {
        let stored = Stored::read(&encode(&pod(), &[("spec.nodeName", "n1".into())]));
        let mut expected = pod();
        expected["metadata"]["resourceVersion"] = json!("17");
        let sent: Value = serde_json::from_slice(&stored.json(Revision(17))).unwrap();
        assert_eq!(sent, expected);
        assert_eq!(stored.object(Revision(17)), expected);
        assert_eq!(stored.label("tier"), Some("front"));
        assert_eq!(stored.field("spec.nodeName"), Some("n1"));
        assert_eq!(stored.label("none"), None);
    }

    #[test]
    fn empty_metadata_still_gets_its_revision() {
        let object = json!({"metadata": {}, "kind": "X"});
        let stored = Stored::read(&encode(&object, &[]));
        let sent: Value = serde_json::from_slice(&stored.json(Revision(3))).unwrap();
        assert_eq!(sent["metadata"]["resourceVersion"], "3");
    }

    #[test]
    fn plain_json_of_somebody_else_is_read_too() {
        let stored = Stored::read(&Bytes::from(pod().to_string()));
        assert_eq!(stored.label("app"), Some("web"));
        assert_eq!(stored.object(Revision(5))["metadata"]["resourceVersion"], "5");
    }

    #[test]
    fn a_deep_object_is_read_back_whole() {
        let mut deep = json!(1);
        for _ in 0..400 {
            deep = json!([deep]);
        }
        let object = json!({"metadata": {"name": "a"}, "spec": deep});
        let stored = Stored::read(&encode(&object, &[]));
        assert_eq!(stored.object(Revision(1))["spec"], object["spec"]);
    }

    #[test]
    fn metadata_is_sent_without_the_rest() {
        let labels = json!({"a": "}\"\\", "b": "{[", "c": "\\"});
        let lists = json!([{"x": {}}, []]);
        for metadata in [
            json!({}),
            json!({"name": "a"}),
            json!({"labels": labels, "name": "a", "ownerReferences": lists}),
        ] {
            let object = json!({"kind": "Pod", "metadata": metadata, "spec": {"a": "}"}});
            let stored = Stored::read(&encode(&object, &[]));
            let mut text = Vec::new();
            stored.write_metadata(Revision(7), &mut text);
            let mut expected = metadata.clone();
            expected["resourceVersion"] = json!("7");
            assert_eq!(serde_json::from_slice::<Value>(&text).unwrap(), expected);
        }
        let without = Stored::read(&encode(&json!({"kind": "Pod"}), &[]));
        let mut text = Vec::new();
        without.write_metadata(Revision(7), &mut text);
        assert_eq!(text, br#"{"resourceVersion":"7"}"#);
    }

    #[test]
    fn an_event_is_one_line() {
        let stored = Stored::read(&encode(&pod(), &[]));
        let mut line = Vec::new();
        stored.write_event(EventType::Added, Revision(9), &mut line);
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        let event: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(event["type"], "ADDED");
        assert_eq!(event["object"]["metadata"]["resourceVersion"], "9");
    }
}
