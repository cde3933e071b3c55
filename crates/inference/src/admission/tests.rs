//! Questions and answers, as data.

use serde_json::{Value, json};

use super::*;
use crate::names;

fn graph(more: Value) -> Value {
    let mut whole = json!({
        "metadata": {"name": "g", "annotations": {names::PROVIDER: "component"}},
        "spec": {"components": [part("Frontend", "frontend"), part("decode", "decode")]},
    });
    reconcile::plan::merge(&mut whole, &more);
    whole
}

fn part(name: &str, kind: &str) -> Value {
    json!({"name": name, "type": kind, "replicas": 1, "podTemplate": {"spec": {"containers":
        [{"name": "main", "image": "nvcr.io/x:1.6.1"}]}}})
}

fn with(mut part: Value, more: Value) -> Value {
    reconcile::plan::merge(&mut part, &more);
    part
}

/// What is said of a change by a user.
fn said_to(user: &str, path: &str, new: &Value, old: &Value) -> String {
    let request = json!({"request": {"uid": "u", "object": new, "oldObject": old,
        "userInfo": {"username": user}}});
    let answer = review(&Settings::default(), path, &request).expect("an answer");
    answer["response"]["status"]["message"].as_str().unwrap_or_default().to_owned()
}

fn said(new: &Value, old: &Value) -> String {
    said_to("somebody", webhooks::VALIDATE_GRAPH, new, old)
}

#[test]
fn a_graph_gets_what_it_lacks() {
    let mut new = graph(json!({"metadata": {"annotations": {names::PROVIDER: "grove"}}}));
    new["spec"]["components"][0].as_object_mut().expect("a component").remove("replicas");
    let request = json!({"uid": "u", "object": new});
    let question = Question { request: &request, new: &new, old: &Value::Null };
    let made = graph::default(&Settings::default(), &question).object.expect("something lacked");
    assert_eq!(made["spec"]["components"][0]["replicas"], 1);
    let annotations = &made["metadata"]["annotations"];
    assert_eq!(annotations[names::PROVIDER], "component");
    assert_eq!(annotations[names::ORIGIN_VERSION], Settings::default().version);
    let question = Question { request: &request, new: &made, old: &Value::Null };
    assert!(graph::default(&Settings::default(), &question).object.is_none());
}

#[test]
fn what_cannot_work_is_refused_where_it_is() {
    assert_eq!(said(&graph(json!({})), &Value::Null), "");
    let ordered = json!({"metadata": {"annotations": {names::START_ORDER: "decode, frontend"}}});
    assert_eq!(said(&graph(ordered), &Value::Null), "");
    let annotation =
        |name: &str, value: &str| graph(json!({"metadata": {"annotations": {name: value}}}));
    let only = |part: Value| graph(json!({"spec": {"components": [part]}}));
    let picker = |more: Value| only(with(part("e", "epp"), more));
    let experiment = |more: Value| only(with(part("w", "worker"), json!({"experimental": more})));
    let restart =
        |strategy: Value| graph(json!({"spec": {"restart": {"id": "1", "strategy": strategy}}}));
    let cases = [
        (
            graph(json!({"spec": {"components": []}})),
            "spec.components: Required value: must have at least one component",
        ),
        (annotation(names::EXECUTOR, "x"), "must be one of: mp, ray"),
        (annotation(names::DISCOVERY_MODE, "x"), "must be one of: pod, container"),
        (annotation(names::ORIGIN_VERSION, "one"), "must be a semantic version"),
        (annotation("dynamo.nvidia.com/gpu-power-limit", "-1"), "must be a positive integer"),
        (
            annotation(names::START_ORDER, "decode, front"),
            "metadata.annotations[inference.setpoint.dev/start-order]: Invalid value: \"front\": \
             is not a component of the graph",
        ),
        (annotation(names::START_ORDER, "decode,Decode"), "must be named once"),
        (
            graph(json!({"spec": {"priorityClassName": "p"}})),
            "spec.priorityClassName: Forbidden: requires the Grove pathway",
        ),
        (
            only(json!({"name": "w", "type": "worker"})),
            "spec.components[0].podTemplate.spec.containers[main].image: Required value: is \
             required",
        ),
        (
            only(with(
                part("w", "worker"),
                json!({"podTemplate": {"spec": {"containers":
                [{"name": "main", "image": "x:latest"}]}}}),
            )),
            "spec.components[0].runtimeVersionOverride: Required value: is required when the \
             image tag is not a semantic version",
        ),
        (picker(json!({"replicas": 2})), "EPP component must have exactly 1 replica"),
        (picker(json!({"multinode": {}})), "EPP component cannot be multinode"),
        (picker(json!({})), "spec.components[0].eppConfig: Required value: is required"),
        (
            only(with(part("w", "worker"), json!({"frontendSidecar": "none"}))),
            "spec.components[0].frontendSidecar: Invalid value: \"none\"",
        ),
        (
            only(with(part("w", "worker"), json!({"sharedMemorySize": "-1"}))),
            "must be non-negative",
        ),
        (experiment(json!({"gpuMemoryService": {}})), "with at least one GPU"),
        (experiment(json!({"failover": {}})), "requires gpuMemoryService of the same mode"),
        (
            experiment(json!({"checkpoint": {"enabled": true}})),
            "checkpoint functionality is disabled in the operator configuration",
        ),
        (
            restart(json!({"type": "Parallel", "order": ["decode"]})),
            "cannot be specified when strategy is parallel",
        ),
        (restart(json!({"order": ["decode", "decode"]})), "must be unique"),
        (restart(json!({"order": ["decode"]})), "must have the same length"),
        (restart(json!({"order": ["decode", "x"]})), "spec.restart.strategy.order[1]"),
    ];
    for (new, why) in cases {
        let message = said(&new, &Value::Null);
        assert!(message.contains(why), "{why}: {message}");
    }
}

