//! Plans of sets, as data: a set and its groups in; steps, status and notices out.

use reconcile::Step;
use serde_json::{Value, json};

use super::observe::{Members, Workers};
use super::spec::Spec;
use super::*;
use crate::value::{list, text};

fn set(image: &str, spec: Value) -> Object {
    let mut whole = json!({
        "replicas": 2,
        "startupPolicy": "LeaderCreated",
        "networkConfig": {"subdomainPolicy": "Shared"},
        "leaderWorkerTemplate": {"size": 3, "restartPolicy": "RecreateGroupOnPodRestart",
            "workerTemplate": {"metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "c", "image": image}]}}},
        "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration":
            {"partition": 0, "maxUnavailable": 1, "maxSurge": 0}},
    });
    let annotations = spec["annotations"].clone();
    let mut spec = spec;
    spec.as_object_mut().expect("an object").remove("annotations");
    reconcile::plan::merge(&mut whole, &spec);
    Object::new(json!({
        "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
        "metadata": {"namespace": "n", "name": "s", "uid": "u", "resourceVersion": "5",
            "generation": 1, "annotations": annotations},
        "spec": whole,
    }))
}

/// The revision that a set makes, as the server has it.
fn revision(set: &Object, held: &[Arc<Object>]) -> Arc<Object> {
    let mut made = revision::current(set, held).made.expect("a new revision");
    made["metadata"]["uid"] = made["metadata"]["name"].clone();
    Arc::new(Object::new(made))
}

fn key(revision: &Object) -> &str {
    revision.label(labels::REVISION).expect("a key")
}

/// The leaders as the server has them after the first plan of a set.
fn leaders(set: &Object, key: &str, more: Value) -> Arc<Object> {
    let spec = Spec::of(set);
    let step = rollout::Step { partition: 0, replicas: spec.replicas };
    let mut made = build::leaders(&spec, key, step);
    made["metadata"]["uid"] = json!("leaders");
    reconcile::plan::merge(&mut made, &more);
    Arc::new(Object::new(made))
}

fn leader(index: i64, key: &str, more: Value) -> Arc<Object> {
    let name = format!("s-{index}");
    let mut pod = json!({
        "metadata": {"namespace": "n", "name": name, "uid": format!("leader-{index}"),
            "annotations": {labels::SIZE: "3"},
            "labels": {labels::NAME: "s", labels::WORKER_INDEX: "0", labels::REVISION: key,
                labels::GROUP_INDEX: index.to_string(), labels::GROUP_KEY: "k"},
            "ownerReferences": [{"uid": "leaders", "controller": true}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    reconcile::plan::merge(&mut pod, &more);
    Arc::new(Object::new(pod))
}

fn worker(name: &str, key: &str, more: Value) -> Arc<Object> {
    let mut pod = json!({"metadata": {"namespace": "n", "name": name, "uid": name,
        "labels": {labels::NAME: "s", labels::REVISION: key}}, "status": {"phase": "Running"}});
    reconcile::plan::merge(&mut pod, &more);
    Arc::new(Object::new(pod))
}

/// The workers of a group that serve, of a revision.
fn workers(index: i64, key: &str, pods: Vec<Arc<Object>>) -> Workers {
    let set = json!({"metadata": {"namespace": "n", "name": format!("s-{index}"), "uid": "w",
        "labels": {labels::NAME: "s", labels::REVISION: key}}, "spec": {"replicas": 2},
        "status": {"availableReplicas": 2, "currentRevision": "r", "updateRevision": "r"}});
    Workers::Here { set: Arc::new(Object::new(set)), pods }
}

fn group(index: i64, leader: Arc<Object>, workers: Workers) -> Members {
    Members {
        index,
        leader,
        workers,
        has_service: false,
        has_group: true,
        domain: None,
        is_gone: false,
    }
}

fn well(index: i64, key: &str) -> Members {
    group(index, leader(index, key, json!({})), workers(index, key, Vec::new()))
}

fn outcome(set: &Object, observed: &Observed) -> Vec<String> {
    let plan = plan::plan(set, observed, Timestamp::UNIX_EPOCH).expect("a plan");
    let short = |step: &Step| match step {
        Step::Apply { object, .. } => {
            let spec = &object["spec"];
            let partition = &spec["updateStrategy"]["rollingUpdate"]["partition"];
            format!(
                "apply {} x{} from {partition}",
                text(&object["metadata"]["name"]),
                spec["replicas"]
            )
        }
        Step::Create { kind, object } => {
            format!("create {} {}", kind.kind, text(&object["metadata"]["name"]))
        }
        Step::Delete { target, options } => {
            let how = options.propagation.map_or("", |how| how.name());
            format!("delete {} {} {how}", target.kind.kind, target.name.name)
        }
        step => step.to_string(),
    };
    let mut all: Vec<String> = plan.steps.iter().map(short).collect();
    for notice in &plan.notices {
        all.push(format!("{}: {}", notice.reason, notice.message));
    }
    if let reconcile::Wake::After(after) = plan.wake {
        all.push(format!("wake after {after:?}"));
    }
    let status = plan.status.unwrap_or_default();
    let is_true = |one: &&Value| one["status"] == "True";
    let kinds = list(&status["conditions"]).iter().filter(is_true);
    let kinds: Vec<&str> = kinds.map(|one| text(&one["type"])).collect();
    let number = |field: &str| status[field].as_i64().unwrap_or(-1);
    all.push(format!(
        "{} ready {} updated {}",
        kinds.join("+"),
        number("readyReplicas"),
        number("updatedReplicas")
    ));
    all
}

#[test]
fn a_new_set_makes_its_revision_its_service_and_its_leaders() {
    let set = set("one", json!({}));
    let plan = outcome(&set, &Observed::default());
    let name = &revision(&set, &[]).name.name;
    let expected = [
        format!("create ControllerRevision {name}"),
        "create Service s".to_owned(),
        "apply s x2 from 0".to_owned(),
        "GroupsProgressing: Replicas are progressing, with 0 groups ready of total 2 groups"
            .to_owned(),
        "Progressing ready 0 updated 0".to_owned(),
    ];
    assert_eq!(plan, expected);
    assert!(name.starts_with("s-") && name.ends_with("-1"), "{name}");
}

#[test]
fn the_leaders_are_one_stateful_set() {
    let annotations = json!({labels::TOPOLOGY: "rack", "other": "x"});
    let set = set(
        "one",
        json!({"annotations": annotations, "leaderWorkerTemplate":
        {"leaderTemplate": {"spec": {"containers": [{"name": "lead"}]}},
        "subGroupPolicy": {"subGroupSize": 1, "subGroupPolicyType": "LeaderWorker"}}}),
    );
    let step = rollout::Step { partition: 1, replicas: 2 };
    let made = build::leaders(&Spec::of(&set), "k", step);
    let expected = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"namespace": "n", "name": "s",
            "labels": {labels::NAME: "s", labels::REVISION: "k"},
            "annotations": {labels::REPLICAS: "2"},
            "ownerReferences": [{"apiVersion": "leaderworkerset.x-k8s.io/v1",
                "kind": "LeaderWorkerSet", "name": "s", "uid": "u", "controller": true,
                "blockOwnerDeletion": true}]},
        "spec": {"replicas": 2, "serviceName": "s", "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {labels::NAME: "s", labels::WORKER_INDEX: "0"}},
            "template": {
                "metadata": {
                    "labels": {labels::NAME: "s", labels::REVISION: "k",
                        labels::WORKER_INDEX: "0"},
                    "annotations": {labels::SIZE: "3", labels::TOPOLOGY: "rack",
                        labels::SUBGROUP_SIZE: "1", labels::SUBGROUP_TYPE: "LeaderWorker"}},
                "spec": {"containers": [{"name": "lead"}]}},
            "updateStrategy": {"type": "RollingUpdate",
                "rollingUpdate": {"partition": 1, "maxUnavailable": 1}}},
    });
    assert_eq!(made, expected);
}

#[test]
fn a_leader_gets_its_workers_from_its_own_revision() {
    let old = set("old", json!({}));
    let first = revision(&old, &[]);
    let new = set("new", json!({"leaderWorkerTemplate": {"size": 5}}));
    let second = revision(&new, std::slice::from_ref(&first));
    let alone = group(0, leader(0, key(&first), json!({})), Workers::Nothing);
    let observed = Observed {
        leaders: Some(leaders(&new, key(&second), json!({}))),
        revisions: vec![first.clone(), second],
        has_service: true,
        groups: vec![alone],
        is_gone: false,
    };
    let plan = plan::plan(&new, &observed, Timestamp::UNIX_EPOCH).expect("a plan");
    let made = plan.steps.iter().find_map(|step| match step {
        Step::Create { object, .. } => Some(object.clone()),
        _ => None,
    });
    let selector = json!({labels::NAME: "s", labels::GROUP_INDEX: "0", labels::GROUP_KEY: "k"});
    let mut marks = selector.clone();
    marks[labels::REVISION] = json!(key(&first));
    let mut pod = marks.clone();
    pod["app"] = json!("x");
    let expected = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"namespace": "n", "name": "s-0", "labels": marks,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "s-0",
                "uid": "leader-0", "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"replicas": 2, "ordinals": {"start": 1}, "serviceName": "s",
            "podManagementPolicy": "Parallel", "selector": {"matchLabels": selector},
            "template": {
                "metadata": {"labels": pod,
                    "annotations": {labels::SIZE: "3", labels::LEADER_NAME: "s-0"}},
                "spec": {"containers": [{"name": "c", "image": "old"}]}}},
    });
    assert_eq!(made, Some(expected));
}

