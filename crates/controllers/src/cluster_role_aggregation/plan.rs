//! The union of rules.

use reconcile::plan::Target;
use reconcile::{Object, Plan};
use serde_json::{Value, json};

use super::observe::Observed;
use crate::kinds::CLUSTER_ROLE;

pub fn plan(role: &Object, selected: &Observed) -> Plan {
    let mut plan = Plan::nothing();
    if role.value["aggregationRule"].is_null() || role.is_terminating() {
        return plan;
    }
    let mut union: Vec<&Value> = Vec::new();
    for rule in selected.iter().flat_map(|other| rules(other)) {
        if !union.contains(&rule) {
            union.push(rule);
        }
    }
    if !rules(role).iter().eq(union.iter().copied()) {
        let mut changed = role.value.clone();
        changed["rules"] = json!(union);
        plan.replace(Target::unchanged(CLUSTER_ROLE, role), changed);
    }
    plan
}

fn rules(role: &Object) -> &[Value] {
    role.value["rules"].as_array().map_or(&[], Vec::as_slice)
}
