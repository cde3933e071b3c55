//! The past: what keeping it costs, and what reading it costs beside the present in the same run.

mod keeping;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use apiserver::identity::User;
use apiserver::server::Server;
use apiserver::start;
use bytes::Bytes;
use clap::Args;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use store::backends::embedded;
use store::{Environment, Retention, Store, System, backends};
use tokio::sync::watch;

use crate::statistics::{Samples, now, time};

const PODS: &str = "/api/v1/namespaces/default/pods";
const ROOT: &str = "/apis/history.setpoint.dev/v1";
/// How often a read is measured.
const ROUNDS: usize = 15;

#[derive(Args)]
pub struct Options {
    /// Pods of the lists.
    #[arg(long, default_value_t = 10_000)]
    objects: usize,
    /// Pods of the job whose trace is asked for.
    #[arg(long, default_value_t = 100)]
    pods: usize,
    /// Writes with and without history.
    #[arg(long, default_value_t = 20_000)]
    writes: usize,
    /// Where the stores of the writes are; the disk of this directory is what is measured.
    #[arg(long, default_value = ".")]
    directory: PathBuf,
}

/// A server, gone with its keys and what it stored.
struct Api {
    server: Arc<Server>,
    directory: PathBuf,
    _stop: watch::Sender<bool>,
}

fn new_name() -> String {
    format!("setpoint-bench-{:016x}", System.random())
}

impl Drop for Api {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Api {
    /// Over a store in memory.
    async fn start() -> anyhow::Result<Api> {
        let store = backends::memory::open(Retention::default(), Arc::new(System));
        Api::over(store, std::env::temp_dir().join(new_name())).await
    }

    /// Over a store whose past is on the disk alone.
    async fn on_disk(place: &Path) -> anyhow::Result<Api> {
        let directory = place.join(new_name());
        let settings = embedded::Settings { directory: directory.join("store") };
        let retention = Retention { recent_bytes_max: 0, ..Retention::default() };
        let store = embedded::open(&settings, retention, Arc::new(System)).await?;
        Api::over(store, directory).await
    }

    async fn over(store: Arc<dyn Store>, directory: PathBuf) -> anyhow::Result<Api> {
        let (stop_sender, stop) = watch::channel(false);
        let listen = "127.0.0.1:6443".parse()?;
        let host = "localhost".to_owned();
        let options = start::Options { directory: directory.clone(), listen, host, stop };
        let handle = start::start(options, store, Arc::new(System)).await?;
        Ok(Api { server: handle.server, directory, _stop: stop_sender })
    }

    async fn ask(&self, line: &str, body: &Value) -> anyhow::Result<Bytes> {
        let (method, path) = line.split_once(' ').unwrap_or((line, "/"));
        let content_type = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .body(Full::new(Bytes::from(text)))?;
        let admin = User::authenticated("bench", ["system:masters"]);
        let response = self.server.handle(request, Some(Arc::new(admin))).await;
        let status = response.status();
        let text = response.into_body().collect().await?.to_bytes();
        ensure!(status.is_success(), "{line}: {}", String::from_utf8_lossy(&text));
        Ok(text)
    }

    /// The middle of how long a request takes.
    async fn measure(&self, line: &str) -> anyhow::Result<(std::time::Duration, usize)> {
        let mut samples = Samples::default();
        let mut length = 0;
        for _ in 0..ROUNDS {
            let start = now();
            length = self.ask(line, &Value::Null).await?.len();
            samples.push(start.elapsed());
        }
        Ok((samples.percentile(0.5), length))
    }
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    keeping::run(&options.directory, options.writes).await?;
    lists("memory", Api::start().await?, options.objects).await?;
    let on_disk = Api::on_disk(&options.directory).await?;
    lists("disk, nothing of the past in memory", on_disk, options.objects).await?;
    traces(options.pods).await
}

fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": "web", "tier": "front"}},
        "spec": {"containers": [{"name": "c", "image": "i", "args": ["--a", "--b", "--c"],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}]},
    })
}

