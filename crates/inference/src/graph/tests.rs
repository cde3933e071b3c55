//! What graphs do next, as data.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::merge;
use reconcile::{Object, Plan, Step};
use serde_json::{Value, json};

use super::*;
use crate::settings::Gates;
use crate::value::text;

fn graph(more: Value) -> Object {
    let mut whole = json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"namespace": "ns", "name": "g", "uid": "u", "generation": 1,
            "finalizers": ["nvidia.com/finalizer"],
            "annotations": {"nvidia.com/workload-provider": "component"}},
        "spec": {"components": [
            {"name": "Frontend", "type": "frontend", "replicas": 1},
            {"name": "decode", "type": "decode", "replicas": 2, "podTemplate": {"spec":
                {"containers": [{"name": "main", "image": "i:1.6.1"}]}}},
        ]},
    });
    merge(&mut whole, &more);
    let object = Object::new(whole);
    if object.annotation(names::CURRENT_HASH).is_some() {
        return object;
    }
    let mut whole = object.value.clone();
    whole["metadata"]["annotations"][names::CURRENT_HASH] = json!(hash(&object));
    Object::new(whole)
}

fn hash(object: &Object) -> String {
    generate::worker_hash(&facts::Graph::of(object), None)
}

fn settings() -> Settings {
    Settings { gates: Gates::default(), ..Settings::default() }
}

fn observed() -> Observed {
    let settings = settings();
    let roles = BTreeSet::from([settings.roles.planner]);
    Observed { roles, ..Observed::default() }
}

fn planned(object: &Object, observed: &Observed) -> Plan {
    plan::plan(&settings(), object, observed, Timestamp::UNIX_EPOCH)
}