#[test]
fn workers_wait_for_what_they_need() {
    let case = |spec: Value, leader: Arc<Object>, domain: Option<Value>, is_known: bool| {
        let set = set("one", spec);
        let known = revision(&set, &[]);
        let mut members = group(0, leader, Workers::Nothing);
        members.domain = domain;
        let mut observed = Observed {
            has_service: true,
            groups: vec![members],
            leaders: Some(leaders(&set, key(&known), json!({}))),
            ..Observed::default()
        };
        if is_known {
            observed.revisions.push(known);
        }
        let mut steps = outcome(&set, &observed);
        let is_of_group = |step: &String| {
            ["StatefulSet", "wake", "delete"].iter().any(|word| step.contains(word))
        };
        steps.retain(is_of_group);
        steps.join(" ")
    };
    let known = revision(&set("one", json!({})), &[]);
    let key = key(&known);
    let ready = || leader(0, key, json!({}));
    let unready = || leader(0, key, json!({"status": {"conditions": []}}));
    let made = "create StatefulSet s-0";
    assert_eq!(case(json!({}), unready(), None, true), made);
    let after = json!({"startupPolicy": "LeaderReady"});
    assert_eq!(case(after.clone(), unready(), None, true), "");
    assert_eq!(case(after, ready(), None, true), made);
    let rack = json!({"annotations": {labels::TOPOLOGY: "rack"}});
    assert_eq!(case(rack.clone(), ready(), None, true), "");
    assert_eq!(case(rack, ready(), Some(json!("r1")), true), made);
    assert_eq!(case(json!({}), ready(), None, false), "wake after 1s");
    // What was let go of cannot be made again.
    assert_eq!(
        case(json!({}), leader(0, "gone", json!({})), None, true),
        "delete Pod s-0 Foreground"
    );
    let going = json!({"metadata": {"deletionTimestamp": "1970-01-01T00:00:00Z"}});
    assert_eq!(case(json!({}), leader(0, key, going), None, true), "");
    let alone = json!({"leaderWorkerTemplate": {"size": 1}});
    let of_one = revision(&set("one", alone.clone()), &[]);
    let of_one = leader(0, of_one.label(labels::REVISION).expect("a key"), json!({}));
    assert_eq!(case(alone, of_one, None, true), "");
}