/// A list as it was against a list as it is.
async fn lists(store: &str, api: Api, objects: usize) -> anyhow::Result<()> {
    for number in 0..objects {
        api.ask(&format!("POST {PODS}"), &pod(&format!("p{number:06}"))).await?;
    }
    let at = api.server.store.revision();
    // Half of them change meanwhile.
    for number in 0..objects / 2 {
        let change = json!({"metadata": {"labels": {"tier": "back"}}});
        api.ask(&format!("PATCH {PODS}/p{:06}", number * 2), &change).await?;
    }
    let (live, length) = api.measure(&format!("GET {PODS}")).await?;
    let (past, _) = api.measure(&format!("GET {ROOT}/at/{at}{PODS}")).await?;
    let (one, _) = api.measure(&format!("GET {ROOT}/at/{at}{PODS}/p000000")).await?;
    let (named, _) = api.measure(&format!("GET {ROOT}/revisions{PODS}/p000000")).await?;
    println!(
        "list of {objects} pods ({} KiB), {} of them changed since; store: {store}",
        length >> 10,
        objects / 2
    );
    println!("  live                     {:>10}", time(live));
    let times = past.as_secs_f64() / live.as_secs_f64();
    println!(
        "  --at                     {:>10}   {times:.2} times the live list (aim 3)",
        time(past)
    );
    println!("  one object --at          {:>10}", time(one));
    println!("  history of one object    {:>10}", time(named));
    Ok(())
}

/// The trace of a job with pods, each of which was made, placed, started and watched by events,
/// among changes of others.
async fn traces(pods: usize) -> anyhow::Result<()> {
    let api = Api::start().await?;
    for number in 0..pods * 20 {
        api.ask(&format!("POST {PODS}"), &pod(&format!("other{number:06}"))).await?;
    }
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let job = json!({"metadata": {"name": "train"},
        "spec": {"parallelism": pods, "completions": pods,
            "template": {"spec": {"restartPolicy": "Never",
                "containers": [{"name": "c", "image": "i"}]}}}});
    let made = api.ask(&format!("POST {jobs}"), &job).await?;
    let made: Value = serde_json::from_slice(&made).context("a job")?;
    for number in 0..pods {
        let name = format!("train-{number}");
        let mut child = pod(&name);
        child["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job",
            "name": "train", "uid": made["metadata"]["uid"], "controller": true}]);
        let child = api.ask(&format!("POST {PODS}"), &child).await?;
        let child: Value = serde_json::from_slice(&child).context("a pod")?;
        let binding = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}});
        api.ask(&format!("POST {PODS}/{name}/binding"), &binding).await?;
        for reason in ["Scheduled", "Pulled", "Created", "Started"] {
            let event = json!({"metadata": {"name": format!("{name}.{reason}")}, "reason": reason,
                "message": "said of it", "type": "Normal", "involvedObject": {"kind": "Pod",
                    "apiVersion": "v1", "namespace": "default", "name": name,
                    "uid": child["metadata"]["uid"]}});
            api.ask("POST /api/v1/namespaces/default/events", &event).await?;
        }
        for phase in ["Pending", "Running"] {
            let ready = if phase == "Running" { "True" } else { "False" };
            let status = json!({"status": {"phase": phase,
                "conditions": [{"type": "Ready", "status": ready}]}});
            api.ask(&format!("PATCH {PODS}/{name}/status"), &status).await?;
        }
    }
    let (whole, length) = api.measure(&format!("GET {ROOT}/why{jobs}/train")).await?;
    let (one, _) = api.measure(&format!("GET {ROOT}/why{PODS}/train-0")).await?;
    println!("why of a job with {pods} pods ({} KiB of steps)", length >> 10);
    println!("  the job                  {:>10}   (aim 50 ms)", time(whole));
    println!("  one of its pods          {:>10}", time(one));
    Ok(())
}
