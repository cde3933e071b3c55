//! The operators under their own roles, as on a cluster of others: they must suffice, and they must
//! not say more than what the operators ask for, or give to others.

use std::collections::BTreeSet;
use std::sync::Arc;

use inference::kinds::{
    ADAPTER, COMPONENT, CONFIG_MAP, DEPLOYMENT, ENDPOINT_SLICE, GRAPH, INGRESS, JOB,
    LEADER_WORKER_SET, MODEL, POD, REQUEST, ROLE_BINDING, SERVICE,
};
use inference::leader_worker_set;
use inference::{Enabled, NAMESPACE, Options, SERVICE_ACCOUNT, manifests};
use reconcile::{Kind, Object, run};
use serde_json::{Value, json};
use testkit::cluster::until;
use testkit::rights::{Right, granted};
use testkit::{Cluster, nodes};

use crate::graphs::{self, graph};
use crate::models::{base, slice};
use crate::requests::{completed, output, request, set_status};
use crate::world::{World, image, set};

/// What is needed though no request here shows it.
const UNSEEN: &[(&str, &str, &str)] = &[
    // A server that enforces who may make owners wait looks at it when children are made.
    ("nvidia.com", "dynamocomponentdeployments/finalizers", "update"),
    ("nvidia.com", "dynamographdeploymentrequests/finalizers", "update"),
    ("nvidia.com", "dynamographdeployments/finalizers", "update"),
    ("leaderworkerset.x-k8s.io", "leaderworkersets/finalizers", "update"),
    ("", "pods/finalizers", "update"),
    // What is wanted of these changes with this program, and with nothing else.
    ("", "serviceaccounts", "update"),
    ("", "services", "update"),
    ("rbac.authorization.k8s.io", "roles", "update"),
    // Who has a namespace to himself says so: `app/tests/program/dynamo_operator.rs`.
    ("coordination.k8s.io", "leases", "list"),
    ("coordination.k8s.io", "leases", "watch"),
    // Servers that a graph does not ask for any more go.
    ("apps", "deployments", "delete"),
    // Shown where checkpoints are made: `optional.rs`.
    ("nvidia.com", "podsnapshots", "create"),
    ("nvidia.com", "podsnapshots", "list"),
    ("nvidia.com", "podsnapshots", "watch"),
    // What a checkpoint has left is removed where it is kept in a claim.
    ("batch", "jobs", "get"),
    ("batch", "jobs", "delete"),
    // Shown where objects are stored in another version: `optional.rs`.
    ("apiextensions.k8s.io", "customresourcedefinitions", "patch"),
    ("apiextensions.k8s.io", "customresourcedefinitions/status", "patch"),
    ("nvidia.com", "dynamographdeploymentscalingadapters", "update"),
    ("nvidia.com", "dynamographdeploymentrequests", "update"),
    // LeaderWorkerSets with a topology of their own look at where their leaders are.
    ("", "nodes", "get"),
];

/// Shown where checkpoints are made.
const CHECKPOINTS: &str = "dynamocheckpoints";

/// Groups that this cluster does not know: nobody can ask for what is in them.
const UNKNOWN: &[&str] = &[
    "grove.io",
    "inference.networking.k8s.io",
    "inference.networking.x-k8s.io",
    "networking.istio.io",
    "resource.k8s.io",
    "scheduling.run.ai",
    "scheduling.volcano.sh",
];

const OLD_GRAPH: Kind =
    Kind::namespaced("nvidia.com", "v1alpha1", "DynamoGraphDeployment", "dynamographdeployments");
const NODE: Kind = nodes::NODE;

fn right((group, resource, verb): &(&str, &str, &str)) -> Right {
    let [group, resource, verb] = [group, resource, verb].map(|text| (*text).to_owned());
    Right { group, resource, verb }
}

