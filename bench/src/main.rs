//! Measures, and prints each figure beside what bounds it in the same run.
//!
//! `cargo xtask bench NAME` runs it in the release profile. Figures are never asserted: a shared
//! machine moves them by tens of percent, the ratios between them less.

mod api;
mod apply;
mod cluster;
mod history;
mod inference;
mod machines;
mod node;
mod soak;
mod statistics;
mod store;
mod training;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(about = "Measures Setpoint, and prints each figure beside what bounds it.")]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Server-side apply, beside a PUT of the same object.
    Apply(apply::Options),
    /// The store: durable commits, reopening, lists, watches.
    Store(store::Options),
    /// An API server: its start, writes, reads, lists and watches.
    Api(api::Options),
    /// A cluster of simulated nodes: scheduling, Deployments, Jobs, gangs, deletion.
    Cluster(cluster::Options),
    /// The past: what keeping it costs, lists at a revision, traces.
    History(history::Options),
    /// Graphs of model servers on simulated nodes: time, writes, looks, memory.
    Inference(inference::Options),
    /// Virtual machines: how soon they run, what idle ones cost, how fast images come in.
    Machines(machines::Options),
    /// This machine as a node: pods that run as processes.
    Node(node::Options),
    /// Memory, file descriptors and disk space under an hour of mixed load and faults.
    Soak(soak::Options),
    /// TrainJobs on simulated nodes: time, writes, memory.
    Training(training::Options),
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        match arguments.what {
            What::Apply(options) => apply::run(options).await,
            What::Store(options) => store::run(options).await,
            What::Api(options) => api::run(options).await,
            What::Cluster(options) => cluster::run(options).await,
            What::History(options) => history::run(options).await,
            What::Inference(options) => inference::run(options).await,
            What::Machines(options) => machines::run(options).await,
            What::Node(options) => node::run(options).await,
            What::Soak(options) => soak::run(options).await,
            What::Training(options) => training::run(options).await,
        }
    })
}
