//! What must hold of every run of the scheduler, told from the history of the store alone.
//!
//! SC-6, that a restart between a decision and its binding loses nothing, is SC-1, SC-3 and SC-4
//! under the plans that crash.

use std::collections::BTreeMap;

use amounts::pod::{self, Amounts};
use serde_json::Value;
use testkit::oracle::{Case, Check, Violation};
use testkit::record::Change;

pub const ALL: &[Check] = &[room, binding, gangs, liveness, preemption, predicates];

const GROUP_LABEL: &str = "scheduling.x-k8s.io/pod-group";

/// The world at a revision, by key.
type World<'a> = BTreeMap<&'a str, &'a Value>;

/// Calls for every change of a pod, with the world after it.
fn replay<'a>(history: &'a [Change], mut look: impl FnMut(&World<'a>, &'a Change)) -> World<'a> {
    let mut world = World::new();
    for change in history {
        match &change.new {
            Some(new) => world.insert(&change.key, new),
            None => world.remove(change.key.as_str()),
        };
        if change.key.starts_with("pods/") {
            look(&world, change);
        }
    }
    world
}

fn all<'a>(world: &World<'a>, prefix: &str) -> Vec<&'a Value> {
    let of = world.iter().filter(|(key, _)| key.starts_with(prefix));
    of.map(|(_, object)| *object).collect()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn node_of(pod: &Value) -> Option<&str> {
    pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty())
}

