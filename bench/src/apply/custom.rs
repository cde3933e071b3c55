//! Custom kinds: what twenty rules cost a creation, and how long a large definition takes.

use serde_json::{Value, json};

use super::{Api, Row, compare};

const JSON: &str = "application/json";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// How many rules the kind with rules has.
const RULES: usize = 20;
/// How large the large definitions are, and how many of them are installed.
const LARGE_BYTES: usize = 700 << 10;
const LARGE_COUNT: u32 = 10;

pub async fn run(api: &Api, requests: u32) -> anyhow::Result<()> {
    for (plural, kind, rules) in [("plains", "Plain", 0), ("ruleds", "Ruled", RULES)] {
        let body = definition(plural, kind, spec(rules));
        api.ask(&format!("POST {DEFINITIONS}"), JSON, &body).await?;
    }
    let create = |plural: &str| format!("POST /apis/example.com/v1/namespaces/default/{plural}");
    let what = format!("create of a custom object with {RULES} rules");
    let rows = [
        Row {
            what: "create of a custom object without rules",
            line: create("plains"),
            content_type: JSON,
            body: &|number| object("Plain", number),
        },
        Row {
            what: &what,
            line: create("ruleds"),
            content_type: JSON,
            body: &|number| object("Ruled", number),
        },
        Row {
            what: "create of a ConfigMap",
            line: "POST /api/v1/namespaces/default/configmaps".to_owned(),
            content_type: JSON,
            body: &|number| json!({"metadata": {"name": format!("m{number}")}, "data": {"a": "b"}}),
        },
    ];
    compare(api, &rows, requests).await?;
    println!();
    let large = large();
    let rows = [Row {
        what: "a definition of 700 KB",
        line: format!("POST {DEFINITIONS}"),
        content_type: JSON,
        body: &|number| {
            definition(&format!("larges{number}"), &format!("Large{number}"), large.clone())
        },
    }];
    compare(api, &rows, LARGE_COUNT).await
}

fn definition(plural: &str, kind: &str, spec: Value) -> Value {
    json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    })
}

/// Sizes, names and parts, with rules of the kinds that people write.
fn spec(rules: usize) -> Value {
    let kinds = [
        "self.min <= self.max",
        "self.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "self.parts.all(part, part.size > 0)",
        "self.parts.exists_one(part, part.name == 'main')",
        "!has(self.colour) || self.colour in ['red', 'green', 'blue']",
    ];
    let rule = |index: usize| json!({"rule": kinds[index % kinds.len()]});
    let size = json!({"type": "integer", "minimum": 0});
    let name = json!({"type": "string", "maxLength": 63});
    json!({
        "type": "object",
        "required": ["name", "min", "max", "parts"],
        "properties": {
            "name": name, "colour": name, "min": size, "max": size,
            "parts": {
                "type": "array", "maxItems": 16,
                "items": {
                    "type": "object", "required": ["name", "size"],
                    "properties": {"name": name, "size": size},
                },
            },
        },
        "x-kubernetes-validations": (0..rules).map(rule).collect::<Vec<_>>(),
    })
}

fn object(kind: &str, number: u32) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": kind,
        "metadata": {"name": format!("o{number}")},
        "spec": {
            "name": "web", "colour": "red", "min": 1, "max": 3,
            "parts": [{"name": "main", "size": 1}, {"name": "side", "size": 2}],
        },
    })
}

/// A schema of about the size of the largest that are published.
fn large() -> Value {
    let sentence = "What this field is for, said in one sentence of about the usual length. ";
    let part = json!({
        "type": "object",
        "description": sentence.repeat(3),
        "properties": {
            "name": {"type": "string", "description": sentence, "maxLength": 63},
            "amount": {
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "pattern": "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$",
                "x-kubernetes-int-or-string": true,
            },
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    });
    let mut properties = serde_json::Map::new();
    let bytes = part.to_string().len() + 10;
    for index in 0..=LARGE_BYTES / bytes {
        properties.insert(format!("part{index}"), part.clone());
    }
    json!({"type": "object", "properties": properties})
}
