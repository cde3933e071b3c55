//! The roles that a role is made of.

use std::sync::Arc;

use reconcile::{Context, Object, Selector};

use crate::kinds::CLUSTER_ROLE;

/// The selected roles, for one selector after the other, by name; some more than once.
pub type Observed = Vec<Arc<Object>>;

pub fn observe(context: &Context, role: &Object) -> Observed {
    let selectors = selectors(role);
    if selectors.is_empty() {
        return Vec::new();
    }
    let mut all = context.cache(CLUSTER_ROLE).all();
    all.retain(|other| other.name != role.name);
    let selected = |selector: &Selector| -> Vec<Arc<Object>> {
        all.iter().filter(|other| selector.matches(other)).cloned().collect()
    };
    selectors.iter().flat_map(selected).collect()
}

/// How a role chooses others; a selector that nobody understands chooses nothing.
pub fn selectors(role: &Object) -> Vec<Selector> {
    let all = role.value["aggregationRule"]["clusterRoleSelectors"].as_array();
    all.into_iter().flatten().filter_map(|selector| Selector::read(selector).ok()).collect()
}
