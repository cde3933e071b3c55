//! Graphs on a cluster that knows more: Grove, pools with pickers, a mesh, claims, snapshots. What
//! those programs do is played; what they are asked for is what counts.

use std::sync::Arc;

use inference::kinds::{
    ADAPTER, CHECKPOINT, COMPONENT, CONFIG_MAP, DEPLOYMENT, DESTINATION_RULE, GRAPH,
    INFERENCE_POOL, JOB, POD, POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_CLIQUE_SET, POD_SNAPSHOT,
    RESOURCE_CLAIM_TEMPLATE, SERVICE, VIRTUAL_SERVICE,
};
use inference::settings::{Gates, Settings};
use inference::value::{find, list, text};
use inference::{
    Enabled, NAMESPACE, Options, WEBHOOK_SERVICE, admission, checkpoint, conversion,
    definition_migrator, manifests, names,
};
use reconcile::leader::Term;
use reconcile::plan::Target;
use reconcile::{Context, Kind, Object, owners};
use serde_json::{Value, json};
use testkit::manifests::DEFINITION;

use crate::graphs;
use crate::world::World;

/// Everything that can be there is.
fn settings() -> Settings {
    let gates = Gates {
        grove: true,
        resource_claims: true,
        istio: true,
        inference_pools: true,
        checkpoints: true,
        ..Gates::default()
    };
    let mut settings = Settings { gates, ..Settings::default() };
    settings.ingress.gateway = "mesh/gateway".to_owned();
    settings
}

/// The definition of a kind that somebody else brings.
pub fn definition(kind: Kind) -> Value {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let scale = json!({"specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas"});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", kind.plural, kind.group),
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
        "spec": {"group": kind.group, "scope": "Namespaced",
            "names": {"kind": kind.kind, "plural": kind.plural,
                "singular": kind.kind.to_lowercase(), "listKind": format!("{}List", kind.kind)},
            "versions": [{"name": kind.version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": anything},
                "subresources": {"status": {}, "scale": scale}}]}})
}

async fn start() -> World {
    let mut world = World::bare().await;
    world.cluster.answer((NAMESPACE, WEBHOOK_SERVICE), |context, path, review| {
        Box::pin(async move {
            match path.as_str() {
                conversion::PATH => {
                    Some(reconcile::conversion::answer(&review, conversion::convert))
                }
                admission::webhooks::RESTORE_POD => {
                    Some(checkpoint::restore::review(&settings(), &context, &review).await)
                }
                path => admission::review(&settings(), path, &review),
            }
        })
    });
    let others = [
        POD_CLIQUE_SET,
        POD_CLIQUE,
        POD_CLIQUE_SCALING_GROUP,
        INFERENCE_POOL,
        DESTINATION_RULE,
        VIRTUAL_SERVICE,
        POD_SNAPSHOT,
    ];
    let definitions = others.map(definition).into_iter();
    let all: Vec<Value> = definitions.chain(manifests::all(Enabled::default())).collect();
    world.install(&all).await;
    let enabled = Enabled { dynamo: true, leader_worker_set: false };
    // As the user that they are elsewhere, with the rights that they have there.
    let client = world.cluster.client(&settings().principal, &[]);
    let alone = tokio::sync::watch::channel(Term::Alone).1;
    let context = world.cluster.context_with(client, world.cluster.admin(), alone);
    let options = Options { enabled, settings: Arc::new(settings()) };
    let mut operators = inference::start(&context, &options);
    world.run(async move { while operators.join_next().await.is_some() {} });
    world.run(graphs::play(world.context.clone()));
    world.run(play_grove(world.context.clone()));
    world
}

/// Plays Grove: of every set the cliques and groups are made, and all that are asked for serve.
async fn play_grove(context: Context) {
    let caches =
        [POD_CLIQUE_SET, POD_CLIQUE, POD_CLIQUE_SCALING_GROUP].map(|kind| context.cache(kind));
    loop {
        let seen = caches.each_ref().map(|cache| cache.seen());
        let requests = context.requests("grove", Default::default());
        for set in caches[0].all() {
            for (kind, object) in made_of(&set) {
                // That it is there already is as good.
                let _ = requests.create(kind, &object).await;
            }
        }
        for (kind, cache) in [(POD_CLIQUE, &caches[1]), (POD_CLIQUE_SCALING_GROUP, &caches[2])] {
            for object in cache.all() {
                let count = object.value["spec"]["replicas"].clone();
                let status = json!({"observedGeneration": object.generation(), "replicas": count,
                    "readyReplicas": count, "updatedReplicas": count, "scheduledReplicas": count,
                    "availableReplicas": count});
                if object.value["status"] != status {
                    let target = Target::of(kind, &object).part("status");
                    let _ = requests.patch(&target, &json!({"status": status})).await;
                }
            }
        }
        let [sets, cliques, groups] = &caches;
        tokio::select! {
            () = sets.reaches(seen[0] + 1) => {}
            () = cliques.reaches(seen[1] + 1) => {}
            () = groups.reaches(seen[2] + 1) => {}
        }
    }
}

