//! JSON values as YAML that every reader of either YAML version understands alike.
//!
//! A text is written plain only where nobody could take it for anything else; all others are
//! quoted as JSON quotes them, which YAML allows.

use serde_json::Value;

const INDENT: &str = "  ";

/// Texts that some reader takes for something else.
const RESERVED: [&str; 12] =
    ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf", "infinity"];

pub fn write(value: &Value) -> String {
    let mut text = String::new();
    block(&mut text, value, 0);
    text
}

/// A value on lines of its own.
fn block(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                indent(text, depth);
                text.push_str(&scalar(key));
                text.push(':');
                after(text, value, depth + 1);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                indent(text, depth);
                text.push('-');
                match item {
                    Value::Object(fields) if !fields.is_empty() => {
                        // The first field goes on the line of the dash.
                        let mut inner = String::new();
                        block(&mut inner, item, depth + 1);
                        text.push(' ');
                        text.push_str(inner.trim_start());
                    }
                    item => after(text, item, depth + 1),
                }
            }
        }
        other => {
            indent(text, depth);
            text.push_str(&inline(other));
            text.push('\n');
        }
    }
}

/// A value after a colon or a dash.
fn after(text: &mut String, value: &Value, depth: usize) {
    let nested = match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if nested {
        text.push('\n');
        block(text, value, depth);
    } else {
        text.push(' ');
        text.push_str(&inline(value));
        text.push('\n');
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        other => other.to_string(),
    }
}

fn scalar(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { quote(text) }
}

fn is_plain(text: &str) -> bool {
    // No number and no date starts with a letter.
    let starts = text.starts_with(|first: char| first.is_ascii_alphabetic());
    let harmless = |c: char| c.is_ascii_alphanumeric() || "-_./@+=".contains(c);
    let words = text.chars().all(|c| harmless(c) || c == ':') && !text.ends_with(':');
    starts && words && !RESERVED.contains(&text.to_ascii_lowercase().as_str())
}

/// As JSON does, and what YAML does not print is escaped as well.
fn quote(text: &str) -> String {
    let mut quoted = String::new();
    for c in Value::from(text).to_string().chars() {
        match c {
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => quoted.push(c),
        }
    }
    quoted
}

fn indent(text: &mut String, depth: usize) {
    for _ in 0..depth {
        text.push_str(INDENT);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn it_looks_as_people_write_it() {
        let value = json!({
            "a": {"b": [], "c": {}}, "list": [{"x": 1, "z": ["p", ["q"]]}, "plain", null],
            "server": "https://127.0.0.1:6443", "t": "on", "u": "12:30", "v": true
        });
        let expected = "\
a:
  b: []
  c: {}
list:
  - x: 1
    z:
      - p
      -
        - q
  - plain
  - null
server: https://127.0.0.1:6443
t: \"on\"
u: \"12:30\"
v: true
";
        assert_eq!(write(&value), expected);
    }

    fn value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            "[a-z0-9:#&*!|>'\"%@`,{}\\[\\]? -]{0,8}",
            any::<String>(),
            prop::sample::select(RESERVED.to_vec()).prop_map(str::to_owned),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z: #-]{1,5}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in value()) {
            let text = write(&value);
            let read: Value = serde_saphyr::from_str(&text).map_err(|error| {
                TestCaseError::fail(format!("{error}\n{text}"))
            })?;
            prop_assert_eq!(read, value, "{}", text);
        }
    }
}
