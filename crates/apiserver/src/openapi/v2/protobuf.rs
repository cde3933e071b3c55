//! The document as protobuf: the message `openapi.v2.Document`, as far as ours goes.
//!
//! Upstream: github.com/google/gnostic-models/openapiv2/OpenAPIv2.proto

use serde_json::Value;

/// The wire type of a run of bytes.
const RUN: u64 = 2;

pub fn document(of: &Value) -> Vec<u8> {
    let mut message = Message::default();
    message.text(1, &of["swagger"]);
    let mut info = Message::default();
    info.text(1, &of["info"]["title"]);
    info.text(2, &of["info"]["version"]);
    message.part(2, &info);
    message.part(8, &named_list(2, &of["paths"], path));
    message.part(9, &named_list(1, &of["definitions"], schema));
    message.0
}

fn path(of: &Value) -> Message {
    let mut message = Message::default();
    for (number, method) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if of[method].is_object() {
            message.part(number, &operation(&of[method]));
        }
    }
    message
}

fn operation(of: &Value) -> Message {
    let mut message = Message::default();
    message.text(5, &of["operationId"]);
    for parameter in of["parameters"].as_array().into_iter().flatten() {
        // Which kind of parameter it is takes a message for each choice.
        message.part(8, &within(1, within(2, within(3, query_parameter(parameter)))));
    }
    let response = |of: &Value| {
        let mut response = Message::default();
        response.text(1, &of["description"]);
        response.part(2, &within(1, schema(&of["schema"])));
        within(1, response)
    };
    message.part(9, &named_list(1, &of["responses"], response));
    extensions(&mut message, 13, of);
    message
}

fn query_parameter(of: &Value) -> Message {
    let mut message = Message::default();
    message.text(2, &of["in"]);
    message.text(4, &of["name"]);
    message.text(6, &of["type"]);
    message
}

fn schema(of: &Value) -> Message {
    let mut message = Message::default();
    message.text(1, &of["$ref"]);
    message.text(2, &of["format"]);
    message.text(4, &of["description"]);
    if let Some(default) = of.get("default") {
        message.part(5, &any(default));
    }
    for name in of["required"].as_array().into_iter().flatten() {
        message.text(19, name);
    }
    if let Some(values) = of.get("additionalProperties") {
        message.part(21, &within(1, schema(values)));
    }
    if let Some(name) = of.get("type") {
        let mut names = Message::default();
        names.text(1, name);
        message.part(22, &names);
    }
    if let Some(items) = of.get("items") {
        message.part(23, &within(1, schema(items)));
    }
    if let Some(properties) = of.get("properties") {
        message.part(25, &named_list(1, properties, schema));
    }
    extensions(&mut message, 31, of);
    message
}

fn extensions(message: &mut Message, number: u64, of: &Value) {
    for (name, value) in of.as_object().into_iter().flatten() {
        if name.starts_with("x-") {
            message.part(number, &named(name, &any(value)));
        }
    }
}

/// Any value, as YAML, of which JSON is a part.
fn any(value: &Value) -> Message {
    let mut message = Message::default();
    message.bytes(2, value.to_string().as_bytes());
    message
}

fn named_list(number: u64, map: &Value, encode: impl Fn(&Value) -> Message) -> Message {
    let mut message = Message::default();
    for (name, value) in map.as_object().into_iter().flatten() {
        message.part(number, &named(name, &encode(value)));
    }
    message
}

fn named(name: &str, value: &Message) -> Message {
    let mut message = Message::default();
    message.bytes(1, name.as_bytes());
    message.part(2, value);
    message
}

/// A message with one part.
fn within(number: u64, part: Message) -> Message {
    let mut message = Message::default();
    message.part(number, &part);
    message
}

/// A message in the making.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    /// A string; nothing where there is none.
    fn text(&mut self, number: u64, value: &Value) {
        if let Some(text) = value.as_str() {
            self.bytes(number, text.as_bytes());
        }
    }

    fn part(&mut self, number: u64, part: &Message) {
        self.bytes(number, &part.0);
    }

    fn bytes(&mut self, number: u64, bytes: &[u8]) {
        self.number(number << 3 | RUN);
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_is_its_parts_in_order() {
        let bytes = schema(&json!({"type": "array", "items": {"$ref": "r"}, "x-a": 1})).0;
        let expected = [
            &[0xb2, 0x01, 7, 0x0a, 5][..],
            b"array",
            &[0xba, 0x01, 5, 0x0a, 3, 0x0a, 1, b'r'],
            &[0xfa, 0x01, 10, 0x0a, 3, b'x', b'-', b'a', 0x12, 3, 0x12, 1, b'1'],
        ];
        assert_eq!(bytes, expected.concat());
    }

    #[test]
    fn long_runs_have_long_lengths() {
        let mut message = Message::default();
        message.bytes(1, &[0; 300]);
        assert_eq!(message.0[..3], [0x0a, 0xac, 0x02]);
    }
}
