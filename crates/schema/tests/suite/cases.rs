//! Every keyword both ways, as data: see the files under `cases`.

use schema::check::{self, version};
use schema::jsonpath::{self, JsonPath};
use schema::structural::structural;
use schema::{Malformed, NoRules, Options, Path, Schema, Violation};
use serde_json::{Value, json};

fn load(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn parse(value: &Value) -> Schema {
    Schema::parse(value, &Path::new("s")).unwrap()
}

fn texts(violations: &[Violation]) -> Vec<String> {
    violations.iter().map(ToString::to_string).collect()
}

fn expected(case: &Value) -> Vec<String> {
    case["errors"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().into()).collect()
}

fn errors(object: &Value, old: Option<&Value>, schema: &Schema) -> Vec<String> {
    texts(&schema::validate(object, old, schema, &Options::default()).violations)
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

#[test]
fn values_are_valid_or_have_exactly_these_errors() {
    for case in list(&load(include_str!("../cases/validate.yaml"))) {
        let schema = parse(&json!({"type": "object", "properties": {"x": case["schema"]}}));
        for value in list(&case["valid"]) {
            let found = errors(&json!({"x": value}), None, &schema);
            assert!(found.is_empty(), "{} {value}: {found:#?}", case["schema"]);
        }
        for invalid in list(&case["invalid"]) {
            let found = errors(&json!({"x": invalid["value"]}), None, &schema);
            assert_eq!(found, expected(&invalid), "{} {}", case["schema"], invalid["value"]);
        }
    }
}

#[test]
fn formats_hold_for_the_good_and_not_for_the_bad() {
    for (format, case) in load(include_str!("../cases/formats.yaml")).as_object().unwrap() {
        let x = json!({"type": "string", "format": format});
        let schema = parse(&json!({"type": "object", "properties": {"x": x}}));
        for text in list(&case["good"]) {
            let found = errors(&json!({"x": text}), None, &schema);
            assert!(found.is_empty(), "{format} {text}: {found:?}");
        }
        for text in list(&case["bad"]) {
            let found = errors(&json!({"x": text}), None, &schema);
            let wanted =
                format!("x: Invalid value: {text}: x in body must be of type {format}: {text}");
            assert_eq!(found, [wanted], "{format} {text}");
        }
    }
}

#[test]
fn schemas_that_are_not_structural_are_told_why() {
    for case in list(&load(include_str!("../cases/structural.yaml"))) {
        let found = texts(&structural(&parse(&case["schema"]), &Path::new("s")));
        match case.get("starts") {
            Some(starts) => {
                for (found, start) in found.iter().zip(list(starts)) {
                    assert!(found.starts_with(start.as_str().unwrap()), "{found}");
                }
                assert_eq!(found.len(), list(starts).len());
            }
            None => assert_eq!(found, expected(&case), "{}", case["schema"]),
        }
    }
}

#[test]
fn schemas_are_refused_with_exactly_these_errors() {
    let path = Path::new("s");
    for case in list(&load(include_str!("../cases/check.yaml"))) {
        let options = check::Options {
            path: &path,
            status_subresource: case["status"] == true,
            compiler: &NoRules,
            metadata: None,
        };
        let found = texts(&check::check(&parse(&case["schema"]), &options));
        assert_eq!(found, expected(&case), "{}", case["schema"]);
    }
}

#[test]
fn unknown_fields_are_pruned_and_named() {
    for case in list(&load(include_str!("../cases/prune.yaml"))) {
        let schema = parse(&case["schema"]);
        let mut object = case["object"].clone();
        let unknown = schema::prune(&mut object, &schema);
        assert_eq!(object, case["pruned"], "{}", case["schema"]);
        assert_eq!(json!(unknown), case["unknown"], "{}", case["schema"]);
        if let Some(coerced) = case.get("coerced") {
            let unknown = schema::coerce(&mut object, &schema, Malformed::Refuse).unwrap();
            assert_eq!(object, *coerced);
            assert_eq!(json!(unknown), case["unknown_metadata"]);
        }
    }
}

#[test]
fn malformed_metadata_is_refused_in_requests_and_dropped_from_the_store() {
    let schema = parse(&json!({"type": "object"}));
    let object = json!({"kind": "K", "metadata": {"name": 5, "uid": "u", "labels": {"a": 1}}});
    let error = schema::coerce(&mut object.clone(), &schema, Malformed::Refuse).unwrap_err();
    assert_eq!(
        error.detail,
        "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"
    );
    let mut stored = object;
    schema::coerce(&mut stored, &schema, Malformed::Drop).unwrap();
    assert_eq!(stored, json!({"kind": "K", "metadata": {"uid": "u"}}));
}

#[test]
fn defaults_fill_what_is_not_said() {
    for group in list(&load(include_str!("../cases/default.yaml"))) {
        let schema = parse(&group["schema"]);
        for case in list(&group["cases"]) {
            let mut object = case["before"].clone();
            schema::default(&mut object, &schema);
            assert_eq!(object, case["after"], "{} {}", group["schema"], case["before"]);
        }
    }
}

#[test]
fn what_did_not_change_is_tolerated_on_update() {
    for group in list(&load(include_str!("../cases/ratchet.yaml"))) {
        let schema = parse(&group["schema"]);
        for case in list(&group["cases"]) {
            let found = errors(&case["new"], Some(&case["old"]), &schema);
            assert_eq!(found, expected(&case), "{} {case}", group["schema"]);
        }
    }
}

#[test]
fn json_paths_find_fail_or_are_refused() {
    let cases = load(include_str!("../cases/jsonpath.yaml"));
    let object = &cases["object"];
    for (path, wanted) in cases["found"].as_object().unwrap() {
        let found = JsonPath::parse(path).unwrap().find(object).unwrap();
        let found: Vec<Value> = found.into_iter().map(|value| value.into_owned()).collect();
        assert_eq!(json!(found), *wanted, "{path}");
    }
    for (path, wanted) in cases["failed"].as_object().unwrap() {
        let error = JsonPath::parse(path).unwrap().find(object).unwrap_err();
        assert!(error.contains(wanted.as_str().unwrap()), "{path}: {error}");
        assert_eq!(JsonPath::parse(path).unwrap().first(object), None);
    }
    for (path, wanted) in cases["refused"].as_object().unwrap() {
        assert_eq!(JsonPath::parse(path).unwrap_err(), *wanted, "{path}");
    }
    assert_eq!(jsonpath::print(&json!(true)), "true");
    assert!(jsonpath::simple("spec").is_err() && jsonpath::simple(".spec").is_ok());
}

#[test]
fn columns_selectable_fields_and_scale_are_checked() {
    let mut spec = json!({
        "a": {"type": "string"}, "b": {"type": "boolean"}, "i": {"type": "integer"},
        "o": {"type": "object"},
    });
    for index in 1..9 {
        spec[format!("m{index}")] = json!({"type": "string"});
    }
    let schema = parse(&json!({"type": "object", "properties": {
        "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
        "spec": {"type": "object", "properties": spec},
    }}));
    let path = Path::new("v");
    for case in list(&load(include_str!("../cases/version.yaml"))) {
        let found = if case.get("columns").is_some() {
            version::columns(&list(&case["columns"]), &path)
        } else if case.get("selectable").is_some() {
            version::selectable_fields(&list(&case["selectable"]), &schema, &path)
        } else {
            version::subresources(&case["subresources"], &path)
        };
        assert_eq!(texts(&found), expected(&case), "{case}");
    }
}

#[test]
fn keywords_of_the_wrong_type_and_schemas_past_a_limit_are_refused() {
    let wrong = [
        (json!({"maxLength": "x"}), "s.maxLength: Invalid value: \"x\": must be an integer"),
        (json!({"properties": []}), "s.properties: Invalid value: []: must be an object"),
        (json!({"required": [1]}), "s.required[0]: Invalid value: 1: must be a string"),
        (json!({"allOf": [5]}), "s.allOf[0]: Invalid value: 5: must be an object"),
        (json!([]), "s: Invalid value: []: must be an object"),
    ];
    for (value, text) in wrong {
        let error = Schema::parse(&value, &Path::new("s")).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
    let mut deep = json!({"type": "string"});
    for _ in 0..schema::DEPTH_MAX + 1 {
        deep = json!({"type": "array", "items": deep});
    }
    let error = Schema::parse(&deep, &Path::new("s")).unwrap_err();
    assert!(error.to_string().ends_with("Forbidden: must not be nested deeper than 128 levels"));
}