/// Plays a server: what a plan makes is there, and so is what it changes.
fn perform(plan: &Plan, observed: &mut Observed) {
    for step in &plan.steps {
        match step {
            Step::Create { kind, object } if *kind == COMPONENT => {
                let mut object = object.clone();
                object["metadata"]["uid"] = object["metadata"]["name"].clone();
                object["metadata"]["generation"] = json!(1);
                let created = format!("2026-01-01T00:00:{:02}Z", observed.components.len());
                object["metadata"]["creationTimestamp"] = json!(created);
                observed.components.push(Arc::new(Object::new(object)));
            }
            Step::Replace { target, object, .. } if target.kind == COMPONENT => {
                let mut object = object.clone();
                let generation = object["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
                object["metadata"]["generation"] = json!(generation);
                put(observed, object);
            }
            Step::Patch { target, patch } if target.kind == COMPONENT => {
                let found = observed.components.iter().find(|one| one.name == target.name);
                let mut object = found.expect("it is there").value.clone();
                merge(&mut object, patch);
                let generation = object["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
                object["metadata"]["generation"] = json!(generation);
                put(observed, object);
            }
            Step::Delete { target, .. } if target.kind == COMPONENT => {
                observed.components.retain(|one| one.name != target.name);
            }
            _ => {}
        }
    }
}

fn put(observed: &mut Observed, object: Value) {
    let object = Object::new(object);
    observed.components.retain(|one| one.name != object.name);
    observed.components.push(Arc::new(object));
    observed.components.sort_by_key(|one| one.name.clone());
}

/// Has the pods of every component be there and serve.
fn settle(observed: &mut Observed) {
    let all: Vec<Value> = observed.components.iter().map(|one| one.value.clone()).collect();
    for mut object in all {
        let replicas = object["spec"]["replicas"].clone();
        object["status"] = json!({
            "observedGeneration": object["metadata"]["generation"],
            "conditions": [{"type": "Available", "status": "True"}],
            "component": {"componentKind": "Deployment", "replicas": replicas,
                "componentNames": [object["metadata"]["name"]], "updatedReplicas": replicas,
                "readyReplicas": replicas, "availableReplicas": replicas},
        });
        put(observed, object);
    }
}

fn with_status(object: &Object, plan: &Plan) -> Object {
    let mut value = object.value.clone();
    if let Some(status) = &plan.status {
        value["status"] = status.clone();
    }
    for step in &plan.steps {
        if let Step::Patch { target, patch } = step
            && target.kind == GRAPH
        {
            merge(&mut value, patch);
        }
    }
    Object::new(value)
}

fn steps(plan: &Plan) -> Vec<String> {
    let short = |step: &Step| match step {
        Step::Create { kind, object } => {
            format!("create {} {}", kind.kind, text(&object["metadata"]["name"]))
        }
        Step::Patch { target, patch } => format!("patch {} {patch}", target.name.name),
        Step::Delete { target, .. } => format!("delete {}", target.name.name),
        Step::Replace { target, .. } => format!("replace {}", target.name.name),
        step => step.to_string(),
    };
    let about_accounts = |line: &String| {
        ["ServiceAccount", " Role ", " RoleBinding "].iter().any(|kind| line.contains(kind))
    };
    plan.steps.iter().map(short).filter(|line| !about_accounts(line)).collect()
}

fn state(plan: &Plan) -> (String, String, String) {
    let status = plan.status.clone().unwrap_or_default();
    let ready = &status["conditions"][0];
    let of = |value: &Value| text(value).to_owned();
    (of(&status["state"]), of(&ready["reason"]), of(&ready["message"]))
}

#[test]
fn a_graph_says_what_it_is_before_anything_is_made() {
    let bare = Object::new(json!({"metadata": {"namespace": "ns", "name": "g", "uid": "u"},
        "spec": {"components": [{"name": "w", "type": "worker"}]}}));
    let plan = planned(&bare, &observed());
    assert_eq!(plan.steps.len(), 1);
    let Step::Patch { patch, .. } = &plan.steps[0] else { panic!("{plan}") };
    assert_eq!(patch["metadata"]["finalizers"], json!(["nvidia.com/finalizer"]));
    assert_eq!(patch["metadata"]["annotations"][names::PROVIDER], "component");
    assert_eq!(patch["metadata"]["annotations"][names::CURRENT_HASH], hash(&bare));
}

#[test]
fn components_are_made_and_a_graph_is_as_far_as_they_are() {
    let object = graph(json!({"spec": {"env": [{"name": "A", "value": "1"}],
        "annotations": {"a": "b"}}}));
    let hash = hash(&object);
    let mut seen = observed();
    let plan = planned(&object, &seen);
    let expected = [
        "create DynamoComponentDeployment g-frontend".to_owned(),
        format!("create DynamoComponentDeployment g-decode-{hash}"),
    ];
    assert_eq!(steps(&plan), expected);
    assert_eq!(state(&plan).0, "pending");
    let Some(Step::Create { object: made, .. }) = plan.steps.last() else { panic!("{plan}") };
    let labels = json!({"nvidia.com/dynamo-component": "decode",
        "nvidia.com/dynamo-graph-deployment-name": "g", "nvidia.com/dynamo-namespace": "ns-g",
        "nvidia.com/dynamo-worker-hash": hash});
    assert_eq!(made["metadata"]["labels"], labels);
    assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], "u");
    let template = &made["spec"]["podTemplate"];
    assert_eq!(template["metadata"]["annotations"], json!({"a": "b"}));
    assert_eq!(template["spec"]["containers"][0]["env"], json!([{"name": "A", "value": "1"}]));
    perform(&plan, &mut seen);
    let (word, reason, message) = state(&planned(&object, &seen));
    assert_eq!((word.as_str(), reason.as_str()), ("pending", "some_resources_are_not_ready"));
    let expected = format!(
        "Resources not ready: g-decode-{hash}: spec not yet processed: generation=1, \
         observedGeneration=0; g-frontend: spec not yet processed: generation=1, \
         observedGeneration=0"
    );
    assert_eq!(message, expected);
    settle(&mut seen);
    let plan = planned(&object, &seen);
    assert!(steps(&plan).is_empty(), "{plan}");
    let all = ("successful", "all_resources_are_ready", "All resources are ready");
    let found = state(&plan);
    assert_eq!((found.0.as_str(), found.1.as_str(), found.2.as_str()), all);
    let status = plan.status.expect("a status");
    let decode = json!({"componentKind": "Deployment", "replicas": 2, "updatedReplicas": 2,
        "componentNames": [format!("g-decode-{hash}")], "readyReplicas": 2,
        "availableReplicas": 2, "runtimeNamespace": format!("ns-g-{hash}")});
    assert_eq!(status["components"]["decode"], decode);
    assert_eq!(status["observedGeneration"], 1);
}

