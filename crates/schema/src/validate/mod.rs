//! Whether an object is valid by its schema.
//!
//! Upstream: apiextensions-apiserver/pkg/registry/customresource/strategy.go, kube-openapi's
//! pkg/validation/validate

mod correlate;
mod junctors;
mod numbers;
mod rules;
mod types;
mod unique;
mod values;

use serde_json::Value;

use crate::metadata::{self, Embedded};
use crate::node::{Node, Schema};
use crate::path::Path;
use crate::rules::RuleTree;
use crate::violation::{Problem, Violation};

/// What else an object is validated by.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// The compiled rules of the schema.
    pub rules: Option<&'a RuleTree>,
    /// Checks the metadata of embedded resources.
    pub metadata: Option<&'a Embedded<'a>>,
}

/// What is wrong with an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    pub violations: Vec<Violation>,
    /// What failed rules said about parts that did not change: for the `Warning` header.
    pub warnings: Vec<String>,
}

/// Validates an object, in the order of upstream: values, embedded resources, unique lists, rules.
///
/// With an old object, what is wrong with a part that did not change is tolerated.
pub fn validate(
    object: &Value,
    old: Option<&Value>,
    schema: &Schema,
    options: &Options<'_>,
) -> Outcome {
    let root = Path::root();
    let mut violations = values::check(object, old, &schema.root, None);
    let metadata_checks = (options.metadata, &mut violations);
    metadata::embedded(object, &schema.root, (false, &root), metadata_checks);
    let tolerated = old.is_some_and(|old| !unique::check(old, &schema.root).is_empty());
    if !tolerated {
        violations.extend(unique::check(object, &schema.root));
    }
    let Some(tree) = options.rules else {
        return Outcome { violations, warnings: Vec::new() };
    };
    if violations.iter().any(|violation| blocks_rules(violation.problem)) {
        let detail = "some validation rules were not checked because the object was invalid; \
                      correct the existing errors to complete validation";
        violations.push(Violation::invalid(&root, Value::Null, detail));
        return Outcome { violations, warnings: Vec::new() };
    }
    let (failed, warnings) = rules::check(object, old, tree, &root);
    violations.extend(failed);
    Outcome { violations, warnings }
}

/// Validates a value by the keywords of a node; `prefix` is the path of the value.
pub(crate) fn check_value(value: &Value, node: &Node, prefix: &str) -> Vec<Violation> {
    values::check(value, None, node, Some(prefix))
}

/// Runs the rules on a value that is its own past.
pub(crate) fn check_rules(value: &Value, tree: &RuleTree, path: &Path<'_>) -> Vec<Violation> {
    rules::check_without_past(value, tree, path)
}

/// Rules may rely on types and sizes; where those are wrong they are not run.
fn blocks_rules(problem: Problem) -> bool {
    matches!(
        problem,
        Problem::NotSupported
            | Problem::Required
            | Problem::TooLong
            | Problem::TooMany
            | Problem::TypeInvalid
    )
}
