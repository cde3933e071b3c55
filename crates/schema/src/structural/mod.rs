//! Whether a schema is structural: one spine of types, with value validations beside it.
//!
//! Upstream: apiextensions-apiserver/pkg/apiserver/schema/{validation,complete}.go

mod complete;
mod invariants;
mod junctors;

use crate::node::Schema;
use crate::path::Path;
use crate::violation::Violation;

/// What keeps a schema from being structural, sorted by text. These are also, joined by the caller,
/// the message of the condition NonStructuralSchema.
pub fn structural(schema: &Schema, path: &Path<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    invariants::node(&schema.root, invariants::Level::Root, path, &mut violations);
    complete::schema(&schema.root, path, &mut violations);
    let mut texts: Vec<_> = violations.into_iter().map(|one| (one.to_string(), one)).collect();
    texts.sort_by(|left, right| left.0.cmp(&right.0));
    texts.into_iter().map(|(_, violation)| violation).collect()
}

/// The message of the condition NonStructuralSchema for the violations of a definition.
pub fn condition_message(violations: &[Violation]) -> String {
    let texts: Vec<_> = violations.iter().map(Violation::to_string).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}
