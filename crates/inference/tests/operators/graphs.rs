//! Graphs in a cluster: the real server with their definitions, both versions, real Deployments.

use inference::kinds::{ADAPTER, COMPONENT, DEPLOYMENT, GRAPH, POD, SERVICE};
use inference::settings::Settings;
use inference::{
    Enabled, NAMESPACE, Options, WEBHOOK_SERVICE, admission, conversion, manifests, names,
};
use reconcile::leader::Term;
use reconcile::notices::EVENT;
use reconcile::{Context, Kind, Object, run};
use serde_json::{Value, json};
use testkit::cluster::until;
use testkit::{Cluster, pods};

use crate::world::World;

/// Graphs as clients of the older version see them.
const OLD_GRAPH: Kind =
    Kind::namespaced("nvidia.com", "v1alpha1", "DynamoGraphDeployment", "dynamographdeployments");

/// Installs everything of graphs, and answers for it.
pub async fn install(cluster: &Cluster, all: Vec<Value>) {
    cluster.answer((NAMESPACE, WEBHOOK_SERVICE), |_, path, review| {
        Box::pin(async move {
            match path == conversion::PATH {
                true => Some(reconcile::conversion::answer(&review, conversion::convert)),
                false => admission::review(&Settings::default(), &path, &review),
            }
        })
    });
    cluster.install_all(&[], &all).await;
}

/// What makes pods of Deployments, and collects what has lost its owner.
pub async fn play(context: Context) {
    tokio::join!(
        run::run(context.clone(), controllers::deployment::Controller::default()),
        run::run(context.clone(), controllers::replica_set::Controller),
        controllers::garbage_collector::run(context.clone()),
        pods::play(context),
    );
}

fn alone() -> tokio::sync::watch::Receiver<Term> {
    tokio::sync::watch::channel(Term::Alone).1
}

pub async fn start() -> World {
    start_with(Settings::default()).await
}

async fn start_with(settings: Settings) -> World {
    let mut world = World::bare().await;
    install(&world.cluster, manifests::all(Enabled::default())).await;
    let enabled = Enabled { dynamo: true, leader_worker_set: false };
    // As the user that they are elsewhere, with the rights that they have there.
    let client = world.cluster.client(&Settings::default().principal, &[]);
    let context = world.cluster.context_with(client, world.cluster.admin(), alone());
    let options = Options { enabled, settings: settings.into() };
    let mut operators = inference::start(&context, &options);
    world.run(async move { while operators.join_next().await.is_some() {} });
    world.run(play(world.context.clone()));
    world
}

#[tokio::test]
async fn a_graph_that_cannot_proceed_says_why_in_its_status_and_an_event() {
    let ssh_secret_namespace = "absent".to_owned();
    let world = start_with(Settings { ssh_secret_namespace, ..Settings::default() }).await;
    let mut many = worker("decode", 1, "w:1.0.0");
    many["multinode"] = json!({"nodeCount": 2});
    let mut waiting = graph("g", json!([many]));
    waiting["spec"]["backendFramework"] = json!("vllm");
    world.create(GRAPH, waiting).await;
    let why = "namespaces \"absent\" not found";
    let failed = world
        .until(GRAPH, "g", |graph| {
            let ready = reconcile::conditions::find(&graph["status"], "Ready");
            ready.is_some_and(|ready| ready["message"].as_str() == Some(why))
        })
        .await;
    assert_eq!(failed.value["status"]["state"], "failed");
    let is_warned = |event: &std::sync::Arc<Object>| {
        event.value["involvedObject"]["name"] == "g"
            && event.value["type"] == "Warning"
            && event.value["message"].as_str().is_some_and(|message| message.contains(why))
    };
    until(&world.context, EVENT, |events| events.iter().any(is_warned)).await;
}

pub fn worker(name: &str, replicas: i64, image: &str) -> Value {
    json!({"name": name, "type": "decode", "replicas": replicas, "podTemplate": {"spec":
        {"containers": [{"name": "main", "image": image}]}}})
}

pub fn graph(name: &str, components: Value) -> Value {
    json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"namespace": "default", "name": name}, "spec": {"components": components}})
}

pub fn is_successful(graph: &Value) -> bool {
    graph["status"]["state"] == "successful"
        && graph["status"]["observedGeneration"] == graph["metadata"]["generation"]
}