fn made_of(set: &Object) -> Vec<(Kind, Value)> {
    let template = &set.value["spec"]["template"];
    let groups = list(&template["podCliqueScalingGroups"]);
    let is_grouped = |clique: &Value| {
        groups.iter().any(|group| list(&group["cliqueNames"]).contains(&clique["name"]))
    };
    let child = |kind: Kind, one: &Value, replicas: &Value| {
        let name = format!("{}-0-{}", set.name.name, text(&one["name"]));
        let mut made = owners::child(kind, &name, POD_CLIQUE_SET, set);
        made["metadata"]["labels"] = one["labels"].clone();
        made["spec"] = json!({"replicas": replicas});
        (kind, made)
    };
    let alone = list(&template["cliques"]).iter().filter(|clique| !is_grouped(clique));
    let mut all: Vec<(Kind, Value)> =
        alone.map(|clique| child(POD_CLIQUE, clique, &clique["spec"]["replicas"])).collect();
    let grouped =
        groups.iter().map(|group| child(POD_CLIQUE_SCALING_GROUP, group, &group["replicas"]));
    all.extend(grouped);
    all
}

fn part(name: &str, kind: &str, more: Value) -> Value {
    let mut made = json!({"name": name, "type": kind, "podTemplate": {"spec":
        {"containers": [{"name": "main", "image": "i:1.0.0"}]}}});
    reconcile::plan::merge(&mut made, &more);
    made
}

fn is_successful(graph: &Value) -> bool {
    graph["status"]["state"] == "successful"
        && graph["status"]["observedGeneration"] == graph["metadata"]["generation"]
}

#[tokio::test]
async fn what_is_stored_in_an_older_version_is_written_again() {
    let mut world = World::bare().await;
    world.cluster.answer((NAMESPACE, WEBHOOK_SERVICE), |_, path, review| {
        Box::pin(async move {
            match path == conversion::PATH {
                true => Some(reconcile::conversion::answer(&review, conversion::convert)),
                false => admission::review(&Settings::default(), &path, &review),
            }
        })
    });
    let all = manifests::all(Enabled { dynamo: true, leader_worker_set: false });
    // Definitions say which operator brought them.
    let is_theirs = |one: &&Value| one["kind"] == DEFINITION.kind;
    for one in all.iter().filter(is_theirs) {
        let version = &one["metadata"]["annotations"][names::OPERATOR_VERSION];
        assert_eq!(*version, Settings::default().version, "{}", one["metadata"]["name"]);
    }
    world.install(&all).await;
    let before =
        world.create(GRAPH, graphs::graph("g", json!([part("w", "worker", json!({}))]))).await;
    let name = "dynamographdeployments.nvidia.com";
    let definition = world.get(DEFINITION, name).await.expect("a definition");
    let requests = world.context.requests("test", Default::default());
    let both = json!({"status": {"storedVersions": ["v1alpha1", "v1beta1"]}});
    let target = Target::of(DEFINITION, &definition).part("status");
    requests.patch(&target, &both).await.expect("changed");
    let client = world.cluster.client(&settings().principal, &[]);
    let alone = tokio::sync::watch::channel(Term::Alone).1;
    let context = world.cluster.context_with(client, world.cluster.admin(), alone);
    world.run(definition_migrator::run(context));
    let is_pruned = |one: &Value| {
        one["status"]["storedVersions"] == json!(["v1beta1"])
            && !one["metadata"]["annotations"][definition_migrator::OBSERVED].is_null()
    };
    world.until(DEFINITION, name, is_pruned).await;
    let after = world.get(GRAPH, "g").await.expect("it is there");
    assert_eq!(after.value["spec"], before.value["spec"]);
}

/// A change that is not taken, and why.
async fn assert_refused(world: &World, (kind, object): (Kind, &Object), patch: &Value, why: &str) {
    let requests = world.context.requests("test", Default::default());
    let refused = requests.patch(&Target::of(kind, object), patch).await.expect_err(why);
    assert!(refused.code() == Some(422) && refused.said().contains(why), "{}", refused.said());
}

/// A graph whose components are objects of their own, though Grove is there.
fn without_grove(name: &str, components: Value) -> Value {
    let mut graph = graphs::graph(name, components);
    graph["metadata"]["annotations"] = json!({names::ENABLE_GROVE: "false"});
    graph
}

