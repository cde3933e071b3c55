//! Bodies in, objects out: what Go writes after it read them.

use serde_json::{Value, json};

use super::*;
use crate::facts;

/// Enough of a quantity for these tests.
fn quantity(text: &str) -> Option<String> {
    match text {
        "1000m" => Some("1".to_owned()),
        text if text.starts_with(|c: char| c.is_ascii_digit()) => Some(text.to_owned()),
        _ => None,
    }
}

fn type_of(short: &str) -> &'static Type {
    facts::type_by_name(&format!("io.k8s.api.{short}")).unwrap()
}

fn read(short: &str, body: &str) -> Result<Object, Error> {
    object(body.as_bytes(), Format::Json, type_of(short), quantity)
}

#[track_caller]
fn check(short: &str, body: Value, expected: Value) {
    let found = read(short, &body.to_string()).unwrap();
    assert_eq!(found.value, expected, "{short} {body}");
    let again = read(short, &found.value.to_string()).unwrap();
    assert_eq!(again.value, expected, "twice: {short} {body}");
}

#[test]
fn empty_values_are_left_out_where_go_does() {
    check(
        "core.v1.ConfigMap",
        json!({"metadata": {"name": "a", "generateName": "", "labels": {}, "generation": 0,
            "finalizers": [], "creationTimestamp": null, "deletionGracePeriodSeconds": 0},
            "data": {"a": null}, "immutable": false, "binaryData": {}}),
        json!({"metadata": {"name": "a", "deletionGracePeriodSeconds": 0},
            "data": {"a": ""}, "immutable": false}),
    );
    check("core.v1.ConfigMap", json!({}), json!({"metadata": {}}));
}

#[test]
fn what_go_always_writes_is_there() {
    check(
        "apps.v1.Deployment",
        json!({"spec": {"template": {"spec": {"containers": [{}]}}}}),
        json!({"metadata": {}, "status": {}, "spec": {"selector": null, "strategy": {},
            "template": {"metadata": {},
                "spec": {"containers": [{"name": "", "resources": {}}]}}}}),
    );
    check(
        "apps.v1.Deployment",
        json!({}),
        json!({"metadata": {}, "status": {}, "spec": {"selector": null, "strategy": {},
            "template": {"metadata": {}, "spec": {"containers": null}}}}),
    );
    check("rbac.v1.ClusterRole", json!({}), json!({"metadata": {}, "rules": null}));
    check("rbac.v1.ClusterRole", json!({"rules": []}), json!({"metadata": {}, "rules": []}));
    check(
        "core.v1.Service",
        json!({"spec": {"ports": [{"port": 80}]}}),
        json!({"metadata": {}, "spec": {"ports": [{"port": 80, "targetPort": 0}]},
            "status": {"loadBalancer": {}}}),
    );
    check(
        "core.v1.Event",
        json!({"eventTime": null}),
        json!({"metadata": {}, "involvedObject": {}, "source": {}, "eventTime": null,
            "firstTimestamp": null, "lastTimestamp": null, "reportingComponent": "",
            "reportingInstance": ""}),
    );
}

#[test]
fn pointers_keep_their_zero() {
    check(
        "core.v1.PodSpec",
        json!({"containers": null, "priority": 0, "terminationGracePeriodSeconds": 0,
            "hostNetwork": false, "enableServiceLinks": false, "securityContext": {},
            "volumes": [{"name": "v", "emptyDir": {}, "hostPath": null}]}),
        json!({"containers": null, "priority": 0, "terminationGracePeriodSeconds": 0,
            "enableServiceLinks": false, "securityContext": {},
            "volumes": [{"name": "v", "emptyDir": {}}]}),
    );
}

