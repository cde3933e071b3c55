//! The text of JSON that digests are made of, and the digests.
//!
//! The same content has the same text whatever the order of its keys and of its named elements.

use std::cmp::Ordering;

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Map, Value};

/// Digits of a digest that go into names.
const SHORT_LENGTH: usize = 8;

/// The whole digest of a text, in hexadecimal digits.
pub fn sha256(text: &str) -> String {
    let bytes = digest(&SHA256, text.as_bytes());
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The first digits of it, for names.
pub fn short(text: &str) -> String {
    let mut digits = sha256(text);
    digits.truncate(SHORT_LENGTH);
    digits
}

/// What an object says besides who it is and how it fares.
pub fn content(object: &Value) -> Value {
    if let Some(spec) = object.get("spec") {
        return spec.clone();
    }
    let fields = object.as_object().into_iter().flatten();
    let said = fields.filter(|(name, _)| !is_envelope(name));
    said.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>().into()
}

pub fn is_envelope(field: &str) -> bool {
    matches!(field, "apiVersion" | "kind" | "metadata" | "status")
}

/// One text for everything that means the same, as Go writes JSON.
pub fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write(&mut text, value);
    text
}

fn write(text: &mut String, value: &Value) {
    match value {
        Value::Object(fields) => {
            text.push('{');
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort();
            for (number, name) in names.into_iter().enumerate() {
                if number > 0 {
                    text.push(',');
                }
                write_text(text, name);
                text.push(':');
                write(text, &fields[name]);
            }
            text.push('}');
        }
        Value::Array(items) => {
            let mut items: Vec<&Value> = items.iter().collect();
            if items.first().is_some_and(|first| first.is_object()) {
                items.sort_by(|one, other| order(one, other));
            }
            text.push('[');
            for (number, item) in items.into_iter().enumerate() {
                if number > 0 {
                    text.push(',');
                }
                write(text, item);
            }
            text.push(']');
        }
        Value::String(said) => write_text(text, said),
        Value::Number(number) => {
            // What is whole is written so, however it came.
            let whole = number.as_f64().filter(|_| number.is_f64() && is_whole(number.as_f64()));
            match whole {
                Some(whole) => text.push_str(&format!("{whole:.0}")),
                None => text.push_str(&number.to_string()),
            }
        }
        other => text.push_str(&other.to_string()),
    }
}

fn is_whole(number: Option<f64>) -> bool {
    number.is_some_and(|number| number.fract() == 0.0 && number.abs() < 1e21)
}

/// By name where both have one, else by the first of their keys.
fn order(one: &Value, other: &Value) -> Ordering {
    let name = |value: &Value| value["name"].as_str().map(str::to_owned);
    if let (Some(one), Some(other)) = (name(one), name(other)) {
        return one.cmp(&other);
    }
    let first = |value: &Value| value.as_object().and_then(|fields| fields.keys().min().cloned());
    first(one).cmp(&first(other))
}

/// A text in quotes, with what could end a script or a line written as numbers.
fn write_text(text: &mut String, said: &str) {
    let quoted = Value::String(said.to_owned()).to_string();
    for character in quoted.chars() {
        match character {
            '<' => text.push_str("\\u003c"),
            '>' => text.push_str("\\u003e"),
            '&' => text.push_str("\\u0026"),
            '\u{2028}' => text.push_str("\\u2028"),
            '\u{2029}' => text.push_str("\\u2029"),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn digests_are_those_that_other_operators_make() {
        let spec = json!({"replicas": 2, "template": {"spec": {"containers": [
            {"name": "b", "image": "x"}, {"name": "a", "image": "y"}]}}});
        let text = canonical(&content(&json!({"kind": "K", "spec": spec})));
        let expected = "{\"replicas\":2,\"template\":{\"spec\":{\"containers\":[{\"image\":\"y\",\
                        \"name\":\"a\"},{\"image\":\"x\",\"name\":\"b\"}]}}}";
        assert_eq!(text, expected);
        let digest = "b819fe3a53933b7413db0273152735be8d2d51786efd1574b58083f4555144fa";
        assert_eq!(sha256(&text), digest);
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n"},
            "data": {"k": "a<b&c"}});
        let text = canonical(&content(&map));
        assert_eq!(text, "{\"data\":{\"k\":\"a\\u003cb\\u0026c\"}}");
        let digest = "79373261c2d31dfb89692615ff327a5f504d8d31126b0c60e43393647c3cc34c";
        assert_eq!(sha256(&text), digest);
        assert_eq!(canonical(&content(&json!({"kind": "K"}))), "{}");
        assert!(sha256("{}").starts_with("44136fa3"));
        assert_eq!(canonical(&json!([1.0, 1e3, 0.5])), "[1,1000,0.5]");
    }

    #[test]
    fn models_are_known_by_eight_digits() {
        for (model, digits) in [
            ("Qwen/Qwen3-0.6B", "fb68f5a6"),
            ("tiny", "8950abfd"),
            ("meta-llama/Llama-3.1-8B-Instruct", "08a20b29"),
        ] {
            assert_eq!(short(model), digits);
        }
    }
}
