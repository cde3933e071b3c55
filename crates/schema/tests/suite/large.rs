//! A schema as large as the largest ones published is read and checked in no time.

use std::time::{Duration, Instant};

use schema::{NoRules, Options, Path, Schema, check};
use serde_json::{Value, json};

const BYTES: usize = 700 * 1024;

/// Generous: the suite runs on small machines, unoptimised and beside other tests.
const TIME_MAX: Duration = Duration::from_secs(2);

#[test]
fn a_schema_of_700_kilobytes_is_read_and_checked_quickly() {
    let value = large();
    let text = value.to_string();
    assert!(text.len() > BYTES);
    let path = Path::new("spec.versions[0].schema.openAPIV3Schema");
    let start = now();
    let schema = Schema::parse(&value, &path).unwrap();
    let parsed = start.elapsed();
    let options = check::Options {
        path: &path,
        status_subresource: true,
        compiler: &NoRules,
        metadata: None,
    };
    let violations = check::check(&schema, &options);
    let checked = start.elapsed();
    assert!(violations.is_empty(), "{:?}", violations.first());
    let object = json!({"spec": {"group0": {"pod0": {"labels": {"a": "b"}, "port": 80}}}});
    let start = now();
    for _ in 0..100 {
        let mut object = object.clone();
        schema::prune(&mut object, &schema);
        schema::default(&mut object, &schema);
        let outcome = schema::validate(&object, None, &schema, &Options::default());
        assert!(outcome.violations.is_empty(), "{outcome:?}");
    }
    let each = start.elapsed() / 100;
    println!(
        "{} bytes, {} nodes: parsed in {parsed:?}, checked in {:?}; a small object in {each:?}",
        text.len(),
        schema.nodes,
        checked - parsed,
    );
    assert!(checked < TIME_MAX, "{checked:?}");
}

#[expect(clippy::disallowed_methods, reason = "the time taken is what is tested")]
fn now() -> Instant {
    Instant::now()
}

fn large() -> Value {
    let sentence = "What this field is for, said in one sentence of about the usual length. ";
    let pod = |index: usize| {
        json!({
            "type": "object",
            "description": sentence.repeat(2),
            "required": ["port"],
            "properties": {
                "port": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535},
                "name": {
                    "type": "string", "description": sentence, "maxLength": 63,
                    "pattern": format!("^[a-z0-9]([-a-z0-9]*[a-z0-9])?{}$", "x?".repeat(index % 7)),
                },
                "policy": {"type": "string", "enum": ["Always", "Never"], "default": "Always"},
                "labels": {
                    "type": "object", "additionalProperties": {"type": "string"},
                    "description": sentence,
                },
                "limit": {
                    "anyOf": [{"type": "integer"}, {"type": "string"}],
                    "x-kubernetes-int-or-string": true,
                },
                "env": {
                    "type": "array", "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"], "description": sentence,
                    "items": {
                        "type": "object", "required": ["name"],
                        "properties": {
                            "name": {"type": "string"},
                            "value": {"type": "string", "description": sentence},
                        },
                    },
                },
            },
        })
    };
    let mut spec = json!({"type": "object", "properties": {}});
    let mut bytes = 0;
    for group in 0.. {
        let mut pods = json!({"type": "object", "properties": {}});
        for index in 0..20 {
            pods["properties"][format!("pod{index}")] = pod(index);
        }
        bytes += pods.to_string().len();
        spec["properties"][format!("group{group}")] = pods;
        if bytes > BYTES {
            break;
        }
    }
    json!({"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}})
}
