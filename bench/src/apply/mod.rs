//! Server-side apply and custom kinds: what a request costs beside a plain one in the same run.
//!
//! The server is in this process, over a store in memory, and asked without a socket: what is
//! measured is the work on the object, not the network or the disk.

mod custom;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::ensure;
use apiserver::identity::User;
use apiserver::server::Server;
use apiserver::start;
use bytes::Bytes;
use clap::Args;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use store::{Environment, Retention, System, backends};
use tokio::sync::watch;

use crate::statistics::{Samples, now, time};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const APPLY: &str = "application/apply-patch+yaml";

#[derive(Args)]
pub struct Options {
    /// How many requests of each kind.
    #[arg(long, default_value_t = 3_000)]
    requests: u32,
}

/// A server, gone with its keys.
struct Api {
    server: Arc<Server>,
    directory: PathBuf,
    _stop: watch::Sender<bool>,
}

impl Drop for Api {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Api {
    async fn start() -> anyhow::Result<Api> {
        let name = format!("setpoint-bench-{:016x}", System.random());
        let directory = std::env::temp_dir().join(name);
        let store = backends::memory::open(Retention::default(), Arc::new(System));
        let (stop_sender, stop) = watch::channel(false);
        let listen = "127.0.0.1:6443".parse()?;
        let host = "localhost".to_owned();
        let options = start::Options { directory: directory.clone(), listen, host, stop };
        let handle = start::start(options, store, Arc::new(System)).await?;
        Ok(Api { server: handle.server, directory, _stop: stop_sender })
    }

    async fn ask(&self, line: &str, content_type: &str, body: &Value) -> anyhow::Result<()> {
        let (method, path) = line.split_once(' ').unwrap_or((line, "/"));
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .body(Full::new(Bytes::from(body.to_string())))?;
        let admin = User::authenticated("bench", ["system:masters"]);
        let response = self.server.handle(request, Some(Arc::new(admin))).await;
        let status = response.status();
        let text = response.into_body().collect().await?.to_bytes();
        ensure!(status.is_success(), "{line}: {}", String::from_utf8_lossy(&text));
        Ok(())
    }
}

/// One kind of request: what it is called, where it goes, and its body the n-th time.
struct Row<'a> {
    what: &'a str,
    line: String,
    content_type: &'a str,
    body: &'a dyn Fn(u32) -> Value,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let api = Api::start().await?;
    for name in ["put", "one", "two"] {
        api.ask(&format!("POST {DEPLOYMENTS}"), "application/json", &object(name, 1)).await?;
    }
    let line = |verb: &str, name: &str, manager: &str| {
        format!("{verb} {DEPLOYMENTS}/{name}?fieldManager={manager}&force=true")
    };
    let second = |number: u32| annotated("two", number);
    api.ask(&line("PATCH", "two", "b"), APPLY, &second(0)).await?;
    let rows = [
        Row {
            what: "PUT, one field another",
            line: line("PUT", "put", "a").replace("&force=true", ""),
            content_type: "application/json",
            body: &|number| object("put", number),
        },
        Row {
            what: "apply by one manager, one field another",
            line: line("PATCH", "one", "a"),
            content_type: APPLY,
            body: &|number| object("one", number),
        },
        Row {
            what: "apply by one manager, nothing another",
            line: line("PATCH", "one", "a"),
            content_type: APPLY,
            body: &|_| object("one", options.requests - 1),
        },
        Row {
            what: "apply by one of two managers, one field another",
            line: line("PATCH", "two", "a"),
            content_type: APPLY,
            body: &|number| object("two", number),
        },
        Row {
            what: "apply of one field by the other",
            line: line("PATCH", "two", "b"),
            content_type: APPLY,
            body: &second,
        },
    ];
    compare(&api, &rows, options.requests).await?;
    println!();
    custom::run(&api, options.requests).await
}

/// Prints what each kind of request costs, and its ratio to the first.
async fn compare(api: &Api, rows: &[Row<'_>], requests: u32) -> anyhow::Result<()> {
    println!("{:<50} {:>10} {:>10} {:>10}", "what", "median", "p99", "to first");
    let mut of_first = None;
    for row in rows {
        let mut samples = measure(api, row, requests).await?;
        let (median, late) = (samples.percentile(0.5), samples.percentile(0.99));
        let first = *of_first.get_or_insert(median);
        let ratio = median.as_secs_f64() / first.as_secs_f64();
        println!("{:<50} {:>10} {:>10} {ratio:>9.2}x", row.what, time(median), time(late));
    }
    Ok(())
}

async fn measure(api: &Api, row: &Row<'_>, requests: u32) -> anyhow::Result<Samples> {
    let mut samples = Samples::default();
    for number in 0..requests {
        let body = (row.body)(number);
        let start = now();
        api.ask(&row.line, row.content_type, &body).await?;
        samples.push(start.elapsed());
    }
    Ok(samples)
}

/// A Deployment of some thirty fields.
fn object(name: &str, number: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": "web", "tier": "front"}},
        "spec": {
            "replicas": number % 100,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate"},
            "template": {
                "metadata": {"labels": {"app": "web", "tier": "front"}},
                "spec": {
                    "serviceAccountName": "web",
                    "terminationGracePeriodSeconds": 30,
                    "containers": [
                        {
                            "name": "web", "image": "web:1", "imagePullPolicy": "Always",
                            "ports": [{"containerPort": 80, "protocol": "TCP", "name": "http"}],
                            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                            "command": ["web"],
                        },
                        {"name": "side", "image": "side:1"},
                    ],
                },
            },
        },
    })
}

fn annotated(name: &str, number: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "annotations": {"number": number.to_string()}},
    })
}
