//! Graphs of model servers on simulated nodes: from the request until all of them serve, what that
//! costs in writes and in looks, and in memory.

mod looks;
pub mod operator;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use memchr::memmem;
use serde_json::{Value, json};
use store::{Environment, System};

use crate::api::client::{Connection, Http};
use crate::api::load::{self, Load};
use crate::api::report::{Aim, Report, millis};
use crate::api::target::Target;
use crate::api::usage;
use crate::cluster::{arrivals, objects};
use crate::statistics::now;
use crate::training::writes::Writes;
use looks::Looks;
use operator::Operator;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(100);
/// After the last write, before memory is read.
const SETTLE: Duration = Duration::from_secs(5);
/// Components of a graph, each with one pod.
const COMPONENTS: [(&str, &str); 3] =
    [("Frontend", "frontend"), ("prefill", "prefill"), ("decode", "decode")];
/// What the memory for all graphs should be, in MiB.
const MEMORY_MAX: f64 = 80.0;
const SUCCESSFUL: &[u8] = b"\"state\":\"successful\"";
const PAGE: usize = 500;

#[derive(Args)]
pub struct Options {
    /// The program to start; the one that was built beside this one when it is not said.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Where the started server keeps its data; the disk of this directory is what is measured.
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    /// Simulated nodes; each has room for 500 pods.
    #[arg(long, default_value_t = 100)]
    nodes: u32,
    /// Graphs at once, of three components each.
    #[arg(long, default_value_t = 1_000)]
    graphs: usize,
    /// Run the operators as a process of their own, and measure its memory alone.
    #[arg(long)]
    apart: bool,
}

/// What is measured.
struct Subject {
    target: Arc<Target>,
    /// The operators, where they are no part of the server.
    operator: Option<Operator>,
    /// Who counts looks.
    counts: Arc<Target>,
}

impl Options {
    async fn subject(&self) -> Result<Subject> {
        let directory = self.directory.join(format!(".bench-{:016x}", System.random()));
        let count = self.nodes.to_string();
        let arguments = [
            "--components",
            if self.apart { "api,controllers,scheduler" } else { "all" },
            "--fake-nodes",
            &count,
            "--fake-node-resources",
            "cpu=640,memory=5120Gi,pods=500",
        ];
        let target = Target::launch(self.program.as_deref(), directory, &arguments)?;
        let operator = match self.apart {
            true => Some(Operator::start(self.program.as_deref(), &target, "dynamo,lws")?),
            false => None,
        };
        let mut connection = Connection::open(&target, Http::One).await?;
        let nodes = usize::try_from(self.nodes)?;
        let began = now();
        loop {
            let known = objects::count(&target, &mut connection, "/api/v1/nodes").await?;
            let asked = target.request("GET", operator::WEBHOOKS, String::new());
            let is_asked = connection.send(asked).await?.status == 200;
            if known >= nodes && is_asked {
                break;
            }
            ensure!(began.elapsed() < PATIENCE, "the cluster is not ready: {known} nodes");
            tokio::time::sleep(LOOK).await;
        }
        objects::namespace(&target, &mut connection, &target.namespace).await?;
        let target = Arc::new(target);
        let counts = match &operator {
            Some(operator) => Arc::new(operator.counts(&target).await?),
            None => target.clone(),
        };
        Ok(Subject { target, operator, counts })
    }
}

