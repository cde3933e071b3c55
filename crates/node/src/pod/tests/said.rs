//! What is said of pods: phases that are for good, conditions, states of containers.

use reconcile::Object;
use serde_json::{Value, json};

use super::super::container_status::{lost, told_message};
use super::super::lifecycle::{Observed, next};
use super::super::status::{Place, changes, whole};
use super::{NOW, at, observed, pod};
use crate::runtime::{ContainerId, Refusal, State};

fn place() -> Place {
    Place { address: "10.0.0.1".into(), runtime: "fake" }
}

fn status(pod: &Value, seen: &Observed) -> Value {
    let pod = Object::new(pod.clone());
    let stage = next(&pod, seen, at(NOW)).stage;
    whole(&pod, seen, (stage, &place()), at(NOW))
}

#[test]
fn a_phase_that_is_for_good_stays() {
    for phase in ["Succeeded", "Failed"] {
        for seen in ["a=running", "a=exit:0@0", "a=exit:1@0", ""] {
            let mut value = pod("Always", "main:a");
            value["status"]["phase"] = json!(phase);
            assert_eq!(status(&value, &observed(seen))["phase"], phase, "{seen}");
        }
    }
}

#[test]
fn a_pod_that_is_deleted_ends_as_its_containers_do() {
    for (containers, seen, phase) in [
        ("main:a", "", "Failed"),
        ("init:i main:a", "i=running", "Pending"),
        ("init:i main:a", "i=exit:143@0", "Failed"),
        ("main:a", "a=running", "Running"),
        ("main:a", "a=exit:0@0", "Succeeded"),
        ("main:a", "a=exit:137@0", "Failed"),
        ("sidecar:s main:a", "s=running a=exit:0@0", "Running"),
        ("sidecar:s main:a", "s=exit:143@0 a=exit:0@0", "Succeeded"),
    ] {
        let mut value = pod("Always", containers);
        value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(status(&value, &observed(seen))["phase"], phase, "{containers} {seen}");
    }
}

#[test]
fn a_pod_that_is_not_taken_has_failed_and_says_why() {
    let refusal = Refusal { reason: "OutOfcpu", message: "Pod was rejected: no".into() };
    let seen = Observed { rejected: Some(refusal), ..observed("") };
    let told = status(&pod("Always", "main:a"), &seen);
    let fields = ["phase", "reason", "message"].map(|field| told[field].as_str().unwrap());
    assert_eq!(fields, ["Failed", "OutOfcpu", "Pod was rejected: no"]);
    assert!(told["containerStatuses"].is_null());
}

#[test]
fn a_pod_that_took_too_much_fails_when_its_containers_have_ended() {
    let message = "Usage of EmptyDir volume \"v\" exceeds the limit \"1Mi\". ".to_owned();
    let evicted = Some(Refusal { reason: "Evicted", message });
    let mut value = pod("Always", "main:a");
    value["status"]["phase"] = json!("Running");
    let seen = Observed { evicted: evicted.clone(), ..observed("a=running") };
    let decided = next(&Object::new(value.clone()), &seen, at(NOW)).to_string();
    assert_eq!(decided, "stop a #0 in 2s PodEnds; Evicted");
    let told = status(&value, &seen);
    assert_eq!((&told["phase"], &told["reason"]), (&json!("Running"), &Value::Null));
    assert!(!reconcile::conditions::is_true(&told, "DisruptionTarget"));
    let seen = Observed { evicted, ..observed("a=exit:143@0") };
    let told = status(&value, &seen);
    assert_eq!((&told["phase"], &told["reason"]), (&json!("Failed"), &json!("Evicted")));
    assert!(reconcile::conditions::is_true(&told, "DisruptionTarget"));
}

#[test]
fn nothing_is_written_when_nothing_is_different() {
    for seen in ["", "a=running", "a=unready", "a=exit:0@5 a=exit:1@3", "a=refused:1@2"] {
        let mut value = pod("Always", "init:i main:a");
        value["metadata"]["generation"] = json!(3);
        let seen = observed(&format!("i=exit:0@200 {seen}"));
        value["status"] = status(&value, &seen);
        assert_eq!(value["status"]["observedGeneration"], 3);
        let pod = Object::new(value);
        let stage = next(&pod, &seen, at(NOW)).stage;
        // Times do not move by themselves.
        let later = changes(&pod, &seen, (stage, &place()), at(NOW + 1));
        assert!(later.is_empty(), "{later:?}");
    }
}

