//! New templates.

use super::*;

/// Nodes n1.. with pods of the old or the new template: what an update does next.
fn check(rolling: Value, pods: &[(&str, &str, &str, &str)], expected: &[&str]) {
    let (old, new) = (set("one", json!({})), set("two", json!({"updateStrategy": rolling})));
    let (first, second) = (revision(&old, 1), revision(&new, 2));
    let nodes: Vec<_> = ["n1", "n2", "n3"].iter().map(|name| node(name, json!({}))).collect();
    let pods: Vec<_> = pods
        .iter()
        .map(|(name, on, now, image)| {
            let revision = if *image == "one" { &first } else { &second };
            pod(name, on, now, revision)
        })
        .collect();
    assert_eq!(steps(&new, &observed(&nodes, &pods, &[first, second])), expected);
}

const ALL_OLD: [(&str, &str, &str, &str); 3] =
    [("a", "n1", "Ready", "one"), ("b", "n2", "Ready", "one"), ("c", "n3", "Ready", "one")];

#[test]
fn as_many_pods_are_replaced_as_may_be_missing() {
    check(json!({}), &ALL_OLD, &["delete v1 Pod a/a"]);
    let two = json!({"rollingUpdate": {"maxUnavailable": "50%"}});
    check(two, &ALL_OLD, &["delete v1 Pod a/a", "delete v1 Pod a/b"]);
    let starting =
        [("a", "n1", "Pending", "two"), ("b", "n2", "Ready", "one"), ("c", "n3", "Ready", "one")];
    check(json!({}), &starting, &[]);
    let broken =
        [("a", "n1", "Pending", "two"), ("b", "n2", "Pending", "one"), ("c", "n3", "Ready", "one")];
    check(json!({}), &broken, &["delete v1 Pod a/b"]);
    let next =
        [("a", "n1", "Ready", "two"), ("b", "n2", "Ready", "one"), ("c", "n3", "Ready", "one")];
    check(json!({}), &next, &["delete v1 Pod a/b"]);
}

#[test]
fn with_a_surge_the_new_pod_comes_first() {
    let surge = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    check(surge.clone(), &ALL_OLD, &["make a pod for n1"]);
    let beside = [
        ("a", "n1", "Ready", "one"),
        ("a2", "n1", "Pending", "two"),
        ("b", "n2", "Ready", "one"),
        ("c", "n3", "Ready", "one"),
    ];
    check(surge.clone(), &beside, &[]);
    let ready = [
        ("a", "n1", "Ready", "one"),
        ("a2", "n1", "Ready", "two"),
        ("b", "n2", "Ready", "one"),
        ("c", "n3", "Ready", "one"),
    ];
    check(surge, &ready, &["delete v1 Pod a/a"]);
}

#[test]
fn nothing_is_replaced_where_users_do_it() {
    let strategy = json!({"type": "OnDelete", "rollingUpdate": null});
    check(strategy.clone(), &ALL_OLD, &[]);
    check(strategy, &ALL_OLD[..2], &["make a pod for n3"]);
}

#[test]
fn a_template_that_comes_back_replaces_no_pod_that_has_it() {
    let (one, two) = (set("one", json!({})), set("two", json!({})));
    let (first, second) = (revision(&one, 1), revision(&two, 2));
    let nodes = [node("n1", json!({})), node("n2", json!({}))];
    let pods = [pod("a", "n1", "Ready", &first), pod("b", "n2", "Pending", &second)];
    let name = first.name.name.to_string();
    assert_eq!(
        steps(&one, &observed(&nodes, &pods, &[first, second])),
        [
            format!("patch apps/v1 ControllerRevision a/{name} {{\"revision\":3}}"),
            "delete v1 Pod a/b".to_owned(),
        ]
    );
}