#[test]
fn special_types_are_canonical() {
    check(
        "core.v1.Container",
        json!({"name": "a", "resources": {"limits": {"cpu": "1000m", "memory": 5}},
            "ports": [{"containerPort": 80}],
            "readinessProbe": {"httpGet": {"port": "http"}}}),
        json!({"name": "a", "resources": {"limits": {"cpu": "1", "memory": "5"}},
            "ports": [{"containerPort": 80}],
            "readinessProbe": {"httpGet": {"port": "http"}}}),
    );
    check(
        "core.v1.Secret",
        json!({"data": {"a": "YQ==", "b": "YW\nJj", "c": null, "d": ""}}),
        json!({"metadata": {}, "data": {"a": "YQ==", "b": "YWJj", "c": "", "d": ""}}),
    );
    check(
        "coordination.v1.LeaseSpec",
        json!({"renewTime": "2024-01-01T01:00:00+01:00", "acquireTime": null}),
        json!({"renewTime": "2024-01-01T00:00:00.000000Z"}),
    );
    check(
        "core.v1.Pod",
        json!({"metadata": {"creationTimestamp": "0001-01-01T00:00:00Z",
            "deletionTimestamp": "2024-01-01T00:00:00.5Z"},
            "spec": {"containers": []}}),
        json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"},
            "spec": {"containers": []}, "status": {}}),
    );
}

#[test]
fn schemas_and_raw_values_are_kept() {
    let schema = json!({"type": "object", "default": {"x": null}, "items": {"type": "string"},
        "additionalProperties": false, "enum": [1, null, "a"], "maximum": 2.0,
        "properties": {"a": {"additionalProperties": {"type": "string"}, "minLength": 0}}});
    let of = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    let of = facts::type_by_name(of).unwrap();
    let found = object(schema.to_string().as_bytes(), Format::Json, of, quantity).unwrap();
    let mut expected = schema;
    expected["maximum"] = json!(2);
    assert_eq!(found, Object { value: expected, problems: Vec::new() });
    check(
        "apps.v1.ControllerRevision",
        json!({"revision": 1, "data": {"any": [null, {}]}}),
        json!({"metadata": {}, "revision": 1, "data": {"any": [null, {}]}}),
    );
}

#[test]
fn problems_are_named_in_the_order_of_the_body() {
    let body = r#"{"spec":{"zz":{"a":1,"a":2},"replicas":1,"replicas":2,
        "template":{"spec":{"containers":[{},{"unknownNested":1}]}},"aa":1},
        "metadata":{"labels":{"x":"1","x":"2"}},"Spec":{}}"#;
    let found = read("apps.v1.Deployment", body).unwrap();
    let expected = [
        r#"unknown field "spec.zz""#,
        r#"duplicate field "spec.replicas""#,
        r#"unknown field "spec.template.spec.containers[1].unknownNested""#,
        r#"unknown field "spec.aa""#,
        r#"duplicate field "metadata.labels.x""#,
        r#"unknown field "Spec""#,
    ];
    assert_eq!(found.problems, expected);
    assert_eq!(found.value["spec"]["replicas"], 2);
    let text = strict_error(&found.problems[..2]);
    assert_eq!(
        text,
        r#"strict decoding error: unknown field "spec.zz", duplicate field "spec.replicas""#
    );
}

#[test]
fn yaml_problems_name_lines() {
    let body = b"spec:\n  replicas: 1\n  replicas: 2\n  other: 1\n";
    let found = object(body, Format::Yaml, type_of("apps.v1.Deployment"), quantity).unwrap();
    assert_eq!(
        strict_error(&found.problems),
        "strict decoding error: yaml: unmarshal errors:\n  line 3: key \"replicas\" already set \
         in map, unknown field \"spec.other\""
    );
}

