//! What becomes of an object: pruned, defaulted, validated, selected, shown.

use serde_json::{Value, json};

use crate::cluster::{Cluster, DEFINITIONS, WIDGETS, v1, widget, widgets};

fn spec(properties: Value) -> Value {
    json!([v1(json!({"type": "object", "properties": properties}))])
}

#[tokio::test]
async fn unknown_fields_are_pruned_and_named_as_the_client_asks() {
    let cluster = Cluster::with_widgets(spec(json!({"size": {"type": "integer"}}))).await;
    let body = || widget("a", json!({"size": 1, "colour": "red"}));
    let strict = cluster.ask(&format!("POST {WIDGETS}?fieldValidation=Strict"), body()).await;
    assert_eq!(strict.code, 400);
    assert!(strict.message().contains("strict decoding error: unknown field \"spec.colour\""));
    let warned = cluster.ask(&format!("POST {WIDGETS}"), body()).await;
    assert_eq!(warned.code, 201);
    assert_eq!(warned.warnings, ["299 - \"unknown field \\\"spec.colour\\\"\""]);
    assert_eq!(warned.body["spec"], json!({"size": 1}));
    let path = format!("PATCH {WIDGETS}/a?fieldValidation=Ignore");
    let ignored = cluster.ask(&path, json!({"spec": {"colour": "red"}})).await;
    assert!(ignored.warnings.is_empty());
    assert_eq!(ignored.body["spec"], json!({"size": 1}));
}

#[tokio::test]
async fn defaults_are_filled_in_and_also_where_they_came_later() {
    let size = json!({"size": {"type": "integer", "default": 3}});
    let cluster = Cluster::with_widgets(spec(size)).await;
    let made = cluster.done(&format!("POST {WIDGETS}"), widget("a", json!({}))).await;
    assert_eq!(made["spec"], json!({"size": 3}));
    let more = json!({"size": {"type": "integer"}, "colour": {"type": "string", "default": "red"}});
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let change = json!({"spec": {"versions": spec(more)}});
    cluster.done(&format!("PATCH {path}"), change).await;
    let expected = json!({"size": 3, "colour": "red"});
    assert_eq!(cluster.get(&format!("{WIDGETS}/a")).await["spec"], expected);
    assert_eq!(cluster.get(WIDGETS).await["items"][0]["spec"], expected);
    let mut watch = cluster.watch(&format!("{WIDGETS}?watch=true")).await;
    assert_eq!(watch.next().await.unwrap()["object"]["spec"], expected);
    let fewer = json!({"spec": {"versions": spec(json!({"colour": {"type": "string"}}))}});
    cluster.done(&format!("PATCH {path}"), fewer).await;
    assert_eq!(cluster.get(&format!("{WIDGETS}/a")).await["spec"], json!({}));
}

#[tokio::test]
async fn every_kind_of_keyword_is_enforced() {
    let cases = [
        (json!({"type": "integer"}), json!("x"), "spec.f in body must be of type integer"),
        (json!({"type": "integer", "minimum": 2}), json!(1), "greater than or equal to 2"),
        (json!({"type": "number", "multipleOf": 2}), json!(3), "multiple of 2"),
        (json!({"type": "string", "maxLength": 2}), json!("abc"), "Too long"),
        (json!({"type": "string", "pattern": "^a"}), json!("b"), "should match '^a'"),
        (json!({"type": "string", "format": "ipv4"}), json!("b"), "must be of type ipv4"),
        (
            json!({"type": "string", "enum": ["A", "B"]}),
            json!("C"),
            "supported values: \"A\", \"B\"",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "maxItems": 1}),
            json!(["a", "b"]),
            "Too many",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
            json!(["a", "a"]),
            "spec.f[1]: Duplicate value: \"a\"",
        ),
        (
            json!({"type": "object", "required": ["x"], "properties": {"x": {"type": "string"}}}),
            json!({}),
            "spec.f.x: Required value",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "integer"}}),
            json!({"k": "v"}),
            "must be of type integer",
        ),
        (
            json!({"type": "integer", "not": {"enum": [1]}}),
            json!(1),
            "must not validate the schema",
        ),
        (json!({"type": "integer", "anyOf": [{"minimum": 5}, {"enum": [1]}]}), json!(2), "anyOf"),
        (json!({"x-kubernetes-int-or-string": true}), json!(true), "integer,string"),
    ];
    for (schema, bad, text) in cases {
        let cluster = Cluster::with_widgets(spec(json!({"f": schema.clone()}))).await;
        let body = widget("a", json!({"f": bad}));
        let (code, message) = cluster.refused(&format!("POST {WIDGETS}"), body).await;
        assert_eq!(code, 422, "{schema}");
        assert!(message.contains(text), "{schema}: {message}");
        assert!(message.starts_with("Widget.example.com \"a\" is invalid: "), "{message}");
    }
}

