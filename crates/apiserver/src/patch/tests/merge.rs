//! JSON merge patches.

use super::{check, value};
use crate::patch::merge;

#[test]
fn merge_patches() {
    // (object, patch, result)
    let cases = [
        ("{a: b}", "{a: c}", "{a: c}"),
        ("{a: b}", "{b: c}", "{a: b, b: c}"),
        ("{a: b}", "{a: null}", "{}"),
        ("{a: b, b: c}", "{a: null}", "{b: c}"),
        ("{a: [b]}", "{a: c}", "{a: c}"),
        ("{a: c}", "{a: [b]}", "{a: [b]}"),
        ("{a: {b: c}}", "{a: {b: d, c: null}}", "{a: {b: d}}"),
        ("{a: [{b: c}]}", "{a: [1]}", "{a: [1]}"),
        ("{a: [1, 2]}", "{a: [1]}", "{a: [1]}"),
        ("{a: [1]}", "{a: []}", "{a: []}"),
        ("{e: null}", "{a: 1}", "{e: null, a: 1}"),
        ("{a: foo}", "{a: {b: {c: null, d: 1}}}", "{a: {b: {d: 1}}}"),
        ("{}", "{a: {bb: {ccc: null}}}", "{a: {bb: {}}}"),
        ("{}", "{}", "{}"),
        ("{a: 1}", "{}", "{a: 1}"),
        ("{a: 1}", "{a: {}}", "{a: {}}"),
        ("{a: {b: 1}}", "{a: {}}", "{a: {b: 1}}"),
        ("{a: [{b: null}]}", "{c: [null, {d: null}]}", "{a: [{b: null}], c: [null, {d: null}]}"),
        ("{a: 1}", "{missing: null}", "{a: 1}"),
        ("{a: 1}", "{missing: {x: null}}", "{a: 1, missing: {}}"),
        ("{a: true}", "{a: 0}", "{a: 0}"),
        ("{a: 1}", "[]", "400: error decoding patch"),
        ("{a: 1}", "null", "400: Invalid JSON Patch"),
        ("{a: 1}", "text", "400: error decoding patch"),
    ];
    for (object, patch, expected) in cases {
        let mut result = value(object);
        let found = merge::apply(&mut result, value(patch)).map(|()| result);
        check(&format!("{object} {patch}"), found, expected);
    }
}
