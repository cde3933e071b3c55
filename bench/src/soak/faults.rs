//! Faults of the soak test: clients that send nonsense, stop in the middle or say nothing, and a
//! server that gets no processor for a while.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::api::client::{Connection, Http};
use crate::api::target::Target;

const BAD_REQUEST_INTERVAL: Duration = Duration::from_millis(500);
const SILENT_CONNECTIONS: usize = 20;
const PAUSE_INTERVAL: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_secs(1);

/// Bodies that no server accepts.
const BAD_BODIES: [&str; 4] = [
    "{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {",
    "{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"x\"}}",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    "\u{0}\u{1}\u{2}",
];

/// Sends bodies that must be refused, cuts connections, and leaves others silent.
pub async fn send_bad_requests(target: Arc<Target>) -> Result<()> {
    let path = format!("/api/v1/namespaces/{}/configmaps", target.namespace);
    let mut interval = tokio::time::interval(BAD_REQUEST_INTERVAL);
    for number in 0_usize.. {
        interval.tick().await;
        let mut connection = Connection::open(&target, Http::One).await?;
        let body = BAD_BODIES[number % BAD_BODIES.len()].to_owned();
        let status = connection.send(target.request("POST", &path, body)).await?.status;
        ensure!((400..500).contains(&status), "a bad body was answered {status}");
        let mut cut = TcpStream::connect(&target.authority).await?;
        cut.write_all(b"\x16\x03\x01\x02\x00\x01").await?;
        drop(cut);
        let mut silent = Vec::new();
        for _ in 0..SILENT_CONNECTIONS {
            silent.push(TcpStream::connect(&target.authority).await?);
        }
    }
    Ok(())
}

/// Stops the process for a moment, as a busy machine does.
pub async fn pause_server(target: Arc<Target>) -> Result<()> {
    let pid = target.pid.context("the server must be a process of this machine")?.to_string();
    loop {
        tokio::time::sleep(PAUSE_INTERVAL).await;
        signal("-STOP", &pid)?;
        tokio::time::sleep(PAUSE).await;
        signal("-CONT", &pid)?;
    }
}

fn signal(name: &str, pid: &str) -> Result<()> {
    let status = Command::new("kill").args([name, pid]).status()?;
    ensure!(status.success(), "kill {name} {pid} ended with {status}");
    Ok(())
}