#[test]
fn a_changed_template_is_a_revision_and_reaches_the_last_group_first() {
    let old = set("old", json!({}));
    let first = revision(&old, &[]);
    let new = set("new", json!({}));
    let second = revision(&new, std::slice::from_ref(&first));
    let told = |key: &str, revisions: &[&Arc<Object>], partition: i64, groups: Vec<Members>| {
        let more = json!({"spec": {"updateStrategy": {"rollingUpdate":
            {"partition": partition}}}});
        Observed {
            leaders: Some(leaders(if revisions.len() == 1 { &old } else { &new }, key, more)),
            revisions: revisions.iter().map(|one| (*one).clone()).collect(),
            has_service: true,
            groups,
            is_gone: false,
        }
    };
    let (old_key, new_key) = (key(&first), key(&second));
    let both = || vec![well(0, old_key), well(1, old_key)];
    let updating = "Progressing+UpdateInProgress ready 2 updated 0";
    let name = &second.name.name;
    let begun = outcome(&new, &told(old_key, &[&first], 0, both()));
    assert_eq!(
        begun[..2],
        [format!("create ControllerRevision {name}"), "apply s x2 from 2".to_owned()]
    );
    assert_eq!(begun.last().expect("a status"), updating);
    assert!(begun[2].starts_with("CreatingRevision: Creating revision with key "), "{begun:?}");
    let next = outcome(&new, &told(new_key, &[&first, &second], 2, both()));
    assert_eq!(next[0], "apply s x2 from 1");
    // The last group is replaced: nothing goes on until it serves.
    let starting = group(1, leader(1, new_key, json!({"status": null})), Workers::Nothing);
    let waits = told(new_key, &[&first, &second], 1, vec![well(0, old_key), starting]);
    assert!(!outcome(&new, &waits).iter().any(|step| step.starts_with("apply")));
    let done = told(new_key, &[&first, &second], 0, vec![well(0, new_key), well(1, new_key)]);
    let done = outcome(&new, &done);
    let forgotten = format!("delete ControllerRevision {} ", first.name.name);
    assert!(done.contains(&forgotten), "{done:?}");
    assert_eq!(done.last().expect("a status"), "Available ready 2 updated 2");
    // What comes back finds its revision, and replaces nothing that it made.
    let back = told(new_key, &[&first, &second], 2, both());
    let back = outcome(&old, &back);
    assert!(!back.iter().any(|step| step.contains("ControllerRevision")), "{back:?}");
    assert_eq!(back.last().expect("a status"), "Available ready 2 updated 2");
}

