//! A graph as Grove sees it, and what Grove says of it, as data.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;
use reconcile::Step;
use reconcile::plan::merge;

use super::*;
use crate::settings::Gates;

fn graph(more: Value) -> Object {
    let mut whole = json!({
        "metadata": {"namespace": "ns", "name": "g", "uid": "u", "generation": 1,
            "finalizers": ["nvidia.com/finalizer"],
            "annotations": {names::PROVIDER: "grove", names::ORIGIN_VERSION: "1.4.0"}},
        "spec": {"backendFramework": "vllm", "components": [
            {"name": "Frontend", "type": "frontend", "replicas": 1, "minAvailable": 1,
                "podTemplate": {"spec": {"containers": [{"name": "main", "image": "f:1.4.0"}]}}},
            {"name": "decode", "type": "decode", "replicas": 2, "multinode": {"nodeCount": 3},
                "podTemplate": {"spec": {"containers": [{"name": "main", "image": "w:1.4.0",
                    "command": ["python3"], "args": ["-m", "dynamo.vllm"]}]}}},
        ]},
    });
    merge(&mut whole, &more);
    let object = Object::new(whole);
    let framework = generate::framework(&Graph::of(&object)).expect("one engine");
    let hash = generate::worker_hash(&Graph::of(&object), framework);
    let mut whole = object.value.clone();
    whole["metadata"]["annotations"][names::CURRENT_HASH] = json!(hash);
    Object::new(whole)
}

fn settings(more: Gates) -> Settings {
    Settings { gates: Gates { grove: true, ..more }, ..Settings::default() }
}

fn planned(object: &Object, observed: &Observed, gates: Gates) -> Plan {
    super::super::plan::plan(&settings(gates), object, observed, Timestamp::UNIX_EPOCH)
}

fn observed(grove: Found) -> Observed {
    let roles = BTreeSet::from([Settings::default().roles.planner]);
    Observed { roles, grove, ..Observed::default() }
}

fn created(plan: &Plan, kind: Kind) -> Value {
    let of = |step: &Step| match step {
        Step::Create { kind: own, object } if *own == kind => Some(object.clone()),
        _ => None,
    };
    plan.steps.iter().find_map(of).unwrap_or_else(|| panic!("no {kind}: {plan}"))
}

fn ready(plan: &Plan) -> Value {
    let status = plan.status.clone().expect("a status");
    conditions::find(&status, "Ready").expect("a condition").clone()
}

#[test]
fn components_are_cliques_and_many_pods_a_group() {
    let object = graph(json!({}));
    let plan = planned(&object, &observed(Found::default()), Gates::default());
    let set = created(&plan, POD_CLIQUE_SET);
    assert_eq!(set["metadata"]["name"], "g");
    let template = &set["spec"]["template"];
    let shape: Vec<String> = list(&template["cliques"])
        .iter()
        .map(|one| {
            format!(
                "{} {} {}",
                text(&one["name"]),
                one["spec"]["replicas"],
                one["spec"]["minAvailable"]
            )
        })
        .collect();
    assert_eq!(shape, ["frontend 1 1", "decode-ldr 1 1", "decode-wkr 2 2"]);
    assert_eq!(
        template["podCliqueScalingGroups"],
        json!([{"name": "decode", "replicas": 2,
        "cliqueNames": ["decode-ldr", "decode-wkr"], "minAvailable": 1}])
    );
    assert_eq!(template["cliqueStartupType"], "CliqueStartupTypeAnyOrder");
    assert_eq!(template["terminationDelay"], "15m0s");
    assert_eq!(template["headlessServiceConfig"], json!({"publishNotReadyAddresses": true}));
    let leader = &template["cliques"][1];
    assert_eq!(leader["labels"][names::SELECTOR], "g-decode");
    assert!(leader["labels"][names::WORKER_HASH].is_string() && leader["labels"]["role"].is_null());
    assert_eq!(leader["annotations"][names::ORIGIN_VERSION], "1.4.0");
    assert!(template["cliques"][2]["spec"]["podSpec"]["containers"][0]["readinessProbe"].is_null());
    // No objects of components, and services named after the graph alone.
    let steps: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
    assert!(!steps.iter().any(|step| step.contains("DynamoComponentDeployment")), "{steps:?}");
    for service in ["g-frontend", "g-decode"] {
        let made = format!("create v1 Service ns/{service}");
        assert!(steps.contains(&made), "{made} in {steps:?}");
    }
    assert_eq!(ready(&plan)["reason"], "some_resources_are_not_ready");
}

