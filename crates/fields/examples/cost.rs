//! Prints what the operations on a Deployment of some thirty fields cost.
#![allow(clippy::unwrap_used, reason = "an example fails by panicking")]

use std::hint::black_box;

use fields::{Force, OpenApi, Request, Resource, Set, apply, update, walk::fields_of::fields_of};
use serde_json::{Value, json};

struct Kind(Value);

impl Resource for Kind {
    type Shape<'a> = OpenApi<'a>;

    fn shape<'a>(&'a self, api_version: &str) -> Option<OpenApi<'a>> {
        (api_version == "apps/v1").then(|| OpenApi::new(&self.0))
    }
}

fn main() {
    let kind = Kind(schema());
    let object = object();
    let request = |manager| Request {
        manager,
        api_version: "apps/v1",
        subresource: "",
        time: "2024-01-01T00:00:00Z",
    };
    let shape = kind.shape("apps/v1").unwrap();
    println!("{} fields", fields_of(shape, &object).len());
    measure("set of the object", || fields_of(shape, &object).len());
    measure("set to FieldsV1 and back", || {
        Set::from_value(&fields_of(shape, &object).to_value()).unwrap().len()
    });
    measure("clone of the object", || object.clone());
    measure("create (clone included)", || {
        let mut new = object.clone();
        update(&kind, None, &mut new, &request("a")).unwrap();
        new
    });
    let mut created = object.clone();
    update(&kind, None, &mut created, &request("a")).unwrap();
    measure("clone of the stored object", || created.clone());
    let mut scaled = created.clone();
    scaled["spec"]["replicas"] = 5.into();
    measure("update by its manager (clone included)", || {
        let mut new = scaled.clone();
        update(&kind, Some(&created), &mut new, &request("a")).unwrap();
        new
    });
    measure("update by another (clone included)", || {
        let mut new = scaled.clone();
        update(&kind, Some(&created), &mut new, &request("b")).unwrap();
        new
    });
    measure("update that changes nothing (clone included)", || {
        let mut new = created.clone();
        update(&kind, Some(&created), &mut new, &request("b")).unwrap();
        new
    });
    measure("apply that creates", || {
        apply(&kind, None, &object, &request("a"), Force::No).unwrap().object
    });
    let one = apply(&kind, None, &object, &request("a"), Force::No).unwrap().object;
    measure("the same apply again", || {
        apply(&kind, Some(&one), &object, &request("a"), Force::No).unwrap().object
    });
    let mut other = object.clone();
    other["spec"]["replicas"] = 5.into();
    measure("apply of another value", || {
        apply(&kind, Some(&one), &other, &request("a"), Force::No).unwrap().object
    });
    other["metadata"]["labels"] = json!({"x": "1"});
    measure("apply that removes a label", || {
        apply(&kind, Some(&one), &other, &request("a"), Force::No).unwrap().object
    });
    let two = apply(&kind, Some(&one), &other, &request("b"), Force::Yes).unwrap().object;
    measure("apply with two managers", || {
        apply(&kind, Some(&two), &other, &request("b"), Force::No).unwrap().object
    });
}

const ROUNDS: u32 = 20_000;

#[expect(clippy::disallowed_methods, reason = "it is the time itself that is asked for")]
fn measure<T>(what: &str, mut work: impl FnMut() -> T) {
    for _ in 0..ROUNDS / 10 {
        black_box(work());
    }
    let start = std::time::Instant::now();
    for _ in 0..ROUNDS {
        black_box(work());
    }
    let each = start.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS);
    println!("{each:8.2} us  {what}");
}

fn object() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web", "tier": "front"}},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate"},
            "template": {
                "metadata": {"labels": {"app": "web", "tier": "front"}},
                "spec": {
                    "serviceAccountName": "web",
                    "terminationGracePeriodSeconds": 30,
                    "containers": [
                        {
                            "name": "web", "image": "web:1", "imagePullPolicy": "Always",
                            "ports": [{"containerPort": 80, "protocol": "TCP", "name": "http"}],
                            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                            "command": ["web"]
                        },
                        {"name": "side", "image": "side:1"}
                    ]
                }
            }
        }
    })
}

fn schema() -> Value {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer"});
    let texts = json!({"type": "object", "additionalProperties": text});
    let keyed = |keys: &[&str], properties: Value| {
        json!({
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
            "items": {"type": "object", "properties": properties}
        })
    };
    let meta = json!({"type": "object", "properties": {
        "name": text, "namespace": text, "labels": texts, "annotations": texts,
        "managedFields": {"type": "array"}
    }});
    let ports = keyed(
        &["containerPort", "protocol"],
        json!({"containerPort": number, "name": text, "protocol": {"type": "string", "default": "TCP"}}),
    );
    let containers = keyed(
        &["name"],
        json!({
            "name": text, "image": text, "imagePullPolicy": text, "ports": ports,
            "env": keyed(&["name"], json!({"name": text, "value": text})),
            "command": {"type": "array", "items": text}
        }),
    );
    json!({"type": "object", "properties": {
        "apiVersion": text, "kind": text, "metadata": meta,
        "spec": {"type": "object", "properties": {
            "replicas": number,
            "selector": {"type": "object", "x-kubernetes-map-type": "atomic",
                "properties": {"matchLabels": texts}},
            "strategy": {"type": "object", "properties": {"type": text}},
            "template": {"type": "object", "properties": {
                "metadata": meta,
                "spec": {"type": "object", "properties": {
                    "serviceAccountName": text, "terminationGracePeriodSeconds": number,
                    "containers": containers
                }}
            }}
        }}
    }})
}
