//! Load of the soak test: updates that are checked at the end, namespaces with workloads that come
//! and are deleted, lists and watches.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::api::client::{Connection, Http};
use crate::api::target::Target;
use crate::cluster::objects;
use crate::statistics::now;

const CONFIG_MAPS: u64 = 50;
const UPDATES_PER_SECOND: u64 = 20;
const WATCH_DURATION: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Time in which a workload must become ready, and a namespace must be deleted.
const STEP_MAX: Duration = Duration::from_secs(60);
const REPLICAS: usize = 3;

/// Values of ConfigMaps whose update the server acknowledged.
#[derive(Default)]
pub struct Acknowledged(Mutex<State>);

#[derive(Default)]
struct State {
    values: BTreeMap<String, String>,
    count: u64,
}

impl Acknowledged {
    fn record(&self, name: String, value: String) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.values.insert(name, value);
        state.count += 1;
    }

    pub fn values(&self) -> BTreeMap<String, String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values.clone()
    }

    pub fn count(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).count
    }
}

pub fn config_map_path(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/{name}")
}

/// Updates the same ConfigMaps again and again.
pub async fn update_config_maps(
    target: Arc<Target>,
    acknowledged: Arc<Acknowledged>,
) -> Result<()> {
    let mut connection = Connection::open(&target, Http::Two).await?;
    let all = format!("/api/v1/namespaces/{}/configmaps", target.namespace);
    for number in 0..CONFIG_MAPS {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("counter-{number}")}, "data": {"value": "0"}});
        objects::send(&target, &mut connection, ("POST", &all), &object).await?;
    }
    let mut interval = tokio::time::interval(Duration::from_millis(1_000 / UPDATES_PER_SECOND));
    for number in 0_u64.. {
        interval.tick().await;
        let (name, value) = (format!("counter-{}", number % CONFIG_MAPS), number.to_string());
        let path = config_map_path(&target.namespace, &name);
        let patch = json!({"data": {"value": &value}});
        objects::send(&target, &mut connection, ("PATCH", &path), &patch).await?;
        acknowledged.record(name, value);
    }
    Ok(())
}

/// Creates a namespace with workloads, updates them, deletes it, and begins with the next.
pub async fn recreate_namespaces(target: Arc<Target>) -> Result<()> {
    let mut connection = Connection::open(&target, Http::One).await?;
    for number in 0_u64.. {
        let namespace = format!("soak-{number}");
        let life = live(&target, &mut connection, &namespace);
        life.await.with_context(|| format!("namespace {namespace}"))?;
    }
    Ok(())
}

async fn live(target: &Target, connection: &mut Connection, namespace: &str) -> Result<()> {
    objects::namespace(target, connection, namespace).await?;
    let core = format!("/api/v1/namespaces/{namespace}");
    let deployments = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    let jobs = format!("/apis/batch/v1/namespaces/{namespace}/jobs");
    let train_jobs =
        format!("/apis/trainer.kubeflow.org/v1alpha1/namespaces/{namespace}/trainjobs");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"},
        "stringData": {"password": namespace}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    let train_job = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": {"name": "train"}, "spec": {"runtimeRef": {"name": "torch-distributed"},
            "trainer": {"numNodes": 2, "command": ["train"]}}});
    for (path, object) in [
        (format!("{core}/secrets"), secret),
        (format!("{core}/services"), service),
        (deployments.clone(), objects::deployment("web", REPLICAS, "one")),
        (jobs, objects::job("batch", 2)),
        (train_jobs, train_job),
    ] {
        objects::send(target, connection, ("POST", &path), &object).await?;
    }
    let web = format!("{deployments}/web");
    until_ready(target, connection, &web).await?;
    let image = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image",
        "value": "two"}]);
    let patch = ("application/json-patch+json", "application/json");
    let request = target.request_as("PATCH", &web, patch, image.to_string());
    let status = connection.send(request).await?.status;
    ensure!(status < 300, "the update of {web} was answered {status}");
    until_ready(target, connection, &web).await?;
    objects::send(target, connection, ("DELETE", &core), &Value::Null).await?;
    until_deleted(target, connection, &core).await
}

async fn until_ready(target: &Target, connection: &mut Connection, path: &str) -> Result<()> {
    let begin = now();
    loop {
        let found = objects::send(target, connection, ("GET", path), &Value::Null).await?;
        let status = &found["status"];
        let is_current = status["observedGeneration"] == found["metadata"]["generation"];
        let counts = [&status["updatedReplicas"], &status["readyReplicas"], &status["replicas"]];
        if is_current && counts.iter().all(|count| **count == json!(REPLICAS)) {
            return Ok(());
        }
        ensure!(begin.elapsed() < STEP_MAX, "{path} is not ready: {status}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn until_deleted(target: &Target, connection: &mut Connection, path: &str) -> Result<()> {
    let begin = now();
    loop {
        let answer = connection.send(target.request("GET", path, String::new())).await?;
        if answer.status == 404 {
            return Ok(());
        }
        let body = || String::from_utf8_lossy(&answer.body);
        ensure!(begin.elapsed() < STEP_MAX, "{path} is not deleted: {}", body());
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Lists all pods page by page, and opens watches that it drops without closing them.
pub async fn list_and_watch(target: Arc<Target>) -> Result<()> {
    loop {
        let mut connection = Connection::open(&target, Http::One).await?;
        let mut next = String::new();
        loop {
            let path = format!("/api/v1/pods?limit=10&continue={next}");
            let list =
                objects::send(&target, &mut connection, ("GET", &path), &Value::Null).await?;
            match list["metadata"]["continue"].as_str() {
                Some(token) if !token.is_empty() => next = token.to_owned(),
                _ => break,
            }
        }
        let watch = target.request("GET", "/api/v1/pods?watch=true", String::new());
        let mut body = connection.begin(watch).await?.into_body();
        let read = async { while body.frame().await.is_some_and(|frame| frame.is_ok()) {} };
        // The watch is dropped in the middle of an event more often than not.
        let _ = tokio::time::timeout(WATCH_DURATION, read).await;
    }
}