fn is_over(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// What is taken of a node.
fn taken(world: &World<'_>, node: &str) -> Amounts {
    let mut sum = Amounts::new();
    for held in all(world, "pods/") {
        if node_of(held) == Some(node) && !is_over(held) {
            pod::add(&mut sum, &pod::of(held, "requests"));
        }
    }
    sum
}

/// Whether so much is within what a node has.
fn fits(sum: &Amounts, node: &Value) -> bool {
    let has = pod::read(&node["status"]["allocatable"]);
    sum.iter().all(|(resource, amount)| {
        amount.is_zero() || has.get(resource).is_some_and(|has| !has.minus(amount).is_negative())
    })
}

/// SC-1: on no node is there more than it has, at any time.
fn room(case: &Case<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    replay(&case.run.history, |world, change| {
        for node in all(world, "nodes/") {
            if !fits(&taken(world, name(node)), node) {
                let what = format!("more on {} than it has after {}", name(node), change.key);
                found.push(Violation::new("SC-1", what));
            }
        }
    });
    found
}

/// SC-2: a pod gets its node once.
fn binding(case: &Case<'_>) -> Vec<Violation> {
    let moved = |change: &&Change| {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { return false };
        let is_same = old["metadata"]["uid"] == new["metadata"]["uid"];
        is_same && node_of(old).is_some() && node_of(old) != node_of(new)
    };
    let pods = case.run.history.iter().filter(|change| change.key.starts_with("pods/"));
    pods.filter(moved)
        .map(|change| Violation::new("SC-2", format!("{} changed its node", change.key)))
        .collect()
}

/// SC-3: of a gang all that must be there are, or nobody is.
fn gangs(case: &Case<'_>) -> Vec<Violation> {
    let world = replay(&case.run.history, |_, _| {});
    let mut found = Vec::new();
    for group in all(&world, "podgroups.scheduling.x-k8s.io/") {
        let least = group["spec"]["minMember"].as_u64().unwrap_or(0);
        let is_member = |pod: &&Value| pod["metadata"]["labels"][GROUP_LABEL] == name(group);
        let members = all(&world, "pods/").into_iter().filter(is_member);
        let bound = members.filter(|pod| node_of(pod).is_some()).count() as u64;
        if bound > 0 && bound < least {
            let what = format!("{bound} of {least} of gang {} have a node", name(group));
            found.push(Violation::new("SC-3", what));
        }
    }
    found
}

/// SC-7: whether a node lets a pod in, by its labels and taints.
fn lets_in(node: &Value, pod: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    let selector = pod["spec"]["nodeSelector"].as_object();
    let has_labels = selector.into_iter().flatten().all(|(key, value)| labels[key] == *value);
    let taints = node["spec"]["taints"].as_array();
    let tolerations = pod["spec"]["tolerations"].as_array();
    let is_tolerated = |taint: &Value| {
        tolerations.into_iter().flatten().any(|toleration| {
            let key = toleration["key"].as_str().unwrap_or_default();
            let effect = toleration["effect"].as_str().unwrap_or_default();
            (key.is_empty() || taint["key"] == key)
                && (effect.is_empty() || taint["effect"] == effect)
        })
    };
    let holds_off = |taint: &&Value| taint["effect"] != "PreferNoSchedule";
    has_labels && taints.into_iter().flatten().filter(holds_off).all(is_tolerated)
}

/// SC-4: in the end nobody waits for whom there is a node, gangs apart.
fn liveness(case: &Case<'_>) -> Vec<Violation> {
    let world = replay(&case.run.history, |_, _| {});
    let waits = |held: &&Value| {
        let is_free = held["metadata"]["labels"][GROUP_LABEL].is_null();
        node_of(held).is_none() && !is_over(held) && is_free
    };
    let mut found = Vec::new();
    for held in all(&world, "pods/").into_iter().filter(waits) {
        for node in all(&world, "nodes/") {
            let mut sum = taken(&world, name(node));
            pod::add(&mut sum, &pod::of(held, "requests"));
            if lets_in(node, held) && fits(&sum, node) && node["spec"]["unschedulable"].is_null() {
                let what = format!("{} waits, and fits on {}", name(held), name(node));
                found.push(Violation::new("SC-4", what));
            }
        }
    }
    found
}

/// SC-5: who is made to go is less important than somebody who then has the node.
fn preemption(case: &Case<'_>) -> Vec<Violation> {
    let end = replay(&case.run.history, |_, _| {});
    let priority = |pod: &Value| pod["spec"]["priority"].as_i64().unwrap_or(0);
    let mut found = Vec::new();
    for change in &case.run.history {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { continue };
        let is_going = |pod: &Value| !pod["metadata"]["deletionTimestamp"].is_null();
        let is_ours = change.actor == case.run.actor && change.key.starts_with("pods/");
        if !is_ours || is_going(old) || !is_going(new) {
            continue;
        }
        let pods = all(&end, "pods/");
        let mut heirs = pods.iter().filter(|pod| node_of(pod) == node_of(new));
        if !heirs.any(|heir| priority(heir) > priority(new)) {
            let what = format!("{} was made to go, and nobody got its room", name(new));
            found.push(Violation::new("SC-5", what));
        }
    }
    found
}

/// SC-7: a node let in whoever it got, by what the store had then.
fn predicates(case: &Case<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    replay(&case.run.history, |world, change| {
        let Some(new) = &change.new else { return };
        let had = change.old.as_ref().and_then(node_of);
        let Some(node) = node_of(new).filter(|_| had.is_none()) else { return };
        let node = all(world, "nodes/").into_iter().find(|held| name(held) == node);
        if node.is_none_or(|node| !lets_in(node, new)) {
            let what = format!("{} got a node that does not let it in", change.key);
            found.push(Violation::new("SC-7", what));
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use testkit::simulation::{Also, Run};

    use super::*;

    /// What the oracles say of a history.
    fn judged(history: Vec<(&str, Option<Value>)>) -> Vec<&'static str> {
        let mut world: BTreeMap<String, Value> = BTreeMap::new();
        let mut changes = Vec::new();
        for (revision, (key, new)) in history.into_iter().enumerate() {
            let old = match &new {
                Some(new) => world.insert(key.to_owned(), new.clone()),
                None => world.remove(key),
            };
            let actor = "scheduler".to_owned();
            let revision = revision as u64 + 1;
            changes.push(Change { revision, actor, key: key.to_owned(), old, new });
        }
        let run = Run { actor: "scheduler".to_owned(), history: changes, ..Run::default() };
        let case = Case { reference: &run, run: &run, also: Also::default() };
        ALL.iter().flat_map(|check| check(&case)).map(|violation| violation.id).collect()
    }

    fn on(node: Option<&str>, more: Value) -> Option<Value> {
        let mut pod = crate::pod("p", "3");
        pod["metadata"]["uid"] = json!("u");
        if let Some(node) = node {
            pod["spec"]["nodeName"] = json!(node);
        }
        for (key, value) in more.as_object().into_iter().flatten() {
            pod[key] = value.clone();
        }
        Some(pod)
    }

    #[test]
    fn each_oracle_knows_what_it_must_not_see() {
        let node = |name: &str| Some(crate::node(name, "4"));
        let none = json!({});
        let good = vec![("nodes/n", node("n")), ("pods/d/p", on(Some("n"), none.clone()))];
        assert!(judged(good).is_empty());
        let full = vec![
            ("nodes/n", node("n")),
            ("pods/d/p", on(Some("n"), none.clone())),
            ("pods/d/q", on(Some("n"), none.clone())),
        ];
        assert_eq!(judged(full), ["SC-1"]);
        let moved = vec![
            ("nodes/n", node("n")),
            ("nodes/m", node("m")),
            ("pods/d/p", on(Some("n"), none.clone())),
            ("pods/d/p", on(Some("m"), none.clone())),
        ];
        assert_eq!(judged(moved), ["SC-2"]);
        let waits = vec![("nodes/n", node("n")), ("pods/d/p", on(None, none.clone()))];
        assert_eq!(judged(waits), ["SC-4"]);
        let member = json!({"metadata": {"name": "p", "uid": "u", "labels": {GROUP_LABEL: "g"}}});
        let group = json!({"metadata": {"name": "g"}, "spec": {"minMember": 2}});
        let torn = vec![
            ("nodes/n", node("n")),
            ("podgroups.scheduling.x-k8s.io/d/g", Some(group)),
            ("pods/d/p", on(Some("n"), member)),
        ];
        assert_eq!(judged(torn), ["SC-3"]);
        let going = json!({"metadata": {"name": "p", "uid": "u", "deletionTimestamp": "now"}});
        let for_nobody = vec![
            ("nodes/n", node("n")),
            ("pods/d/p", on(Some("n"), none.clone())),
            ("pods/d/p", on(Some("n"), going)),
        ];
        assert_eq!(judged(for_nobody), ["SC-5"]);
        let mut tainted = crate::node("n", "4");
        tainted["spec"]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}]);
        let unwelcome = vec![("nodes/n", Some(tainted)), ("pods/d/p", on(Some("n"), none))];
        assert_eq!(judged(unwelcome), ["SC-7"]);
    }
}
