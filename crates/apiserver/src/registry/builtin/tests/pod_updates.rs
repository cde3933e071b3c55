//! Pods that change: what may, what not, and how they end.

use super::{check_changed, check_changes, check_changes_of, created, edit, strategy};
use crate::registry::strategy::{DeleteRequest, Deletion};

const FORBIDDEN: &str = "spec: Forbidden: pod updates may not change fields other than \
    `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
    `spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

#[test]
fn little_of_a_pod_may_change() {
    check_changes(
        "/Pod",
        &r#"
        spec.containers[0].image = "nginx:2" => ok
        spec.activeDeadlineSeconds = 10 => ok
        spec.tolerations = [{"key": "a", "operator": "Exists"}] => ok
        metadata.labels = {"a": "b"} => ok
        spec.containers[0].command = ["x"] => FORBIDDEN...
        spec.nodeSelector = {"a": "b"} => FORBIDDEN...
        spec.nodeName = "n" => FORBIDDEN...
        spec.terminationGracePeriodSeconds = 1 => FORBIDDEN...
        spec.containers[1] = {"name": "d", "image": "i"} => spec.containers: Forbidden: pod updates may not add or remove containers
        spec.schedulingGates = [{"name": "g"}] => spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'g'
        "#
        .replace("FORBIDDEN", FORBIDDEN),
    );
    check_changes_of(
        "/Pod",
        "",
        r#"spec.activeDeadlineSeconds = 10 ;
        spec.tolerations = [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]"#,
        r#"
        spec.activeDeadlineSeconds = 5 => ok
        spec.activeDeadlineSeconds = 11 => spec.activeDeadlineSeconds: Invalid value: 11: must be less than or equal to previous value
        spec.activeDeadlineSeconds - => spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value
        spec.tolerations[0].tolerationSeconds = 9 => ok
        spec.tolerations = [] => spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds
        "#,
    );
    check_changes_of(
        "/Pod",
        "",
        r#"spec.schedulingGates = [{"name": "g"}] ; spec.nodeSelector = {"a": "b"}"#,
        r#"
        spec.schedulingGates - => ok
        spec.nodeSelector = {"a": "b", "c": "d"} => ok
        spec.affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}} => ok
        spec.nodeSelector = {"a": "c"} => spec.nodeSelector: Invalid value: {"a":"c"}: only additions to spec.nodeSelector are allowed (no mutations or deletions)
        "#,
    );
}

#[test]
fn a_change_says_what_changed() {
    let old = created("/Pod", "");
    let mut pod = old.clone();
    edit(&mut pod, r#"spec.hostNetwork = true ; spec.containers[0].name = "d""#);
    let errors = strategy("/Pod").validate_update(&pod, &old, "");
    let expected = format!(
        "{FORBIDDEN}\n- containers[0].name: \"c\"\n+ containers[0].name: \"d\"\n+ hostNetwork: true"
    );
    assert_eq!(errors[0].to_string(), expected);
}

#[test]
fn generation_follows_the_specification() {
    check_changed(
        "/Pod",
        "",
        "",
        r#"
        spec.containers[0].image = "nginx:2" => metadata.generation = 2
        metadata.labels = {"a": "b"} => metadata.generation = 1
        status.phase = "Running" => metadata.generation = 1 ; status.phase = "Pending"
        "#,
    );
    check_changed(
        "/Pod",
        "status",
        "",
        r#"
        status.phase = "Running" => metadata.generation = 1 ; status.phase = "Running" ; status.qosClass = "BestEffort"
        spec.nodeName = "n" ; status.phase = "Failed" => spec.nodeName = null ; status.phase = "Failed"
        status.podIP = "10.0.0.1" => status.podIPs = [{"ip": "10.0.0.1"}]
        metadata.ownerReferences = [{"kind": "x"}] => metadata.ownerReferences = null
        "#,
    );
}

#[test]
fn a_status_is_checked() {
    check_changes_of(
        "/Pod",
        "status",
        r#"spec.restartPolicy = "Never" ;
        status.containerStatuses = [{"name": "c", "state": {"terminated": {"exitCode": 0}}}]"#,
        r#"
        status.phase = "Succeeded" => ok
        status.qosClass = "Guaranteed" => status.qosClass: Invalid value: "Guaranteed": field is immutable
        status.containerStatuses[0].state = {"running": {}} => status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state
        status.podIPs = [{"ip": "x"}] => status.podIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
        status.podIPs = [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}] => status.podIPs: Invalid value: [{"ip":"10.0.0.1"},{"ip":"10.0.0.2"}]: may specify no more than one IP for each IP family
        status.conditions = [{"type": "a b", "status": "True"}] => metadata.conditions[0].Type: Invalid value: "a b": name part must consist...
        "#,
    );
}

#[test]
fn debugging_and_resizing_have_their_own_ways() {
    check_changes_of(
        "/Pod",
        "ephemeralcontainers",
        r#"
        spec.ephemeralContainers = [{"name": "e", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File", "terminationMessagePath": "/dev/termination-log"}]"#,
        r#"
        spec.ephemeralContainers[1] = {"name": "f", "image": "i", "targetContainerName": "c"} => ok
        spec.ephemeralContainers[1] = {"name": "f", "image": "i", "targetContainerName": "x"} => spec.ephemeralContainers[1].targetContainerName: Not found: "x"
        spec.ephemeralContainers[1] = {"name": "c", "image": "i"} => spec.ephemeralContainers[1].name: Duplicate value: "c"
        spec.ephemeralContainers[1] = {"name": "f", "image": "i", "ports": [{"containerPort": 1}]} => spec.ephemeralContainers[1].ports: Forbidden: cannot be set for an Ephemeral Container
        spec.ephemeralContainers[0].image = "j" => spec.ephemeralContainers: Forbidden: existing ephemeral containers "e" may not be changed...
        spec.ephemeralContainers = [] => spec.ephemeralContainers: Forbidden: existing ephemeral containers "e" may not be removed...
        spec.nodeName = "other" => ok
        "#,
    );
    check_changes_of(
        "/Pod",
        "resize",
        r#"spec.containers[0].resources = {"requests": {"cpu": "1"}} ;
        status.qosClass = "Burstable""#,
        r#"
        spec.containers[0].resources.requests.cpu = "2" => ok
        spec.containers[0].image = "other" => ok
        spec.containers[0].resources = {} => spec: Invalid value: "BestEffort": Pod QOS Class may not change as a result of resizing && spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed
        spec.containers[0].resources.limits = {"memory": "1Gi"} => spec.containers[0].resources.limits[memory]: Forbidden: memory limits cannot be added unless resizePolicy is RestartContainer
        "#,
    );
}

#[test]
fn a_pod_is_given_time_to_end_where_it_runs() {
    let cases = [
        (r#"spec.nodeName = "n""#, None, Deletion::Graceful { seconds: 30 }),
        (r#"spec.nodeName = "n""#, Some(5), Deletion::Graceful { seconds: 5 }),
        (r#"spec.nodeName = "n""#, Some(-1), Deletion::Graceful { seconds: 1 }),
        (r#"spec.nodeName = "n""#, Some(0), Deletion::Now),
        ("", None, Deletion::Now),
        (r#"spec.nodeName = "n" ; status.phase = "Succeeded""#, None, Deletion::Now),
    ];
    for (edits, grace_period_seconds, expected) in cases {
        let mut pod = created("/Pod", "");
        edit(&mut pod, edits);
        let request = DeleteRequest { grace_period_seconds };
        assert_eq!(strategy("/Pod").deletion(&pod, &request), expected, "{edits}");
    }
}

#[test]
fn what_is_surely_not_meant_is_warned_of() {
    let warnings = |edits: &str| strategy("/Pod").warnings(&created("/Pod", edits), None);
    let cases = [
        (
            r#"spec.containers[0].env = [{"name": "A"}, {"name": "A"}]"#,
            "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped \
             when using apply",
        ),
        (
            r#"spec.containers[0].ports = [{"containerPort": 80}, {"containerPort": 80}]"#,
            "spec.containers[0].ports[1]: duplicate port definition with \
             spec.containers[0].ports[0]",
        ),
        (
            r#"spec.nodeSelector = {"beta.kubernetes.io/os": "linux"}"#,
            "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \
             \"kubernetes.io/os\" instead",
        ),
        (
            r#"
            spec.containers[0].resources = {"limits": {"memory": "1500m"}, "requests": {"memory": "1"}}"#,
            "spec.containers[0].resources.limits[memory]: fractional byte value \"1500m\" is \
             invalid, must be an integer",
        ),
    ];
    for (edits, expected) in cases {
        assert_eq!(warnings(edits), [expected], "{edits}");
    }
    let pod = created("/Pod", cases[0].0);
    assert_eq!(strategy("/Pod").warnings(&pod, Some(&pod)), Vec::<String>::new());
}
