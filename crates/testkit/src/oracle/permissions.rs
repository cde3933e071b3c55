//! CT-10: a component asks for nothing that its role does not allow. The role is the table of what
//! it may do.

use std::collections::BTreeSet;

use super::{Case, Violation};

pub fn permissions(case: &Case<'_>) -> Vec<Violation> {
    let all = case.run.made.iter().chain(&case.run.rival);
    let denied: BTreeSet<String> =
        all.filter(|made| made.code == 403).map(|made| made.sort.to_string()).collect();
    let what = |sort: String| format!("{} may not {sort}", case.run.actor);
    denied.into_iter().map(|sort| Violation::new("CT-10", what(sort))).collect()
}