#[tokio::test]
async fn rules_are_run_with_their_messages_and_on_transitions() {
    let cluster = Cluster::with_widgets(json!([v1(json!({
        "type": "object",
        "properties": {
            "low": {"type": "integer"}, "high": {"type": "integer"},
            "fixed": {"type": "string", "x-kubernetes-validations": [
                {"rule": "self == oldSelf", "message": "fixed cannot be changed"},
            ]},
        },
        "x-kubernetes-validations": [{
            "rule": "!has(self.low) || self.low <= self.high",
            "messageExpression": "'low is ' + string(self.low)",
        }],
    }))]))
    .await;
    let post = format!("POST {WIDGETS}");
    let (code, text) = cluster.refused(&post, widget("a", json!({"low": 3, "high": 2}))).await;
    assert_eq!(code, 422);
    assert!(text.contains("spec: Invalid value:") && text.contains("low is 3"), "{text}");
    cluster.done(&post, widget("a", json!({"low": 1, "high": 2, "fixed": "x"}))).await;
    let patch = format!("PATCH {WIDGETS}/a");
    let (code, text) = cluster.refused(&patch, json!({"spec": {"fixed": "y"}})).await;
    assert_eq!(code, 422);
    assert!(
        text.contains("spec.fixed: Invalid value: \"string\": fixed cannot be changed"),
        "{text}"
    );
    cluster.done(&patch, json!({"spec": {"low": 2}})).await;
}

#[tokio::test]
async fn what_was_wrong_before_may_stay_wrong() {
    let cluster = Cluster::with_widgets(spec(json!({
        "size": {"type": "integer"}, "colour": {"type": "string"},
    })))
    .await;
    cluster.done(&format!("POST {WIDGETS}"), widget("a", json!({"size": 1}))).await;
    let tighter = spec(json!({
        "size": {"type": "integer", "minimum": 5}, "colour": {"type": "string"},
    }));
    let path = format!("PATCH {DEFINITIONS}/widgets.example.com");
    cluster.done(&path, json!({"spec": {"versions": tighter}})).await;
    let patch = format!("PATCH {WIDGETS}/a");
    let changed = cluster.done(&patch, json!({"spec": {"colour": "red"}})).await;
    assert_eq!(changed["spec"], json!({"size": 1, "colour": "red"}));
    assert_eq!(changed["metadata"]["generation"], 2);
    assert_eq!(cluster.refused(&patch, json!({"spec": {"size": 2}})).await.0, 422);
    cluster.done(&patch, json!({"spec": {"size": 7}})).await;
}

