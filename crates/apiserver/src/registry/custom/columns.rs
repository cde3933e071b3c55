//! Custom objects as rows of a table.
//!
//! Upstream: apiextensions-apiserver/pkg/registry/customresource/tableconvertor/tableconvertor.go

use schema::jsonpath::JsonPath;
use serde_json::{Value, json};

use super::Version;
use crate::age;

/// A column that a definition adds to the name.
pub struct Column {
    pub definition: Value,
    path: Option<JsonPath>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Integer,
    Number,
    Boolean,
    Date,
    Text,
}

/// The columns of a version; a definition that names none has the age.
pub fn read(columns: &[Value]) -> Vec<Column> {
    if columns.is_empty() {
        return vec![column(&json!({
            "name": "Age",
            "type": "date",
            "description": "How long ago the object was created.",
            "jsonPath": ".metadata.creationTimestamp",
        }))];
    }
    columns.iter().map(column).collect()
}

fn column(of: &Value) -> Column {
    let text = |name: &str| of[name].as_str().unwrap_or_default();
    let path = text("jsonPath");
    let description = match text("description") {
        "" => format!("Custom resource definition column (in JSONPath format): {path}"),
        said => said.to_owned(),
    };
    let kind = match text("type") {
        "integer" => Kind::Integer,
        "number" => Kind::Number,
        "boolean" => Kind::Boolean,
        "date" => Kind::Date,
        _ => Kind::Text,
    };
    Column {
        definition: json!({
            "name": text("name"),
            "type": text("type"),
            "format": text("format"),
            "description": description,
            "priority": of["priority"].as_i64().unwrap_or(0),
        }),
        path: JsonPath::parse(path).ok(),
        kind,
    }
}

impl Column {
    fn cell(&self, object: &Value, now: i64) -> Value {
        let Some(found) = self.path.as_ref().and_then(|path| path.first(object)) else {
            return Value::Null;
        };
        match (self.kind, &*found) {
            (_, Value::Null) => Value::Null,
            (Kind::Integer, Value::Number(number)) => match number.as_f64() {
                Some(float) if !number.is_i64() => Value::from(float as i64),
                _ => Value::from(number.clone()),
            },
            (Kind::Number, number @ Value::Number(_)) => number.clone(),
            (Kind::Boolean, flag @ Value::Bool(_)) => flag.clone(),
            (Kind::Date, Value::String(text)) => match crate::timestamp::parse(text) {
                Some(_) => Value::from(age::since(Some(text), now)),
                None => Value::from("<invalid>"),
            },
            (Kind::Text, Value::String(text)) => Value::from(text.as_str()),
            (Kind::Text, other) => Value::from(other.to_string()),
            _ => Value::Null,
        }
    }
}

/// What `columnDefinitions` of a table says.
pub fn definitions(version: &Version) -> Vec<Value> {
    let name = json!({
        "name": "Name",
        "type": "string",
        "format": "name",
        "description": "The name of the object in its namespace.",
        "priority": 0,
    });
    let others = version.columns.iter().map(|column| column.definition.clone());
    std::iter::once(name).chain(others).collect()
}

pub fn cells(version: &Version, object: &Value, now: i64) -> Vec<Value> {
    let name = object["metadata"]["name"].clone();
    let others = version.columns.iter().map(|column| column.cell(object, now));
    std::iter::once(name).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_the_type_of_their_column_or_are_empty() {
        let object = json!({
            "spec": {
                "count": 3.0, "size": "x", "on": true, "list": [1],
                "when": "1970-01-01T00:00:00Z",
            },
        });
        for (kind, path, expected) in [
            ("integer", ".spec.count", json!(3)),
            ("integer", ".spec.size", json!(null)),
            ("number", ".spec.count", json!(3.0)),
            ("string", ".spec.count", json!("3.0")),
            ("string", ".spec.size", json!("x")),
            ("string", ".spec.list", json!("[1]")),
            ("boolean", ".spec.on", json!(true)),
            ("boolean", ".spec.nothing", json!(null)),
            ("date", ".spec.when", json!("65s")),
            ("date", ".spec.size", json!("<invalid>")),
        ] {
            let column = column(&json!({"name": "a", "type": kind, "jsonPath": path}));
            assert_eq!(column.cell(&object, 65), expected, "{kind} {path}");
        }
    }
}