#[tokio::test]
async fn a_graph_is_started_and_scaled_by_grove() {
    let world = start().await;
    let decode = part(
        "decode",
        "decode",
        json!({"replicas": 2, "scalingAdapter": {},
        "multinode": {"nodeCount": 2}, "modelRef": {"name": "tiny"}}),
    );
    let components = json!([part("Frontend", "frontend", json!({})), decode]);
    let made = world.create(GRAPH, graphs::graph("g", components)).await;
    assert_eq!(made.annotation(names::PROVIDER), Some("grove"));
    assert_eq!(made.value["spec"]["components"][0]["minAvailable"], 1);
    let graph = world.until(GRAPH, "g", is_successful).await;
    let mut fewer = graph.value["spec"]["components"].clone();
    fewer[1]["minAvailable"] = json!(2);
    let fewer = json!({"spec": {"components": fewer}});
    assert_refused(&world, (GRAPH, &graph), &fewer, "minAvailable is immutable after creation")
        .await;
    let set = world.get(POD_CLIQUE_SET, "g").await.expect("a set");
    assert_eq!(set.controller(), Some(graph.uid.as_str()));
    assert!(set.annotation("nvidia.com/last-applied-hash").is_some());
    assert_eq!(list(&set.value["spec"]["template"]["cliques"]).len(), 3);
    let status = &graph.value["status"]["components"];
    assert_eq!(status["Frontend"]["componentKind"], "PodClique");
    assert_eq!(status["decode"]["componentNames"], json!(["g-0-decode"]));
    for name in ["g-frontend", "g-decode", "dynamo-model-8950abfd"] {
        assert!(world.get(SERVICE, name).await.is_some(), "{name}");
    }
    assert!(world.context.cache(COMPONENT).all().is_empty());
    // The gateway of the mesh leads to the frontend.
    let route = world.get(VIRTUAL_SERVICE, "g-frontend").await.expect("a route");
    assert_eq!(route.value["spec"]["hosts"], json!(["g.local"]));
    // The number of replicas goes through the scale of what Grove made; the set keeps its own.
    world.patch(ADAPTER, "g-decode", json!({"spec": {"replicas": 4}})).await;
    world.until(POD_CLIQUE_SCALING_GROUP, "g-0-decode", |one| one["spec"]["replicas"] == 4).await;
    world
        .until(GRAPH, "g", |graph| {
            is_successful(graph)
                && graph["status"]["components"]["decode"]["availableReplicas"] == 4
        })
        .await;
    let set = world.get(POD_CLIQUE_SET, "g").await.expect("a set");
    assert_eq!(set.value["spec"]["template"]["podCliqueScalingGroups"][0]["replicas"], 2);
    world.delete(GRAPH, "g").await;
    world.until_gone(POD_CLIQUE_SET, "g").await;
}

#[tokio::test]
async fn a_picker_gets_its_pool_its_configuration_and_its_rule() {
    let world = start().await;
    let picker = part("Epp", "epp", json!({"eppConfig": {"config": {"plugins": [{"type": "x"}]}}}));
    let worker = part("w", "worker", json!({}));
    world.create(GRAPH, without_grove("p", json!([picker, worker]))).await;
    world.until(GRAPH, "p", is_successful).await;
    let pool = world.get(INFERENCE_POOL, "p-pool").await.expect("a pool");
    let spec = &pool.value["spec"];
    assert_eq!(
        spec["selector"]["matchLabels"],
        json!({
        "nvidia.com/dynamo-component-class": "worker", "nvidia.com/dynamo-namespace": "default-p"})
    );
    assert_eq!(
        spec["endpointPickerRef"],
        json!({"kind": "Service", "name": "p-epp", "port": {"number": 9002}})
    );
    let config = world.get(CONFIG_MAP, "p-epp-config").await.expect("a configuration");
    let text = text(&config.value["data"]["epp-config-dynamo.yaml"]).to_owned();
    assert!(text.contains("kind: EndpointPickerConfig") && text.contains("type: x"), "{text}");
    let rule = world.get(DESTINATION_RULE, "p-epp").await.expect("a rule");
    assert_eq!(rule.value["spec"]["host"], "p-epp.default.svc.cluster.local");
    assert_eq!(
        rule.value["spec"]["trafficPolicy"]["tls"],
        json!({"mode": "SIMPLE", "insecureSkipVerify": true})
    );
    let deployment = world.get(DEPLOYMENT, "p-epp").await.expect("a deployment");
    let pod = &deployment.value["spec"]["template"]["spec"];
    assert_eq!(pod["serviceAccountName"], "epp-serviceaccount");
    assert_eq!(pod["containers"][0]["readinessProbe"]["grpc"]["port"], 9003);
    let service = world.get(SERVICE, "p-epp").await.expect("a service");
    assert_eq!(service.value["spec"]["ports"][0]["appProtocol"], "http2");
}

