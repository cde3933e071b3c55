//! What users get wrong: it is refused, or said on the object and as an event, and nobody else has
//! to suffer for it.

use inference::kinds::{ADAPTER, COMPONENT, CONFIG_MAP, ENDPOINT_SLICE, GRAPH, MODEL, REQUEST};
use reconcile::conditions;
use serde_json::{Value, json};

use crate::graphs::{graph, is_successful, start, worker};
use crate::models::{adapter, slice};
use crate::requests::{output, request};
use crate::world::World;

fn reason<'a>(object: &'a Value, condition: &str) -> &'a str {
    let found = conditions::find(&object["status"], condition);
    found.and_then(|one| one["reason"].as_str()).unwrap_or_default()
}

/// Waits until there is a warning about an object.
async fn until_warned(world: &World, name: &str, reason: &str) {
    let is_it = |event: &Value| {
        event["involvedObject"]["name"] == name
            && event["reason"] == reason
            && event["type"] == "Warning"
    };
    testkit::cluster::until(&world.context, reconcile::notices::EVENT, |all| {
        all.iter().any(|event| is_it(&event.value))
    })
    .await;
}

/// A frontend beside what is wrong.
fn frontend() -> Value {
    json!({"name": "Front", "type": "frontend", "podTemplate": {"spec":
        {"containers": [{"name": "main", "image": "f:1.0.0"}]}}})
}

#[tokio::test]
async fn names_that_are_there_twice_and_engines_that_nobody_knows_are_refused() {
    let world = start().await;
    let twice = json!([worker("a", 1, "w:1.0.0"), worker("a", 1, "w:1.0.0")]);
    let mut unknown = graph("g", json!([worker("a", 1, "w:1.0.0")]));
    unknown["spec"]["backendFramework"] = json!("abacus");
    for (object, why) in [
        (graph("g", twice), "spec.components[1]"),
        (unknown, "spec.backendFramework: Unsupported value: \"abacus\""),
    ] {
        let error = world.try_create(GRAPH, object).await.expect_err(why);
        assert!(error.code() == Some(422) && error.said().contains(why), "{}", error.said());
    }
    // Two engines in one graph are known only when it is made.
    let engine = |name: &str, module: &str| {
        let mut worker = worker(name, 1, "w:1.0.0");
        let main = &mut worker["podTemplate"]["spec"]["containers"][0];
        main["command"] = json!(["python3", "-m", module]);
        worker
    };
    let mixed = json!([engine("a", "dynamo.vllm"), engine("b", "dynamo.sglang")]);
    let mended = json!([engine("a", "dynamo.vllm"), engine("b", "dynamo.vllm")]);
    world.create(GRAPH, graph("mixed", mixed)).await;
    let failed = world.until(GRAPH, "mixed", |one| one["status"]["state"] == "failed").await;
    let ready = conditions::find(&failed.value["status"], "Ready").expect("a condition");
    let message = ready["message"].as_str().unwrap_or_default();
    assert!(message.contains("multiple backend frameworks detected"), "{message}");
    until_warned(&world, "mixed", "ReconcileError").await;
    world.create(GRAPH, graph("good", json!([frontend()]))).await;
    world.until(GRAPH, "good", is_successful).await;
    // What failed goes on as soon as it is mended.
    world.patch(GRAPH, "mixed", json!({"spec": {"components": mended}})).await;
    world.until(GRAPH, "mixed", is_successful).await;
}

#[tokio::test]
async fn a_topology_that_cannot_be_is_said_and_the_other_components_serve() {
    let world = start().await;
    let mut spread = worker("spread", 1, "w:1.0.0");
    spread["multinode"] = json!({"nodeCount": 1});
    let error = world.try_create(GRAPH, graph("g", json!([spread]))).await.expect_err("too few");
    assert!(error.code() == Some(422), "{}", error.said());
    // Many pods, and nothing that they run: only the component knows.
    spread["multinode"] = json!({"nodeCount": 2});
    world.create(GRAPH, graph("g", json!([frontend(), spread]))).await;
    let is_spread =
        |one: &Value| one["spec"]["name"] == "spread" && !reason(one, "Available").is_empty();
    testkit::cluster::until(&world.context, COMPONENT, |all| {
        all.iter().any(|one| is_spread(&one.value))
    })
    .await;
    let all = world.context.cache(COMPONENT).all();
    let found = all.iter().find(|one| is_spread(&one.value)).expect("it was there");
    let message = conditions::find(&found.value["status"], "Available").expect("one");
    let text = message["message"].as_str().unwrap_or_default();
    assert!(text.contains("container Args cannot be empty for LWS pod"), "{message}");
    until_warned(&world, &found.name.name, "ReconcileError").await;
    world.until(COMPONENT, "g-front", |one| conditions::is_true(&one["status"], "Available")).await;
    let graph = world.until(GRAPH, "g", |one| one["status"]["state"] == "pending").await;
    let ready = conditions::find(&graph.value["status"], "Ready").expect("a condition");
    let text = ready["message"].as_str().unwrap_or_default();
    assert!(text.contains(&*found.name.name), "{text}");
}

