//! A JSON value as messages of the API show it: `map[a:1]`, or `map[string]interface {}{"a":1}`.

use serde_json::Value;

/// Behind a pointer: `&{map[a:1]}`.
pub fn pointer(value: &Value) -> String {
    format!("&{{{}}}", plain(value))
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(plain).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{name}:{}", plain(value)));
            format!("map[{}]", fields.collect::<Vec<_>>().join(" "))
        }
        scalar => scalar.to_string(),
    }
}

/// As source code would write it.
pub fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{name:?}:{}", syntax(value)));
            format!("map[string]interface {{}}{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        scalar => scalar.to_string(),
    }
}