#[test]
fn a_group_begins_again_as_its_policy_says() {
    let case = |spec: Value, members: &dyn Fn(&str) -> Members| {
        let set = set("one", spec);
        let known = revision(&set, &[]);
        let members = members(key(&known));
        let observed = Observed {
            has_service: true,
            groups: vec![members],
            leaders: Some(leaders(&set, key(&known), json!({}))),
            revisions: vec![known],
            ..Observed::default()
        };
        let steps = outcome(&set, &observed);
        steps.iter().any(|step| step == "delete Pod s-0 Foreground")
    };
    let going = || json!({"metadata": {"deletionTimestamp": "1970-01-01T00:00:00Z"}});
    let restarted = || json!({"status": {"containerStatuses": [{"restartCount": 1}]}});
    let pending = || json!({"status": {"phase": "Pending"}});
    let with = |one: Value, other: Value| {
        move |key: &str| {
            let pods = vec![worker("s-0-1", key, one.clone()), worker("s-0-2", key, other.clone())];
            group(0, leader(0, key, json!({})), workers(0, key, pods))
        }
    };
    let policy = |name: &str| json!({"leaderWorkerTemplate": {"restartPolicy": name}});
    let always = || policy("RecreateGroupOnPodRestart");
    assert!(!case(always(), &with(json!({}), json!({}))));
    assert!(case(always(), &with(going(), json!({}))));
    assert!(case(always(), &with(json!({}), restarted())));
    assert!(case(always(), &with(restarted(), pending())));
    assert!(case(always(), &|key: &str| {
        group(0, leader(0, key, restarted()), workers(0, key, Vec::new()))
    }));
    assert!(!case(policy("None"), &with(going(), restarted())));
    let after = || policy("RecreateGroupAfterStart");
    assert!(!case(after(), &with(restarted(), pending())));
    assert!(case(after(), &with(restarted(), json!({}))));
    let annotated = json!({"annotations": {labels::AFTER_START: "true"}});
    assert!(!case(annotated, &with(restarted(), pending())));
    // What ended is not what began again; what is of another revision goes by itself.
    let ended = json!({"status": {"phase": "Failed", "containerStatuses": [{"restartCount": 1}]}});
    assert!(!case(always(), &with(ended, json!({}))));
    assert!(!case(always(), &|key: &str| {
        let old = vec![worker("s-0-1", "old", going())];
        group(0, leader(0, key, json!({})), workers(0, key, old))
    }));
    assert!(!case(always(), &|key: &str| {
        group(0, leader(0, key, json!({})), Workers::Earlier)
    }));
}

