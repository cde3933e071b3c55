//! TrainJobs on simulated nodes: from the request until all of their pods run, what that costs in
//! writes, and what many jobs cost in memory.

pub mod writes;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Value, json};
use store::{Environment, System};

use crate::api::client::{Connection, Http};
use crate::api::load::{self, Load};
use crate::api::report::{Aim, Report, millis};
use crate::api::target::Target;
use crate::api::usage;
use crate::cluster::{anchors, arrivals, objects};
use crate::inference::operator::Operator;
use crate::statistics::{Samples, now};
use writes::Writes;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(20);
/// After the last write, before memory is read.
const SETTLE: Duration = Duration::from_secs(5);
/// Runs of the smallest job, of which the middle one counts.
const SMALL_RUNS: usize = 5;
/// What the memory for all jobs that are held should be, in MiB.
const MEMORY_MAX: f64 = 60.0;
/// A runtime that every installation has.
const RUNTIME: &str = "torch-distributed";
/// Where runtimes are, and how many are installed at least.
const RUNTIMES: (&str, usize) = ("/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes", 8);

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
    /// How many nodes a TrainJob has, one run for each number.
    #[arg(long, value_delimiter = ',', default_value = "1,100,1000")]
    sizes: Vec<usize>,
    /// TrainJobs at once, and how many nodes each has.
    #[arg(long, default_value_t = 100)]
    jobs: usize,
    #[arg(long, default_value_t = 100)]
    job_nodes: usize,
    /// TrainJobs that are held, while memory is read.
    #[arg(long, default_value_t = 1_000)]
    held: usize,
}

impl Options {
    async fn cluster(&self) -> Result<Arc<Target>> {
        let target = self.launch("all")?;
        self.until_ready(&target).await?;
        Ok(Arc::new(target))
    }

    /// The same with the operators as a process of their own.
    async fn cluster_and_operator(&self) -> Result<(Arc<Target>, Operator)> {
        let target = self.launch("api,controllers,scheduler")?;
        let operator = Operator::start(self.program.as_deref(), &target, "trainer,jobset")?;
        self.until_ready(&target).await?;
        Ok((Arc::new(target), operator))
    }

    fn launch(&self, components: &str) -> Result<Target> {
        let directory = self.directory.join(format!(".bench-{:016x}", System.random()));
        let count = self.nodes.to_string();
        let arguments = [
            "--components",
            components,
            "--fake-nodes",
            &count,
            "--fake-node-resources",
            "cpu=640,memory=5120Gi,pods=500",
        ];
        Target::launch(self.program.as_deref(), directory, &arguments)
    }

    async fn until_ready(&self, target: &Target) -> Result<()> {
        let mut connection = Connection::open(target, Http::One).await?;
        let nodes = ("/api/v1/nodes", usize::try_from(self.nodes)?);
        for (path, wanted) in [nodes, RUNTIMES] {
            let began = now();
            while objects::count(target, &mut connection, path).await.unwrap_or(0) < wanted {
                ensure!(began.elapsed() < PATIENCE, "{path} has not {wanted} objects");
                tokio::time::sleep(LOOK).await;
            }
        }
        objects::namespace(target, &mut connection, &target.namespace).await?;
        Ok(())
    }
}

pub async fn run(options: Options) -> Result<()> {
    let mut report = Report::begin();
    for size in &options.sizes {
        one_job(&options, *size, &mut report).await?;
    }
    many_jobs(&options, &mut report).await?;
    held_jobs(&options, &mut report).await?;
    held_jobs_apart(&options, &mut report).await
}

fn path(target: &Target) -> String {
    format!("/apis/trainer.kubeflow.org/v1alpha1/namespaces/{}/trainjobs", target.namespace)
}

fn job(name: &str, nodes: usize, is_held: bool) -> Value {
    json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": {"name": name}, "spec": {"runtimeRef": {"name": RUNTIME}, "suspend": is_held,
            "trainer": {"numNodes": nodes, "command": ["train"]}}})
}

/// What a size should take, and what an indexed Job alone takes elsewhere.
fn aim(size: usize) -> (Aim, Option<f64>) {
    let aims = [(1, 10.0), (100, 100.0), (1_000, 800.0)];
    let aim = aims.iter().find(|(known, _)| *known == size);
    let anchor = u32::try_from(size).ok().and_then(|size| anchors::of(&anchors::JOB, size));
    (aim.map_or(Aim::None, |(_, most)| Aim::AtMost(*most)), anchor)
}

fn running(target: &Target, selector: &str) -> String {
    format!("{}?fieldSelector=status.phase%3DRunning{selector}", objects::pods(target))
}

