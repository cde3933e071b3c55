//! Writes of leaders carry their term; what an old leader still sends is refused.

use serde_json::{Value, json};

use crate::api::Api;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

fn lease(transitions: u64) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "boss", "namespace": "kube-system"},
        "spec": {"holderIdentity": "a", "leaseTransitions": transitions}})
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

async fn write(api: &Api, line: &str, term: &str, body: Value) -> (u16, String) {
    let (code, answer) = api.ask_saying(line, &[("x-setpoint-epoch", term)], &body).await;
    (code, answer["message"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_leader_whose_term_is_over_writes_nothing() {
    let (api, _scratch) = Api::start().await;
    let maps = "POST /api/v1/namespaces/default/configmaps";
    assert_eq!(write(&api, &format!("POST {LEASES}"), "boss=1", lease(0)).await.0, 201);
    assert_eq!(write(&api, maps, "boss=1", map("first")).await.0, 201);
    let (code, why) = write(&api, maps, "boss=7", map("ahead")).await;
    assert_eq!((code, why.as_str()), (400, "term 7 of boss has not begun"));
    let next = json!({"spec": {"holderIdentity": "b", "leaseTransitions": 1}});
    let path = format!("PATCH {LEASES}/boss");
    assert_eq!(write(&api, &path, "boss=2", next).await.0, 200);
    let (code, why) = write(&api, maps, "boss=1", map("late")).await;
    assert_eq!((code, why.as_str()), (409, "epoch 1 of boss is over: 2 has begun"));
    assert_eq!(write(&api, maps, "boss=2", map("second")).await.0, 201);
}

#[tokio::test]
async fn a_write_says_what_caused_it() {
    let (api, _scratch) = Api::start().await;
    let line = "POST /api/v1/namespaces/default/configmaps";
    let headers = [("x-setpoint-cause", "3"), ("x-setpoint-reconcile", "abc")];
    let (code, made) = api.ask_saying(line, &headers, &map("caused")).await;
    assert_eq!(code, 201);
    let revision = made["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let said = api.provenance(revision).await;
    assert_eq!((said.cause.map(|cause| cause.0), &*said.reconcile), (Some(3), "abc"));
}
