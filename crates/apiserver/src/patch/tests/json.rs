//! JSON patches.

use serde_json::{Value, json};

use super::{check, value};
use crate::patch::json;

fn patched(object: &str, operations: &str) -> Result<Value, super::Error> {
    let mut result = value(object);
    json::apply(&mut result, &value(operations)).map(|()| result)
}

#[test]
fn json_patches() {
    // (object, operations, result)
    let cases = [
        ("{a: 1}", "[]", "{a: 1}"),
        ("{a: 1}", "[{op: add, path: /b, value: 2}]", "{a: 1, b: 2}"),
        ("{a: 1}", "[{op: add, path: /a, value: 2}]", "{a: 2}"),
        ("{a: 1}", "[{op: add, path: /b}]", "{a: 1, b: null}"),
        ("{a: [1, 3]}", "[{op: add, path: /a/1, value: 2}]", "{a: [1, 2, 3]}"),
        ("{a: [1]}", "[{op: add, path: /a/1, value: 2}]", "{a: [1, 2]}"),
        ("{a: [1]}", "[{op: add, path: /a/-, value: 2}]", "{a: [1, 2]}"),
        ("{a: []}", "[{op: add, path: /a/0, value: {b: 1}}]", "{a: [{b: 1}]}"),
        ("{a: [1]}", "[{op: add, path: /a/3, value: 2}]", "422: Unable to access invalid index"),
        ("{a: [1]}", "[{op: add, path: /a/-1, value: 2}]", "{a: [1, 2]}"),
        ("{a: [1]}", "[{op: add, path: /a/x, value: 2}]", "422: Unable to access invalid index"),
        ("{a: 1}", "[{op: add, path: /b/c, value: 2}]", "422: add operation does not apply"),
        ("{a: 1}", "[{op: add, path: /a/c, value: 2}]", "422: add operation does not apply"),
        ("{a: 1}", "[{op: add, path: '', value: {}}]", "422: operation does not apply"),
        ("{a: 1}", "[{op: add, path: b, value: {}}]", "422: operation does not apply"),
        ("{a: 1}", "[{op: add, path: /, value: 2}]", "{a: 1, '': 2}"),
        ("{a: 1, b: 2}", "[{op: remove, path: /a}]", "{b: 2}"),
        ("{a: [1, 2]}", "[{op: remove, path: /a/0}]", "{a: [2]}"),
        ("{a: 1}", "[{op: remove, path: /b}]", "422: remove operation does not apply"),
        ("{a: [1]}", "[{op: remove, path: /a/1}]", "422: Unable to access invalid index"),
        ("{a: [1, 2]}", "[{op: remove, path: /a/-2}]", "{a: [2]}"),
        ("{a: [1]}", "[{op: add, path: /a/-2, value: 2}]", "{a: [2, 1]}"),
        ("{a: [1]}", "[{op: add, path: /a/-3, value: 2}]", "422: Unable to access invalid index"),
        ("{a: [1]}", "[{op: remove, path: /a/-2}]", "422: Unable to access invalid index"),
        ("{a: [1, 2]}", "[{op: replace, path: /a/-1, value: 3}]", "{a: [1, 3]}"),
        ("{a: [{b: 1}]}", "[{op: add, path: /a/-1/c, value: 2}]", "{a: [{b: 1, c: 2}]}"),
        ("{a: [1, 2]}", "[{op: add, path: /a/+1, value: 3}]", "{a: [1, 3, 2]}"),
        ("{a: 1}", "[{op: replace, path: /b/c, value: 2}]", "422: replace operation does not"),
        ("{a: 1}", "[{op: test, path: '', value: {a: 1}}]", "{a: 1}"),
        ("{a: 1}", "[{op: test, path: '', value: {a: 2}}]", "422: testing value  failed"),
        ("{a: 1}", "[{op: remove, path: ''}]", "422: operation does not apply"),
        ("{a: 1}", "null", "{a: 1}"),
        ("{a: [1]}", "[{op: remove, path: /a/-}]", "422: Unable to access invalid index"),
        ("{a: 1}", "[{op: replace, path: /a, value: [x]}]", "{a: [x]}"),
        ("{a: [1, 2]}", "[{op: replace, path: /a/1, value: 3}]", "{a: [1, 3]}"),
        ("{a: 1}", "[{op: replace, path: /b, value: 2}]", "{a: 1, b: 2}"),
        ("{a: [1]}", "[{op: replace, path: /a/1, value: 2}]", "422: replace operation does not"),
        ("{a: {b: 1}}", "[{op: move, from: /a/b, path: /c}]", "{a: {}, c: 1}"),
        ("{a: [1, 2, 3]}", "[{op: move, from: /a/0, path: /a/2}]", "{a: [2, 3, 1]}"),
        ("{a: 1}", "[{op: move, from: /b, path: /c}]", "422: remove operation does not apply"),
        ("{a: {b: 1}}", "[{op: move, from: /a, path: /a/b}]", "422: add operation does not apply"),
        ("{a: {b: 1}}", "[{op: copy, from: /a, path: /c}]", "{a: {b: 1}, c: {b: 1}}"),
        ("{a: [1]}", "[{op: copy, from: /a/0, path: /a/-}]", "{a: [1, 1]}"),
        ("{a: 1}", "[{op: copy, from: /b, path: /c}]", "{a: 1, c: null}"),
        ("{a: [1]}", "[{op: copy, from: /a/1, path: /c}]", "422: operation does not apply"),
        ("{a: [1]}", "[{op: copy, from: /a/-1, path: /c}]", "{a: [1], c: 1}"),
        ("{a: 1}", "[{op: copy, from: /b/x, path: /c}]", "422: operation does not apply"),
        ("{a: 1}", "[{op: copy, path: /c}]", "422: operation missing from field"),
        ("{a: {b: [1]}}", "[{op: test, path: /a, value: {b: [1]}}]", "{a: {b: [1]}}"),
        ("{a: 1}", "[{op: test, path: /a, value: 2}]", "422: testing value /a failed"),
        ("{a: 1}", "[{op: test, path: /a, value: '1'}]", "422: testing value /a failed"),
        ("{a: 1}", "[{op: test, path: /b, value: null}]", "{a: 1}"),
        ("{a: null}", "[{op: test, path: /a, value: null}]", "{a: null}"),
        ("{a: 1}", "[{op: test, path: /b, value: 1}]", "422: testing value /b failed"),
        ("{a: [1]}", "[{op: test, path: /a/0, value: 1}]", "{a: [1]}"),
        ("{a: 1}", "[{op: test, path: /b/c, value: 1}]", "422: operation does not apply"),
        ("{a/b: 1, m~n: 2}", "[{op: remove, path: /a~1b}, {op: remove, path: /m~0n}]", "{}"),
        ("{~1: 1}", "[{op: remove, path: /~01}]", "{}"),
        (
            "{a: 1}",
            "[{op: add, path: /b, value: 1}, {op: test, path: /b, value: 1}]",
            "{a: 1, b: 1}",
        ),
        ("{a: 1}", "[{op: jump, path: /a}]", "422: Unexpected kind: jump"),
        ("{a: 1}", "[{path: /a}]", "422: operation missing op field"),
        ("{a: 1}", "[{op: remove}]", "422: operation missing path field"),
        ("{a: 1}", "{op: remove, path: /a}", "400: error decoding patch"),
        ("{a: 1}", "[1]", "400: an operation of a JSON patch"),
        ("{a: 1}", "text", "400: error decoding patch"),
    ];
    for (object, operations, expected) in cases {
        check(&format!("{object} {operations}"), patched(object, operations), expected);
    }
}

