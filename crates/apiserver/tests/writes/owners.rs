//! Reads who owns what off an object.

use fields::{Managed, Operation};
use serde_json::Value;

/// One line for each manager, sorted: `a Update /status: .status.x .status.y`.
pub fn owners(object: &Value) -> String {
    let entries = Managed::of_stored(object).unwrap().entries;
    let mut lines: Vec<String> = entries
        .iter()
        .map(|entry| {
            let identity = &entry.identity;
            let mut line = identity.manager.clone();
            line += if identity.operation == Operation::Apply { " Apply" } else { " Update" };
            if !identity.subresource.is_empty() {
                line += &format!(" /{}", identity.subresource);
            }
            let fields = entry.fields.set().unwrap().to_string();
            line + ": " + &fields.replace('\n', " ")
        })
        .collect();
    lines.sort();
    lines.join("\n")
}

/// The fields of one manager; empty if it has none.
pub fn owned<'o>(owners: &'o str, manager: &str) -> Vec<&'o str> {
    let prefix = format!("{manager}: ");
    let line = owners.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_default();
    line.split_whitespace().collect()
}
