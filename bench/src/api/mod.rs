//! An API server's figures, one table: ours, which is started here, or any that a kubeconfig names.
//!
//! Time of the processor for each operation is the figure to compare: on a shared machine it moves
//! far less than a rate does, and the driver shares the machine with what it measures.

pub mod client;
mod items;
pub mod kubeconfig;
mod life;
mod lists;
pub mod load;
pub mod report;
pub mod target;
pub mod usage;
mod watches;
mod writes;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};

use report::Report;
use target::Target;

#[derive(Args)]
pub struct Options {
    /// Measure the server of this kubeconfig instead of one that is started here.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The program to start; the one that was built beside this one when it is not said.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Where the started server keeps its data; the disk of this directory is what is measured.
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    /// The process of the server of the kubeconfig, if it runs on this machine.
    #[arg(long)]
    pid: Option<u32>,
    /// Which workloads; all when it is not said.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Workload>,
    /// Objects for lists and for writes.
    #[arg(long, default_value_t = 10_000)]
    objects: usize,
    /// How long an idle server is looked at, in seconds.
    #[arg(long, default_value_t = 10)]
    idle_seconds: u64,
    /// Also ten thousand watchers.
    #[arg(long)]
    full: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Workload {
    Start,
    Idle,
    Create,
    Write,
    List,
    Watch,
    Burst,
}

impl Options {
    fn wants(&self, workload: Workload) -> bool {
        self.only.is_empty() || self.only.contains(&workload)
    }
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let mut report = Report::begin();
    let given = options.kubeconfig.is_some();
    if options.wants(Workload::Start) && !given {
        life::start(&options, &mut report).await?;
    }
    let target = Arc::new(Target::prepare(&options).await?);
    if options.wants(Workload::Idle) && target.pid.is_some() {
        life::idle(&target, options.idle_seconds, &mut report).await?;
    }
    items::namespaces(&target).await?;
    // What is listed, read and changed must exist, whether or not creating it is looked at.
    writes::create(&target, &options, &mut report).await?;
    if options.wants(Workload::Write) {
        writes::read_and_change(&target, &options, &mut report).await?;
    }
    if options.wants(Workload::List) {
        lists::measure(&target, &options, &mut report).await?;
    }
    if options.wants(Workload::Watch) {
        watches::latency(&target, &options, &mut report).await?;
    }
    if options.wants(Workload::Burst) {
        watches::burst(&target, &mut report).await?;
    }
    if options.wants(Workload::Start) && !given {
        life::restart(&target, &options, &mut report).await?;
    }
    target.clean_up().await
}
