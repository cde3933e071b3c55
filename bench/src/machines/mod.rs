//! Virtual machines: how soon one runs beside QEMU alone, what idle ones cost outside QEMU, and how
//! fast images come in beside a conversion alone.

mod bare;
mod imports;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::{Value, json};
use store::{Environment, System};

use crate::api::client::{Connection, Http};
use crate::api::report::{Aim, Report, millis};
use crate::api::target::Target;
use crate::api::usage;
use crate::cluster::objects;
use crate::statistics::{Samples, now};

/// How long machines may take to come or to go.
const PATIENCE: Duration = Duration::from_secs(180);
const LOOK: Duration = Duration::from_millis(2);
const STARTS: usize = 7;
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
    /// How many machines are idle at once.
    #[arg(long, default_value_t = 50)]
    machines: usize,
}

pub async fn run(options: Options) -> Result<()> {
    let mut report = Report::begin();
    let place = options.directory.join(format!(".bench-{:016x}", System.random()));
    let arguments = ["--runtime", "process"];
    let target = Target::launch(options.program.as_deref(), place, &arguments)?;
    let mut cluster = Cluster { connection: Connection::open(&target, Http::One).await?, target };
    cluster.prepare().await?;
    let measured = measure(&mut cluster, &options, &mut report).await;
    // Guests outlive the program; they must not outlive the run.
    let gone = cluster.remove_all().await;
    measured.and(gone)?;
    imports::run(&options.directory, &mut report).await
}

async fn measure(cluster: &mut Cluster, options: &Options, report: &mut Report) -> Result<()> {
    one_by_one(cluster, options, report).await?;
    idle(cluster, options.machines, report).await
}

/// The program that is measured.
struct Cluster {
    target: Target,
    connection: Connection,
}

impl Cluster {
    async fn send(&mut self, what: (&str, &str), body: &Value) -> Result<Value> {
        objects::send(&self.target, &mut self.connection, what, body).await
    }

    fn machines(&self) -> String {
        format!("/apis/kubevirt.io/v1/namespaces/{}/virtualmachines", self.target.namespace)
    }

    fn instances(&self) -> String {
        format!("/apis/kubevirt.io/v1/namespaces/{}/virtualmachineinstances", self.target.namespace)
    }

    /// Waits until machines can be made, and makes the first, which finds out how to run them.
    async fn prepare(&mut self) -> Result<()> {
        objects::namespace(&self.target, &mut self.connection, &self.target.namespace).await?;
        let start = now();
        let path = self.instances();
        while self.send(("GET", &path), &Value::Null).await.is_err() {
            ensure!(start.elapsed() < PATIENCE, "the cluster knows no machines");
            tokio::time::sleep(LOOK).await;
        }
        self.create("first").await?;
        self.until_running(1).await?;
        self.remove_all().await
    }

    async fn create(&mut self, name: &str) -> Result<()> {
        let spec = json!({"terminationGracePeriodSeconds": 0, "startStrategy": "Paused",
            "domain": {"memory": {"guest": "64Mi"}, "devices": {}}});
        let machine = json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
            "metadata": {"name": name},
            "spec": {"runStrategy": "Always", "template": {"spec": spec}}});
        let path = self.machines();
        self.send(("POST", &path), &machine).await.map(drop)
    }

    async fn until_running(&mut self, count: usize) -> Result<Instant> {
        let (start, path) = (now(), self.instances());
        loop {
            let list = self.send(("GET", &path), &Value::Null).await?;
            let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
            let running = items.iter().filter(|one| one["status"]["phase"] == "Running").count();
            if running >= count {
                return Ok(now());
            }
            ensure!(start.elapsed() < PATIENCE, "{running} of {count} machines run");
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn remove_all(&mut self) -> Result<()> {
        self.connection = Connection::open(&self.target, Http::One).await?;
        let (start, machines, instances) = (now(), self.machines(), self.instances());
        self.send(("DELETE", &machines), &Value::Null).await?;
        loop {
            let target = &self.target;
            let left = objects::count(target, &mut self.connection, &instances).await?;
            if left == 0 {
                return Ok(());
            }
            ensure!(start.elapsed() < PATIENCE, "{left} machines do not go");
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// From the request until the machine is told to run, and QEMU alone until it says so itself.
async fn one_by_one(cluster: &mut Cluster, options: &Options, report: &mut Report) -> Result<()> {
    let (mut ours, mut alone) = (Samples::default(), Samples::default());
    for number in 0..STARTS {
        alone.push(bare::start(&options.directory)?);
        let start = now();
        cluster.create(&format!("single-{number}")).await?;
        let until = cluster.until_running(1).await?;
        ours.push(until.duration_since(start));
        cluster.remove_all().await?;
    }
    let (ours, alone) = (ours.percentile(0.5), alone.percentile(0.5));
    report.row("QEMU alone until its monitor answers", millis(alone), Aim::None, "");
    report.row("machine created until it runs, p50", millis(ours), Aim::None, "");
    let over = millis(ours.saturating_sub(alone));
    report.row("  over QEMU alone", over, Aim::AtMost(150.0), "");
    Ok(())
}

/// What machines cost that do nothing, outside QEMU.
async fn idle(cluster: &mut Cluster, count: usize, report: &mut Report) -> Result<()> {
    let Some(pid) = cluster.target.pid else { return Ok(()) };
    tokio::time::sleep(SETTLE).await;
    let before = usage::resident(pid);
    let start = now();
    for number in 0..count {
        cluster.create(&format!("idle-{number}")).await?;
    }
    let until = cluster.until_running(count).await?;
    let took = millis(until.duration_since(start));
    report.row(&format!("{count} machines at once until all run"), took, Aim::None, "");
    tokio::time::sleep(SETTLE).await;
    let began = usage::processor_time(pid);
    tokio::time::sleep(SPAN).await;
    let used = usage::processor_time(pid).saturating_sub(began);
    let percent = used.as_secs_f64() / SPAN.as_secs_f64() * 100.0;
    report.row("  idle with them: processor", (percent, "%"), Aim::None, "of the program");
    let each = (usage::resident(pid) - before) * 1024.0 / count.max(1) as f64;
    report.row("  memory a machine, outside QEMU", (each, "KiB"), Aim::None, "");
    Ok(())
}