#[test]
fn a_container_that_runs_has_the_resources_it_was_started_with() {
    let mut value = pod("Always", "main:a");
    let resources = |cpu: &str| json!({"limits": {"cpu": cpu}, "requests": {"cpu": cpu}});
    value["spec"]["containers"][0]["resources"] = resources("1");
    value["status"] = status(&value, &observed("a=running"));
    assert_eq!(value["status"]["containerStatuses"][0]["resources"], resources("1"));
    value["spec"]["containers"][0]["resources"] = resources("2");
    value["status"] = status(&value, &observed("a=running"));
    let container = &value["status"]["containerStatuses"][0];
    assert_eq!(container["resources"], resources("1"));
    assert_eq!(container["allocatedResources"], json!({"cpu": "1"}));
    let pending = reconcile::conditions::find(&value["status"], "PodResizePending").unwrap();
    assert_eq!(pending["reason"], "Infeasible");
    // Another run gets what is asked for by then.
    value["status"] = status(&value, &observed("a=exit:1@20 a=running"));
    assert_eq!(value["status"]["containerStatuses"][0]["resources"], resources("2"));
    assert!(reconcile::conditions::find(&value["status"], "PodResizePending").is_none());
}

#[test]
fn gates_decide_with_the_containers_whether_a_pod_is_ready() {
    let mut value = pod("Always", "main:a");
    value["spec"]["readinessGates"] = json!([{"conditionType": "x/y"}]);
    let ready = |value: &Value, seen: &str| {
        let told = status(value, &observed(seen));
        let ready = reconcile::conditions::find(&told, "Ready").unwrap().clone();
        let text = |field: &str| ready[field].as_str().unwrap_or("").to_owned();
        (text("status"), text("reason"), text("message"))
    };
    let (is_ready, reason, message) = ready(&value, "a=running");
    assert_eq!((&*is_ready, &*reason), ("False", "ReadinessGatesNotReady"));
    assert_eq!(message, "corresponding condition of pod readiness gate \"x/y\" does not exist.");
    value["status"]["conditions"] = json!([{"type": "x/y", "status": "False"}]);
    let (_, _, message) = ready(&value, "a=running");
    assert_eq!(message, "the status of pod readiness gate \"x/y\" is not \"True\", but False");
    value["status"]["conditions"] = json!([{"type": "x/y", "status": "True"}]);
    assert_eq!(ready(&value, "a=running").0, "True");
    assert_eq!(ready(&value, "a=unready").1, "ContainersNotReady");
}

#[test]
fn a_sidecar_counts_for_readiness_and_a_pod_that_goes_may_still_serve() {
    let told = status(&pod("Always", "sidecar:s main:a"), &observed("s=unready a=running"));
    let ready = reconcile::conditions::find(&told, "ContainersReady").unwrap();
    assert_eq!(ready["message"], "containers with unready status: [s]");
    let mut value = pod("Always", "main:a");
    value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let told = status(&value, &observed("a=stopping"));
    assert!(reconcile::conditions::is_true(&told, "Ready"));
    assert!(!reconcile::conditions::is_true(
        &status(&pod("Always", "main:a"), &observed("a=stopping")),
        "Ready"
    ));
}

#[test]
fn what_a_run_said_at_its_end_is_told_within_bounds() {
    let mut seen = observed("a=exit:0@9 a=exit:3@2");
    let a = seen.containers.get_mut("a").unwrap();
    a.messages.insert(0, "x".repeat(20_000));
    a.messages.insert(1, "last words".to_owned());
    let told = status(&pod("Never", "main:a"), &seen);
    let container = &told["containerStatuses"][0];
    assert_eq!(container["state"]["terminated"]["message"], "last words");
    let before = container["lastState"]["terminated"]["message"].as_str().unwrap();
    assert_eq!(before.len(), 12 << 10);
    let mut value = pod("Never", "main:a");
    value["status"] = told;
    let told =
        |attempt| told_message(&Object::new(value.clone()), &ContainerId::new("u", "a", attempt));
    assert_eq!(told(1).as_deref(), Some("last words"));
    assert_eq!(told(0).map(|it| it.len()), Some(12 << 10));
    assert_eq!(told(2), None);
}

