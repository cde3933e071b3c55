//! Attacks on the API server, each as a test of what must not happen.

mod addresses;
mod attacks;
mod cves;
mod hostile;
mod identity;
mod matrix;
mod pod_security;
mod services;

use apiserver::identity::User;
use apiserver::persist;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use store::{Commit, Environment, Key, Mutation, Operation, Precondition, Provenance, System};

use crate::world::{Answer, World, admin};

/// Sends `METHOD path` as a user; PATCH is a merge patch.
async fn ask_as(world: &World, user: &User, line: &str, body: Value) -> Answer {
    let (method, path) = line.split_once(' ').unwrap();
    let content = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder().method(method).uri(path).header("content-type", content);
    world.ask(user, request.body(Full::new(text.into())).unwrap()).await
}

async fn ask(world: &World, line: &str, body: Value) -> Answer {
    ask_as(world, &admin(), line, body).await
}

/// Sends a request that must succeed, and returns the object.
async fn done(world: &World, line: &str, body: Value) -> Value {
    let answer = ask(world, line, body).await;
    assert!(answer.status < 300, "{line}: {} {}", answer.status, answer.text());
    answer.json()
}

/// Sends a request that must be refused, and returns the message.
async fn refused(world: &World, line: &str, body: Value) -> String {
    let answer = ask(world, line, body).await;
    assert!((400..500).contains(&answer.status), "{line}: {} {}", answer.status, answer.text());
    answer.json()["message"].as_str().unwrap_or_default().to_owned()
}

/// Creates a service account where it is missing, and returns a token of it.
async fn account_token(world: &World, namespace: &str, name: &str) -> String {
    let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    ask(world, &format!("POST {accounts}"), json!({"metadata": {"name": name}})).await;
    let made = done(world, &format!("POST {accounts}/{name}/token"), json!({"spec": {}})).await;
    made["status"]["token"].as_str().unwrap().to_owned()
}

/// Writes an object that no client may write.
async fn put(world: &World, key: &str, object: &Value) {
    let key = Key::new(key.to_owned()).unwrap();
    let when = match world.store.get(&key, None).await.unwrap() {
        Some(entry) => Precondition::At(entry.modified),
        None => Precondition::Absent,
    };
    let mutation = Mutation::Put(persist::encode(object, &[]));
    let operations = vec![Operation { key, mutation, when }];
    let provenance = Provenance::of(System.now(), "test");
    world.store.commit(Commit { operations, epoch: None, provenance }).await.unwrap();
}
