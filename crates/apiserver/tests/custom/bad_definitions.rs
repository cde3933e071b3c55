//! Definitions that are refused, each with the path of its fault, and of which nothing stays.

use serde_json::{Value, json};

use crate::cluster::{Cluster, DEFINITIONS, v1, widgets};

/// A good definition with something else at a place.
fn with(pointer: &str, value: Value) -> Value {
    let mut definition = widgets(json!([v1(json!({"type": "object"}))]));
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    definition.pointer_mut(parent).unwrap()[name] = value;
    definition
}

/// What is at a place, and what is said of it.
type Case = (&'static str, Value, &'static str);

/// Places in the whole definition.
fn wholes() -> Vec<Case> {
    let named = |name: &str, storage: bool| {
        let mut version = v1(json!({"type": "object"}));
        version["name"] = json!(name);
        version["storage"] = json!(storage);
        version
    };
    let must_be = "metadata.name: Invalid value: \"other.example.com\": must be \
                   spec.names.plural+\".\"+spec.group";
    let one_storage = "must have exactly one version marked as storage version";
    vec![
        ("/metadata/name", json!("other.example.com"), must_be),
        ("/spec/scope", json!("Galaxy"), "spec.scope: Unsupported value: \"Galaxy\""),
        ("/spec/preserveUnknownFields", json!(true), "spec.preserveUnknownFields: Invalid value"),
        ("/spec/names/shortNames", json!(["W!"]), "spec.names.shortNames[0]: Invalid value"),
        ("/spec/names/listKind", json!("Widget"), "kind and listKind may not be the same"),
        (
            "/spec/conversion",
            json!({"strategy": "Webhook"}),
            "spec.conversion.webhookClientConfig: Required value",
        ),
        ("/spec/versions", json!([]), one_storage),
        ("/spec/versions", json!([named("v1", true), named("v2", true)]), one_storage),
        (
            "/spec/versions",
            json!([named("v1", true), named("v1", false)]),
            "spec.versions: Invalid value",
        ),
        (
            "/spec/versions/0/schema",
            Value::Null,
            "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required",
        ),
        (
            "/spec/versions/0/deprecationWarning",
            json!("x"),
            "spec.versions[0].deprecationWarning: Invalid value",
        ),
        (
            "/spec/versions/0/selectableFields",
            json!([{"jsonPath": ".spec.none"}]),
            "spec.versions[0].selectableFields[0].jsonPath: Invalid value",
        ),
        (
            "/spec/versions/0/additionalPrinterColumns",
            json!([{"name": "a", "type": "x", "jsonPath": ".a"}]),
            "spec.versions[0].additionalPrinterColumns[0].type: Invalid value",
        ),
        (
            "/spec/versions/0/subresources",
            json!({"scale": {"specReplicasPath": ".x", "statusReplicasPath": ".status.r"}}),
            "spec.versions[0].subresources.scale.specReplicasPath: Invalid value",
        ),
        (
            "/spec/versions/0/schema/openAPIV3Schema",
            json!({"type": "string"}),
            "spec.versions[0].schema.openAPIV3Schema.type",
        ),
    ]
}

/// The property `f` of the schema, and what is said below its path.
fn properties() -> Vec<(Value, &'static str)> {
    let rule = |rule: &str| {
        json!({
            "type": "object", "properties": {"x": {"type": "string"}},
            "x-kubernetes-validations": [{"rule": rule}],
        })
    };
    vec![
        (json!({}), ".type: Required value"),
        (json!({"$ref": "#/properties/f"}), ".$ref: Forbidden"),
        (json!({"type": "array"}), ".items"),
        (json!({"type": "string", "default": 1}), ".default"),
        (json!({"type": "string", "uniqueItems": true}), ".uniqueItems: Forbidden"),
        (rule("self.nothing == 'x'"), ".x-kubernetes-validations[0].rule: Invalid value"),
        (rule("self.x =="), ".x-kubernetes-validations[0].rule: Invalid value"),
    ]
}

#[tokio::test]
async fn a_bad_definition_is_refused_with_the_path_of_its_fault() {
    let cluster = Cluster::start().await;
    let mut cases: Vec<(Value, String)> = Vec::new();
    for (pointer, value, text) in wholes() {
        cases.push((with(pointer, value), text.to_owned()));
    }
    for (property, text) in properties() {
        let schema = json!({"type": "object", "properties": {"f": property}});
        let text = format!("spec.versions[0].schema.openAPIV3Schema.properties[f]{text}");
        cases.push((with("/spec/versions/0/schema/openAPIV3Schema", schema), text));
    }
    for (definition, text) in cases {
        let line = format!("POST {DEFINITIONS}");
        let (code, message) = cluster.refused(&line, definition.clone()).await;
        assert_eq!(code, 422, "{definition}: {message}");
        assert!(message.contains(&text), "no `{text}` in `{message}`");
    }
    assert!(cluster.names(DEFINITIONS).await.is_empty());
    assert_eq!(cluster.refused("GET /apis/example.com", Value::Null).await.0, 404);
}

#[tokio::test]
async fn groups_of_kubernetes_need_a_word_of_approval() {
    let cluster = Cluster::start().await;
    let mut definition = with("/spec/group", json!("things.k8s.io"));
    definition["metadata"]["name"] = json!("widgets.things.k8s.io");
    let line = format!("POST {DEFINITIONS}");
    let (code, text) = cluster.refused(&line, definition.clone()).await;
    assert_eq!(code, 422);
    assert!(text.contains("metadata.annotations[api-approved.kubernetes.io]: Required value"));
    let annotations = json!({"api-approved.kubernetes.io": "unapproved, a test"});
    definition["metadata"]["annotations"] = annotations;
    cluster.done(&line, definition).await;
    let made = cluster.get(&format!("{DEFINITIONS}/widgets.things.k8s.io")).await;
    let conditions = made["status"]["conditions"].as_array().unwrap();
    let kind = "KubernetesAPIApprovalPolicyConformant";
    let found = conditions.iter().find(|one| one["type"] == kind).unwrap();
    assert_eq!(found["reason"], "UnapprovedAnnotation");
}
