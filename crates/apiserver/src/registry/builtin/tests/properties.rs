//! What holds for every kind: good samples are good, defaults are stable, nothing panics.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{CONTEXT, created, sample, samples, scope, strategy};
use crate::registry::strategy::{
    Context, DeleteRequest, begin_create, begin_update, check_create, check_update,
};

#[test]
fn every_sample_is_good_and_has_a_row() {
    for kind in samples().keys() {
        let errors = check_create(strategy(kind), &created(kind, ""), scope(kind));
        assert!(errors.is_empty(), "{kind}: {errors:?}");
    }
}

#[test]
fn every_row_has_a_sample() {
    let samples = samples();
    for (group, kind, _) in super::super::TABLE {
        let known = samples.contains_key(&format!("{group}/{kind}"));
        assert!(known || kind.starts_with("Mutating"), "{group}/{kind}");
    }
}

#[test]
fn a_default_of_a_default_is_the_default() {
    for kind in samples().keys() {
        let mut once = sample(kind);
        strategy(kind).default(&mut once);
        let mut twice = once.clone();
        strategy(kind).default(&mut twice);
        assert_eq!(once, twice, "{kind}");
    }
}

#[test]
fn an_update_without_change_changes_nothing() {
    for kind in samples().keys() {
        for subresource in ["", "status"] {
            let old = created(kind, "");
            let mut object = old.clone();
            strategy(kind).default(&mut object);
            let context = Context { subresource, ..CONTEXT };
            begin_update(strategy(kind), &mut object, &old, &context);
            assert_eq!(object, old, "{kind} {subresource}");
            let (errors, _) = check_update(strategy(kind), &object, &old, subresource);
            assert!(errors.is_empty(), "{kind} {subresource}: {errors:?}");
        }
    }
}

/// Something where something else is expected.
fn oddity() -> impl proptest::strategy::Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!({})),
        Just(json!([])),
        Just(json!([null, {}, "x", 1])),
        Just(json!({"a": null, "b": {"c": []}})),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        "[-.a-z0-9/%:]{0,12}".prop_map(Value::from),
    ]
}

/// Replaces the n-th value of an object, counted through all its depth.
fn mutate(value: &mut Value, place: &mut usize, oddity: &Value) {
    if *place == 0 {
        *value = oddity.clone();
        *place = usize::MAX;
        return;
    }
    if *place == usize::MAX {
        return;
    }
    *place -= 1;
    match value {
        Value::Object(map) => map.values_mut().for_each(|it| mutate(it, place, oddity)),
        Value::Array(list) => list.iter_mut().for_each(|it| mutate(it, place, oddity)),
        _ => {}
    }
}

/// Objects that use much of what their kinds have.
fn rich() -> Vec<(String, Value)> {
    serde_json::from_str(include_str!("rich.json")).unwrap()
}

/// All that a server does with an object of a client.
fn exercise(kind: &str, mut object: Value, old: &Value, subresource: &str) {
    let rules = strategy(kind);
    rules.default(&mut object);
    let mut twice = object.clone();
    rules.default(&mut twice);
    assert_eq!(object, twice, "{kind}");
    let mut changed = object.clone();
    begin_create(rules, &mut object, &CONTEXT);
    check_create(rules, &object, scope(kind));
    rules.warnings(&object, None);
    rules.deletion(&object, &DeleteRequest::default());
    let context = Context { subresource, ..CONTEXT };
    begin_update(rules, &mut changed, old, &context);
    check_update(rules, &changed, old, subresource);
    check_update(rules, old, &changed, subresource);
}

fn subresource() -> impl proptest::strategy::Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "status", "resize", "ephemeralcontainers", "approval"])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn nothing_panics_on_any_object(
        edits in prop::collection::vec((1usize..60, oddity()), 1..4),
        index in 0usize..200,
        subresource in subresource(),
    ) {
        let kinds: Vec<String> = samples().keys().cloned().collect();
        let kind = &kinds[index % kinds.len()];
        let old = created(kind, "");
        for mut object in [sample(kind), old.clone()] {
            for (place, oddity) in &edits {
                mutate(&mut object, &mut place.clone(), oddity);
            }
            exercise(kind, object, &old, subresource);
        }
    }

    #[test]
    fn nothing_panics_on_objects_that_use_much(
        edits in prop::collection::vec((1usize..300, oddity()), 1..6),
        index in 0usize..14,
        subresource in subresource(),
    ) {
        let rich = rich();
        // Half of the cases are pods: they have the most rules.
        let (kind, old) = rich.get(index).unwrap_or(&rich[0]);
        let mut object = old.clone();
        for (place, oddity) in &edits {
            mutate(&mut object, &mut place.clone(), oddity);
        }
        exercise(kind, object, old, subresource);
    }
}