#[test]
fn what_grove_alone_or_only_some_pods_can_is_refused_elsewhere() {
    let only = |part: Value| graph(json!({"spec": {"components": [part]}}));
    let worker = |more: Value| only(with(part("w", "worker"), more));
    let containers = |more: Value| {
        let main = with(json!({"name": "main", "image": "x:1.6.1"}), more);
        json!({"podTemplate": {"spec": {"containers": [main]}}})
    };
    let power = "dynamo.nvidia.com/gpu-power-limit";
    let powered = json!({"metadata": {"annotations": {power: "300"}}});
    let claims = json!({"podTemplate": {"spec": {"resourceClaims": [{"name": "gpu"}]}}});
    let mut twice = worker(json!({}));
    let sidecar = json!({"name": "sidecar-frontend", "image": "x:1.6.1"});
    let all = &mut twice["spec"]["components"][0]["podTemplate"]["spec"]["containers"];
    all.as_array_mut().expect("containers").extend([sidecar.clone(), sidecar]);
    let older = json!({"version": 1, "spec": {"services": {"w": {"ingress": {"enabled": true}}}}});
    let grove = json!({"metadata": {"annotations": {names::PROVIDER: "grove"}}});
    let long = "a-name-that-leaves-no-room-for-its-set-x";
    let cases = [
        (
            worker(json!({"topologyConstraint": {"packDomain": "rack"}})),
            "spec.components[0].topologyConstraint: Forbidden: requires the Grove pathway",
        ),
        (worker(json!({"experimental": {"failover": {}}})), "mode IntraPod requires"),
        (
            worker(containers(json!({"volumeMounts": [{"name": "v", "mountPath": null}]}))),
            "volumeMounts[0].mountPath: Required value: is required when",
        ),
        (twice, "clashes with the container of the frontend sidecar"),
        (with(worker(claims), powered), "cannot be used with dynamic resource allocation"),
        (
            graph(json!({"metadata": {"annotations": {"nvidia.com/dgd-spec": older.to_string()}}})),
            "spec.services[w].ingress.host: Required value: is required when ingress is enabled",
        ),
        (with(only(part(long, "worker")), grove), "characters too long for the names"),
    ];
    for (new, why) in cases {
        let message = said(&new, &Value::Null);
        assert!(message.contains(why), "{why}: {message}");
    }
    let told = json!({"metadata": {"annotations": {names::DISCOVERY_MODE: "container"}}});
    let failing = with(worker(json!({"experimental": {"failover": {}}})), told);
    assert!(!said(&failing, &Value::Null).contains("mode IntraPod"));
}

