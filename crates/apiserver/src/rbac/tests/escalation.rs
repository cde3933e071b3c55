//! Writes of roles and bindings that would grant more than the writer holds.

use serde_json::{Value, json};

use super::decisions::{authorizer, user};
use crate::rbac::cover::{compact, covers};
use crate::rbac::escalation::{self, Write};
use crate::rbac::rules::Rule;
use crate::rbac::{Kind, bootstrap};

const POLICY: &str = "\
clusterrole pods
  allow get,list on pods in core
clusterrole sub
  allow get on */log in core
clusterrole paths
  allow get at /debug/*
clusterrole escalator
  allow escalate on clusterroles in rbac.authorization.k8s.io named special
  allow bind on clusterroles in rbac.authorization.k8s.io named pods
clusterrole all-resources
  allow create,get,list,watch,update,patch,delete on * in *
clusterrolebinding ann-pods
  to ClusterRole pods
  user ann
clusterrolebinding ann-sub
  to ClusterRole sub
  user ann
clusterrolebinding ann-paths
  to ClusterRole paths
  user ann
clusterrolebinding esc
  to ClusterRole escalator
  user esc
clusterrolebinding nearly
  to ClusterRole all-resources
  user nearly
clusterrolebinding boss
  to ClusterRole cluster-admin
  user boss
rolebinding dev bob
  to ClusterRole pods
  user bob
rolebinding dev dana
  to ClusterRole admin
  user dana
";

/// The object is in the form of `bootstrap_data.txt`.
const ALLOWED: &[(&str, &str)] = &[
    ("ann", "clusterrole n\n  allow get on pods in core"),
    ("ann", "clusterrole n\n  allow get,list on pods in core named a,b"),
    ("ann", "clusterrole n\n  allow get on pods/log,nodes/log in core"),
    ("ann", "clusterrole n\n  allow get at /debug/x,/debug/*"),
    ("ann", "clusterrole n"),
    ("ann", "clusterrolebinding n\n  to ClusterRole pods\n  user x"),
    ("bob", "role dev n\n  allow get on pods in core"),
    ("bob", "rolebinding dev n\n  to ClusterRole pods\n  user x"),
    ("dana", "rolebinding dev n\n  to ClusterRole view\n  user x"),
    ("dana", "rolebinding dev n\n  to ClusterRole edit\n  user x"),
    ("dana", "rolebinding dev n\n  to ClusterRole admin\n  user x"),
    ("esc", "clusterrole special\n  allow * on * in *"),
    ("esc", "clusterrolebinding n\n  to ClusterRole pods\n  user x"),
    ("boss", "clusterrole n\n  aggregate a=b"),
    ("boss", "clusterrolebinding n\n  to ClusterRole cluster-admin\n  user x"),
    ("root+system:masters", "clusterrolebinding n\n  to ClusterRole not-there\n  user x"),
];

const DENIED: &[(&str, &str)] = &[
    ("ann", "clusterrole n\n  allow watch on pods in core"),
    ("ann", "clusterrole n\n  allow * on pods in core"),
    ("ann", "clusterrole n\n  allow get on * in core"),
    ("ann", "clusterrole n\n  allow get on pods in *"),
    ("ann", "clusterrole n\n  allow get on pods/exec in core"),
    ("ann", "clusterrole n\n  allow get at /debug"),
    ("ann", "clusterrole n\n  allow post at /debug/x"),
    ("ann", "clusterrolebinding n\n  to ClusterRole cluster-admin\n  user x"),
    ("bob", "clusterrole n\n  allow get on pods in core"),
    ("bob", "role prod n\n  allow get on pods in core"),
    ("bob", "rolebinding prod n\n  to ClusterRole pods\n  user x"),
    ("dana", "rolebinding dev n\n  to ClusterRole cluster-admin\n  user x"),
    ("dana", "clusterrolebinding n\n  to ClusterRole view\n  user x"),
    ("esc", "clusterrole other\n  allow get on pods in core"),
    ("esc", "clusterrolebinding n\n  to ClusterRole sub\n  user x"),
    ("ann", "clusterrole n\n  aggregate a=b"),
    // Holds every right on resources but `escalate`, which a star on verbs would be.
    ("nearly", "clusterrole n\n  allow get at /metrics"),
];

fn check(who: &str, text: &str) -> Result<(), crate::status::Error> {
    let written = bootstrap::read(text).next().expect("an object");
    let (kind, user) = (written.kind, user(who));
    let write = Write { user: &user, kind, object: &written.object };
    escalation::check(&authorizer(POLICY), &write)
}

#[test]
fn nobody_grants_what_they_do_not_hold() {
    for (who, text) in ALLOWED {
        assert_eq!(check(who, text), Ok(()), "{who}: {text}");
    }
    for (who, text) in DENIED {
        let error = check(who, text).expect_err(&format!("{who}: {text}"));
        assert_eq!(error.reason, "Forbidden", "{who}: {text}");
    }
}

#[test]
fn messages_list_what_is_missing() {
    let text = "clusterrole n\n  allow get,watch,delete on pods,nodes in core\n  allow get at /x";
    let error = check("ann+team", text).expect_err("it escalates");
    let expected = concat!(
        r#"clusterroles.rbac.authorization.k8s.io "n" is forbidden: user "ann" "#,
        r#"(groups=["team" "system:authenticated"]) is attempting to grant RBAC permissions "#,
        "not currently held:\n",
        r#"{APIGroups:[""], Resources:["nodes"], Verbs:["get" "watch" "delete"]}"#,
        "\n",
        r#"{APIGroups:[""], Resources:["pods"], Verbs:["watch" "delete"]}"#,
        "\n",
        r#"{NonResourceURLs:["/x"], Verbs:["get"]}"#,
    );
    assert_eq!(error.message, expected);

    let error = check("ann", "clusterrole n\n  aggregate a=b").expect_err("not an admin");
    let why = "must have cluster-admin privileges to use the aggregationRule";
    assert!(error.message.ends_with(why), "{}", error.message);

    let missing = "clusterrolebinding n\n  to ClusterRole nope\n  user x";
    let error = check("ann", missing).expect_err("there is no such role");
    let text = r#"clusterroles.rbac.authorization.k8s.io "nope" not found"#;
    assert_eq!((error.code, error.message.as_str()), (404, text));
}

#[test]
fn a_role_reference_stays() {
    let binding = |name: &str| json!({"roleRef": {"kind": "Role", "name": name}});
    assert_eq!(escalation::check_role_reference(&binding("a"), &binding("a")), None);
    let error = escalation::check_role_reference(&binding("a"), &binding("b")).expect("changed");
    let text = r#"roleRef: Invalid value: {"kind":"Role","name":"b"}: cannot change roleRef"#;
    assert_eq!(error.to_string(), text);
}

#[test]
fn only_a_change_of_what_is_granted_is_checked() {
    let old = json!({"metadata": {"labels": {"a": "1"}}, "rules": [{"verbs": ["get"]}]});
    let mut new = old.clone();
    new["metadata"]["labels"]["a"] = json!("2");
    assert!(!escalation::grants_changed(Kind::Role, &old, &new));
    new["rules"][0]["verbs"] = json!(["list"]);
    assert!(escalation::grants_changed(Kind::Role, &old, &new));
    new = old.clone();
    new["aggregationRule"] = json!({});
    assert!(escalation::grants_changed(Kind::ClusterRole, &old, &new));
}

#[test]
fn two_rules_do_not_cover_one_grant_together() {
    let rules = |value: Value| Rule::list(&value);
    let have = rules(json!([
        {"apiGroups": ["a"], "resources": ["r", "*/s"], "verbs": ["get"], "resourceNames": ["n"]},
        {"apiGroups": ["a"], "resources": ["r"], "verbs": ["list"]},
    ]));
    let cases = [
        (json!({"apiGroups": ["a"], "resources": ["r"], "verbs": ["list"]}), true),
        (
            json!({"apiGroups": ["a"], "resources": ["r"], "verbs": ["get", "list"],
                   "resourceNames": ["n"]}),
            true,
        ),
        (json!({"apiGroups": ["a"], "resources": ["r"], "verbs": ["get"]}), false),
        (
            json!({"apiGroups": ["a"], "resources": ["x/s"], "verbs": ["get"],
                   "resourceNames": ["n"]}),
            true,
        ),
        (json!({"apiGroups": ["a", "b"], "resources": ["r"], "verbs": ["list"]}), false),
    ];
    for (want, expected) in cases {
        assert_eq!(covers(&have, &rules(json!([want]))).is_ok(), expected, "{want}");
    }
    let grants = rules(json!([
        {"apiGroups": [""], "resources": ["a"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["a"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["a"], "verbs": ["get"], "resourceNames": ["x"]},
    ]));
    assert_eq!(compact(&grants).len(), 2);
}
