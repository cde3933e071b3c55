//! This machine as a node: how soon pods run as processes, and what they cost.

mod engine;
mod services;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Value, json};
use store::{Environment, System};

use crate::api::client::{Connection, Http};
use crate::api::report::{Aim, Report, millis};
use crate::api::target::Target;
use crate::api::usage;
use crate::cluster::{arrivals, objects};
use crate::statistics::{Samples, now};

/// How long pods may take to go.
const GONE_MAX: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);
const STARTS: usize = 5;
const SINGLE_PODS: usize = 40;
const DEPLOYMENTS: usize = 10;
/// How many pods run at once; those of the last round stay for a while.
const MANY_PODS: [usize; 2] = [200, 100];
/// A node takes 110 if it is not told otherwise.
const ROOM: &str = "pods=250";
const SETTLE: Duration = Duration::from_secs(5);
const SPAN: Duration = Duration::from_secs(15);

#[derive(Args)]
pub struct Options {
    /// The program to start; the one that was built beside this one when it is not said.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Where the started server keeps its data; the disk of this directory is what is measured.
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    /// Only pods in containers of a private Docker, beside what Docker itself takes.
    #[arg(long)]
    docker: bool,
    /// The same of a private containerd, beside what `ctr run` takes.
    #[arg(long)]
    containerd: bool,
}

impl Options {
    fn launch(&self) -> Result<Arc<Target>> {
        self.launch_on(self.new_directory())
    }

    fn new_directory(&self) -> PathBuf {
        self.directory.join(format!(".bench-{:016x}", System.random()))
    }

    fn launch_on(&self, directory: PathBuf) -> Result<Arc<Target>> {
        let arguments = ["--runtime", "process", "--node-resources", ROOM];
        Target::launch(self.program.as_deref(), directory, &arguments).map(Arc::new)
    }

    fn launch_with(&self, arguments: &[&str]) -> Result<Arc<Target>> {
        Target::launch(self.program.as_deref(), self.new_directory(), arguments).map(Arc::new)
    }
}

pub async fn run(options: Options) -> Result<()> {
    let mut report = Report::begin();
    if options.docker || options.containerd {
        if options.docker {
            engine::run(&options, &engine::Docker::start()?, &mut report).await?;
        }
        if options.containerd {
            engine::run(&options, &engine::Ctr::start()?, &mut report).await?;
        }
        return Ok(());
    }
    first_pod(&options, &mut report).await?;
    let target = options.launch()?;
    let mut connection = Connection::open(&target, Http::One).await?;
    objects::namespace(&target, &mut connection, &target.namespace).await?;
    single_pods(&target, &mut connection, &mut report).await?;
    deployments(&target, &mut connection, &mut report).await?;
    many_pods(&target, &mut connection, &mut report).await?;
    services::run(&target, &mut connection, &mut report).await
}

/// From the start of the program on an empty directory until a pod runs.
async fn first_pod(options: &Options, report: &mut Report) -> Result<()> {
    let (mut ready, mut running) = (Samples::default(), Samples::default());
    let mut again = Samples::default();
    for _ in 0..STARTS {
        let start = now();
        let target = options.launch()?;
        ready.push(start.elapsed());
        let mut connection = Connection::open(&target, Http::One).await?;
        objects::namespace(&target, &mut connection, &target.namespace).await?;
        let expected = expect_running(&target, 1).await?;
        create(&target, &mut connection, "first").await?;
        let arrived = expected.await?.context("the first pod does not run")?;
        running.push(arrived.last.duration_since(start));
        remove_all(&target, &mut connection).await?;
        let left = options.new_directory();
        target.started.as_ref().context("it was started here")?.copy_to(&left)?;
        drop((target, connection));
        let start = now();
        let _target = options.launch_on(left)?;
        again.push(start.elapsed());
    }
    let what = "start until the node is ready";
    report.row(what, millis(ready.percentile(0.5)), Aim::AtMost(100.0), "");
    let what = "  on what a former start left";
    report.row(what, millis(again.percentile(0.5)), Aim::AtMost(100.0), "");
    let what = "start until a first pod runs";
    report.row(what, millis(running.percentile(0.5)), Aim::AtMost(150.0), "");
    Ok(())
}

/// One pod after the other, from the request until it is seen to run.
async fn single_pods(
    target: &Arc<Target>,
    connection: &mut Connection,
    report: &mut Report,
) -> Result<()> {
    let mut took = Samples::default();
    for number in 0..SINGLE_PODS {
        let name = format!("single-{number}");
        let expected = expect_running(target, 1).await?;
        let start = now();
        create(target, connection, &name).await?;
        let arrived = expected.await?.with_context(|| format!("{name} does not run"))?;
        took.push(arrived.last.duration_since(start));
        remove_all(target, connection).await?;
    }
    report.row(
        "pod created until it runs, p50",
        millis(took.percentile(0.5)),
        Aim::AtMost(50.0),
        "",
    );
    report.row("  p99", millis(took.percentile(0.99)), Aim::None, "");
    Ok(())
}

