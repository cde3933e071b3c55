//! What becomes of objects, as data: `name: owners | dependents` in, steps out.

use reconcile::{Kind, Object, Step};
use serde_json::{Value, json};

use super::graph::{Going, Graph, Node, Reference, Uid, references};
use super::plan::{Item, Standing, decide};

const MAP: Kind = Kind::namespaced("", "v1", "ConfigMap", "configmaps");

fn owner(name: &str, blocks: bool) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name,
        "blockOwnerDeletion": blocks})
}

fn object(name: &str, owners: &[Value], finalizers: &[&str], is_going: bool) -> Object {
    let mut metadata = json!({"namespace": "a", "name": name, "uid": name,
        "resourceVersion": "7", "ownerReferences": owners, "finalizers": finalizers});
    if is_going {
        metadata["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
    }
    Object::new(json!({"metadata": metadata}))
}

fn dependent(name: &str, of: &str, blocks: bool, going: Going) -> Node {
    let object = object(name, &[owner(of, blocks)], &[], false);
    Node {
        kind: MAP,
        name: object.name.clone(),
        uid: name.into(),
        revision: 3,
        owners: references(&object),
        going,
    }
}

fn item(live: Object, standings: &[Standing], dependents: Vec<Node>) -> Item {
    let owners: Vec<(Reference, Standing)> =
        references(&live).into_iter().zip(standings.iter().copied()).collect();
    Item { kind: MAP, live, owners, dependents }
}

/// Every step on a line; deletions with their way.
fn steps(item: &Item) -> Vec<String> {
    let decision = decide(item);
    let all = decision.first.iter().chain(&decision.then);
    let text = |step: &Step| match step {
        Step::Delete { options, .. } => {
            format!("{step} {}", options.propagation.map_or("-", |one| one.name()))
        }
        step => step.to_string(),
    };
    all.map(text).collect()
}

#[test]
fn what_nobody_owns_goes() {
    use Standing::{Absent, Solid, Unknown, Waiting};
    let none: &[&str] = &[];
    let deleted = ["delete v1 ConfigMap a/x Background"].as_slice();
    let reduced = ["patch v1 ConfigMap a/x {\"metadata\":{\"ownerReferences\":[{\"apiVersion\":\
        \"v1\",\"blockOwnerDeletion\":true,\"kind\":\"ConfigMap\",\"name\":\"q\",\"uid\":\"q\"}]}}"]
    .as_slice();
    let cases = [
        (Absent, Absent, deleted),
        (Absent, Solid, reduced),
        (Waiting, Solid, reduced),
        (Solid, Solid, none),
        (Absent, Unknown, none),
        (Absent, Waiting, deleted),
    ];
    for (first, second, expected) in cases {
        let live = object("x", &[owner("p", true), owner("q", true)], &[], false);
        assert_eq!(steps(&item(live, &[first, second], Vec::new())), expected, "{first:?}");
    }
    let free = object("x", &[], &[], false);
    assert!(steps(&item(free, &[], Vec::new())).is_empty());
    let going = object("x", &[owner("p", true)], &["mine"], true);
    assert!(steps(&item(going, &[Absent], Vec::new())).is_empty());
}

#[test]
fn the_finalizers_of_a_child_say_how_it_goes() {
    for (finalizer, expected) in [
        ("orphan", "delete v1 ConfigMap a/x Orphan"),
        ("foregroundDeletion", "delete v1 ConfigMap a/x Foreground"),
        ("example.com/mine", "delete v1 ConfigMap a/x Background"),
    ] {
        let live = object("x", &[owner("p", false)], &[finalizer], false);
        assert_eq!(steps(&item(live, &[Standing::Absent], Vec::new())), [expected]);
    }
}

#[test]
fn an_owner_in_the_foreground_goes_after_those_that_block_it() {
    let live = || object("x", &[], &["foregroundDeletion", "mine"], true);
    let blocked = item(live(), &[], vec![dependent("y", "x", true, Going::No)]);
    assert!(steps(&blocked).is_empty());
    assert_eq!(decide(&blocked).look_at, [Uid::of("y")]);
    let free = item(live(), &[], vec![dependent("y", "x", false, Going::No)]);
    assert_eq!(steps(&free), ["patch v1 ConfigMap a/x {\"metadata\":{\"finalizers\":[\"mine\"]}}"]);
}

#[test]
fn a_child_of_an_owner_in_the_foreground_takes_its_own_along() {
    let live = || object("x", &[owner("p", true)], &[], false);
    let tree = item(live(), &[Standing::Waiting], vec![dependent("y", "x", true, Going::No)]);
    assert_eq!(steps(&tree), ["delete v1 ConfigMap a/x Foreground"]);
}

#[test]
fn a_circle_of_owners_is_opened() {
    let live = object("x", &[owner("p", true)], &[], false);
    let circle = dependent("p", "x", true, Going::Foreground);
    let steps = steps(&item(live, &[Standing::Waiting], vec![circle]));
    assert_eq!(steps.len(), 2);
    assert!(steps[0].contains("\"blockOwnerDeletion\":false"), "{steps:?}");
    assert_eq!(steps[1], "delete v1 ConfigMap a/x Foreground");
}

#[test]
fn an_owner_that_orphans_lets_go_first() {
    let live = object("x", &[], &["orphan"], true);
    let item = item(live, &[], vec![dependent("y", "x", true, Going::No)]);
    let decision = decide(&item);
    let text = |steps: &[Step]| steps.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        text(&decision.first),
        ["patch v1 ConfigMap a/y {\"metadata\":{\"ownerReferences\":[]}}"]
    );
    assert_eq!(text(&decision.then), ["patch v1 ConfigMap a/x {\"metadata\":{\"finalizers\":[]}}"]);
}

#[test]
fn the_graph_says_whom_a_change_concerns() {
    let mut graph = Graph::default();
    let child = object("child", &[owner("parent", true)], &[], false);
    assert_eq!(graph.put(MAP, &child), [Uid::of("child")], "its owner is not known");
    graph.put(MAP, &object("parent", &[], &[], false));
    assert!(!graph.concerns(Uid::of("child")));
    let going = object("parent", &[], &["foregroundDeletion"], true);
    let mut concerned = graph.put(MAP, &going);
    concerned.sort();
    let mut both = vec![Uid::of("child"), Uid::of("parent")];
    both.sort();
    assert_eq!(concerned, both);
    assert_eq!(graph.remove(Uid::of("child")), [Uid::of("parent")]);
    graph.put(MAP, &child);
    assert_eq!(
        graph.reset(MAP, &[object("child", &[owner("parent", true)], &[], false)]),
        [Uid::of("child")]
    );
    assert_eq!(graph.forget(MAP).len(), 1);
    assert_eq!(graph.len(), 0);
}