#[test]
fn cliques_start_in_the_order_of_their_components() {
    let order = |text: &str| {
        let more = json!({"metadata": {"annotations": {names::START_ORDER: text}}});
        let plan = planned(&graph(more), &observed(Found::default()), Gates::default());
        created(&plan, POD_CLIQUE_SET)["spec"]["template"].clone()
    };
    let template = order("DECODE, frontend");
    assert_eq!(template["cliqueStartupType"], "CliqueStartupTypeExplicit");
    let after: Vec<&Value> =
        list(&template["cliques"]).iter().map(|one| &one["spec"]["startsAfter"]).collect();
    assert_eq!(after, [&json!(["decode-ldr", "decode-wkr"]), &Value::Null, &Value::Null]);
    let template = order("Frontend,decode");
    assert_eq!(template["cliques"][2]["spec"]["startsAfter"], json!(["frontend"]));
}

fn child(name: &str, replicas: i64, status: Value) -> (String, Arc<Object>) {
    let object = json!({"metadata": {"namespace": "ns", "name": name, "uid": name, "generation": 1},
        "spec": {"replicas": replicas}, "status": status});
    (name.to_owned(), Arc::new(Object::new(object)))
}

/// What Grove has when it has made a set.
fn found(object: &Object, frontend: Value, decode: Value) -> Found {
    let plan = planned(object, &observed(Found::default()), Gates::default());
    let mut set = created(&plan, POD_CLIQUE_SET);
    set["metadata"]["generation"] = json!(1);
    let services = plan.steps.iter().filter_map(|step| match step {
        Step::Create { kind, object } if *kind == SERVICE => {
            let name = text(&object["metadata"]["name"]).to_owned();
            Some((name, Arc::new(Object::new(object.clone()))))
        }
        _ => None,
    });
    Found {
        services: services.collect(),
        set: Some(Arc::new(Object::new(set))),
        cliques: BTreeMap::from([child("g-0-frontend", 1, frontend)]),
        groups: BTreeMap::from([child("g-0-decode", 2, decode)]),
        ..Found::default()
    }
}

#[test]
fn what_grove_says_is_what_the_graph_says() {
    let object = graph(json!({}));
    let one = json!({"observedGeneration": 1, "replicas": 1, "readyReplicas": 1,
        "updatedReplicas": 1, "scheduledReplicas": 1});
    let group = |available: i64, updated: i64, scheduled: i64| {
        json!({"observedGeneration": 1, "replicas": 2, "availableReplicas": available,
            "updatedReplicas": updated, "scheduledReplicas": scheduled})
    };
    let cases = [
        (one.clone(), group(2, 2, 2), "all_resources_are_ready"),
        (one.clone(), group(1, 2, 2), "pods_not_ready"),
        (one.clone(), group(1, 1, 2), "updating"),
        (one.clone(), group(0, 2, 1), "insufficient_capacity"),
        (one.clone(), json!({}), "some_resources_are_not_ready"),
        (json!({}), group(1, 1, 2), "mixed_not_ready_reasons"),
    ];
    for (frontend, decode, reason) in cases {
        let found = found(&object, frontend, decode.clone());
        let plan = planned(&object, &observed(found), Gates::default());
        assert_eq!(ready(&plan)["reason"], reason, "{decode}");
    }
    let found = found(&object, one, group(2, 2, 2));
    let plan = planned(&object, &observed(found), Gates::default());
    let status = plan.status.expect("a status");
    let decode = &status["components"]["decode"];
    assert_eq!(decode["componentKind"], "PodCliqueScalingGroup");
    assert_eq!(decode["componentNames"], json!(["g-0-decode"]));
    assert_eq!(
        (&decode["availableReplicas"], &decode["scheduledReplicas"]),
        (&json!(2), &json!(2))
    );
}

