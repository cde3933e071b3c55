//! The Python client, as programs use it.

use std::process::{Command, Stdio};

use super::cluster::{Cluster, target};

/// Runs a program of ours in Python with the client, for the cluster's administrator.
async fn run(cluster: &Cluster, program: &str) {
    let interpreter = tokio::task::spawn_blocking(|| servers::python_client(target()));
    let mut command = Command::new(interpreter.await.unwrap().unwrap());
    command
        .args(["-c", program])
        .env("KUBECONFIG", cluster.kubeconfig())
        .env("HOME", &cluster.directory)
        .stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_created_read_patched_listed_watched_and_deleted() {
    let cluster = Cluster::start().await;
    run(&cluster, include_str!("python/objects.py")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_and_certificates_say_who_it_is() {
    let cluster = Cluster::start().await;
    run(&cluster, include_str!("python/identity.py")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn configurations_are_applied() {
    let cluster = Cluster::start().await;
    run(&cluster, include_str!("python/apply.py")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn configurations_of_a_custom_kind_are_applied() {
    let cluster = Cluster::start().await;
    run(&cluster, include_str!("python/custom_apply.py")).await;
}