/// From the request for a Deployment until its pod is ready.
async fn deployments(
    target: &Arc<Target>,
    connection: &mut Connection,
    report: &mut Report,
) -> Result<()> {
    let mut took = Samples::default();
    for number in 0..DEPLOYMENTS {
        let name = format!("deployment-{number}");
        let mut object = objects::deployment(&name, 1, "none");
        let spec = &mut object["spec"]["template"]["spec"];
        spec["terminationGracePeriodSeconds"] = json!(1);
        spec["containers"] =
            json!([{"name": "main", "image": "none", "command": ["sleep", "3600"]}]);
        let path = objects::deployments(target);
        let expected = expect_running(target, 1).await?;
        let start = now();
        objects::send(target, connection, ("POST", &path), &object).await?;
        let arrived = expected.await?.with_context(|| format!("{name} has no pod that runs"))?;
        took.push(arrived.last.duration_since(start));
        let of = format!("{}?labelSelector=app%3D{name}", objects::pods(target));
        let pods = objects::send(target, connection, ("GET", &of), &Value::Null).await?;
        let is_ready = pods["items"][0]["status"]["containerStatuses"][0]["ready"] == true;
        ensure!(is_ready, "{name} runs and is not ready");
        let path = format!("{path}/{name}");
        objects::send(target, connection, ("DELETE", &path), &Value::Null).await?;
        // Pods alone would be replaced as long as their owner is there.
        gone(target, connection).await?;
    }
    let what = "Deployment created until its pod is ready, p50";
    report.row(what, millis(took.percentile(0.5)), Aim::AtMost(1_000.0), "");
    Ok(())
}

/// Many at once, what they cost while they only sleep, and how soon they are gone.
async fn many_pods(
    target: &Arc<Target>,
    connection: &mut Connection,
    report: &mut Report,
) -> Result<()> {
    let pid = target.pid.context("the server must be a process of this machine")?;
    for count in MANY_PODS {
        // The second time on what the first left behind.
        let expected = expect_running(target, count).await?;
        let start = now();
        for number in 0..count {
            create(target, connection, &format!("many-{count}-{number}")).await?;
        }
        let arrived = expected.await?.context("not all pods run")?;
        let took = millis(arrived.last.duration_since(start));
        report.row(&format!("{count} pods at once until all run"), took, Aim::None, "");
        if Some(&count) == MANY_PODS.last() {
            tokio::time::sleep(SETTLE).await;
            let before = usage::processor_time(pid);
            tokio::time::sleep(SPAN).await;
            let used = usage::processor_time(pid).saturating_sub(before);
            let percent = used.as_secs_f64() / SPAN.as_secs_f64() * 100.0;
            report.row("  idle with them: processor", (percent, "%"), Aim::AtMost(1.0), "");
            report.row("  memory", (usage::resident(pid), "MiB"), Aim::None, "");
        }
        // The server ends connections that were idle for long.
        *connection = Connection::open(target, Http::One).await?;
        let start = now();
        remove_all(target, connection).await?;
        report.row("  deleted until all are gone", millis(start.elapsed()), Aim::None, "");
    }
    Ok(())
}

async fn expect_running(
    target: &Arc<Target>,
    count: usize,
) -> Result<tokio::task::JoinHandle<Result<arrivals::Arrived>>> {
    let running = format!("{}?fieldSelector=status.phase%3DRunning", objects::pods(target));
    arrivals::expect(target, &running, "ADDED", count).await
}

async fn create(target: &Target, connection: &mut Connection, name: &str) -> Result<()> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"terminationGracePeriodSeconds": 1, "automountServiceAccountToken": true,
            "containers": [{"name": "main", "image": "none", "command": ["sleep", "3600"]}]}});
    objects::send(target, connection, ("POST", &objects::pods(target)), &pod).await.map(drop)
}

/// Deletes all pods and waits until they are gone, so that no process outlives the run.
async fn remove_all(target: &Target, connection: &mut Connection) -> Result<()> {
    let path = objects::pods(target);
    let delete = format!("{path}?gracePeriodSeconds=1");
    objects::send(target, connection, ("DELETE", &delete), &Value::Null).await?;
    gone(target, connection).await
}

async fn gone(target: &Target, connection: &mut Connection) -> Result<()> {
    let path = objects::pods(target);
    let start = now();
    while objects::count(target, connection, &path).await? > 0 {
        ensure!(start.elapsed() < GONE_MAX, "pods do not go");
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}