#[tokio::test]
async fn weights_are_held_on_gpus_that_are_claimed() {
    let world = start().await;
    let worker = part(
        "w",
        "worker",
        json!({"experimental": {"gpuMemoryService": {}}, "podTemplate":
        {"spec": {"containers": [{"name": "main", "image": "i:1.0.0", "resources":
            {"limits": {"nvidia.com/gpu": "2"}}}]}}}),
    );
    world.create(GRAPH, without_grove("h", json!([worker]))).await;
    let template = world.until(RESOURCE_CLAIM_TEMPLATE, "h-w-gpu", |_| true).await;
    let request = &template.value["spec"]["spec"]["devices"]["requests"][0]["exactly"];
    assert_eq!(
        (&request["deviceClassName"], &request["count"]),
        (&json!("gpu.nvidia.com"), &json!(2))
    );
    let graph = world.until(GRAPH, "h", is_successful).await;
    let hash = graph.annotation(names::CURRENT_HASH).expect("a hash").to_owned();
    let deployment = world.get(DEPLOYMENT, &format!("h-w-{hash}")).await.expect("a deployment");
    let pod = &deployment.value["spec"]["template"]["spec"];
    assert_eq!(pod["resourceClaims"][0]["resourceClaimTemplateName"], "h-w-gpu");
    assert!(find(&pod["initContainers"], "name", "gms-server").is_some());
}

#[tokio::test]
async fn a_component_waits_for_its_checkpoint_and_starts_from_it() {
    let world = start().await;
    let worker = part(
        "w",
        "worker",
        json!({"modelRef": {"name": "tiny"}, "replicas": 1,
        "experimental": {"checkpoint": {"enabled": true, "startupPolicy": "WaitForCheckpoint"}}}),
    );
    let mut graph = without_grove("c", json!([worker]));
    graph["spec"]["backendFramework"] = json!("vllm");
    world.create(GRAPH, graph).await;
    let waits = |graph: &Value| {
        reconcile::conditions::find(&graph["status"], "Ready")
            .is_some_and(|one| one["reason"] == "waiting_for_checkpoint")
    };
    let graph = world.until(GRAPH, "c", waits).await;
    let name = text(&graph.value["status"]["checkpoints"]["w"]["checkpointName"]).to_owned();
    let creating = |one: &Value| one["status"]["phase"] == "Creating";
    let checkpoint = world.until(CHECKPOINT, &name, creating).await;
    let other = json!({"spec": {"identity": {"model": "other"}}});
    let why = "spec.identity is immutable after creation";
    assert_refused(&world, (CHECKPOINT, &checkpoint), &other, why).await;
    let job = world.get(JOB, text(&checkpoint.value["status"]["jobName"])).await.expect("a job");
    // The pod of the Job, which somebody is asked to freeze.
    let mut pod = owners::child(POD, "source", JOB, &job);
    pod["metadata"]["labels"] = job.value["spec"]["template"]["metadata"]["labels"].clone();
    pod["spec"] = json!({"containers": [{"name": "main", "image": "i"}]});
    let pod = world.create(POD, pod).await;
    let snapshot = world.until(POD_SNAPSHOT, &name, |_| true).await;
    let expected = json!({"name": "source", "uid": pod.uid, "containers": ["main"]});
    assert_eq!(snapshot.value["spec"]["source"]["podRef"], expected);
    let requests = world.context.requests("test", Default::default());
    let done = json!({"status": {"boundPodSnapshotContentName": "x", "conditions":
        [{"type": "Ready", "status": "True", "reason": "Done", "message": "frozen",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    let target = Target::of(POD_SNAPSHOT, &snapshot).part("status");
    requests.patch(&target, &done).await.expect("changed");
    let ready = world.until(CHECKPOINT, &name, |one| one["status"]["phase"] == "Ready").await;
    let graph = world.until(GRAPH, "c", is_successful).await;
    assert_eq!(graph.value["status"]["checkpoints"]["w"]["ready"], true);
    let pods = world.context.cache(POD).all();
    let worker = pods.iter().find(|pod| pod.label(names::RESTORE_CANDIDATE).is_some());
    let worker = worker.expect("a worker");
    assert_eq!(worker.label(checkpoint::ID), ready.value["status"]["checkpointID"].as_str());
    assert_eq!(worker.annotation(checkpoint::TARGETS), Some("main"));
    // What was made for the graph goes with it.
    world.delete(GRAPH, "c").await;
    world.until_gone(CHECKPOINT, &name).await;
}