#[test]
fn workers_are_replaced_a_few_at_a_time() {
    let first = graph(json!({"spec": {"components": [
        {"name": "decode", "type": "decode", "replicas": 4}]}}));
    let mut seen = observed();
    perform(&planned(&first, &seen), &mut seen);
    settle(&mut seen);
    let old_hash = hash(&first);
    let change = json!({"spec": {"components": [{"name": "decode", "type": "decode",
        "replicas": 4, "podTemplate": {"metadata": {"labels": {"new": "yes"}}}}]},
        "metadata": {"annotations": {names::CURRENT_HASH: old_hash}}});
    let mut object = graph(change);
    let new_hash = hash(&object);
    assert_ne!(old_hash, new_hash);
    let (old, new) = (format!("g-decode-{old_hash}"), format!("g-decode-{new_hash}"));
    let counts = |seen: &Observed| {
        let of = |name: &str| {
            let found = seen.components.iter().find(|one| *one.name.name == *name);
            found.and_then(|one| one.value["spec"]["replicas"].as_i64())
        };
        (of(&old), of(&new))
    };
    let plan = planned(&object, &seen);
    let expected = [
        format!("create DynamoComponentDeployment {new}"),
        format!("patch {old} {{\"spec\":{{\"replicas\":3}}}}"),
    ];
    assert_eq!(steps(&plan), expected);
    assert_eq!(plan.notices[0].reason, "RollingUpdateStarted");
    assert_eq!(state(&plan).1, "rolling_update_in_progress");
    let status = plan.status.clone().expect("a status");
    assert_eq!(status["rollingUpdate"]["phase"], "Pending");
    // Workers are looked for where the old ones are.
    let place = format!("ns-g-{old_hash}");
    assert_eq!(status["components"]["decode"]["runtimeNamespace"], place);
    object = with_status(&object, &plan);
    perform(&plan, &mut seen);
    assert_eq!(counts(&seen), (Some(3), Some(1)));
    let mut passes = 0;
    while seen.components.len() > 1 {
        settle(&mut seen);
        let plan = planned(&object, &seen);
        object = with_status(&object, &plan);
        perform(&plan, &mut seen);
        passes += 1;
        assert!(passes < 20, "{plan}");
    }
    assert_eq!(counts(&seen), (None, Some(4)));
    assert_eq!(object.annotation(names::CURRENT_HASH), Some(new_hash.as_str()));
    let plan = planned(&object, &seen);
    assert_eq!(plan.notices[0].reason, "RollingUpdateCompleted");
    let status = plan.status.expect("a status");
    assert_eq!(status["rollingUpdate"]["phase"], "Completed");
    assert_eq!(status["rollingUpdate"]["updatedComponents"], json!(["decode"]));
    assert_eq!(status["state"], "successful");
}

#[test]
fn single_workers_beside_many_are_replaced_in_place() {
    let parts = |label: &str| {
        let part = |name: &str, more: Value| {
            let mut part = json!({"name": name, "type": name, "podTemplate": {"metadata":
                {"labels": {"form": label}}}});
            merge(&mut part, &more);
            part
        };
        let many = part("decode", json!({"multinode": {"nodeCount": 2}}));
        json!({"spec": {"components": [many, part("prefill", json!({"replicas": 2}))]}})
    };
    let first = graph(parts("one"));
    let mut seen = observed();
    perform(&planned(&first, &seen), &mut seen);
    settle(&mut seen);
    let names = |seen: &Observed| {
        seen.components.iter().map(|one| one.name.name.to_string()).collect::<Vec<_>>()
    };
    let made = names(&seen);
    assert_eq!(made.len(), 2);
    let mut change = parts("two");
    change["metadata"]["annotations"][names::CURRENT_HASH] = json!(hash(&first));
    let mut object = graph(change);
    let new_hash = hash(&object);
    for _ in 0..4 {
        let plan = planned(&object, &seen);
        assert!(!steps(&plan).iter().any(|step| step.starts_with("delete ")), "{plan}");
        object = with_status(&object, &plan);
        perform(&plan, &mut seen);
        settle(&mut seen);
    }
    assert_eq!(names(&seen), made);
    let forms: Vec<Option<&str>> =
        seen.components.iter().map(|one| generations::hash_of(one)).collect();
    assert_eq!(forms, [Some(new_hash.as_str()); 2]);
    assert_eq!(state(&planned(&object, &seen)).0, "successful");
}

#[test]
fn a_component_that_failed_says_why_where_its_graph_does() {
    let object = graph(json!({}));
    let mut seen = observed();
    perform(&planned(&object, &seen), &mut seen);
    settle(&mut seen);
    let mut broken = seen.components[1].value.clone();
    let condition = |of: i64| {
        json!([{"type": "Available", "status": "False", "reason": "Reconciling",
            "message": "the room is too small", "observedGeneration": of}])
    };
    broken["metadata"]["generation"] = json!(2);
    broken["metadata"]["annotations"][crate::sync_resource::GENERATION] = json!("2");
    for (of, is_said) in [(2, true), (1, false)] {
        broken["status"]["conditions"] = condition(of);
        put(&mut seen, broken.clone());
        let (_, _, message) = state(&planned(&object, &seen));
        assert_eq!(message.contains("the room is too small"), is_said, "{message}");
        assert_eq!(message.contains("spec not yet processed"), !is_said, "{message}");
    }
}

#[test]
fn a_note_that_was_lost_is_found_again() {
    let first = graph(json!({}));
    let mut seen = observed();
    perform(&planned(&first, &seen), &mut seen);
    settle(&mut seen);
    let mut bare = first.value.clone();
    bare["spec"]["components"][1]["podTemplate"]["metadata"]["labels"] = json!({"n": "1"});
    if let Some(annotations) = bare["metadata"]["annotations"].as_object_mut() {
        annotations.remove(names::CURRENT_HASH);
    }
    let plan = planned(&Object::new(bare), &seen);
    let Step::Patch { patch, .. } = &plan.steps[0] else { panic!("{plan}") };
    assert_eq!(patch["metadata"]["annotations"][names::CURRENT_HASH], hash(&first));
}

