//! What differs between two values, for people to read.

use serde_json::Value;

const LINES_MAX: usize = 20;

/// One line for each place that differs: `- path: old` and `+ path: new`.
pub fn of(old: &Value, new: &Value) -> String {
    let mut lines = Vec::new();
    compare("", old, new, &mut lines);
    if lines.len() > LINES_MAX {
        lines.truncate(LINES_MAX);
        lines.push("  ...".to_owned());
    }
    lines.join("\n")
}

fn compare(path: &str, old: &Value, new: &Value, lines: &mut Vec<String>) {
    if old == new {
        return;
    }
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let one = old.get(name).unwrap_or(&Value::Null);
                compare(&at, one, new.get(name).unwrap_or(&Value::Null), lines);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                compare(&format!("{path}[{index}]"), old, new, lines);
            }
        }
        _ => {
            if !old.is_null() {
                lines.push(format!("- {path}: {old}"));
            }
            if !new.is_null() {
                lines.push(format!("+ {path}: {new}"));
            }
        }
    }
}