#[test]
fn a_run_that_the_machine_has_forgotten_counts_as_it_was_told() {
    let mut value = pod("Always", "main:a");
    for (seen, code, reason) in [
        ("a=exit:0@90 a=exit:3@5", 3, None),
        ("a=exit:0@90 a=running", 137, Some("ContainerStatusUnknown")),
    ] {
        value["status"] = status(&value, &observed(seen));
        let (run, _) = lost(&Object::new(value.clone()), "a", at(NOW)).unwrap();
        assert_eq!((run.id.attempt, run.image.as_str()), (1, "i"), "{seen}");
        let State::Exited(exit) = run.state else { panic!("{run:?}") };
        assert_eq!((exit.code, exit.reason), (code, reason), "{seen}");
    }
    value["status"] = status(&value, &observed(""));
    assert!(lost(&Object::new(value), "a", at(NOW)).is_none());
}

#[test]
fn where_volumes_are_mounted_is_told() {
    let mut value = pod("Always", "main:a");
    value["spec"]["containers"][0]["volumeMounts"] = json!([
        {"name": "v", "mountPath": "/v"},
        {"name": "r", "mountPath": "/r", "readOnly": true, "recursiveReadOnly": "IfPossible"}]);
    let told = status(&value, &observed("a=running"));
    assert_eq!(
        told["containerStatuses"][0]["volumeMounts"],
        json!([{"name": "v", "mountPath": "/v"}, {"name": "r", "mountPath": "/r",
            "readOnly": true, "recursiveReadOnly": "Enabled"}])
    );
}

#[test]
fn conditions_and_container_states_are_told_as_clients_know_them() {
    let place = Place { address: "10.0.0.1".into(), runtime: "fake" };
    let told = |policy: &str, containers: &str, seen: &str| {
        let pod = Object::new(pod(policy, containers));
        let seen = observed(seen);
        let stage = next(&pod, &seen, at(NOW)).stage;
        let status = whole(&pod, &seen, (stage, &place), at(NOW));
        let conditions = status["conditions"].as_array().unwrap();
        let conditions: Vec<String> = conditions
            .iter()
            .map(|one| {
                let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
                format!(
                    "{}={} {} {}",
                    text("type"),
                    text("status"),
                    text("reason"),
                    text("message")
                )
                .trim_end()
                .to_owned()
            })
            .collect();
        (conditions.join("; "), status)
    };
    let (conditions, status) = told("Always", "init:i main:a", "");
    assert_eq!(
        conditions,
        "PodReadyToStartContainers=True; Initialized=False ContainersNotInitialized containers \
         with incomplete status: [i]; Ready=False ContainersNotReady containers with unready \
         status: [a]; ContainersReady=False ContainersNotReady containers with unready status: \
         [a]; PodScheduled=True"
    );
    assert_eq!(status["containerStatuses"][0]["state"]["waiting"]["reason"], "PodInitializing");
    let init = &status["initContainerStatuses"][0]["state"]["waiting"]["reason"];
    assert_eq!(init, "PodInitializing");
    let (conditions, _) = told("Always", "main:a", "a=running");
    assert!(conditions.contains("; Ready=True; ContainersReady=True;"), "{conditions}");
    let (conditions, _) = told("Always", "main:a", "a=unready");
    assert!(conditions.contains("Ready=False ContainersNotReady"), "{conditions}");
    let (conditions, _) = told("Never", "main:a", "a=exit:0@0");
    assert!(conditions.contains("Ready=False PodCompleted"), "{conditions}");
    let (_, status) = told("Always", "main:a", "a=exit:3@0 a=exit:4@3");
    let container = &status["containerStatuses"][0];
    assert_eq!(
        container["state"]["waiting"],
        json!({"reason": "CrashLoopBackOff",
        "message": "back-off 10s restarting failed container=a pod=p_d(u)"})
    );
    assert_eq!(container["lastState"]["terminated"]["exitCode"], 4);
    assert_eq!((&container["restartCount"], &container["ready"]), (&json!(1), &json!(false)));
}
