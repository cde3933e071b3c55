//! `anyOf`, `oneOf`, `allOf` and `not`.
//!
//! What did not change is not tolerated inside them: a branch that fails there is how a branch is
//! chosen.
//!
//! Upstream: kube-openapi/pkg/validation/validate/schema_props.go

use std::sync::Arc;

use serde_json::Value;

use super::values::{Passed, Place, Walk};
use crate::node::Node;
use crate::path::Path;
use crate::violation::Violation;

struct Branch {
    passed: Passed,
    violations: Vec<Violation>,
}

pub(super) fn check(
    walk: &Walk<'_>,
    value: &Value,
    (node, path): Place<'_>,
    out: &mut Vec<Violation>,
) -> Passed {
    let mut passed = 1;
    if !node.any_of.is_empty() {
        passed += any_of(walk, value, (&node.any_of, path), out);
    }
    if !node.one_of.is_empty() {
        passed += one_of(walk, value, (&node.one_of, path), out);
    }
    if !node.all_of.is_empty() {
        passed += all_of(walk, value, (&node.all_of, path), out);
    }
    if let Some(not) = &node.not
        && branch(walk, value, not, path).violations.is_empty()
    {
        let name = path.to_string();
        out.push(walk.composite(format!("{name:?} must not validate the schema (not)")));
    }
    passed
}

fn branch(walk: &Walk<'_>, value: &Value, node: &Node, path: &Path<'_>) -> Branch {
    let mut violations = Vec::new();
    let passed = walk.node(value, None, (node, path), &mut violations);
    Branch { passed, violations }
}

type Nodes<'p> = (&'p [Arc<Node>], &'p Path<'p>);

fn any_of(
    walk: &Walk<'_>,
    value: &Value,
    (nodes, path): Nodes<'_>,
    out: &mut Vec<Violation>,
) -> Passed {
    let mut best: Option<Branch> = None;
    for node in nodes {
        let tried = branch(walk, value, node, path);
        if tried.violations.is_empty() {
            return tried.passed;
        }
        if best.as_ref().is_none_or(|best| tried.passed > best.passed) {
            best = Some(tried);
        }
    }
    let name = path.to_string();
    out.push(walk.composite(format!("{name:?} must validate at least one schema (anyOf)")));
    best.map_or(0, |best| keep(best, out))
}

fn one_of(
    walk: &Walk<'_>,
    value: &Value,
    (nodes, path): Nodes<'_>,
    out: &mut Vec<Violation>,
) -> Passed {
    let mut best: Option<Branch> = None;
    let mut first_valid = None;
    let mut valid = 0;
    for node in nodes {
        let tried = branch(walk, value, node, path);
        if tried.violations.is_empty() {
            valid += 1;
            best = None;
            first_valid.get_or_insert(tried.passed);
        } else if valid == 0 && best.as_ref().is_none_or(|best| tried.passed > best.passed) {
            best = Some(tried);
        }
    }
    if valid == 1 {
        return first_valid.unwrap_or_default();
    }
    let found = match valid {
        0 => "Found none valid".to_owned(),
        many => format!("Found {many} valid alternatives"),
    };
    let name = path.to_string();
    let detail = format!("{name:?} must validate one and only one schema (oneOf). {found}");
    out.push(walk.composite(detail));
    best.map_or(0, |best| keep(best, out))
}

fn all_of(
    walk: &Walk<'_>,
    value: &Value,
    (nodes, path): Nodes<'_>,
    out: &mut Vec<Violation>,
) -> Passed {
    let mut passed = 0;
    let mut valid = 0;
    for node in nodes {
        let tried = branch(walk, value, node, path);
        valid += usize::from(tried.violations.is_empty());
        passed += keep(tried, out);
    }
    if valid != nodes.len() {
        let none = if valid == 0 { ". None validated" } else { "" };
        let name = path.to_string();
        out.push(walk.composite(format!("{name:?} must validate all the schemas (allOf){none}")));
    }
    passed
}

fn keep(branch: Branch, out: &mut Vec<Violation>) -> Passed {
    out.extend(branch.violations);
    branch.passed
}