#[tokio::test]
async fn a_graph_is_made_scaled_and_replaced() {
    let world = start().await;
    let frontend = json!({"name": "Frontend", "type": "frontend", "podTemplate": {"spec":
        {"containers": [{"name": "main", "image": "f:1.0.0"}]}}});
    let mut scaled = worker("decode", 3, "w:1.0.0");
    scaled["scalingAdapter"] = json!({});
    let made = world.create(GRAPH, graph("g", json!([frontend, scaled]))).await;
    assert_eq!(made.value["spec"]["components"][0]["replicas"], 1);
    assert_eq!(made.annotation(names::PROVIDER), Some("component"));
    let ready = world.until(GRAPH, "g", is_successful).await;
    let old = ready.annotation(names::CURRENT_HASH).expect("a hash").to_owned();
    world.patch(ADAPTER, "g-decode", json!({"spec": {"replicas": 4}})).await;
    world
        .until(DEPLOYMENT, &format!("g-decode-{old}"), |one| one["status"]["readyReplicas"] == 4)
        .await;
    world.until(GRAPH, "g", is_successful).await;
    // A hand on what the operator made is taken back.
    let name = format!("g-decode-{old}");
    world.patch(DEPLOYMENT, &name, json!({"spec": {"replicas": 1}})).await;
    world.until(DEPLOYMENT, &name, |one| one["spec"]["replicas"] == 4).await;
    // Another image makes other workers; the old ones go.
    let found = world.get(GRAPH, "g").await.expect("it is there");
    let mut components = found.value["spec"]["components"].clone();
    components[1]["podTemplate"]["spec"]["containers"][0]["image"] = json!("w:1.0.1");
    world.patch(GRAPH, "g", json!({"spec": {"components": components}})).await;
    let updated = world
        .until(GRAPH, "g", |graph| {
            is_successful(graph) && graph["status"]["rollingUpdate"]["phase"] == "Completed"
        })
        .await;
    let new = updated.annotation(names::CURRENT_HASH).expect("a hash").to_owned();
    assert_ne!(old, new);
    world.until_gone(COMPONENT, &format!("g-decode-{old}")).await;
    world.until_gone(DEPLOYMENT, &format!("g-decode-{old}")).await;
    let events = world.reasons("g").await;
    for reason in ["RollingUpdateStarted", "RollingUpdateCompleted", "AdapterCreated"] {
        assert!(events.iter().any(|one| one == reason), "{reason} in {events:?}");
    }
    let told = world.reasons(&format!("g-decode-{new}")).await;
    assert!(told.iter().any(|one| one == "CreateDeployment"), "{told:?}");
    world.delete(GRAPH, "g").await;
    world.until_gone(GRAPH, "g").await;
    testkit::cluster::until(&world.context, POD, |pods| pods.is_empty()).await;
}

#[tokio::test]
async fn the_service_of_a_model_outlives_the_graph_that_made_it() {
    let world = start().await;
    let mut serving = worker("decode", 1, "w:1.0.0");
    serving["modelRef"] = json!({"name": "tiny"});
    for name in ["first", "second"] {
        world.create(GRAPH, graph(name, json!([serving]))).await;
        world.until(GRAPH, name, is_successful).await;
    }
    let service = names::model_service("tiny");
    let before = world.get(SERVICE, &service).await.expect("a service");
    world.delete(GRAPH, "first").await;
    world.until_gone(GRAPH, "first").await;
    let hash = world.get(GRAPH, "second").await.expect("it is there");
    let hash = hash.annotation(names::CURRENT_HASH).expect("a hash").to_owned();
    let second = world.get(COMPONENT, &format!("second-decode-{hash}")).await;
    let owner = second.expect("a component").uid.clone();
    let is_remade = |one: &Value| {
        one["metadata"]["uid"] != *before.uid
            && one["metadata"]["ownerReferences"][0]["uid"] == *owner
    };
    world.until(SERVICE, &service, is_remade).await;
}

#[tokio::test]
async fn namespaces_that_pass_are_left_alone() {
    let world = start().await;
    let requests = world.context.requests("test", Default::default());
    let namespace = Kind::cluster("", "v1", "Namespace", "namespaces");
    let passing = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "an-ephemeral-one"}});
    requests.create(namespace, &passing).await.expect("made");
    let mut ignored = graph("g", json!([worker("decode", 1, "w:1.0.0")]));
    ignored["metadata"]["namespace"] = json!("an-ephemeral-one");
    requests.create(GRAPH, &ignored).await.expect("made");
    world.create(GRAPH, graph("g", json!([worker("decode", 1, "w:1.0.0")]))).await;
    world.until(GRAPH, "g", is_successful).await;
    let name = reconcile::Name::new("an-ephemeral-one", "g");
    let found = world.context.get_live(GRAPH, &name).await.expect("readable").expect("there");
    assert_eq!(found.value["status"]["conditions"], Value::Null, "{}", found.value);
}