#[test]
fn the_number_of_operations_is_limited() {
    let operation = json!({"op": "test", "path": "/a", "value": 1});
    let patch = |count| Value::Array(vec![operation.clone(); count]);
    let mut object = json!({"a": 1});
    assert_eq!(json::apply(&mut object, &patch(json::OPERATIONS_MAX)), Ok(()));
    let error = json::apply(&mut object, &patch(json::OPERATIONS_MAX + 1)).unwrap_err();
    assert_eq!(error.code(), 413);
    let text = "The allowed maximum operations in a JSON patch is 10000, got 10001";
    assert_eq!(error.to_string(), text);
}

#[test]
fn what_copies_add_is_limited() {
    let double = json!({"op": "copy", "from": "/a", "path": "/a/-"});
    let mut object = json!({"a": ["x".repeat(1000)]});
    let error = json::apply(&mut object, &Value::Array(vec![double; 100])).unwrap_err();
    assert_eq!(error.code(), 422);
    assert!(error.to_string().starts_with("Unable to complete the copy"), "{error}");
}

#[test]
fn copies_and_moves_cannot_make_the_object_too_deep() {
    let deep = (0..300).fold(json!(1), |inner, _| json!({"a": inner}));
    let path = "/a".repeat(299) + "/b";
    for operation in ["copy", "move"] {
        let mut object = json!({"a": deep, "other": deep});
        let patch = json!([{"op": operation, "from": "/other", "path": path}]);
        let error = json::apply(&mut object, &patch).unwrap_err();
        assert_eq!(error.to_string(), "exceeded max depth");
    }
    let value = json!([{"op": "add", "path": path, "value": deep}]);
    assert!(json::apply(&mut json!({"a": deep}), &value).is_err());
    let shuffle = [("/other", "/x"), ("/x", "/other")]
        .map(|(from, path)| json!({"op": "move", "from": from, "path": path}));
    let patch: Value = shuffle.iter().cycle().take(2000).cloned().collect();
    assert_eq!(json::apply(&mut json!({"other": deep}), &patch), Ok(()));
}