#[test]
fn cliques_of_before_are_not_taken_for_those_of_a_set_that_changed() {
    let object = graph(json!({}));
    let one = json!({"observedGeneration": 1, "replicas": 1, "readyReplicas": 1,
        "updatedReplicas": 1, "scheduledReplicas": 1});
    let two = json!({"observedGeneration": 1, "replicas": 2, "availableReplicas": 2,
        "updatedReplicas": 2, "scheduledReplicas": 2});
    let reason = |seen: Value| {
        let mut found = found(&object, one.clone(), two.clone());
        let mut set = found.set.as_ref().expect("a set").value.clone();
        set["metadata"]["generation"] = json!(2);
        set["metadata"]["annotations"][crate::sync_resource::GENERATION] = json!("2");
        set["status"] = json!({"observedGeneration": seen});
        found.set = Some(Arc::new(Object::new(set)));
        ready(&planned(&object, &observed(found), Gates::default()))["reason"].clone()
    };
    assert_eq!(reason(json!(1)), "some_resources_are_not_ready");
    assert_eq!(reason(json!(2)), "all_resources_are_ready");
    assert_eq!(reason(Value::Null), "all_resources_are_ready");
}

#[test]
fn replicas_are_changed_where_grove_keeps_them() {
    let object = graph(json!({}));
    let kept = found(&object, json!({}), json!({}));
    let mut more = object.value.clone();
    more["spec"]["components"][1]["replicas"] = json!(5);
    let more = Object::new(more);
    let plan = planned(&more, &observed(kept), Gates::default());
    let steps: Vec<String> =
        plan.steps.iter().map(ToString::to_string).filter(|step| step.contains("Clique")).collect();
    let expected = "patch grove.io/v1alpha1 PodCliqueScalingGroup ns/g-0-decode/scale \
                    {\"spec\":{\"replicas\":5}}";
    assert_eq!(steps, [expected]);
}

#[test]
fn queues_schedulers_and_topologies_are_as_the_graph_says() {
    let object = graph(json!({"spec": {"priorityClassName": "high",
        "topologyConstraint": {"clusterTopologyName": "t", "packDomain": "rack"}}}));
    let kai = Gates { kai_scheduler: true, ..Gates::default() };
    let plan = planned(&object, &observed(Found::default()), kai);
    assert!(text(&ready(&plan)["message"]).contains("queue \"dynamo\""), "{plan}");
    let there = Found { has_queue: true, ..Found::default() };
    let plan = planned(&object, &observed(there), kai);
    let set = created(&plan, POD_CLIQUE_SET);
    let template = &set["spec"]["template"];
    assert_eq!(template["priorityClassName"], "high");
    assert_eq!(template["topologyConstraint"], json!({"topologyName": "t", "packDomain": "rack"}));
    let first = &template["cliques"][0];
    assert_eq!(first["spec"]["podSpec"]["schedulerName"], "kai-scheduler");
    assert_eq!(first["labels"]["kai.scheduler/queue"], "dynamo");
    let status = plan.status.expect("a status");
    let condition = conditions::find(&status, TOPOLOGY).expect("a condition");
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("Unknown"), &json!("TopologyConditionPending"))
    );
    let both = Gates { volcano_scheduler: true, ..kai };
    let plan = planned(&object, &observed(Found::default()), both);
    assert!(text(&ready(&plan)["message"]).contains("cannot both schedule"));
}

/// A worker of two pods whose weights are held by pods of their own, with one that stands by.
fn between() -> Object {
    let worker = json!({"name": "decode", "type": "decode", "replicas": 2,
        "multinode": {"nodeCount": 2},
        "experimental": {"gpuMemoryService": {"mode": "InterPod"},
            "failover": {"mode": "InterPod", "numShadows": 1}},
        "podTemplate": {"spec": {"containers": [{"name": "main", "image": "w:1.4.0",
            "command": ["python3"],
            "args": ["-m", "dynamo.vllm", "--tensor-parallel-size", "16"],
            "resources": {"limits": {"nvidia.com/gpu": "8"}}}]}}});
    graph(json!({"spec": {"components": [worker]}}))
}