#[tokio::test]
async fn components_of_an_order_start_when_the_one_before_is_ready() {
    let world = start().await;
    let part = |name: &str, kind: &str| {
        json!({"name": name, "type": kind, "podTemplate": {
            "metadata": {"annotations": {"play/ready-after": "never"}},
            "spec": {"containers": [{"name": "main", "image": "i:1.0.0"}]}}})
    };
    let order = ["prefill", "decode", "Frontend"];
    let parts =
        [part("Frontend", "frontend"), part("decode", "decode"), part("prefill", "prefill")];
    let mut ordered = graph("o", json!(parts));
    ordered["metadata"]["annotations"] = json!({names::START_ORDER: order.join(", ")});
    world.create(GRAPH, ordered).await;
    for (number, name) in order.into_iter().enumerate() {
        // It runs, and those behind it wait and say so.
        let waiting = order.len() - number - 1;
        let waits = |graph: &Value| {
            let ready = reconcile::conditions::find(&graph["status"], "Ready");
            let message = ready.map_or("", |ready| ready["message"].as_str().unwrap_or_default());
            let count = message.matches("waits for the component before it to be ready").count();
            count == waiting && message.contains(&format!("o-{}", name.to_lowercase()))
        };
        world.until(GRAPH, "o", waits).await;
        let is_its = |pod: &reconcile::Object| pod.label(names::COMPONENT) == Some(name);
        testkit::cluster::until(&world.context, POD, |pods| pods.iter().any(|pod| is_its(pod)))
            .await;
        let pods = world.context.cache(POD).all();
        assert_eq!(pods.len(), number + 1, "{name}");
        let own = pods.iter().find(|pod| is_its(pod)).expect("its pod");
        let go = json!({"metadata": {"annotations": {"play/ready-after": "0"}}});
        world.patch(POD, &own.name.name, go).await;
    }
    world.until(GRAPH, "o", is_successful).await;
}

#[tokio::test]
async fn both_versions_are_served_and_the_older_keeps_what_only_it_can_say() {
    let world = start().await;
    let services = json!({
        "Front": {"componentType": "frontend", "ingress": {"enabled": true, "host": "h",
            "ingressControllerClassName": "c"}, "extraPodSpec": {"mainContainer":
            {"image": "f:1.0.0"}}, "envFromSecret": "token", "labels": {"team": "a"}},
        "w": {"componentType": "worker", "subComponentType": "decode", "replicas": 2,
            "extraPodSpec": {"mainContainer": {"image": "w:1.0.0"}}},
    });
    let older = json!({"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment",
        "metadata": {"namespace": "default", "name": "old"}, "spec": {"services": services,
            "pvcs": [{"name": "models", "create": true, "size": "1Gi", "storageClass": "s",
                "volumeAccessMode": "ReadWriteOnce"}]}});
    world.create(OLD_GRAPH, older.clone()).await;
    let newer = world.until(GRAPH, "old", is_successful).await;
    let names: Vec<&Value> = newer.value["spec"]["components"]
        .as_array()
        .expect("components")
        .iter()
        .map(|one| &one["name"])
        .collect();
    assert_eq!(names, ["Front", "w"]);
    assert!(newer.annotation("nvidia.com/dgd-spec").is_some());
    let back = world.get(OLD_GRAPH, "old").await.expect("it is there");
    let mut expected = older["spec"].clone();
    expected["services"]["Front"]["replicas"] = json!(1);
    assert_eq!(back.value["spec"], expected);
    assert_eq!(back.value["status"]["services"]["w"]["readyReplicas"], 2);
    let claim = inference::kinds::PERSISTENT_VOLUME_CLAIM;
    assert!(world.get(claim, "models").await.is_some());
    let ingress = world.get(inference::kinds::INGRESS, "old-front").await.expect("an ingress");
    assert_eq!(ingress.value["spec"]["rules"][0]["host"], "h.local");
    let front = world.get(DEPLOYMENT, "old-front").await.expect("a deployment");
    assert_eq!(front.value["spec"]["template"]["metadata"]["labels"]["team"], "a");
}

