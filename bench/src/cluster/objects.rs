//! The objects of the workloads.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::api::client::Connection;
use crate::api::target::Target;

pub fn pods(target: &Target) -> String {
    format!("/api/v1/namespaces/{}/pods", target.namespace)
}

pub fn deployments(target: &Target) -> String {
    format!("/apis/apps/v1/namespaces/{}/deployments", target.namespace)
}

pub fn jobs(target: &Target) -> String {
    format!("/apis/batch/v1/namespaces/{}/jobs", target.namespace)
}

pub fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "bench"}}, "spec": pod_spec()})
}

pub fn pod_spec() -> Value {
    json!({"containers": [{"name": "main", "image": "registry.example/pause:1",
        "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}}}]})
}

pub fn deployment(name: &str, replicas: usize, image: &str) -> Value {
    let mut spec = pod_spec();
    spec["containers"][0]["image"] = json!(image);
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec}}})
}

pub fn job(name: &str, completions: usize) -> Value {
    let mut spec = pod_spec();
    spec["restartPolicy"] = json!("Never");
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"completions": completions, "parallelism": completions,
            "completionMode": "Indexed",
            "template": {"metadata": {"labels": {"app": name},
                "annotations": {"simulated.setpoint.dev/exit-after": "60m"}}, "spec": spec}}})
}

pub async fn send(
    target: &Target,
    connection: &mut Connection,
    (method, path): (&str, &str),
    body: &Value,
) -> Result<Value> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let kind = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = target.request_as(method, path, (kind, "application/json"), body);
    let answer = connection.send(request).await?;
    let text = String::from_utf8_lossy(&answer.body[..answer.body.len().min(300)]);
    ensure!(answer.status < 300, "{method} {path}: {} {text}", answer.status);
    Ok(serde_json::from_slice(&answer.body)?)
}

pub async fn namespace(target: &Target, connection: &mut Connection, name: &str) -> Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    send(target, connection, ("POST", "/api/v1/namespaces"), &object).await.map(|_| ())
}

/// How many objects a collection has.
pub async fn count(target: &Target, connection: &mut Connection, path: &str) -> Result<usize> {
    let path = format!("{path}?limit=1");
    let list = send(target, connection, ("GET", &path), &Value::Null).await?;
    let first = list["items"].as_array().map_or(0, Vec::len);
    let rest = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
    Ok(first + usize::try_from(rest).unwrap_or(usize::MAX))
}
