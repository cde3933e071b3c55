//! What a pod as a whole requests and is limited to.
//!
//! Upstream: staging/component-helpers/resource/helpers.go

use std::collections::BTreeMap;

use serde_json::Value;

use crate::quantity::Quantity;

pub type Amounts = BTreeMap<String, Quantity>;

/// `list` is `requests` or `limits`.
///
/// Containers add up; an init container runs alone beside the sidecars before it, so only the
/// greatest counts; overhead comes on top; what the pod itself says wins.
pub fn of(pod: &Value, list: &str) -> Amounts {
    let spec = &pod["spec"];
    let mut sum = Amounts::new();
    for container in list_of(spec, "containers") {
        add(&mut sum, &amounts(container, list));
    }
    let mut sidecars = Amounts::new();
    let mut init = Amounts::new();
    for container in list_of(spec, "initContainers") {
        let own = amounts(container, list);
        let mut peak = sidecars.clone();
        add(&mut peak, &own);
        if container["restartPolicy"] == "Always" {
            add(&mut sum, &own);
            add(&mut sidecars, &own);
        }
        raise(&mut init, &peak);
    }
    raise(&mut sum, &init);
    for (name, amount) in read(&spec["resources"][list]) {
        sum.insert(name, amount);
    }
    let overhead = read(&spec["overhead"]);
    for (name, amount) in overhead {
        if list == "requests" || sum.contains_key(&name) {
            let old = sum.get(&name).copied().unwrap_or(Quantity::ZERO);
            sum.insert(name, old.plus(&amount));
        }
    }
    sum
}

fn list_of<'a>(spec: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    spec[field].as_array().into_iter().flatten()
}

fn amounts(container: &Value, list: &str) -> Amounts {
    read(&container["resources"][list])
}

pub fn read(map: &Value) -> Amounts {
    let entries = map.as_object().into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), Quantity::read(value)?))).collect()
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

/// The quality of service that requests and limits earn: `Guaranteed`, `Burstable` or `BestEffort`.
///
/// Upstream: pkg/apis/core/helper/qos/qos.go
pub fn quality(pod: &Value) -> &'static str {
    let spec = &pod["spec"];
    let resources: Vec<&Value> = if spec["resources"].is_null() {
        let all = list_of(spec, "containers").chain(list_of(spec, "initContainers"));
        all.map(|container| &container["resources"]).collect()
    } else {
        vec![&spec["resources"]]
    };
    let counts = |resources: &Value, list: &str, name: &str| {
        Quantity::read(&resources[list][name]).is_some_and(|amount| amount > Quantity::ZERO)
    };
    let any = |it: &&Value| {
        let named = |name| counts(it, "requests", name) || counts(it, "limits", name);
        named("cpu") || named("memory")
    };
    if !resources.iter().any(any) {
        return "BestEffort";
    }
    let guaranteed = |it: &&Value| {
        ["cpu", "memory"].iter().all(|name| {
            let limit = Quantity::read(&it["limits"][name]);
            let request = Quantity::read(&it["requests"][name]);
            counts(it, "limits", name) && (request.is_none() || request == limit)
        })
    };
    if resources.iter().all(guaranteed) { "Guaranteed" } else { "Burstable" }
}