#[tokio::test]
async fn definitions_refuse_what_cannot_be() {
    let world = start().await;
    let one = |component: Value| graph("bad", json!([component]));
    let with = |more: Value| {
        let mut component = worker("w", 1, "w:1.0.0");
        reconcile::plan::merge(&mut component, &more);
        one(component)
    };
    let policy = |policy: Value| {
        let mut graph = one(worker("w", 1, "w:1.0.0"));
        graph["spec"]["experimental"]["kvTransferPolicy"] = policy;
        graph
    };
    let mut restarted = one(worker("w", 1, "w:1.0.0"));
    restarted["spec"]["restart"] = json!({"id": "1"});
    let cases = [
        (restarted, "spec.restart must be unset on create"),
        (
            graph("bad", json!([worker("W", 1, "w:1.0.0"), worker("w", 1, "w:1.0.0")])),
            "component names must be unique case-insensitively",
        ),
        (with(json!({"eppConfig": {"config": {}}})), "eppConfig may only be set when type is epp"),
        (
            with(json!({"type": "epp", "eppConfig": {}})),
            "exactly one of configMapRef or config must be specified",
        ),
        (
            with(json!({"minAvailable": 2})),
            "minAvailable must be less than or equal to replicas unless replicas is 0",
        ),
        (
            with(json!({"podTemplate": {"spec": {"containers": [{"name": "side"}]}}})),
            "sidecar containers must specify a non-empty image",
        ),
        (
            with(json!({"podTemplate": {"spec": {"initContainers": [{"name": "i"}]}}})),
            "init containers must specify a non-empty image",
        ),
        (
            with(json!({"podTemplate": {"metadata": {"annotations":
                {"nvidia.com/vllm-distributed-executor-backend": "x"}}}})),
            "podTemplate backend annotation must be mp or ray, case-insensitively",
        ),
        (policy(json!({"domain": "rack"})), "exactly one of labelKey or clusterTopologyName"),
        (
            policy(json!({"domain": "rack", "labelKey": "a", "enforcement": "preferred"})),
            "preferredWeight is required when enforcement is preferred",
        ),
        (
            policy(json!({"domain": "rack", "labelKey": "a", "preferredWeight": 0.5})),
            "preferredWeight may only be set when enforcement is preferred",
        ),
        (with(json!({"name": "-x"})), "name"),
        (with(json!({"type": "other"})), "type"),
        (with(json!({"runtimeVersionOverride": "1"})), "runtimeVersionOverride"),
    ];
    for (object, why) in cases {
        let error = world.try_create(GRAPH, object).await.expect_err(why);
        assert!(error.code() == Some(422) && error.said().contains(why), "{why}: {}", error.said());
    }
}

#[tokio::test]
async fn definitions_refuse_what_does_not_go_together() {
    let world = start().await;
    let with = |more: Value| {
        let mut component = worker("w", 1, "w:1.0.0");
        reconcile::plan::merge(&mut component, &more);
        graph("bad", json!([component]))
    };
    let picker = |name: &str| {
        let mut picker = worker(name, 1, "w:1.0.0");
        reconcile::plan::merge(&mut picker, &json!({"type": "epp", "eppConfig": {"config": {}}}));
        picker
    };
    let memory = |more: Value| with(json!({"experimental": {"gpuMemoryService": more}}));
    let mut keyed = with(json!({}));
    keyed["spec"]["experimental"]["kvTransferPolicy"] =
        json!({"domain": "rack", "labelKey": format!("{}/a", "p".repeat(254))});
    let older = |service: Value, claims: Value| {
        json!({"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment",
            "metadata": {"namespace": "default", "name": "bad"},
            "spec": {"services": {"w": service}, "pvcs": claims}})
    };
    let shared = json!({"componentType": "worker", "sharedMemory": {"disabled": false}});
    let claim = json!([{"name": "models", "create": true}]);
    let cases = [
        (
            GRAPH,
            graph("bad", json!([picker("a"), picker("b")])),
            "at most one component may have type epp",
        ),
        (GRAPH, keyed, "labelKey prefix must be 253 characters or less"),
        (
            GRAPH,
            memory(json!({"mode": "InterPod", "extraClientContainers": ["a"]})),
            "extraClientContainers is only supported with mode=IntraPod",
        ),
        (
            GRAPH,
            memory(json!({"extraClientPods": ["a"]})),
            "extraClientPods is only supported with mode=InterPod",
        ),
        (
            GRAPH,
            memory(json!({"mode": "InterPod", "extraClientPods": ["a"]})),
            "extraClientPods is reserved for inter-pod GMS and is not implemented yet",
        ),
        (
            GRAPH,
            with(json!({"experimental": {"checkpoint":
                {"enabled": true, "checkpointRef": "c", "job": {}}}})),
            "checkpoint.job cannot be set when checkpointRef is specified",
        ),
        (OLD_GRAPH, older(shared, json!([])), "size is required when disabled is false"),
        (
            OLD_GRAPH,
            older(json!({"componentType": "worker"}), claim),
            "size, storageClass and volumeAccessMode are required when create is true",
        ),
    ];
    for (kind, object, why) in cases {
        let error = world.try_create(kind, object).await.expect_err(why);
        assert!(error.code() == Some(422) && error.said().contains(why), "{why}: {}", error.said());
    }
}
