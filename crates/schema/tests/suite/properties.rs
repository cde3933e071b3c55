//! What holds for any schema and any value.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use schema::structural::structural;
use schema::{Malformed, NoRules, Options, Path, RuleTree, Schema, check, jsonpath, publish};
use serde_json::{Map, Value, json};

const NAMES: [&str; 7] = ["a", "b", "name", "metadata", "kind", "apiVersion", "x.y"];

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(NAMES.to_vec()).prop_map(str::to_owned)
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..12).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c]{0,4}".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(json!("2020-01-02T03:04:05Z")),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(name(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A keyword with no schema in it.
fn plain_keyword() -> impl Strategy<Value = (String, Value)> {
    let text = |name: &'static str| (Just(name), "[a-c]{0,3}".prop_map(Value::from));
    let size = |name: &'static str| (Just(name), (-1i64..4).prop_map(Value::from));
    let number = |name: &'static str| (Just(name), (-4i64..8).prop_map(|n| json!(n as f64 / 2.0)));
    let flag = |name: &'static str| (Just(name), any::<bool>().prop_map(Value::from));
    let names = |keyword: &'static str| {
        (Just(keyword), prop::collection::vec(name(), 0..3).prop_map(Value::from))
    };
    let one = |name: &'static str, choices: &'static [&'static str]| {
        (Just(name), prop::sample::select(choices).prop_map(Value::from))
    };
    let formats: &[&str] = &["date-time", "int32", "uuid", "byte", "ipv4", "odd"];
    prop_oneof![
        text("title"),
        text("description"),
        one("format", formats),
        (Just("default"), value()),
        (Just("example"), value()),
        prop_oneof![number("maximum"), number("minimum"), number("multipleOf")],
        prop_oneof![flag("exclusiveMaximum"), flag("exclusiveMinimum"), flag("nullable")],
        prop_oneof![size("maxLength"), size("minLength"), size("maxItems"), size("minItems")],
        prop_oneof![size("maxProperties"), size("minProperties"), flag("uniqueItems")],
        one("pattern", &["^a", "[a-c]{2}", "(", "\\d+"]),
        names("required"),
        names("x-kubernetes-list-map-keys"),
        (Just("enum"), prop::collection::vec(value(), 0..3).prop_map(Value::from)),
        one("x-kubernetes-list-type", &["atomic", "set", "map", "odd"]),
        one("x-kubernetes-map-type", &["atomic", "granular"]),
        flag("x-kubernetes-preserve-unknown-fields"),
        flag("x-kubernetes-embedded-resource"),
        flag("x-kubernetes-int-or-string"),
        (Just("x-kubernetes-validations"), Just(json!([{"rule": "self == oldSelf"}]))),
        (Just("$ref"), Just(json!("#/definitions/a"))),
    ]
    .prop_map(|(name, value)| (name.to_owned(), value))
}

fn typed(keywords: Vec<(String, Value)>, kind: &'static str) -> Value {
    let mut map: Map<String, Value> = keywords.into_iter().collect();
    if !kind.is_empty() {
        map.insert("type".to_owned(), kind.into());
    }
    Value::Object(map)
}

fn schema_json() -> impl Strategy<Value = Value> {
    let kinds = ["object", "array", "string", "integer", "number", "boolean", "", "null"];
    let kind = move || prop::sample::select(kinds.to_vec());
    let leaf = (prop::collection::vec(plain_keyword(), 0..4), kind())
        .prop_map(|(keywords, kind)| typed(keywords, kind));
    leaf.prop_recursive(4, 32, 4, move |inner| {
        let map = prop::collection::btree_map(name(), inner.clone(), 0..4)
            .prop_map(|map| Value::Object(map.into_iter().collect()));
        let list = || prop::collection::vec(inner.clone(), 1..3).prop_map(Value::Array);
        let nested = prop_oneof![
            (Just("properties"), map),
            (Just("items"), inner.clone()),
            (Just("additionalProperties"), prop_oneof![inner.clone(), Just(json!(true))]),
            (Just("allOf"), list()),
            (Just("anyOf"), list()),
            (Just("oneOf"), list()),
            (Just("not"), inner.clone()),
        ]
        .prop_map(|(name, value)| (name.to_owned(), value));
        let keyword = prop_oneof![2 => nested, 3 => plain_keyword()];
        (prop::collection::vec(keyword, 0..6), kind()).prop_map(|(words, kind)| typed(words, kind))
    })
}

