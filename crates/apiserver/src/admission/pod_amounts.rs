//! What a pod as a whole requests and is limited to.
//!
//! Upstream: staging/component-helpers/resource/helpers.go

use std::collections::BTreeMap;

use serde_json::Value;

use crate::quantity::Quantity;
use crate::registry::{amount, edit};

pub type Amounts = BTreeMap<String, Quantity>;

/// `list` is `requests` or `limits`.
///
/// Containers add up; an init container runs alone beside the sidecars before it, so only the
/// greatest counts; overhead comes on top; what the pod itself says wins.
pub fn of(pod: &Value, list: &str) -> Amounts {
    let spec = edit::at(pod, &["spec"]);
    let mut sum = Amounts::new();
    for container in edit::list(spec, &["containers"]) {
        add(&mut sum, &amounts(container, list));
    }
    let mut sidecars = Amounts::new();
    let mut init = Amounts::new();
    for container in edit::list(spec, &["initContainers"]) {
        let own = amounts(container, list);
        let mut peak = sidecars.clone();
        add(&mut peak, &own);
        if edit::text(container, &["restartPolicy"]) == "Always" {
            add(&mut sum, &own);
            add(&mut sidecars, &own);
        }
        raise(&mut init, &peak);
    }
    raise(&mut sum, &init);
    for (name, amount) in read(edit::at(spec, &["resources", list])) {
        sum.insert(name, amount);
    }
    let overhead = read(edit::at(spec, &["overhead"]));
    for (name, amount) in overhead {
        if list == "requests" || sum.contains_key(&name) {
            let old = sum.get(&name).copied().unwrap_or(Quantity::ZERO);
            sum.insert(name, old.plus(&amount));
        }
    }
    sum
}

fn amounts(container: &Value, list: &str) -> Amounts {
    read(edit::at(container, &["resources", list]))
}

pub fn read(map: &Value) -> Amounts {
    let entries = map.as_object().into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), amount::read(value)?))).collect()
}

pub fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let total = sum.get(name).map_or(*amount, |old| old.plus(amount));
        sum.insert(name.clone(), total);
    }
}

fn raise(most: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        if most.get(name).is_none_or(|old| old < amount) {
            most.insert(name.clone(), *amount);
        }
    }
}