#[tokio::test]
async fn what_stays_wrong_is_worth_a_warning() {
    let sizes = |rules: Value| {
        let integer = json!({"type": "integer"});
        let mut part = json!({"type": "object", "properties": {"size": integer, "other": integer}});
        part["x-kubernetes-validations"] = rules;
        spec(json!({"part": part, "free": integer}))
    };
    let cluster = Cluster::with_widgets(sizes(json!([]))).await;
    let body = widget("a", json!({"part": {"size": 9}}));
    cluster.done(&format!("POST {WIDGETS}"), body).await;
    let rules = json!([{"rule": "self.size < 5", "message": "too large"}]);
    let definition = json!({"spec": {"versions": sizes(rules)}});
    cluster.done(&format!("PATCH {DEFINITIONS}/widgets.example.com"), definition).await;
    let line = format!("PATCH {WIDGETS}/a");
    let answer = cluster.ask(&line, json!({"spec": {"free": 1}})).await;
    assert_eq!(answer.code, 200);
    let said = "299 - \"spec.part: Invalid value: \\\"object\\\": too large\"";
    assert_eq!(answer.warnings, [said]);
    let (code, _) = cluster.refused(&line, json!({"spec": {"part": {"other": 1}}})).await;
    assert_eq!(code, 422);
}

#[tokio::test]
async fn a_finalizer_without_a_domain_is_worth_a_warning() {
    let cluster = Cluster::with_widgets(spec(json!({}))).await;
    let mut body = widget("a", json!({}));
    body["metadata"]["finalizers"] = json!(["mine", "example.com/mine"]);
    let made = cluster.ask(&format!("POST {WIDGETS}"), body).await;
    assert_eq!(made.code, 201);
    let said = "299 - \"metadata.finalizers: \\\"mine\\\": prefer a domain-qualified finalizer \
                name including a path (/) to avoid accidental conflicts with other finalizer writers\"";
    assert_eq!(made.warnings, [said]);
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let changed = cluster.ask(&format!("PATCH {WIDGETS}/a"), labels).await;
    assert_eq!((changed.code, changed.warnings.len()), (200, 0), "only what was added counts");
}

#[tokio::test]
async fn an_embedded_resource_is_held_to_the_rules_of_metadata() {
    let inner = json!({
        "type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true,
    });
    let cluster = Cluster::with_widgets(spec(json!({"inner": inner}))).await;
    let with = |metadata: Value| {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
        widget("a", json!({"inner": pod}))
    };
    let line = format!("POST {WIDGETS}");
    for (metadata, expected) in [
        (json!({"name": "a/b"}), "spec.inner.metadata.name: Invalid value: \"a/b\""),
        (json!({"namespace": "A"}), "spec.inner.metadata.namespace: Invalid value: \"A\""),
        (json!({"labels": {"a b": ""}}), "spec.inner.metadata.labels: Invalid value: \"a b\""),
        (json!({"finalizers": ["/"]}), "spec.inner.metadata.finalizers: Invalid value: \"/\""),
        (json!({"name": 1}), "spec.inner.metadata"),
    ] {
        let (code, message) = cluster.refused(&line, with(metadata)).await;
        assert!([400, 422].contains(&code) && message.contains(expected), "{code} {message}");
    }
    cluster.done(&line, with(json!({"labels": {"a": "b"}, "namespace": "other"}))).await;
}