#[test]
fn wrong_types_are_refused_as_go_does() {
    let in_field = |given: &str, place: &str, wanted: &str| {
        format!("json: cannot unmarshal {given} into Go struct field {place} of type {wanted}")
    };
    let cases = [
        (
            json!({"spec": {"replicas": "3"}}),
            in_field("string", "DeploymentSpec.spec.replicas", "int32"),
        ),
        (
            json!({"spec": {"replicas": 1.5}}),
            in_field("number 1.5", "DeploymentSpec.spec.replicas", "int32"),
        ),
        (
            json!({"spec": {"replicas": 3_000_000_000_u32}}),
            in_field("number 3000000000", "DeploymentSpec.spec.replicas", "int32"),
        ),
        (
            json!({"spec": {"template": {"spec": {"containers": [{"name": 1}]}}}}),
            in_field("number", "Container.spec.template.spec.containers.name", "string"),
        ),
        (
            json!({"spec": {"template": {"spec": {"containers": {}}}}}),
            in_field("object", "PodSpec.spec.template.spec.containers", "[]v1.Container"),
        ),
        (
            json!({"metadata": {"labels": {"a": true}}}),
            in_field("bool", "ObjectMeta.metadata.labels", "string"),
        ),
        (json!({"spec": []}), in_field("array", "Deployment.spec", "v1.DeploymentSpec")),
        (
            json!({"spec": {"paused": "x"}}),
            in_field("string", "DeploymentSpec.spec.paused", "bool"),
        ),
        (
            json!({"metadata": {"creationTimestamp": 5}}),
            "json: cannot unmarshal number into Go value of type string".to_owned(),
        ),
        (json!([]), "json: cannot unmarshal array into Go value of type v1.Deployment".to_owned()),
    ];
    for (body, expected) in cases {
        let error = read("apps.v1.Deployment", &body.to_string()).unwrap_err();
        assert_eq!(error, Error::Type(expected), "{body}");
    }
    let resources = json!({"resources": {"limits": {"cpu": "x"}}});
    let error = read("core.v1.Container", &resources.to_string()).unwrap_err();
    assert!(error.to_string().starts_with("quantities must match"), "{error}");
}

mod properties {
    use super::*;
    use crate::facts::Shape;
    use proptest::prelude::*;
    use proptest::test_runner::TestRng;

    /// Something that is often of the shape, and sometimes anything.
    fn make(shape: &Shape, depth: usize, rng: &mut TestRng) -> Value {
        let numbers = [json!(0), json!(1), json!(-7), json!(2_147_483_647)];
        match shape {
            _ if rng.random_range(0..60) == 0 => json!("odd"),
            _ if rng.random_range(0..8) == 0 => Value::Null,
            Shape::String => json!(["", "a", "b"][rng.random_range(0..3)]),
            Shape::Integer32 | Shape::Integer64 | Shape::IntOrString => {
                numbers[rng.random_range(0..4)].clone()
            }
            Shape::Double => json!([0.0, 1.0, 1.5][rng.random_range(0..3)]),
            Shape::Boolean => json!(rng.random_range(0..2) == 0),
            Shape::Bytes => json!(["", "YQ==", "YR=="][rng.random_range(0..3)]),
            Shape::Time | Shape::MicroTime => {
                let times = ["2024-01-01T01:00:00.5+02:00", "0001-01-01T00:00:00Z"];
                json!(times[rng.random_range(0..2)])
            }
            Shape::Quantity => json!(["1000m", "1", "5Gi"][rng.random_range(0..3)]),
            Shape::Object(of) | Shape::SchemaOrBool(of) => make_object(of.get(), depth, rng),
            Shape::List(element) => {
                (0..rng.random_range(0..3)).map(|_| make(element, depth, rng)).collect()
            }
            Shape::Map(element) => {
                json!({"k": make(element, depth, rng)})
            }
            _ => json!({"x": [null, 1]}),
        }
    }

    fn make_object(of: &Type, depth: usize, rng: &mut TestRng) -> Value {
        let mut map = serde_json::Map::new();
        let chance = [3, 3, 4, 6, 12][depth.min(4)];
        for field in of.fields {
            if depth < 8 && rng.random_range(0..chance) == 0 {
                map.insert(field.name.to_owned(), make(&field.shape, depth + 1, rng));
            }
        }
        if rng.random_range(0..4) == 0 {
            map.insert("notAField".to_owned(), json!({"a": null}));
        }
        Value::Object(map)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn twice_is_once(seed in any::<[u8; 32]>()) {
            let mut rng = TestRng::from_seed(proptest::test_runner::RngAlgorithm::ChaCha, &seed);
            for kind in facts::kinds() {
                let of = kind.type_id.get();
                let mut value = make_object(of, 0, &mut rng);
                if strict::normalise(&mut value, of, quantity).is_err() {
                    continue;
                }
                let once = value.clone();
                let again = strict::normalise(&mut value, of, quantity);
                prop_assert_eq!(again.map(|decoded| decoded.unknown), Ok(Vec::new()));
                prop_assert_eq!(value, once);
            }
        }
    }
}
