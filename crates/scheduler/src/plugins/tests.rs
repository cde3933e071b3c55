//! What each rule refuses, what it says then, and what it likes.

use serde_json::{Value, json};

use crate::fixtures::{Scene, asks, with};
use crate::profile::Policy;

const UNHELPFUL: &str = "Preemption is not helpful for scheduling.";

#[track_caller]
fn check(mut scene: Scene, pod: Value, expected: &str) {
    assert_eq!(scene.decide("new", pod), expected);
}

fn labelled(labels: Value) -> Value {
    json!({"metadata": {"labels": labels}})
}

fn zone(name: &str) -> Value {
    labelled(json!({"topology.kubernetes.io/zone": name}))
}

#[test]
fn without_nodes_there_is_nothing_to_say_of_them() {
    check(Scene::new(), json!({}), "no nodes available to schedule pods");
}

#[test]
fn a_pod_with_resource_claims_waits_and_says_why() {
    check(
        Scene::new().node("n1", json!({})),
        json!({"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}]}}),
        "0/1 nodes are available: 1 node(s) cannot allocate the devices of resource claims \
         (spec.resourceClaims). preemption: 0/1 nodes are available: 1 Preemption is not helpful \
         for scheduling.",
    );
}

#[test]
fn reasons_are_counted_and_sorted_as_text() {
    let scene = Scene::new()
        .node("n1", json!({"status": {"allocatable": {"cpu": "1"}}}))
        .node("n2", json!({"status": {"allocatable": {"cpu": "1", "memory": "1Ki"}}}))
        .node(
            "n3",
            json!({"spec": {"taints": [{"key": "k", "value": "v",
            "effect": "NoSchedule"}]}}),
        )
        .node("n4", json!({"spec": {"unschedulable": true}}));
    check(
        scene,
        asks(json!({"cpu": "2", "memory": "1Mi"})),
        "0/4 nodes are available: 1 Insufficient memory, 1 node(s) had untolerated taint {k: v}, \
         1 node(s) were unschedulable, 2 Insufficient cpu. preemption: 0/4 nodes are available: \
         4 Preemption is not helpful for scheduling.",
    );
}

#[test]
fn a_full_node_may_be_made_room_on_but_nobody_is_less_important() {
    let scene = Scene::new()
        .node("n1", json!({}))
        .on("n1", "old", asks(json!({"cpu": "3"})))
        .node("n2", json!({"spec": {"unschedulable": true}}));
    check(
        scene,
        asks(json!({"cpu": "2"})),
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. preemption: \
         0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is \
         not helpful for scheduling.",
    );
}

#[test]
fn extended_resources_and_the_number_of_pods_count() {
    let scene = || {
        Scene::new()
            .node("n1", json!({"status": {"allocatable": {"pods": "1", "nvidia.com/gpu": "2"}}}))
            .on("n1", "old", asks(json!({"nvidia.com/gpu": "1"})))
    };
    check(
        scene(),
        asks(json!({"nvidia.com/gpu": "2"})),
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu, 1 Too many pods. preemption: \
         0/1 nodes are available: 1 No preemption victims found for incoming pod.",
    );
    check(
        scene(),
        asks(json!({"example.com/fpga": "1"})),
        &format!(
            "0/1 nodes are available: 1 Insufficient example.com/fpga, 1 Too many pods. \
             preemption: 0/1 nodes are available: 1 {UNHELPFUL}"
        ),
    );
}

#[test]
fn the_emptier_node_is_liked_better_and_the_fuller_one_for_packed_resources() {
    let scene = || {
        Scene::new()
            .node("n1", json!({"status": {"allocatable": {"nvidia.com/gpu": "8"}}}))
            .node("n2", json!({"status": {"allocatable": {"nvidia.com/gpu": "8"}}}))
            .on("n2", "old", asks(json!({"cpu": "1", "memory": "2Gi", "nvidia.com/gpu": "4"})))
    };
    check(scene(), asks(json!({"cpu": "1"})), "n1");
    check(scene(), asks(json!({"cpu": "1", "nvidia.com/gpu": "4"})), "n2");
    check(scene(), asks(json!({"cpu": "1", "nvidia.com/gpu": "5"})), "n1");
}

#[test]
fn balance_decides_between_nodes_that_are_equally_full() {
    let scene = Scene::new()
        .node("n1", json!({}))
        .on("n1", "much-cpu", asks(json!({"cpu": "2"})))
        .node("n2", json!({}))
        .on("n2", "much-memory", asks(json!({"memory": "4Gi"})));
    // What asks for memory evens out the one that has cpu taken.
    check(scene, asks(json!({"memory": "4Gi", "cpu": "1m"})), "n1");
}

#[test]
fn taints_are_tolerated_by_key_value_and_effect() {
    let scene = |effect: &str| {
        Scene::new()
            .node(
                "n1",
                json!({"spec": {"taints": [{"key": "k", "value": "v",
                "effect": effect}]}}),
            )
            .node("n2", json!({"status": {"allocatable": {"cpu": "0"}}}))
    };
    let tolerating = |toleration: Value| {
        with(asks(json!({"cpu": "1"})), json!({"spec": {"tolerations": [toleration]}}))
    };
    for (toleration, fits) in [
        (json!({"key": "k", "value": "v"}), true),
        (json!({"key": "k", "operator": "Exists"}), true),
        (json!({"operator": "Exists"}), true),
        (json!({"key": "k", "value": "v", "effect": "NoExecute"}), false),
        (json!({"key": "k", "value": "w"}), false),
        (json!({"key": "l", "operator": "Exists"}), false),
    ] {
        let found = scene("NoSchedule").decide("new", tolerating(toleration.clone()));
        assert_eq!(found == "n1", fits, "{toleration} {found}");
    }
    check(scene("PreferNoSchedule"), asks(json!({"cpu": "1"})), "n1");
}

#[test]
fn softly_tainted_nodes_are_the_last_resort() {
    let scene = Scene::new()
        .node("n1", json!({"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}}))
        .node("n2", json!({}))
        .on("n2", "old", asks(json!({"cpu": "2"})));
    check(scene, asks(json!({"cpu": "1"})), "n2");
}

#[test]
fn node_selectors_and_affinity_are_obeyed() {
    let scene = || {
        Scene::new()
            .node("n1", labelled(json!({"disk": "hdd", "cores": "4"})))
            .node("n2", labelled(json!({"disk": "ssd", "cores": "64"})))
    };
    let required = |expression: Value| {
        json!({"spec": {"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}}})
    };
    check(scene(), json!({"spec": {"nodeSelector": {"disk": "ssd"}}}), "n2");
    check(scene(), required(json!({"key": "cores", "operator": "Gt", "values": ["16"]})), "n2");
    check(scene(), required(json!({"key": "cores", "operator": "Lt", "values": ["16"]})), "n1");
    check(scene(), required(json!({"key": "gpu", "operator": "DoesNotExist"})), "n1");
    check(
        scene(),
        json!({"spec": {"nodeSelector": {"disk": "tape"}}}),
        &format!(
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. \
             preemption: 0/2 nodes are available: 2 {UNHELPFUL}"
        ),
    );
    let preferred = json!({"spec": {"affinity": {"nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference":
            {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}}]}}}});
    check(scene().on("n2", "old", asks(json!({"cpu": "2"}))), preferred, "n2");
}

#[test]
fn a_pod_that_names_its_node_leaves_the_others_out() {
    let scene = Scene::new()
        .node("n1", json!({"status": {"allocatable": {"cpu": "1"}}}))
        .node("n2", json!({"spec": {"unschedulable": true}}))
        .node("n3", json!({}));
    let named = json!({"spec": {"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}}}}});
    check(
        scene,
        with(asks(json!({"cpu": "2"})), named),
        &format!(
            "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) \
             [NodeAffinity]. preemption: 0/3 nodes are available: 3 {UNHELPFUL}"
        ),
    );
}

#[test]
fn a_port_is_given_once_unless_addresses_or_protocols_differ() {
    let port = |port: Value| {
        let container = json!({"name": "c", "image": "i", "ports": [port]});
        json!({"spec": {"containers": [container]}})
    };
    let scene = || {
        let old = port(json!({"hostPort": 80, "hostIP": "10.0.0.1"}));
        Scene::new().node("n1", json!({})).on("n1", "old", old)
    };
    check(scene(), port(json!({"hostPort": 80, "hostIP": "10.0.0.2"})), "n1");
    check(scene(), port(json!({"hostPort": 80, "protocol": "UDP"})), "n1");
    check(scene(), port(json!({"containerPort": 80})), "n1");
    check(
        scene(),
        port(json!({"hostPort": 80})),
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports. \
         preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
    );
}

fn spread(key: &str, when: &str, beside: Value) -> Value {
    let constraint = with(
        json!({"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": when,
            "labelSelector": {"matchLabels": {"app": "web"}}}),
        beside,
    );
    with(web(), json!({"spec": {"topologySpreadConstraints": [constraint]}}))
}

fn web() -> Value {
    labelled(json!({"app": "web"}))
}

#[test]
fn pods_are_spread_over_places() {
    const ZONE: &str = "topology.kubernetes.io/zone";
    let scene = || {
        Scene::new()
            .node("n1", zone("x"))
            .node("n2", zone("y"))
            .node("n3", json!({}))
            .on("n1", "w1", web())
            .on("n3", "w2", web())
    };
    check(scene(), spread(ZONE, "DoNotSchedule", json!({})), "n2");
    check(scene(), spread(ZONE, "ScheduleAnyway", json!({})), "n2");
    let full = || scene().on("n2", "big", asks(json!({"cpu": "4"}))).on("n2", "w3", json!({}));
    let asking = with(spread(ZONE, "DoNotSchedule", json!({})), asks(json!({"cpu": "1"})));
    check(
        full(),
        asking,
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod topology spread \
         constraints, 1 node(s) didn't match pod topology spread constraints (missing required \
         label). preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, \
         2 No preemption victims found for incoming pod.",
    );
    // With too few places the emptiest counts as empty.
    let places = spread(ZONE, "DoNotSchedule", json!({"minDomains": 3}));
    let told = "0/3 nodes are available: 1 node(s) didn't match pod topology spread constraints \
         (missing required label), 2 node(s) didn't match pod topology spread constraints. preemption: 0/3 \
         nodes are available: 1 Preemption is not helpful for scheduling, 2 No preemption victims \
         found for incoming pod.";
    check(scene().on("n2", "w4", web()), places, told);
}

fn relation(field: &str, key: &str) -> Value {
    json!({"spec": {"affinity": {field: {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}}]}}}})
}

#[test]
fn pods_want_others_near_or_far() {
    const HOST: &str = "kubernetes.io/hostname";
    let scene = || Scene::new().node("n1", json!({})).node("n2", json!({})).on("n2", "w", web());
    check(scene(), relation("podAffinity", HOST), "n2");
    check(scene(), relation("podAntiAffinity", HOST), "n1");
    let both = || scene().on("n1", "v", web());
    check(
        both(),
        relation("podAntiAffinity", HOST),
        "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules. preemption: 0/2 \
         nodes are available: 2 No preemption victims found for incoming pod.",
    );
    check(
        Scene::new().node("n1", json!({})),
        relation("podAffinity", HOST),
        "0/1 nodes are available: 1 node(s) didn't match pod affinity rules. preemption: 0/1 nodes \
         are available: 1 Preemption is not helpful for scheduling.",
    );
    // The first of pods that want each other near may be alone.
    check(Scene::new().node("n1", json!({})), with(web(), relation("podAffinity", HOST)), "n1");
}

#[test]
fn what_pods_on_nodes_want_holds_for_those_that_come() {
    const HOST: &str = "kubernetes.io/hostname";
    let alone = || relation("podAntiAffinity", HOST);
    let scene = || Scene::new().node("n1", json!({})).on("n1", "alone", alone());
    check(scene(), json!({}), "n1");
    check(
        scene(),
        web(),
        "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules. \
         preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
    );
    check(scene().node("n2", json!({})), web(), "n2");
    let likes = json!({"spec": {"affinity": {"podAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm":
            {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}}}]}}}});
    let liked =
        || Scene::new().node("n1", json!({})).node("n2", json!({})).on("n2", "old", likes.clone());
    check(liked(), web(), "n2");
    check(liked(), json!({}), "n1");
}

#[test]
fn terms_reach_other_namespaces_only_if_they_say_so() {
    const HOST: &str = "kubernetes.io/hostname";
    let elsewhere = with(web(), json!({"metadata": {"namespace": "b"}}));
    let scene = || {
        let mut scene = Scene::new().node("n1", json!({})).on("n1", "w", elsewhere.clone());
        let namespace = reconcile::Object::new(json!({"metadata": {"name": "b",
            "labels": {"team": "x"}}}));
        scene.snapshot.put_namespace(&namespace.name, Some(&namespace));
        scene
    };
    check(scene(), relation("podAntiAffinity", HOST), "n1");
    for beside in [
        json!({"namespaces": ["b"]}),
        json!({"namespaceSelector": {}}),
        json!({"namespaceSelector": {"matchLabels": {"team": "x"}}}),
    ] {
        let mut wide = relation("podAntiAffinity", HOST);
        let terms = &mut wide["spec"]["affinity"]["podAntiAffinity"];
        let term = &mut terms["requiredDuringSchedulingIgnoredDuringExecution"][0];
        *term = with(term.clone(), beside);
        assert!(scene().decide("new", wide).starts_with("0/1 nodes"));
    }
}

#[test]
fn an_image_that_is_there_draws_a_pod() {
    let image = json!({"status": {"images": [{"names": ["i:latest"], "sizeBytes": 900_000_000}]}});
    let scene = Scene::new().node("n1", json!({})).node("n2", image).on(
        "n2",
        "old",
        asks(json!({"cpu": "100m"})),
    );
    check(scene, asks(json!({"cpu": "100m"})), "n2");
}

#[test]
fn the_first_ready_node_is_taken_where_that_is_the_policy() {
    let mut scene = Scene::new()
        .node("b", json!({}))
        .node("a", json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}))
        .node("c", json!({}))
        .on("b", "old", asks(json!({"cpu": "3"})));
    scene.profile.policy = Policy::FirstReady;
    assert_eq!(scene.decide("new", asks(json!({"cpu": "1"}))), "b");
    assert_eq!(scene.decide("big", asks(json!({"cpu": "2"}))), "c");
    let mut none = Scene::new()
        .node("a", json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}));
    none.profile.policy = Policy::FirstReady;
    let pod = none.read(crate::fixtures::pod("new", json!({})));
    let refusal = none.verdict(&pod).expect_err("no node is ready");
    assert_eq!(refusal.message(), "0/1 nodes are available: 1 node(s) were not ready.");
}

#[path = "volume_tests.rs"]
mod volumes;