#[test]
fn what_cannot_be_made_says_why_and_the_rest_stays() {
    let failing = |object: &Object, observed: &Observed| {
        let plan = planned(object, observed);
        assert!(steps(&plan).is_empty(), "{plan}");
        let (word, reason, message) = state(&plan);
        assert_eq!(word, "failed");
        (reason, message)
    };
    let (reason, message) = failing(&graph(json!({})), &Observed::default());
    assert_eq!(reason, "failed_to_reconcile_the_resources");
    assert!(message.contains("\"dynamo-operator-planner\""), "{message}");
    let grove = json!({"metadata": {"annotations": {names::PROVIDER: "grove"}}});
    assert_eq!(failing(&graph(grove), &observed()).0, "selected_workload_provider_unavailable");
    let other = json!({"metadata": {"annotations": {names::PROVIDER: "x"}}});
    assert_eq!(failing(&graph(other), &observed()).0, "unsupported_workload_provider");
    let many = graph(json!({"spec": {"components": [
        {"name": "d", "type": "decode", "multinode": {"nodeCount": 2}}]}}));
    let gates = Gates { leader_worker_set: false, ..Gates::default() };
    let without = Settings { gates, ..settings() };
    let plan = plan::plan(&without, &many, &observed(), Timestamp::UNIX_EPOCH);
    let (_, reason, message) = state(&plan);
    assert_eq!(reason, "no_multinode_orchestrator_available");
    assert_eq!(message, "no multinode orchestrator available");
}

#[test]
fn replicas_of_many_pods_need_keys_and_a_script() {
    let object = graph(json!({"spec": {"components": [
        {"name": "d", "type": "decode", "multinode": {"nodeCount": 2}}]}}));
    let fresh_ssh = Some(json!({"private.key": "a", "private.key.pub": "b"}));
    let multinode = crate::multinode::Found { fresh_ssh, ..Default::default() };
    let seen = Observed { multinode, ..observed() };
    let made = steps(&planned(&object, &seen));
    assert_eq!(
        made[..2],
        [
            "create ConfigMap g-wait-leader-script".to_owned(),
            "create Secret mpi-run-ssh-secret".to_owned()
        ]
    );
    assert_eq!(made.iter().filter(|line| line.contains("Secret")).count(), 2);
}

#[test]
fn components_start_one_after_the_other_where_it_is_asked() {
    let order = json!({"metadata": {"annotations": {names::START_ORDER: "decode, frontend"}}});
    let object = graph(order);
    let hash = hash(&object);
    let mut seen = observed();
    let plan = planned(&object, &seen);
    assert_eq!(steps(&plan), [format!("create DynamoComponentDeployment g-decode-{hash}")]);
    perform(&plan, &mut seen);
    assert!(steps(&planned(&object, &seen)).is_empty());
    settle(&mut seen);
    let next = steps(&planned(&object, &seen));
    assert_eq!(next, ["create DynamoComponentDeployment g-frontend"]);
}

#[test]
fn a_component_that_others_scale_has_an_adapter() {
    let asked = |marker: Value| {
        let mut object = graph(json!({})).value.clone();
        object["spec"]["components"][1]["scalingAdapter"] = marker;
        Object::new(object)
    };
    let mut seen = observed();
    let plan = planned(&asked(json!({})), &seen);
    assert!(steps(&plan).contains(&"create DynamoGraphDeploymentScalingAdapter g-decode".into()));
    let made = plan.steps.iter().find_map(|step| match step {
        Step::Create { kind, object } if *kind == ADAPTER => Some(object.clone()),
        _ => None,
    });
    let mut made = made.expect("an adapter");
    assert_eq!(
        made["spec"],
        json!({"replicas": 2,
        "dgdRef": {"name": "g", "componentName": "decode"}})
    );
    // What it says from then on is its own.
    made["spec"]["replicas"] = json!(7);
    seen.adapters.push(Arc::new(Object::new(made)));
    assert!(!steps(&planned(&asked(json!({})), &seen)).iter().any(|line| line.contains("Adapter")));
    let plan = planned(&asked(Value::Null), &seen);
    assert!(steps(&plan).contains(&"delete g-decode".to_owned()), "{plan}");
}

#[test]
fn a_graph_that_goes_lets_go() {
    let gone = graph(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    let plan = planned(&gone, &observed());
    assert_eq!(steps(&plan), ["patch g {\"metadata\":{\"finalizers\":[]}}"]);
}
