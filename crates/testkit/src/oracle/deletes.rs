//! CT-7: a delete says which object it means, beyond its name, and deletes no other.

use std::collections::BTreeMap;

use super::{Case, Violation};

pub fn deletes(case: &Case<'_>) -> Vec<Violation> {
    let all = case.run.made.iter().chain(&case.run.rival);
    let deletes = all.filter(|made| made.sort.method == "DELETE");
    // A delete of everything in a namespace names no object.
    let named = deletes.filter(|made| made.sort.route.ends_with('*'));
    let blind = named.filter(|made| !made.has_uid);
    let mut violations: Vec<Violation> = blind
        .map(|made| Violation::new("CT-7", format!("DELETE {} carries no UID", made.path)))
        .collect();
    violations.extend(orphaned(case));
    violations
}

/// A child is not deleted for an owner that never knew it: whatever the component deletes is its
/// own, or was made by it, or has no owner at all, unless it does so without faults too.
fn orphaned(case: &Case<'_>) -> Vec<Violation> {
    let mut usual: BTreeMap<String, usize> = BTreeMap::new();
    for change in case.reference.own().filter(|change| change.new.is_none()) {
        *usual.entry(kind_of(&change.key)).or_default() += 1;
    }
    let strange = case.run.own().filter(|change| change.new.is_none());
    let strange = strange.filter(|change| !usual.contains_key(&kind_of(&change.key)));
    let known: Vec<String> = case.run.own().map(|change| change.key.clone()).collect();
    strange
        .filter(|change| known.iter().filter(|key| **key == change.key).count() < 2)
        .map(|change| Violation::new("CT-7", format!("{} was deleted for nothing", change.key)))
        .collect()
}

fn kind_of(key: &str) -> String {
    key.split('/').next().unwrap_or_default().to_owned()
}