#[test]
fn what_needs_something_else_is_refused_without_it() {
    let only = |part: Value| graph(json!({"spec": {"components": [part]}}));
    let worker = |more: Value| only(with(part("w", "worker"), more));
    let annotation =
        |name: &str, value: &str| graph(json!({"metadata": {"annotations": {name: value}}}));
    let between = json!({"experimental": {"gpuMemoryService": {"mode": "InterPod"}}});
    let engine = json!({"podTemplate": {"spec": {"containers": [{"name": "main",
        "image": "x:1.6.1", "command": ["python3", "-m", "dynamo.sglang"]}]}}});
    let grove = json!({"metadata": {"annotations": {names::PROVIDER: "grove"}}});
    let elastic = json!({"podTemplate": {"spec": {"containers": [{"name": "main",
        "image": "x:1.6.1", "args": ["--enable-elastic-ep"]}]}}});
    let picker = json!({"eppConfig": {"configMapRef": {"key": "k"}}});
    let cases = [
        (
            annotation("nvidia.com/grove-update-strategy", "x"),
            "must be one of: RollingRecreate, OnDelete",
        ),
        (annotation(names::PROVIDER, "x"), "must be one of: component, grove"),
        (annotation(names::INFRASTRUCTURE, "etcd, kafka"), "must be one of: etcd, nats"),
        (
            worker(json!({"minAvailable": 1})),
            "spec.components[0].minAvailable: Forbidden: requires the Grove pathway",
        ),
        (
            worker(json!({"experimental": {"grove": {"forceScalingGroup": true}}})),
            "experimental.grove.forceScalingGroup: Forbidden: requires the Grove pathway",
        ),
        (worker(between.clone()), "mode InterPod requires the Grove pathway"),
        (
            with(worker(with(engine, between)), grove),
            "spec.components[0].experimental.gpuMemoryService.mode: Forbidden: mode InterPod is \
             only supported with vllm",
        ),
        (
            worker(elastic),
            "spec.components[0].podTemplate.spec.containers[main].command: Required value",
        ),
        (
            only(with(part("e", "epp"), picker.clone())),
            "spec.components[0].eppConfig.configMapRef.name: Required value: is required",
        ),
        (
            only(with(part("e", "epp"), picker)),
            "the InferencePool API (inference.networking.k8s.io) is not served",
        ),
    ];
    for (new, why) in cases {
        let message = said(&new, &Value::Null);
        assert!(message.contains(why), "{why}: {message}");
    }
}

#[test]
fn what_pods_rest_on_is_decided_once() {
    let experiment = |more: Value| {
        let worker = with(part("w", "worker"), json!({"experimental": more}));
        graph(json!({"spec": {"components": [worker]}}))
    };
    let policy = |domain: &str| {
        let policy = json!({"domain": domain, "labelKey": "zone"});
        graph(json!({"spec": {"experimental": {"kvTransferPolicy": policy}}}))
    };
    let place =
        |name: &str| graph(json!({"spec": {"topologyConstraint": {"clusterTopologyName": name}}}));
    let plain = experiment(json!({}));
    for (new, old, why) in [
        (
            experiment(json!({"gpuMemoryService": {}})),
            plain.clone(),
            "experimental.gpuMemoryService: Forbidden: cannot be enabled or disabled",
        ),
        (
            plain,
            experiment(json!({"failover": {}})),
            "experimental.failover: Forbidden: cannot be enabled or disabled",
        ),
        (policy("zone"), policy("rack"), "spec.experimental.kvTransferPolicy: Invalid value"),
        (place("a"), place("b"), "spec.topologyConstraint: Invalid value"),
    ] {
        let message = said(&new, &old);
        assert!(message.contains(why), "{why}: {message}");
    }
}