pub async fn run(options: Options) -> Result<()> {
    let mut report = Report::begin();
    let subject = options.subject().await?;
    let target = &subject.target;
    let mut connection = Connection::open(target, Http::One).await?;
    let mut counting = Connection::open(&subject.counts, Http::One).await?;
    tokio::time::sleep(SETTLE).await;
    let memory = Memory::read(&subject)?;
    let before = Writes::read(target, &mut connection).await?;
    let looked = Looks::read(&subject.counts, &mut counting).await?;
    let count = options.graphs * COMPONENTS.len();
    let running = format!("{}?fieldSelector=status.phase%3DRunning", objects::pods(target));
    let expected = arrivals::expect(target, &running, "ADDED", count).await?;
    let owner = target.clone();
    let make = move |number: usize| {
        let object = graph(&format!("graph-{number}"));
        owner.request("POST", &path(&owner), object.to_string())
    };
    let load = Load { http: Http::One, connections: 8, streams: 1, count: options.graphs };
    let begin = now();
    load::run(target, load, Arc::new(make)).await?;
    let arrived = expected.await?.context("not every pod runs")?;
    let what = format!("{} graphs of {} components, until all run", options.graphs, 3);
    report.row(&what, millis(arrived.last.duration_since(begin)), Aim::None, "");
    // Meanwhile the server may have given up connections on which nothing was asked.
    connection = Connection::open(target, Http::One).await?;
    while successful(target, &mut connection).await? < options.graphs {
        ensure!(begin.elapsed() < PATIENCE, "not every graph is successful");
        tokio::time::sleep(LOOK).await;
    }
    report.row("  until all are successful", millis(begin.elapsed()), Aim::None, "");
    counting = Connection::open(&subject.counts, Http::One).await?;
    let looks = Looks::read(&subject.counts, &mut counting).await?.since(&looked);
    let remark = format!("{} looks at graphs", looks.count());
    report.row("  reconcile p99", (looks.percentile(0.99) * 1e3, "ms"), Aim::None, &remark);
    let written = Writes::read(target, &mut connection).await?;
    let each = written.since(&before) as f64 / options.graphs as f64;
    let remark = "with those of their pods; without leases and events";
    report.row("  API writes for each graph", (each, ""), Aim::None, remark);
    for (what, count) in written.by_kind(&before) {
        report.row(
            &format!("    {what}"),
            (count as f64 / options.graphs as f64, ""),
            Aim::None,
            "",
        );
    }
    tokio::time::sleep(SETTLE).await;
    Memory::read(&subject)?.report(&memory, &mut report);
    Ok(())
}

/// What the process has that is measured, in MiB.
struct Memory {
    is_apart: bool,
    resident: f64,
    own: f64,
}

impl Memory {
    fn read(subject: &Subject) -> Result<Memory> {
        let pid = match &subject.operator {
            Some(operator) => operator.pid(),
            None => subject.target.pid.context("the server must be a process of this machine")?,
        };
        let is_apart = subject.operator.is_some();
        Ok(Memory { is_apart, resident: usage::resident(pid), own: usage::own(pid) })
    }

    fn report(&self, before: &Memory, report: &mut Report) {
        let aim = Aim::AtMost(MEMORY_MAX);
        match self.is_apart {
            true => {
                let remark = format!("{:.0} before the graphs", before.resident);
                report.row("  memory of the operators", (self.resident, "MiB"), aim, &remark);
                let remark = format!("{:.0} before the graphs", before.own);
                report.row("    without the program", (self.own, "MiB"), Aim::None, &remark);
            }
            false => {
                let more = self.resident - before.resident;
                let remark = "of the whole program, with their objects, pods and history";
                report.row("  memory for them", (more, "MiB"), aim, remark);
            }
        }
    }
}

fn path(target: &Target) -> String {
    format!("/apis/nvidia.com/v1beta1/namespaces/{}/dynamographdeployments", target.namespace)
}

fn graph(name: &str) -> Value {
    let component = |(name, kind): (&str, &str)| {
        json!({"name": name, "type": kind, "replicas": 1, "podTemplate": {"spec": {"containers":
            [{"name": "main", "image": "registry.example/dynamo:1.6.1",
                "command": ["python3", "-m", "dynamo.mocker"]}]}}})
    };
    json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": name}, "spec": {"components": COMPONENTS.map(component)}})
}

/// How many graphs say that they serve.
async fn successful(target: &Target, connection: &mut Connection) -> Result<usize> {
    let (mut found, mut next) = (0, String::new());
    loop {
        let page = format!("{}?limit={PAGE}&continue={next}", path(target));
        let answer = connection.send(target.request("GET", &page, String::new())).await?;
        ensure!(answer.status == 200, "graphs are not listed: {}", answer.status);
        found += memmem::find_iter(&answer.body, SUCCESSFUL).count();
        let list: Value = serde_json::from_slice(&answer.body)?;
        match list["metadata"]["continue"].as_str().unwrap_or_default() {
            "" => return Ok(found),
            more => next = more.to_owned(),
        }
    }
}
