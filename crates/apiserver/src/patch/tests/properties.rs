//! What holds for all patches.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::facts::{self, Type};
use crate::patch::{json, merge, strategic};

fn pod_spec() -> &'static Type {
    facts::type_by_name("io.k8s.api.core.v1.PodSpec").unwrap()
}

/// Keys that mean something to one of the patches, so that few trials are wasted.
fn key() -> impl Strategy<Value = String> {
    let keys = [
        "containers",
        "env",
        "name",
        "ports",
        "containerPort",
        "volumes",
        "args",
        "nodeSelector",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$setElementOrder/env",
        "$deleteFromPrimitiveList/args",
        "op",
        "path",
        "from",
        "value",
    ];
    prop::sample::select(keys.to_vec()).prop_map(str::to_owned)
}

fn anything() -> impl Strategy<Value = Value> {
    let words =
        ["", "a", "b", "delete", "replace", "/name", "/containers/0", "/env/-", "add", "move"];
    let scalar = prop_oneof![
        Just(Value::Null),
        (0..3).prop_map(Value::from),
        prop::sample::select(words.to_vec()).prop_map(Value::from),
    ];
    scalar.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(key(), anything(), 0..5)
        .prop_map(|map| Value::Object(map.into_iter().collect()))
}

fn operations() -> impl Strategy<Value = Value> {
    let names = ["add", "remove", "replace", "move", "copy", "test"];
    let paths = ["/name", "/containers", "/containers/0", "/containers/-", "/env/a", "", "/~01"];
    let operation = (
        prop::sample::select(names.to_vec()),
        prop::sample::select(paths.to_vec()),
        prop::sample::select(paths.to_vec()),
        anything(),
    )
        .prop_map(
            |(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}),
        );
    prop::collection::vec(operation, 0..6).prop_map(Value::from)
}

proptest! {
    #[test]
    fn an_empty_patch_changes_nothing(object in object()) {
        let mut merged = object.clone();
        merge::apply(&mut merged, json!({})).unwrap();
        prop_assert_eq!(&merged, &object);
        strategic::apply(&mut merged, json!({}), pod_spec()).unwrap();
        prop_assert_eq!(&merged, &object);
        json::apply(&mut merged, &json!([])).unwrap();
        prop_assert_eq!(&merged, &object);
    }

    #[test]
    fn merging_twice_is_merging_once(object in object(), patch in object()) {
        let mut once = object;
        merge::apply(&mut once, patch.clone()).unwrap();
        let mut twice = once.clone();
        merge::apply(&mut twice, patch).unwrap();
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn nothing_makes_a_patch_panic(
        object in prop_oneof![object(), anything()],
        patch in prop_oneof![object(), anything(), operations()],
    ) {
        let _ = merge::apply(&mut object.clone(), patch.clone());
        let _ = strategic::apply(&mut object.clone(), patch.clone(), pod_spec());
        let _ = json::apply(&mut object.clone(), &patch);
    }

    #[test]
    fn a_patch_leaves_no_directives(patch in object()) {
        let mut object = json!({"containers": [{"name": "a", "args": ["a"]}]});
        if strategic::apply(&mut object, patch, pod_spec()).is_ok() {
            prop_assert!(!has_directive(&object), "{}", object);
        }
    }
}

fn has_directive(value: &Value) -> bool {
    match value {
        Value::Object(map) => {
            map.iter().any(|(key, value)| key.starts_with('$') || has_directive(value))
        }
        Value::Array(list) => list.iter().any(has_directive),
        _ => false,
    }
}
