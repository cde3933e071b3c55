//! A whole control plane on simulated nodes and a durable store: how fast pods are placed and
//! become ready, and what that costs.

pub mod anchors;
pub mod arrivals;
mod gangs;
mod life;
pub mod objects;
mod schedule;
mod steady;
mod templates;
mod workloads;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use store::{Environment, System};

use crate::api::client::{Connection, Http};
use crate::api::report::Report;
use crate::api::target::Target;
use crate::statistics::now;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(20);

#[derive(Args)]
pub struct Options {
    /// The program to start; the one that was built beside this one when it is not said.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Where the started server keeps its data; the disk of this directory is what is measured.
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    /// Which workloads; all when it is not said.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Workload>,
    /// How many nodes, one run for each number.
    #[arg(long, value_delimiter = ',', default_value = "100,1000,5000")]
    nodes: Vec<u32>,
    /// Pods to be scheduled.
    #[arg(long, default_value_t = 2_000)]
    pods: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Workload {
    Schedule,
    Templates,
    Deployment,
    Job,
    Gang,
    Delete,
    Filtered,
    Leases,
    Churn,
    Idle,
}

impl Options {
    fn wants(&self, workload: Workload) -> bool {
        self.only.is_empty() || self.only.contains(&workload)
    }

    /// A cluster on an empty directory.
    async fn cluster(&self, nodes: u32, components: &str) -> Result<Arc<Target>> {
        let directory = self.directory.join(format!(".bench-{:016x}", System.random()));
        self.cluster_in(directory, nodes, components).await
    }

    async fn cluster_in(
        &self,
        directory: PathBuf,
        nodes: u32,
        components: &str,
    ) -> Result<Arc<Target>> {
        let count = nodes.to_string();
        let arguments = [
            "--components",
            components,
            "--fake-nodes",
            &count,
            "--fake-node-resources",
            "cpu=64,memory=512Gi,pods=500,nvidia.com/gpu=8",
        ];
        let target = Target::launch(self.program.as_deref(), directory, &arguments)?;
        let mut connection = Connection::open(&target, Http::One).await?;
        let began = now();
        loop {
            let ready = objects::count(&target, &mut connection, "/api/v1/nodes").await?;
            if ready >= nodes as usize {
                break;
            }
            ensure!(began.elapsed() < PATIENCE, "only {ready} of {nodes} nodes registered");
            tokio::time::sleep(LOOK).await;
        }
        objects::namespace(&target, &mut connection, &target.namespace).await?;
        Ok(Arc::new(target))
    }
}

pub async fn run(options: Options) -> Result<()> {
    let mut report = Report::begin();
    if options.wants(Workload::Schedule) {
        for nodes in &options.nodes {
            schedule::created(&options, *nodes, &mut report).await?;
            schedule::waiting(&options, *nodes, &mut report).await?;
        }
    }
    let nodes = options.nodes.iter().copied().find(|nodes| *nodes >= 1_000).unwrap_or(100);
    if options.wants(Workload::Deployment) {
        workloads::deployments(&options, nodes, &mut report).await?;
    }
    if options.wants(Workload::Job) {
        workloads::jobs(&options, nodes, &mut report).await?;
    }
    if options.wants(Workload::Gang) {
        gangs::all(&options, nodes, &mut report).await.context("gangs")?;
    }
    if options.wants(Workload::Templates) {
        templates::all(&options, nodes, &mut report).await.context("templates")?;
    }
    if options.wants(Workload::Delete) {
        life::delete_namespace(&options, nodes, &mut report).await?;
    }
    if options.wants(Workload::Filtered) {
        steady::filtered(&options, &mut report).await.context("watches of nodes")?;
    }
    if options.wants(Workload::Leases) {
        steady::leases(&options, &mut report).await.context("leases")?;
    }
    if options.wants(Workload::Churn) {
        steady::churn(&options, &mut report).await.context("a burst")?;
    }
    if options.wants(Workload::Idle) {
        life::idle(&options, &mut report).await?;
    }
    Ok(())
}
