//! Models on real small servers: rows 39 to 43 of the feature table.

use std::time::Duration;

use inference::kinds::{ENDPOINT_SLICE, MODEL};
use inference::model;
use reconcile::conditions;
use reconcile::run;
use serde_json::{Value, json};

use crate::servers::{Manner, Servers};
use crate::world::World;

async fn world() -> World {
    let mut world = World::bare().await;
    world.install(&[api::dynamo_model::definition()]).await;
    let context = world.context.clone();
    world.run(run::run(context, model::Controller::default()));
    world
}

/// A model that its servers have without being asked.
pub fn base(name: &str) -> Value {
    model(name, "base")
}

/// An adapter that servers have to load.
pub fn adapter(name: &str) -> Value {
    model(name, "lora")
}

fn model(name: &str, kind: &str) -> Value {
    json!({"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoModel",
        "metadata": {"namespace": "default", "name": name},
        "spec": {"modelName": format!("org/{name}"), "baseModelName": "tiny", "modelType": kind,
            "source": {"uri": "file:///adapters/x"}}})
}

/// The slice of the model's service, as the controller of slices makes it.
pub fn slice(addresses: &[&str]) -> Value {
    let endpoint = |address: &&str| {
        json!({"addresses": [address], "conditions": {"ready": true},
            "targetRef": {"kind": "Pod", "name": format!("pod-{address}"), "uid": address}})
    };
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"namespace": "default", "name": "s-1", "labels": {
            "kubernetes.io/service-name": "dynamo-model-8950abfd",
            "nvidia.com/dynamo-base-model-hash": "8950abfd"}},
        "addressType": "IPv4", "ports": [{"name": "system", "port": 9090}],
        "endpoints": addresses.iter().map(endpoint).collect::<Vec<_>>()})
}

fn is_ready(model: &Value) -> bool {
    conditions::is_true(&model["status"], "EndpointsReady")
}

#[tokio::test]
async fn a_base_model_lists_the_servers_that_it_has() {
    let world = world().await;
    world.create(MODEL, model("m", "base")).await;
    let nobody = |model: &Value| {
        conditions::find(&model["status"], "EndpointsReady")
            .is_some_and(|one| one["reason"] == "NoEndpoints")
    };
    world.until(MODEL, "m", nobody).await;
    world.create(ENDPOINT_SLICE, slice(&["127.77.1.1", "127.77.1.2"])).await;
    let found = world.until(MODEL, "m", is_ready).await;
    let status = &found.value["status"];
    let expected = json!([
        {"address": "http://127.77.1.1:9090", "podName": "pod-127.77.1.1", "ready": false},
        {"address": "http://127.77.1.2:9090", "podName": "pod-127.77.1.2", "ready": false},
    ]);
    assert_eq!(status["endpoints"], expected);
    assert_eq!((&status["readyEndpoints"], &status["totalEndpoints"]), (&json!(0), &json!(2)));
    world.delete(MODEL, "m").await;
    world.until_gone(MODEL, "m").await;
}

#[tokio::test]
async fn an_adapter_is_loaded_everywhere_and_taken_off_again() {
    let world = world().await;
    let mut servers = Servers::default();
    let addresses = ["127.77.2.1", "127.77.2.2", "127.77.2.3"];
    for address in addresses {
        servers.start(address, Manner::default()).await;
    }
    world.create(ENDPOINT_SLICE, slice(&addresses[..2])).await;
    world.create(MODEL, model("m", "lora")).await;
    let found = world.until(MODEL, "m", is_ready).await;
    assert_eq!(found.value["status"]["readyEndpoints"], 2);
    let load = |address: &str| {
        format!(
            "{address} POST /v1/loras \
            {{\"lora_name\":\"org/m\",\"source\":{{\"uri\":\"file:///adapters/x\"}}}}"
        )
    };
    // Writing the status did not make them load again.
    assert_eq!(servers.asked(), [load("127.77.2.1"), load("127.77.2.2")]);
    servers.forget();
    // A server that is new gets the adapter without anybody touching the model.
    world.patch(ENDPOINT_SLICE, "s-1", json!({"endpoints": slice(&addresses)["endpoints"]})).await;
    world.until(MODEL, "m", |model| model["status"]["readyEndpoints"] == 3).await;
    assert!(servers.asked().contains(&load("127.77.2.3")));
    servers.forget();
    world.delete(MODEL, "m").await;
    world.until_gone(MODEL, "m").await;
    let unload = addresses.map(|address| format!("{address} DELETE /v1/loras/org/m"));
    assert_eq!(servers.asked(), unload);
}

#[tokio::test]
async fn one_server_that_fails_has_no_effect_on_the_others() {
    let world = world().await;
    let mut servers = Servers::default();
    let broken = Manner { status: 404, text: "Route not found", ..Manner::default() };
    servers.start("127.77.3.1", Manner::default()).await;
    servers.start("127.77.3.2", broken).await;
    // Nobody listens at the third.
    world.create(ENDPOINT_SLICE, slice(&["127.77.3.1", "127.77.3.2", "127.77.3.3"])).await;
    world.create(MODEL, model("m", "lora")).await;
    let found = world.until(MODEL, "m", |model| model["status"]["totalEndpoints"] == 3).await;
    let ready: Vec<&Value> =
        (0..3).map(|at| &found.value["status"]["endpoints"][at]["ready"]).collect();
    assert_eq!(ready, [true, false, false]);
    let condition = conditions::find(&found.value["status"], "EndpointsReady").expect("one");
    let expected = "Found 1 ready endpoint(s) and 0 fallback-covered endpoint(s) out of 3 total";
    assert_eq!(
        (&condition["reason"], &condition["message"]),
        (&json!("NotReady"), &json!(expected))
    );
    // Nor do servers that fail keep a model that is to go.
    world.delete(MODEL, "m").await;
    world.until_gone(MODEL, "m").await;
}

#[tokio::test]
async fn no_more_than_ten_servers_are_asked_at_once() {
    let world = world().await;
    let mut servers = Servers::default();
    let addresses: Vec<String> = (1..=25).map(|at| format!("127.77.4.{at}")).collect();
    for address in &addresses {
        let slow = Manner { after: Duration::from_millis(100), ..Manner::default() };
        servers.start(address, slow).await;
    }
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    world.create(ENDPOINT_SLICE, slice(&addresses)).await;
    world.create(MODEL, model("m", "lora")).await;
    world.until(MODEL, "m", |model| model["status"]["readyEndpoints"] == 25).await;
    let most = servers.log.lock().expect("nobody panicked").busy_max;
    assert!((2..=10).contains(&most), "{most}");
}
