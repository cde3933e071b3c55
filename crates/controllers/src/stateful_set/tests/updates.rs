//! New templates.

use super::*;

/// Three pods of the first template, and a set that has the second: which go.
fn check_update(spec: Value, pods: &[(i64, Now, &str)], expected: &[&str]) {
    let (old, new) = (set("one", json!({})), set("two", spec));
    let (first, second) = (revision(&old, 1), revision(&new, 2));
    let pods: Vec<_> = pods
        .iter()
        .map(|(at, now, image)| {
            let revision = if *image == "one" { &first } else { &second };
            pod(*at, *now, revision)
        })
        .collect();
    let mut new = new;
    new.value["status"] = json!({"currentRevision": &*first.name.name});
    assert_eq!(steps(&new, &observed(&pods, &[first, second])), expected);
}

const ALL_OLD: [(i64, Now, &str); 3] =
    [(0, Now::Ready, "one"), (1, Now::Ready, "one"), (2, Now::Ready, "one")];

#[test]
fn pods_are_replaced_from_the_last_one_at_a_time() {
    check_update(json!({}), &ALL_OLD, &["delete v1 Pod a/db-2"]);
    let waiting = [(0, Now::Ready, "one"), (1, Now::Ready, "one"), (2, Now::Pending, "two")];
    check_update(json!({}), &waiting, &[]);
    let next = [(0, Now::Ready, "one"), (1, Now::Ready, "one"), (2, Now::Ready, "two")];
    check_update(json!({}), &next, &["delete v1 Pod a/db-1"]);
    let done = [(0, Now::Ready, "two"), (1, Now::Ready, "two"), (2, Now::Ready, "two")];
    check_update(json!({}), &done, &[]);
}

#[test]
fn more_are_replaced_at_once_where_more_may_be_missing() {
    let rolling = json!({"podManagementPolicy": "Parallel",
        "updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}});
    let expected = ["delete v1 Pod a/db-2", "delete v1 Pod a/db-1"];
    check_update(rolling.clone(), &ALL_OLD, &expected);
    let one_gone = [(0, Now::Ready, "one"), (1, Now::Ready, "one"), (2, Now::Pending, "two")];
    check_update(rolling, &one_gone, &["delete v1 Pod a/db-1"]);
}

#[test]
fn an_old_pod_that_does_not_serve_is_replaced_first() {
    let parallel = json!({"podManagementPolicy": "Parallel"});
    let stuck = [(0, Now::Pending, "one"), (1, Now::Ready, "one"), (2, Now::Ready, "one")];
    check_update(parallel, &stuck, &["delete v1 Pod a/db-0"]);
}

#[test]
fn pods_below_the_partition_keep_their_template() {
    let partition = json!({"updateStrategy": {"rollingUpdate": {"partition": 2}}});
    check_update(partition.clone(), &ALL_OLD, &["delete v1 Pod a/db-2"]);
    let above = [(0, Now::Ready, "one"), (1, Now::Ready, "one"), (2, Now::Ready, "two")];
    check_update(partition, &above, &[]);
}

#[test]
fn a_pod_below_the_partition_is_made_from_the_old_template() {
    let old = set("one", json!({}));
    let mut new = set(
        "two",
        json!({"podManagementPolicy": "Parallel",
        "updateStrategy": {"rollingUpdate": {"partition": 2}}}),
    );
    let (first, second) = (revision(&old, 1), revision(&new, 2));
    new.value["status"] = json!({"currentRevision": &*first.name.name});
    let plan = planned(&new, &observed(&[], &[first, second]));
    let images: Vec<_> = plan
        .steps
        .iter()
        .map(|step| match step {
            Step::Create { object, .. } => object["spec"]["containers"][0]["image"].clone(),
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(images, ["one", "one", "two"]);
}

#[test]
fn nothing_is_replaced_where_users_do_it() {
    let strategy = json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}});
    check_update(strategy.clone(), &ALL_OLD, &[]);
    let deleted = [(0, Now::Ready, "one"), (1, Now::Ready, "one")];
    check_update(strategy, &deleted, &["create v1 Pod a/db-2"]);
}

#[test]
fn an_update_is_over_when_every_pod_is_of_it() {
    let old = set("one", json!({}));
    let mut new = set("two", json!({}));
    let (first, second) = (revision(&old, 1), revision(&new, 2));
    new.value["status"] = json!({"currentRevision": &*first.name.name});
    let names = (first.name.name.to_string(), second.name.name.to_string());
    let state = |now: Now| {
        let pods = [pod(0, Now::Ready, &second), pod(1, Now::Ready, &second), pod(2, now, &second)];
        let revisions = [first.clone(), second.clone()];
        planned(&new, &observed(&pods, &revisions)).status.expect("a status")
    };
    let before = state(Now::Pending);
    assert_eq!(before["currentRevision"], names.0.as_str());
    assert_eq!((&before["currentReplicas"], &before["updatedReplicas"]), (&Value::Null, &json!(3)));
    let after = state(Now::Ready);
    assert_eq!(after["currentRevision"], names.1.as_str());
    assert_eq!((&after["currentReplicas"], &after["updatedReplicas"]), (&json!(3), &json!(3)));
}

#[test]
fn a_template_that_comes_back_finds_its_revision() {
    let (one, two) = (set("one", json!({})), set("two", json!({})));
    let (first, second) = (revision(&one, 1), revision(&two, 2));
    let name = first.name.name.to_string();
    let pods: Vec<_> = (0..3).map(|at| pod(at, Now::Pending, &second)).collect();
    let steps = steps(&one, &observed(&pods, &[first, second]));
    assert_eq!(steps, [format!("patch apps/v1 ControllerRevision a/{name} {{\"revision\":3}}")]);
}

#[test]
fn revisions_that_nothing_is_made_from_go_beyond_the_history() {
    let set_now = set("four", json!({"revisionHistoryLimit": 1}));
    let revisions: Vec<_> = ["one", "two", "three", "four"]
        .iter()
        .zip(1..)
        .map(|(image, number)| revision(&set(image, json!({})), number))
        .collect();
    let pods: Vec<_> = (0..3).map(|at| pod(at, Now::Pending, &revisions[0])).collect();
    let second = &revisions[1].name.name;
    let expected = [format!("delete apps/v1 ControllerRevision a/{second}")];
    assert_eq!(steps(&set_now, &observed(&pods, &revisions)), expected);
}

#[test]
fn a_name_that_another_has_is_counted_as_a_collision() {
    let set = set("one", json!({}));
    let taken = Observed { is_name_taken: true, ..Observed::default() };
    let plan = planned(&set, &taken);
    assert!(plan.steps.is_empty(), "{plan}");
    assert_eq!(plan.status.expect("a status")["collisionCount"], 1);
}