#[tokio::test]
async fn bodies_that_are_no_objects_of_the_kind_are_refused() {
    let cluster = Cluster::with_widgets(spec(json!({}))).await;
    let post = format!("POST {WIDGETS}");
    for (body, code) in [
        (json!([]), 400),
        (json!("x"), 400),
        (json!({"metadata": "x"}), 400),
        (json!({"metadata": {"name": 1}}), 400),
        (json!({"apiVersion": 1, "metadata": {"name": "a"}}), 400),
        (json!({"kind": "Other", "apiVersion": "example.com/v1", "metadata": {"name": "a"}}), 400),
        (json!({"metadata": {}}), 422),
        (json!({"metadata": {"name": "A"}}), 422),
        (json!({"metadata": {"name": "a"}, "spec": 1}), 422),
    ] {
        let answer = cluster.ask(&post, body.clone()).await;
        assert_eq!(answer.code, code, "{body}: {answer:?}");
    }
    let protobuf = [("content-type", "application/vnd.kubernetes.protobuf")];
    assert_eq!(cluster.ask_with(&post, &protobuf, "k8s".to_owned()).await.code, 415);
    cluster.done(&post, widget("a", json!({}))).await;
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    let line = format!("PATCH {WIDGETS}/a");
    assert_eq!(cluster.ask_with(&line, &strategic, "{}".to_owned()).await.code, 415);
    let json_patch = [("content-type", "application/json-patch+json")];
    let patch = r#"[{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]"#;
    let answer = cluster.ask_with(&line, &json_patch, patch.to_owned()).await;
    assert_eq!(answer.body["metadata"]["labels"], json!({"a": "b"}));
    let yaml = [("content-type", "application/yaml")];
    let text = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: written}\n";
    let answer = cluster.ask_with(&post, &yaml, text.to_owned()).await;
    assert_eq!(answer.code, 201, "{answer:?}");
    let mut unconditional = widget("a", json!({}));
    unconditional["metadata"]["resourceVersion"] = Value::Null;
    let (code, text) = cluster.refused(&format!("PUT {WIDGETS}/a"), unconditional).await;
    assert_eq!(code, 422);
    assert!(text.contains("metadata.resourceVersion: Invalid value: 0"), "{text}");
}

#[tokio::test]
async fn selectable_fields_select_in_lists_and_watches_also_what_is_older_than_they() {
    let colour = json!({"colour": {"type": "string"}});
    let cluster = Cluster::with_widgets(spec(colour.clone())).await;
    let post = format!("POST {WIDGETS}");
    cluster.done(&post, widget("a", json!({"colour": "red"}))).await;
    let query = format!("{WIDGETS}?fieldSelector=spec.colour%3Dred");
    let (code, text) = cluster.refused(&format!("GET {query}"), Value::Null).await;
    assert_eq!((code, text.as_str()), (400, "field label not supported: spec.colour"));
    let mut versions = spec(colour);
    versions[0]["selectableFields"] = json!([{"jsonPath": ".spec.colour"}]);
    let path = format!("PATCH {DEFINITIONS}/widgets.example.com");
    cluster.done(&path, json!({"spec": {"versions": versions}})).await;
    cluster.done(&post, widget("b", json!({"colour": "blue"}))).await;
    cluster.done(&post, widget("c", json!({"colour": "red"}))).await;
    assert_eq!(cluster.names(&query).await, ["a", "c"]);
    let mut watch = cluster.watch(&format!("{query}&watch=true")).await;
    for name in ["a", "c"] {
        assert_eq!(watch.next().await.unwrap()["object"]["metadata"]["name"], name);
    }
    let green = json!({"spec": {"colour": "green"}});
    cluster.done(&format!("PATCH {WIDGETS}/c"), green).await;
    assert_eq!(watch.next().await.unwrap()["type"], "DELETED");
}

#[tokio::test]
async fn a_table_has_the_columns_of_the_definition() {
    let mut definition = widgets(spec(json!({"size": {"type": "integer"}})));
    definition["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Born", "type": "date", "jsonPath": ".metadata.creationTimestamp", "priority": 1},
    ]);
    let cluster = Cluster::start().await;
    cluster.done(&format!("POST {DEFINITIONS}"), definition).await;
    cluster.done(&format!("POST {WIDGETS}"), widget("a", json!({"size": 4}))).await;
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let answer = cluster.ask_with(&format!("GET {WIDGETS}"), &table, String::new()).await;
    let columns = answer.body["columnDefinitions"].as_array().unwrap();
    let names: Vec<_> = columns.iter().map(|column| &column["name"]).collect();
    assert_eq!(names, ["Name", "Size", "Born"]);
    assert_eq!(columns[2]["priority"], 1);
    let cells = &answer.body["rows"][0]["cells"];
    assert_eq!((&cells[0], &cells[1]), (&json!("a"), &json!(4)));
    assert!(cells[2].as_str().unwrap().ends_with('s'));
}
