//! The JavaScript client, as programs use it.

use std::process::{Command, Stdio};

use super::cluster::{Cluster, target};

/// Runs a program of ours in Node.js with the client, for the cluster's administrator.
async fn run(cluster: &Cluster, program: &'static str) {
    let directory = tokio::task::spawn_blocking(|| servers::node_client(target()));
    let directory = directory.await.unwrap().unwrap();
    let mut command = Command::new("node");
    command
        .args(["--input-type=module", "-e", program])
        .current_dir(directory)
        .env("KUBECONFIG", cluster.kubeconfig())
        .env("HOME", &cluster.directory)
        .stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_created_read_patched_listed_and_deleted() {
    let cluster = Cluster::start().await;
    run(&cluster, include_str!("node/objects.mjs")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_and_an_informer_tell_what_happens() {
    let cluster = Cluster::start().await;
    run(&cluster, include_str!("node/watches.mjs")).await;
}