fn parse(value: &Value) -> Schema {
    Schema::parse(value, &Path::new("s")).unwrap()
}

proptest! {
    #![proptest_config(Config { cases: cases(), failure_persistence: None, ..Config::default() })]

    #[test]
    fn pruning_twice_is_pruning_once(schema in schema_json(), object in value()) {
        let schema = parse(&schema);
        let mut once = object;
        schema::prune(&mut once, &schema);
        let mut twice = once.clone();
        let unknown = schema::prune(&mut twice, &schema);
        prop_assert_eq!(&twice, &once);
        prop_assert_eq!(unknown, Vec::<String>::new());
    }

    #[test]
    fn defaulting_twice_is_defaulting_once(schema in schema_json(), object in value()) {
        let schema = parse(&schema);
        let mut once = object;
        schema::default(&mut once, &schema);
        let mut twice = once.clone();
        schema::default(&mut twice, &schema);
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn nothing_panics_on_any_schema_and_value(
        schema in schema_json(),
        object in value(),
        old in value(),
    ) {
        let schema = parse(&schema);
        let path = Path::new("s");
        let options = check::Options {
            path: &path,
            status_subresource: true,
            compiler: &NoRules,
            metadata: None,
        };
        check::check(&schema, &options);
        structural(&schema, &path);
        let rules = RuleTree::build(&schema, &NoRules);
        let options = Options { rules: rules.as_ref(), metadata: None };
        schema::validate(&object, None, &schema, &options);
        schema::validate(&object, Some(&old), &schema, &options);
        let mut coerced = object.clone();
        schema::coerce(&mut coerced, &schema, Malformed::Drop).unwrap();
        let _refused = schema::coerce(&mut object.clone(), &schema, Malformed::Refuse);
    }

    #[test]
    fn values_of_an_object_that_did_not_change_are_tolerated(
        schema in schema_json(),
        object in value(),
    ) {
        let schema = parse(&schema);
        let found = schema::validate(&object, Some(&object), &schema, &Options::default());
        let embedded = |path: &str| path.contains("apiVersion") || path.contains("kind")
            || path.contains("metadata");
        let left: Vec<_> = found.violations.iter().filter(|one| !embedded(&one.path)).collect();
        prop_assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn what_is_published_reads_back_as_the_same_schema(schema in schema_json()) {
        let schema = parse(&schema);
        let published = publish::node(&schema.root);
        let again = publish::node(&parse(&Value::Object(published.clone())).root);
        prop_assert_eq!(again, published);
    }

    #[test]
    fn any_text_is_a_json_path_or_is_refused(
        text in "[.\\[\\]'\"*a-c0-9:,?()@=<>! \\\\-]{0,24}",
        object in value(),
    ) {
        if let Ok(path) = jsonpath::JsonPath::parse(&text) {
            let _found = path.find(&object);
        }
    }
}

fn cases() -> u32 {
    if std::env::var_os("SETPOINT_TEST_FULL").is_some() { 20_000 } else { 256 }
}

#[test]
fn the_schemas_of_these_tests_have_every_keyword() {
    let mut runner = TestRunner::deterministic();
    let mut seen = BTreeSet::new();
    for _ in 0..400 {
        collect(&schema_json().new_tree(&mut runner).unwrap().current(), &mut seen);
    }
    let all = [
        "type",
        "format",
        "title",
        "description",
        "default",
        "maximum",
        "minimum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "multipleOf",
        "maxLength",
        "minLength",
        "pattern",
        "maxItems",
        "minItems",
        "uniqueItems",
        "maxProperties",
        "minProperties",
        "required",
        "enum",
        "properties",
        "additionalProperties",
        "items",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "nullable",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
        "x-kubernetes-validations",
        "$ref",
        "example",
    ];
    let missing: Vec<_> = all.iter().filter(|name| !seen.contains(**name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

fn collect(value: &Value, seen: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                seen.insert(name.clone());
                collect(value, seen);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| collect(value, seen)),
        _ => {}
    }
}
