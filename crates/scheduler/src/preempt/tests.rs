//! Who goes for whom.

use serde_json::{Value, json};

use crate::fixtures::{Scene, asks, with};

fn important(priority: i32, cpu: &str) -> Value {
    with(asks(json!({"cpu": cpu})), json!({"spec": {"priority": priority}}))
}

#[test]
fn as_few_and_as_unimportant_as_will_do() {
    let mut scene = Scene::new()
        .node("n1", json!({}))
        .on("n1", "a", important(1, "2"))
        .on("n1", "b", important(5, "2"))
        .node("n2", json!({}))
        .on("n2", "c", important(2, "1"))
        .on("n2", "d", important(1, "1"))
        .on("n2", "e", important(1, "2"));
    // On n1 one pod of priority 1 is enough.
    assert_eq!(scene.decide("new", important(10, "2")), "n1 without a");
    // Only those of less priority go.
    assert_eq!(scene.decide("same", important(2, "4")).find(" without "), None);
    assert_eq!(scene.decide("all", important(10, "4")), "n2 without c, d, e");
}

#[test]
fn a_budget_is_broken_only_if_nothing_else_will_do() {
    let guarded =
        |priority| with(important(priority, "4"), json!({"metadata": {"labels": {"app": "db"}}}));
    let budget = json!({"spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0}});
    let mut scene = Scene::new()
        .node("n1", json!({}))
        .on("n1", "db", guarded(0))
        .node("n2", json!({}))
        .on("n2", "web", important(3, "4"))
        .budget("db", budget.clone());
    assert_eq!(scene.decide("new", important(9, "4")), "n2 without web");
    let mut only =
        Scene::new().node("n1", json!({})).on("n1", "db", guarded(0)).budget("db", budget);
    assert_eq!(only.decide("new", important(9, "4")), "n1 without db");
}

#[test]
fn who_may_not_preempt_says_so() {
    let mut scene = Scene::new().node("n1", json!({})).on("n1", "a", important(0, "4"));
    let meek = with(important(9, "1"), json!({"spec": {"preemptionPolicy": "Never"}}));
    assert_eq!(
        scene.decide("new", meek),
        "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to \
         preemptionPolicy=Never."
    );
}

#[test]
fn room_that_is_made_is_kept_and_waited_for() {
    let mut scene = Scene::new().node("n1", json!({})).on("n1", "a", important(0, "4"));
    let first = scene.read(crate::fixtures::pod("first", important(9, "4")));
    scene.snapshot.nominate(&first, "n1");
    scene.snapshot.displace("a");
    // The room is free, and not for those who are less important.
    let other = scene.decide("other", important(5, "1"));
    assert!(other.starts_with("0/1 nodes are available: 1 Insufficient cpu."), "{other}");
    assert_eq!(scene.decide("greater", important(10, "1")), "n1");
    assert_eq!(scene.verdict(&first).unwrap(), "n1");
    // While somebody is going for it, nobody else goes.
    let going =
        with(important(0, "4"), json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    let mut scene = Scene::new().node("n1", json!({})).on("n1", "a", going);
    scene.snapshot.nominate(&first, "n1");
    assert_eq!(
        scene.decide("first", important(9, "4")),
        "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to a \
         terminating pod on the nominated node."
    );
}