#[test]
fn weights_between_pods_are_held_by_a_clique_for_each_rank() {
    let gates = Gates { resource_claims: true, ..Gates::default() };
    let plan = planned(&between(), &observed(Found::default()), gates);
    let set = created(&plan, POD_CLIQUE_SET);
    let template = &set["spec"]["template"];
    let cliques = list(&template["cliques"]);
    let shape: Vec<String> = cliques
        .iter()
        .map(|one| format!("{} {}", text(&one["name"]), one["spec"]["replicas"]))
        .collect();
    let expected = ["decode-gms-0 1", "decode-ldr 2", "decode-gms-1 1", "decode-wkr-1 2"];
    assert_eq!(shape, expected);
    assert_eq!(template["cliqueStartupType"], "CliqueStartupTypeExplicit");
    assert_eq!(cliques[1]["spec"]["startsAfter"], json!(["decode-gms-0"]));
    assert_eq!(cliques[3]["spec"]["startsAfter"], json!(["decode-gms-1"]));
    let claims = list(&template["resourceClaimTemplates"]);
    assert_eq!(claims.len(), 2);
    assert_eq!(claims[1]["name"], "decode-gpu-rank-1");
    let request = &claims[1]["templateSpec"]["spec"]["devices"]["requests"][0]["exactly"];
    assert_eq!(
        request,
        &json!({"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 8})
    );
    let group = &template["podCliqueScalingGroups"][0];
    assert_eq!(group["cliqueNames"], json!(expected.map(|one| one.split(' ').next())));
    assert_eq!(
        group["resourceSharing"][1],
        json!({"name": "decode-gpu-rank-1", "scope": "PerReplica",
            "filter": {"childCliqueNames": ["decode-gms-1", "decode-wkr-1"]}})
    );
    let steps = plan.steps.iter().map(ToString::to_string);
    assert!(!steps.into_iter().any(|step| step.contains("ResourceClaimTemplate")), "{plan}");
}

#[test]
fn engines_of_one_rank_meet_in_a_directory_and_find_the_leader_of_their_number() {
    let gates = Gates { resource_claims: true, ..Gates::default() };
    let plan = planned(&between(), &observed(Found::default()), gates);
    let set = created(&plan, POD_CLIQUE_SET);
    let cliques = list(&set["spec"]["template"]["cliques"]);
    let (server, worker) = (&cliques[2], &cliques[3]);
    let pod = &worker["spec"]["podSpec"];
    let main = &pod["containers"][0];
    assert!(main["resources"]["limits"].get("nvidia.com/gpu").is_none());
    let words: Vec<&str> = list(&main["args"]).iter().map(text).collect();
    let line = words.join(" ");
    assert!(line.contains("--load-format gms"), "{line}");
    let leader = "$(GROVE_PCSG_NAME)-$(GROVE_PCSG_INDEX)-decode-ldr-$(GROVE_PCLQ_POD_INDEX).\
                  $(GROVE_HEADLESS_SERVICE)";
    let flags = format!("--master-addr {leader} --master-port 29500 --node-rank 1 --headless");
    assert!(line.ends_with(&flags), "{line}");
    assert_eq!(main["command"], json!(["python3"]));
    let variable =
        |name: &str| crate::value::find(&main["env"], "name", name).map(|one| one["value"].clone());
    assert_eq!(variable("DYN_VLLM_GMS_SHADOW_MODE"), Some(json!("true")));
    assert_eq!(variable("GMS_SOCKET_DIR"), Some(json!("/run/gms/shared")));
    let mount = crate::value::find(&main["volumeMounts"], "name", "gms-shared").expect("a mount");
    assert!(text(&mount["subPathExpr"]).ends_with("/rank-1"), "{mount}");
    assert_eq!(pod["restartPolicy"], "Never");
    let member = crate::memory_service::cascade::MEMBER;
    assert_eq!(worker["labels"][member], "true");
    // The one that holds the weights is found by nobody, and goes on.
    assert!(server["labels"][member].is_null() && server["labels"][names::SELECTOR].is_null());
    let holder = &server["spec"]["podSpec"];
    assert_eq!(holder["restartPolicy"], "Always");
    assert_eq!(holder["containers"][0]["args"], json!(["-m", "gpu_memory_service.cli.server"]));
    assert!(text(&holder["containers"][0]["startupProbe"]["exec"]["command"][2]).contains("-ge 8"));
}