/// Everything that makes an operator of graphs ask for something.
async fn use_graphs(world: &World) {
    let services = json!({
        "Front": {"componentType": "frontend", "ingress": {"enabled": true, "host": "h",
            "ingressControllerClassName": "c"}, "extraPodSpec": {"mainContainer":
            {"image": "f:1.0.0"}}},
        "w": {"componentType": "worker", "replicas": 1, "modelRef": {"name": "tiny"},
            "scalingAdapter": {"enabled": true},
            "extraPodSpec": {"mainContainer": {"image": "w:1.0.0"}}},
    });
    let older = json!({"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment",
        "metadata": {"namespace": "default", "name": "old"}, "spec": {"services": services,
            "pvcs": [{"name": "models", "create": true, "size": "1Gi", "storageClass": "s",
                "volumeAccessMode": "ReadWriteOnce"}]}});
    world.create(OLD_GRAPH, older).await;
    world.until(GRAPH, "old", graphs::is_successful).await;
    world.until(INGRESS, "old-front", |_| true).await;
    world.patch(ADAPTER, "old-w", json!({"spec": {"replicas": 2}})).await;
    world.until(GRAPH, "old", |one| one["spec"]["components"][1]["replicas"] == 2).await;
    world.until(GRAPH, "old", graphs::is_successful).await;
    // Others change what the operators made.
    let binding = world.get(ROLE_BINDING, "planner-serviceaccount-binding").await;
    let mut other = binding.expect("a binding").value.clone();
    let name = "planner-serviceaccount-binding";
    let taken = world.patch(ROLE_BINDING, name, json!({"subjects": []})).await;
    let is_back = |one: &Value| {
        one["subjects"] != json!([]) && Object::new(one.clone()).revision > taken.revision
    };
    let reference = json!({"spec": {"dgdRef": {"componentName": "Front"}}});
    world.patch(ADAPTER, "old-w", reference).await;
    world.until(ADAPTER, "old-w", |one| one["spec"]["dgdRef"]["componentName"] == "w").await;
    world.until(ROLE_BINDING, name, is_back).await;
    world.delete(ROLE_BINDING, name).await;
    other["roleRef"]["name"] = json!("view");
    other["metadata"] = json!({"namespace": "default", "name": other["metadata"]["name"]});
    let _ = world.try_create(ROLE_BINDING, other).await;
    // Ingress, services and the adapter go when nobody asks for them; workers are replaced.
    let alpha = world.get(OLD_GRAPH, "old").await.expect("it is there");
    let mut services = alpha.value["spec"]["services"].clone();
    services["Front"]["ingress"]["host"] = json!("other");
    world.patch(OLD_GRAPH, "old", json!({"spec": {"services": services}})).await;
    let is_other = |one: &Value| one["spec"]["rules"][0]["host"] == "other.local";
    world.until(INGRESS, "old-front", is_other).await;
    services["Front"]["ingress"]["enabled"] = json!(false);
    services["w"]["scalingAdapter"] = Value::Null;
    services["w"]["extraPodSpec"]["mainContainer"]["image"] = json!("w:1.0.1");
    world.patch(OLD_GRAPH, "old", json!({"spec": {"services": services}})).await;
    world.until_gone(ADAPTER, "old-w").await;
    world.until_gone(INGRESS, "old-front").await;
    world
        .until(GRAPH, "old", |one| {
            graphs::is_successful(one) && one["status"]["rollingUpdate"]["phase"] == "Completed"
        })
        .await;
    let elsewhere =
        json!({"metadata": {"annotations": {"nvidia.com/dynamo-discovery-backend": "etcd"}}});
    world.patch(GRAPH, "old", elsewhere).await;
    let of_workers = |one: &Arc<Object>| one.name.name.starts_with("old-w-");
    until(&world.context, SERVICE, |all| !all.iter().any(of_workers)).await;
}

/// A component of its own, whose service goes when nobody looks for it there.
async fn use_component(world: &World) {
    let alone = json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoComponentDeployment",
        "metadata": {"namespace": "default", "name": "alone"}, "spec": {"name": "alone",
            "type": "worker", "podTemplate": {"spec": {"containers": [
                {"name": "main", "image": "w:1.0.0"}]}}}});
    world.create(COMPONENT, alone).await;
    world.until(DEPLOYMENT, "alone", |one| one["status"]["readyReplicas"] == 1).await;
    world.patch(DEPLOYMENT, "alone", json!({"spec": {"replicas": 5}})).await;
    world.until(DEPLOYMENT, "alone", |one| one["spec"]["replicas"] == 1).await;
    let etcd =
        json!({"metadata": {"annotations": {"nvidia.com/dynamo-discovery-backend": "etcd"}}});
    world.patch(COMPONENT, "alone", etcd).await;
    world.until_gone(SERVICE, "alone").await;
    world.delete(COMPONENT, "alone").await;
    world.until_gone(COMPONENT, "alone").await;
}