#[test]
fn a_pod_that_was_replaced_unseen_is_found() {
    let set = set("one", json!({}));
    let known = revision(&set, &[]);
    let key = key(&known);
    let steps = |uids: [&str; 2], noted: Option<&str>| {
        let pod = |uid: &str| worker(uid, key, json!({}));
        let pods = uids.map(pod).to_vec();
        let Workers::Here { set: found, pods } = workers(0, key, pods) else { panic!("workers") };
        let mut found = found.value.clone();
        found["metadata"]["annotations"] = json!({members::MEMBERS: noted});
        let workers = Workers::Here { set: Arc::new(Object::new(found)), pods };
        let members = group(0, leader(0, key, json!({})), workers);
        let observed = Observed {
            has_service: true,
            groups: vec![members],
            leaders: Some(leaders(&set, key, json!({}))),
            revisions: vec![known.clone()],
            ..Observed::default()
        };
        outcome(&set, &observed).remove(0)
    };
    let digest = members::digest(&["a", "b"].map(|uid| worker(uid, key, json!({}))));
    let noted = steps(["a", "b"], None);
    assert!(noted.starts_with("patch apps/v1 StatefulSet n/s-0 ") && noted.contains(&digest));
    assert!(!steps(["b", "a"], Some(&digest)).contains("s-0"));
    assert_eq!(steps(["a", "c"], Some(&digest)), "delete Pod s-0 Foreground");
}

#[test]
fn what_is_of_others_and_what_goes_is_left_alone() {
    let set = set("one", json!({}));
    let mut foreign = leaders(&set, "k", json!({})).value.clone();
    foreign["metadata"]["ownerReferences"] = Value::Null;
    let foreign = Observed { leaders: Some(Arc::new(Object::new(foreign))), ..Observed::default() };
    let error = plan::plan(&set, &foreign, Timestamp::UNIX_EPOCH).expect_err("refused");
    assert_eq!(error.to_string(), "StatefulSet n/s belongs to another owner");
    let going = json!({"metadata": {"deletionTimestamp": "1970-01-01T00:00:00Z"}});
    let going = Observed { leaders: Some(leaders(&set, "k", going)), ..Observed::default() };
    let plan = plan::plan(&set, &going, Timestamp::UNIX_EPOCH).expect("a plan");
    assert_eq!(plan.to_string(), "wake after 5s\n");
    let gone = Observed { is_gone: true, ..Observed::default() };
    let plan = plan::plan(&set, &gone, Timestamp::UNIX_EPOCH).expect("a plan");
    assert_eq!(plan.to_string(), "wake on change\n");
}

#[test]
fn a_set_of_nobody_is_available() {
    let set = set("one", json!({"replicas": 0}));
    let known = revision(&set, &[]);
    let observed = Observed {
        has_service: true,
        leaders: Some(leaders(&set, key(&known), json!({}))),
        revisions: vec![known],
        ..Observed::default()
    };
    let plan = outcome(&set, &observed);
    let expected = [
        "AllGroupsReady: All replicas are ready, with 0 groups ready of total 0 groups",
        "Available ready 0 updated 0",
    ];
    assert_eq!(plan, expected);
}
