//! Starting pods of a graph anew: all at once, or one component after the other.

use std::collections::{BTreeMap, BTreeSet};

use reconcile::plan::Notice;
use serde_json::{Value, json};

use super::facts::Graph;
use crate::value::{list, text};

/// How a component fares, as far as restarts ask.
pub struct Seen {
    /// The restart that its pods belong to.
    pub restart: Option<String>,
    /// It does as it is asked, and serves.
    pub is_settled: bool,
}

/// What is decided.
#[derive(Debug, Default, PartialEq)]
pub struct Restart {
    /// What the status says of it; `None` says nothing.
    pub status: Option<Value>,
    /// The restart that the pods of each component belong to.
    pub ids: BTreeMap<String, String>,
    pub notice: Option<Notice>,
}

/// Decides by what was asked, what the status says, and how the components fare.
pub fn resolve(graph: &Graph<'_>, seen: &BTreeMap<String, Seen>, is_rolling: bool) -> Restart {
    let kept = seen.iter().filter_map(|(name, seen)| Some((name.clone(), seen.restart.clone()?)));
    let mut made = Restart { ids: kept.collect(), ..Restart::default() };
    let before = &graph.status()["restart"];
    let id = text(&graph.spec["restart"]["id"]);
    let is_over = matches!(text(&before["phase"]), "Completed" | "Failed" | "Superseded");
    let is_same = before["observedID"] == id;
    if id.is_empty() {
        made.status = (before.is_object() && is_over).then(|| before.clone());
        return made;
    }
    if is_same && is_over {
        made.status = Some(before.clone());
        return made;
    }
    if is_rolling {
        let message = format!("Restart {id} superseded by a rolling update");
        made.notice = Some(Notice::warning("RestartSuperseded", message));
        made.status = Some(json!({"observedID": id, "phase": "Superseded"}));
        return made;
    }
    let order = order(graph);
    if order.is_empty() {
        made.status = Some(json!({"observedID": id, "phase": "Completed"}));
        return made;
    }
    let is_done = |name: &str| {
        seen.get(name).is_some_and(|seen| seen.restart.as_deref() == Some(id) && seen.is_settled)
    };
    let running: Vec<String> = match is_parallel(graph) {
        true => order.iter().filter(|name| !(is_same && is_done(name))).cloned().collect(),
        false => {
            let at = match is_same {
                true => {
                    let current = list(&before["inProgress"]).first().map(text).unwrap_or_default();
                    let at = order.iter().position(|name| name == current).unwrap_or(0);
                    if is_done(&order[at]) { at + 1 } else { at }
                }
                false => 0,
            };
            order.get(at).cloned().into_iter().collect()
        }
    };
    let reached = match is_parallel(graph) {
        true => order.len(),
        false => {
            let at = running.first().and_then(|name| order.iter().position(|one| one == name));
            at.map_or(order.len(), |at| at + 1)
        }
    };
    made.ids.extend(order[..reached].iter().map(|name| (name.clone(), id.to_owned())));
    made.status = Some(match running.is_empty() {
        true => json!({"observedID": id, "phase": "Completed"}),
        false => json!({"observedID": id, "phase": "Restarting", "inProgress": running}),
    });
    made
}

fn is_parallel(graph: &Graph<'_>) -> bool {
    graph.spec["restart"]["strategy"]["type"] == "Parallel"
}

/// The components in the order in which they start anew.
fn order(graph: &Graph<'_>) -> Vec<String> {
    let names: BTreeSet<String> = graph.components().map(|part| part.name().to_owned()).collect();
    let said = list(&graph.spec["restart"]["strategy"]["order"]).iter().map(text);
    let said: Vec<String> = said.filter(|name| names.contains(*name)).map(str::to_owned).collect();
    match said.is_empty() {
        true => names.into_iter().collect(),
        false => said,
    }
}

#[cfg(test)]
mod tests {
    use reconcile::Object;

    use super::*;

    fn graph(restart: Value, status: Value) -> Object {
        Object::new(json!({"metadata": {"namespace": "ns", "name": "g"}, "spec": {
            "components": [{"name": "b"}, {"name": "a"}], "restart": restart},
            "status": {"restart": status}}))
    }

    fn seen(all: &[(&str, Option<&str>, bool)]) -> BTreeMap<String, Seen> {
        let one = |(name, restart, is_settled): &(&str, Option<&str>, bool)| {
            let restart = restart.map(str::to_owned);
            ((*name).to_owned(), Seen { restart, is_settled: *is_settled })
        };
        all.iter().map(one).collect()
    }

    fn outcome(
        restart: Value,
        status: Value,
        parts: &[(&str, Option<&str>, bool)],
        is_rolling: bool,
    ) -> (Value, Vec<String>) {
        let object = graph(restart, status);
        let made = resolve(&Graph::of(&object), &seen(parts), is_rolling);
        let ids = made.ids.iter().map(|(name, id)| format!("{name}={id}")).collect();
        (made.status.unwrap_or_default(), ids)
    }

    #[test]
    fn one_component_follows_the_other() {
        let asked = json!({"id": "1"});
        let old = [("a", None, true), ("b", None, true)];
        let begun = json!({"observedID": "1", "phase": "Restarting", "inProgress": ["a"]});
        let first = outcome(asked.clone(), Value::Null, &old, false);
        assert_eq!(first, (begun.clone(), vec!["a=1".to_owned()]));
        // Nothing moves while the first is not settled.
        let busy = [("a", Some("1"), false), ("b", None, true)];
        assert_eq!(outcome(asked.clone(), begun.clone(), &busy, false).0, begun);
        let done = [("a", Some("1"), true), ("b", None, true)];
        let (next, ids) = outcome(asked.clone(), begun, &done, false);
        assert_eq!(next["inProgress"], json!(["b"]));
        assert_eq!(ids, ["a=1", "b=1"]);
        let all = [("a", Some("1"), true), ("b", Some("1"), true)];
        let (over, _) = outcome(asked.clone(), next, &all, false);
        assert_eq!(over, json!({"observedID": "1", "phase": "Completed"}));
        // The same again asks for nothing.
        assert_eq!(outcome(asked, over.clone(), &all, false).0, over);
        assert_eq!(outcome(Value::Null, over.clone(), &all, false).0, over);
    }

    #[test]
    fn all_at_once_and_in_an_order_of_the_users() {
        let old = [("a", None, true), ("b", None, true)];
        let parallel = json!({"id": "1", "strategy": {"type": "Parallel"}});
        let (status, ids) = outcome(parallel, Value::Null, &old, false);
        assert_eq!(status["inProgress"], json!(["a", "b"]));
        assert_eq!(ids, ["a=1", "b=1"]);
        let ordered = json!({"id": "1", "strategy": {"order": ["b", "a"]}});
        assert_eq!(outcome(ordered, Value::Null, &old, false).0["inProgress"], json!(["b"]));
    }

    #[test]
    fn a_rollout_supersedes_a_restart() {
        let old = [("a", Some("0"), true), ("b", None, true)];
        let (status, ids) = outcome(json!({"id": "1"}), Value::Null, &old, true);
        assert_eq!(status["phase"], "Superseded");
        assert_eq!(ids, ["a=0"]);
    }
}