/// Components of many pods, and pods that are told where they are.
async fn use_groups(world: &World) {
    nodes::register(&world.context, "n").await;
    let zone = json!({"metadata": {"labels": {"zone": "a"}}});
    world.patch(NODE, "n", zone).await;
    let mut spread = json!({"name": "decode", "type": "decode", "replicas": 1,
        "multinode": {"nodeCount": 2}, "podTemplate": {"metadata":
            {"annotations": {"play/grace": "1"}}, "spec": {"containers": [{"name": "main",
            "image": "w:1.0.0", "command": ["python3"], "args": ["-m", "dynamo.vllm"],
            "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}});
    let mut made = graph("spread", json!([spread]));
    made["spec"]["experimental"]["kvTransferPolicy"] =
        json!({"domain": "zone", "labelKey": "zone"});
    world.create(GRAPH, made).await;
    world.until(GRAPH, "spread", graphs::is_successful).await;
    let is_told = |pod: &Value| {
        let labels = &pod["metadata"]["labels"];
        labels["nvidia.com/dynamo-graph-deployment-name"] == "spread" && labels["zone"] == "a"
    };
    until(&world.context, POD, |all| all.iter().any(|pod| is_told(&pod.value))).await;
    spread["podTemplate"]["spec"]["containers"][0]["image"] = json!("w:1.0.1");
    world.patch(GRAPH, "spread", json!({"spec": {"components": [spread]}})).await;
    world
        .until(LEADER_WORKER_SET, &set_of(world).await, |one| {
            one["metadata"]["generation"].as_i64() > Some(1)
        })
        .await;
    world.delete(GRAPH, "spread").await;
    world.until_gone(GRAPH, "spread").await;
    // A set of its own: a group begins again, an update walks over it.
    world.create(LEADER_WORKER_SET, set("s", 1, 2, json!({}))).await;
    world.until_available("s").await;
    let worker = world.get(POD, "s-0-1").await.expect("a worker");
    world.delete(POD, "s-0-1").await;
    world.until(POD, "s-0-1", |pod| pod["metadata"]["uid"] != *worker.uid).await;
    world.until_available("s").await;
    world.patch(LEADER_WORKER_SET, "s", image("two")).await;
    world.until(POD, "s-0", |pod| pod["spec"]["containers"][0]["image"] == "two").await;
    world.until_available("s").await;
}

async fn set_of(world: &World) -> String {
    let is_it = |one: &Arc<Object>| one.name.name.starts_with("spread-");
    until(&world.context, LEADER_WORKER_SET, |all| all.iter().any(is_it)).await;
    let found = world.context.cache(LEADER_WORKER_SET).all().into_iter().find(is_it);
    found.expect("a set").name.name.to_string()
}

async fn use_models_and_requests(world: &World) {
    world.create(ENDPOINT_SLICE, slice(&["127.77.8.1"])).await;
    world.create(MODEL, base("m")).await;
    let is_listed = |model: &Value| model["status"]["totalEndpoints"] == 1;
    world.until(MODEL, "m", is_listed).await;
    world.delete(MODEL, "m").await;
    world.until_gone(MODEL, "m").await;

    let mut asked = request("r");
    asked["spec"]["hardware"] = json!({"gpuSku": "l4", "vramMb": 24_000, "numGpusPerNode": 1});
    world.create(REQUEST, asked).await;
    world.until(JOB, "profile-r", |_| true).await;
    world.create(CONFIG_MAP, output("r")).await;
    set_status(&world.context, JOB, "profile-r", completed()).await;
    world.until(GRAPH, "r-dgd", |_| true).await;
    world.until(CONFIG_MAP, "curves", |map| map["metadata"]["ownerReferences"].is_array()).await;
    world.delete(REQUEST, "r").await;
    world.until_gone(REQUEST, "r").await;
    // One that says nothing of its hardware has nodes looked at, and one whose model is kept on a
    // claim that nobody has fails.
    let mut blind = request("blind");
    blind["spec"]["hardware"] = Value::Null;
    blind["spec"]["modelCache"] = json!({"pvcName": "nothing"});
    world.create(REQUEST, blind).await;
    world.until(REQUEST, "blind", |one| one["status"]["phase"] == "Failed").await;
}

#[tokio::test]
async fn the_roles_of_the_operators_say_exactly_what_they_ask_for() {
    let cluster = Cluster::start().await;
    let both = Enabled::default();
    graphs::install(&cluster, manifests::all(both)).await;
    let (client, asked) = cluster.noted_account(NAMESPACE, SERVICE_ACCOUNT);
    let operators = cluster.context_of(client);
    let mut running = inference::start(&operators, &Options::default());
    let mut world = World::of(cluster);
    world.run(async move { while running.join_next().await.is_some() {} });
    world.run(graphs::play(world.context.clone()));
    world.run(run::run(world.context.clone(), controllers::stateful_set::Controller));
    world.run(nodes::place(world.context.clone()));
    use_graphs(&world).await;
    use_component(&world).await;
    use_groups(&world).await;
    use_models_and_requests(&world).await;

    let known = |rights: BTreeSet<Right>| -> BTreeSet<Right> {
        let is_shown = |one: &Right| {
            let is_checkpoint = one.resource.starts_with(CHECKPOINTS);
            !UNKNOWN.contains(&one.group.as_str()) && !is_checkpoint
        };
        rights.into_iter().filter(is_shown).collect()
    };
    assert_eq!(known(asked.refused()), BTreeSet::new(), "the roles must suffice");
    let roles = manifests::roles(both);
    let is_given = |role: &&Value| role["metadata"]["name"] != SERVICE_ACCOUNT;
    // Nobody gives what he does not have: what others are bound to is held as well.
    let others: Vec<Value> = roles.iter().filter(is_given).cloned().collect();
    let mut needed = known(asked.rights());
    needed.extend(UNSEEN.iter().map(right));
    needed.extend(known(granted(&others)));
    needed.extend(granted(&[json!({"rules": inference::discovery_account::rules()})]));
    let sets = leader_worker_set::manifests::roles();
    let held = known(granted(&[roles, sets.to_vec()].concat()));
    let shown =
        |rights: Vec<&Right>| -> Vec<String> { rights.iter().map(ToString::to_string).collect() };
    assert_eq!(shown(held.difference(&needed).collect()), [""; 0], "granted and not used");
    assert_eq!(shown(needed.difference(&held).collect()), [""; 0], "used and not granted");
}