#[tokio::test]
async fn an_adapter_of_a_component_that_nobody_has_is_warned_of() {
    let world = start().await;
    world.create(GRAPH, graph("g", json!([frontend()]))).await;
    world.until(GRAPH, "g", is_successful).await;
    let stray = json!({"apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeploymentScalingAdapter",
        "metadata": {"namespace": "default", "name": "stray"},
        "spec": {"replicas": 3, "dgdRef": {"name": "g", "componentName": "nobody"}}});
    world.create(ADAPTER, stray).await;
    until_warned(&world, "stray", "ComponentNotFound").await;
    let graph = world.get(GRAPH, "g").await.expect("it is there");
    assert_eq!(graph.value["spec"]["components"][0]["replicas"], 1);
    assert!(is_successful(&graph.value));
    let lost = json!({"apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeploymentScalingAdapter",
        "metadata": {"namespace": "default", "name": "lost"},
        "spec": {"replicas": 3, "dgdRef": {"name": "nothing", "componentName": "nobody"}}});
    world.create(ADAPTER, lost).await;
    until_warned(&world, "lost", "GraphNotFound").await;
}

#[tokio::test]
async fn a_name_that_another_has_is_said_on_the_graph() {
    let world = start().await;
    let mut own = frontend();
    own["name"] = json!("g-front");
    let taken = json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoComponentDeployment",
        "metadata": {"namespace": "default", "name": "g-front"}, "spec": own});
    world.create(COMPONENT, taken).await;
    world.create(GRAPH, graph("g", json!([frontend()]))).await;
    let failed = world.until(GRAPH, "g", |one| one["status"]["state"] == "failed").await;
    let ready = conditions::find(&failed.value["status"], "Ready").expect("a condition");
    let message = ready["message"].as_str().unwrap_or_default();
    assert!(message.contains("exists and belongs to another owner"), "{message}");
    until_warned(&world, "g", "ReconcileError").await;
    // It goes on as soon as the name is free.
    world.delete(COMPONENT, "g-front").await;
    world.until(GRAPH, "g", is_successful).await;
}

#[tokio::test]
async fn a_server_of_adapters_that_nobody_reaches_is_warned_of_and_tried_again() {
    let world = start().await;
    world.create(ENDPOINT_SLICE, slice(&["127.77.7.1"])).await;
    world.create(MODEL, adapter("m")).await;
    let is_told = |model: &Value| reason(model, "EndpointsReady") == "NotReady";
    let found = world.until(MODEL, "m", is_told).await;
    assert_eq!(found.value["status"]["endpoints"][0]["ready"], false);
    until_warned(&world, "m", "PartialEndpointFailure").await;
    // It does not keep the model from going either.
    world.delete(MODEL, "m").await;
    world.until_gone(MODEL, "m").await;
    until_warned(&world, "m", "LoRAUnloadFailed").await;
}

#[tokio::test]
async fn output_of_a_profiler_that_nobody_can_read_ends_its_request_alone() {
    let world = start().await;
    for name in ["bad", "good"] {
        world.create(REQUEST, request(name)).await;
        world.until(REQUEST, name, |one| one["status"]["phase"] == "Profiling").await;
    }
    let mut broken = output("bad");
    broken["data"]["final_config.yaml"] = json!("spec: [unclosed\n  - : {");
    for (name, map) in [("bad", broken), ("good", output("good"))] {
        world.create(CONFIG_MAP, map).await;
        let status = crate::requests::completed();
        let job = format!("profile-{name}");
        crate::requests::set_status(&world.context, inference::kinds::JOB, &job, status).await;
    }
    let failed = world.until(REQUEST, "bad", |one| one["status"]["phase"] == "Failed").await;
    let end = conditions::find(&failed.value["status"], "Succeeded").expect("the end");
    assert_eq!(end["status"], "False", "{end}");
    assert!(end["message"].as_str().is_some_and(|text| text.contains("YAML")), "{end}");
    until_warned(&world, "bad", "GenerationFailed").await;
    world.until(GRAPH, "good-dgd", |_| true).await;
}
