//! The walk that runs rules: what fails, where, and what is tolerated.

use schema::{Options, Path, RuleTree, Schema, check};
use serde_json::{Value, json};

fn texts(value: &Value) -> Vec<String> {
    let list = value.as_array().cloned().unwrap_or_default();
    list.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

#[test]
fn rules_fail_where_and_when_they_should() {
    let cases: Value = serde_saphyr::from_str(include_str!("../cases/rules.yaml")).unwrap();
    for case in cases.as_array().unwrap() {
        let schema = Schema::parse(&case["schema"], &Path::new("s")).unwrap();
        let rules = RuleTree::build(&schema, &schema::Cel::default());
        let options = Options { rules: rules.as_ref(), metadata: None };
        let outcome = schema::validate(&case["new"], case.get("old"), &schema, &options);
        let found: Vec<_> = outcome.violations.iter().map(ToString::to_string).collect();
        match case.get("starts") {
            Some(starts) => {
                assert_eq!(found.len(), texts(starts).len(), "{}", case["name"]);
                for (found, start) in found.iter().zip(texts(starts)) {
                    assert!(found.starts_with(&start), "{}: {found}", case["name"]);
                }
            }
            None => assert_eq!(found, texts(&case["errors"]), "{}", case["name"]),
        }
        assert_eq!(outcome.warnings, texts(&case["warnings"]), "{}", case["name"]);
    }
}

fn checked(schema: &Value) -> Vec<String> {
    let path = Path::new("s");
    let schema = Schema::parse(schema, &path).unwrap();
    let options = check::Options {
        path: &path,
        status_subresource: false,
        compiler: &schema::Cel::default(),
        metadata: None,
    };
    check::check(&schema, &options).iter().map(ToString::to_string).collect()
}

#[test]
fn old_values_are_refused_where_they_are_not_found_again() {
    let item = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]});
    let list = |list_type: &str| {
        let mut list = json!({"type": "array", "maxItems": 3, "items": item});
        list["x-kubernetes-list-type"] = json!(list_type);
        list
    };
    let rule = "x-kubernetes-validations[0].rule";
    let within = "oldSelf cannot be used on the uncorrelatable portion of the schema within";
    for list in [list("set"), list("atomic")] {
        let found = checked(&json!({"type": "object", "properties": {"l": list}}));
        let wanted = format!(
            "s.properties[l].items.{rule}: Invalid value: \"self == oldSelf\": {within} \
             s.properties[l]"
        );
        assert_eq!(found, [wanted]);
    }
    let atomic = json!({
        "type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": item},
    });
    let found = checked(&json!({"type": "object", "properties": {"m": atomic}}));
    assert!(found[0].ends_with("within s.properties[m]"), "{found:?}");
    let plain = json!({"type": "object", "properties": {"a": item}});
    assert_eq!(checked(&plain), Vec::<String>::new());
}

#[test]
fn an_optional_old_value_needs_a_rule_that_names_it() {
    let rule = json!([{"rule": "self >= 5", "optionalOldSelf": true}]);
    let a = json!({"type": "integer", "x-kubernetes-validations": rule});
    let found = checked(&json!({"type": "object", "properties": {"a": a}}));
    let at = "s.properties[a].x-kubernetes-validations[0].optionalOldSelf";
    let wanted =
        format!("{at}: Invalid value: true: may not be set if oldSelf is not used in rule");
    assert_eq!(found, [wanted]);
}

#[test]
fn rules_that_do_not_compile_are_refused() {
    let rule = json!([{"rule": "self =="}]);
    let a = json!({"type": "integer", "x-kubernetes-validations": rule});
    let found = checked(&json!({"type": "object", "properties": {"a": a}}));
    assert_eq!(found.len(), 1);
    let start = "s.properties[a].x-kubernetes-validations[0].rule: Invalid value: \
                 {\"rule\":\"self ==\"}: compilation failed: ";
    assert!(found[0].starts_with(start), "{found:?}");
}

#[test]
fn defaults_must_hold_by_their_rules() {
    let rule = json!([{"rule": "self >= 5", "message": "small"}]);
    let a = json!({"type": "integer", "default": 1, "x-kubernetes-validations": rule});
    let found = checked(&json!({"type": "object", "properties": {"a": a}}));
    assert_eq!(found, ["s.properties[a].default: Invalid value: \"integer\": small"]);
}