async fn one_job(options: &Options, size: usize, report: &mut Report) -> Result<()> {
    let target = options.cluster().await?;
    let mut connection = Connection::open(&target, Http::One).await?;
    let runs = if size < 10 { SMALL_RUNS } else { 1 };
    let (mut took, mut written) = (Samples::default(), 0);
    for run in 0..runs {
        let name = format!("job-{run}");
        let selector = format!("&labelSelector=jobset.sigs.k8s.io%2Fjobset-name%3D{name}");
        let running = running(&target, &selector);
        let expected = arrivals::expect(&target, &running, "ADDED", size).await?;
        let before = Writes::read(&target, &mut connection).await?;
        let begin = now();
        let object = job(&name, size, false);
        objects::send(&target, &mut connection, ("POST", &path(&target)), &object).await?;
        let arrived = expected.await?.context("the pods of the TrainJob do not run")?;
        took.push(arrived.last.duration_since(begin));
        written += Writes::read(&target, &mut connection).await?.since(&before);
    }
    let (aim, anchor) = aim(size);
    let took = millis(took.percentile(0.5));
    let what = format!("TrainJob of {size}, until all run");
    report.row(&what, took, aim, &anchors::time(took.0, anchor));
    let each = written as f64 / (runs * size) as f64;
    // Of a small job most writes are its own and not its pods'.
    let aim = if size >= 100 { Aim::AtMost(6.0) } else { Aim::None };
    report.row("  API writes for each pod", (each, ""), aim, "without leases and events");
    Ok(())
}

async fn many_jobs(options: &Options, report: &mut Report) -> Result<()> {
    let target = options.cluster().await?;
    let count = options.jobs * options.job_nodes;
    let expected = arrivals::expect(&target, &running(&target, ""), "ADDED", count).await?;
    let owner = target.clone();
    let nodes = options.job_nodes;
    let make = move |number: usize| {
        let object = job(&format!("many-{number}"), nodes, false);
        owner.request("POST", &path(&owner), object.to_string())
    };
    let load = Load { http: Http::One, connections: 8, streams: 1, count: options.jobs };
    let begin = now();
    load::run(&target, load, Arc::new(make)).await?;
    let arrived = expected.await?.context("not every pod runs")?;
    let took = arrived.last.duration_since(begin);
    let what = format!("{} TrainJobs of {nodes} at once, until all run", options.jobs);
    report.row(&what, millis(took), Aim::None, "");
    report.row("  pods", (count as f64 / took.as_secs_f64(), "/s"), Aim::None, "");
    Ok(())
}

/// Jobs that are there and do nothing: what the program needs more for them.
async fn held_jobs(options: &Options, report: &mut Report) -> Result<()> {
    let target = options.cluster().await?;
    let pid = target.pid.context("the server must be a process of this machine")?;
    tokio::time::sleep(SETTLE).await;
    let before = usage::resident(pid);
    let begin = now();
    hold(options, &target).await?;
    let what = format!("{} TrainJobs that are held, until all have Jobs", options.held);
    report.row(&what, millis(begin.elapsed()), Aim::None, "");
    tokio::time::sleep(SETTLE).await;
    let more = usage::resident(pid) - before;
    let remark = "of the whole program, with their objects and history";
    report.row("  memory for them", (more, "MiB"), Aim::AtMost(MEMORY_MAX), remark);
    Ok(())
}

/// The same for operators alone, as beside a cluster of others.
async fn held_jobs_apart(options: &Options, report: &mut Report) -> Result<()> {
    let (target, operator) = options.cluster_and_operator().await?;
    tokio::time::sleep(SETTLE).await;
    let before = usage::resident(operator.pid());
    hold(options, &target).await?;
    tokio::time::sleep(SETTLE).await;
    let what = format!("memory of the operators alone, {} TrainJobs held", options.held);
    let remark = format!("{before:.0} MiB of it without any");
    let memory = (usage::resident(operator.pid()), "MiB");
    report.row(&what, memory, Aim::AtMost(MEMORY_MAX), &remark);
    Ok(())
}

/// Makes jobs that are held, and waits until all have what they have then.
async fn hold(options: &Options, target: &Arc<Target>) -> Result<()> {
    let owner = target.clone();
    let make = move |number: usize| {
        let object = job(&format!("held-{number}"), 1, true);
        owner.request("POST", &path(&owner), object.to_string())
    };
    let load = Load { http: Http::One, connections: 8, streams: 1, count: options.held };
    let begin = now();
    load::run(target, load, Arc::new(make)).await?;
    let mut connection = Connection::open(target, Http::One).await?;
    let jobs = objects::jobs(target);
    while objects::count(target, &mut connection, &jobs).await? < options.held {
        ensure!(begin.elapsed() < PATIENCE, "not every TrainJob has its Job");
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}