#[test]
fn some_things_are_decided_once() {
    let old = graph(json!({"spec": {"backendFramework": "vllm"}}));
    let change = |more: Value| graph(with(json!({"spec": {"backendFramework": "vllm"}}), more));
    let multinode = with(part("decode", "decode"), json!({"multinode": {"nodeCount": 2}}));
    let cases = [
        (
            change(json!({"spec": {"components": [part("Frontend", "frontend"),
                part("new", "worker")]}})),
            "component topology is immutable and cannot be modified after creation: components \
             added: new; components removed: decode",
        ),
        (
            graph(json!({"spec": {"backendFramework": "sglang"}})),
            "spec.backendFramework: Invalid value: \"sglang\": is immutable",
        ),
        (
            change(json!({"spec": {"components": [part("Frontend", "frontend"), multinode]}})),
            "cannot change node topology between single-node and multi-node after creation",
        ),
        (
            change(
                json!({"metadata": {"annotations": {"dynamo.nvidia.com/gpu-power-limit": "9"}}}),
            ),
            "gpu-power-limit]: Forbidden: is immutable",
        ),
        (
            change(json!({"spec": {"components": [part("Frontend", "frontend"),
                with(part("decode", "decode"),
                    json!({"experimental": {"grove": {"forceScalingGroup": true}}}))]}})),
            "forceScalingGroup: Forbidden: cannot be enabled or disabled after creation",
        ),
        (
            change(json!({"metadata": {"annotations": {names::PROVIDER: "grove"}}})),
            "metadata.annotations[nvidia.com/workload-provider]: Forbidden",
        ),
    ];
    for (new, why) in cases {
        let message = said(&new, &old);
        assert!(message.contains(why), "{why}: {message}");
    }
    let rolling = json!({"status": {"rollingUpdate": {"phase": "InProgress"}}});
    let restarted = change(json!({"spec": {"restart": {"id": "2"}}}));
    let message = said(&restarted, &change(rolling));
    assert!(message.contains("cannot be changed while a rolling update is InProgress"));
    // What was let in before is not judged again.
    let latest = |replicas: i64| {
        let image = json!({"podTemplate": {"spec": {"containers":
            [{"name": "main", "image": "x:latest"}]}}, "replicas": replicas});
        graph(json!({"spec": {"components": [with(part("w", "worker"), image)]}}))
    };
    assert_eq!(said(&latest(2), &latest(1)), "");
    // What goes is not judged at all.
    let going = change(json!({"metadata": {"deletionTimestamp": "x"}, "spec": {"components": []}}));
    assert_eq!(said(&going, &old), "");
}

#[test]
fn what_an_adapter_scales_only_it_and_the_planner_scale() {
    let scaled = |replicas: i64| {
        let own =
            with(part("decode", "decode"), json!({"scalingAdapter": {}, "replicas": replicas}));
        graph(json!({"spec": {"components": [part("Frontend", "frontend"), own]}}))
    };
    let by = |user: &str| said_to(user, webhooks::VALIDATE_GRAPH, &scaled(3), &scaled(1));
    let expected = "spec.components[1].replicas: Forbidden: cannot be modified directly when \
                    scaling adapter is enabled; scale or update the related \
                    DynamoGraphDeploymentScalingAdapter instead";
    assert_eq!(by("somebody"), expected);
    assert_eq!(by("system:serviceaccount:ns:planner-serviceaccount"), "");
    assert_eq!(by(&Settings::default().principal), "");
    assert_eq!(by("planner-serviceaccount"), expected);
}

#[test]
fn a_component_is_called_as_its_object_is() {
    let new = json!({"metadata": {"name": "c"}, "spec": {"type": "worker"}});
    let question = Question { request: &Value::Null, new: &new, old: &Value::Null };
    let made = component::default(&question).object.expect("a name lacked");
    assert_eq!(made["spec"]["name"], "c");
    let spec = |backend: &str| json!({"spec": {"name": "c", "backendFramework": backend}});
    let message =
        said_to("somebody", webhooks::VALIDATE_COMPONENT_LEGACY, &spec("vllm"), &spec("sglang"));
    assert!(message.contains("spec.backendFramework"), "{message}");
}
