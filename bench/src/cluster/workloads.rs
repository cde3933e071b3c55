//! Deployments and Jobs, from the request until all of their pods run.

use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{LOOK, Options, PATIENCE, anchors, arrivals, objects};
use crate::api::client::{Connection, Http};
use crate::api::report::{Aim, Report, millis};
use crate::api::target::Target;
use crate::statistics::{Samples, now};

/// Only pods that run.
const RUNNING: &str = "fieldSelector=status.phase%3DRunning";
/// Edits whose effect is timed.
const EDITS: usize = 100;

pub async fn deployments(options: &Options, nodes: u32, report: &mut Report) -> Result<()> {
    let target = options.cluster(nodes, "all").await?;
    let mut connection = Connection::open(&target, Http::One).await?;
    for (replicas, aim) in [(1, None), (10, None), (100, None), (1_000, Some(500.0))] {
        let name = format!("web-{replicas}");
        let begin = now();
        let object = objects::deployment(&name, replicas, "one");
        let path = objects::deployments(&target);
        objects::send(&target, &mut connection, ("POST", &path), &object).await?;
        let path = format!("{path}/{name}");
        ready(&target, &mut connection, (&path, "readyReplicas"), replicas).await?;
        let what = format!("Deployment of {replicas}, until all are ready");
        let took = millis(begin.elapsed());
        let anchor = anchors::of(&anchors::DEPLOYMENT, replicas as u32);
        let aim = aim.map_or(Aim::None, Aim::AtMost);
        report.row(&what, took, aim, &anchors::time(took.0, anchor));
    }
    roll(&target, &mut connection, report).await?;
    edit(&target, &mut connection, report).await
}

/// A rolling update of one hundred.
async fn roll(
    target: &Arc<Target>,
    connection: &mut Connection,
    report: &mut Report,
) -> Result<()> {
    let path = format!("{}/web-100", objects::deployments(target));
    let begin = now();
    let patch = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "main", "image": "two",
            "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}}}]}}}});
    objects::send(target, connection, ("PATCH", &path), &patch).await?;
    let done = |object: &Value| {
        let status = &object["status"];
        status["observedGeneration"] == object["metadata"]["generation"]
            && status["updatedReplicas"] == 100
            && status["readyReplicas"] == 100
            && status["replicas"] == 100
    };
    until(target, connection, &path, done).await?;
    report.row("  rolled to another image, of 100", millis(begin.elapsed()), Aim::None, "");
    Ok(())
}

/// From an edit to its effect on the ReplicaSet.
async fn edit(
    target: &Arc<Target>,
    connection: &mut Connection,
    report: &mut Report,
) -> Result<()> {
    let path = format!("{}/web-1", objects::deployments(target));
    let sets = format!(
        "/apis/apps/v1/namespaces/{}/replicasets?labelSelector=app%3Dweb-1",
        target.namespace
    );
    let mut samples = Samples::default();
    for number in 0..EDITS {
        let expected = arrivals::expect(target, &sets, "MODIFIED", 1).await?;
        let replicas = 1 + number % 2;
        let patch = json!({"spec": {"replicas": if replicas == 1 { 2 } else { 1 }}});
        objects::send(target, connection, ("PATCH", &path), &patch).await?;
        let acknowledged = now();
        let arrived = expected.await?.context("the edit had no effect")?;
        samples.push(arrived.last.saturating_duration_since(acknowledged));
        tokio::time::sleep(LOOK).await;
    }
    let (median, worst) = (samples.percentile(0.5), samples.percentile(0.99));
    report.row("edit to effect, p50", millis(median), Aim::None, "");
    let anchor = anchors::time(millis(worst).0, Some(anchors::EDIT));
    report.row("edit to effect, p99", millis(worst), Aim::AtMost(3.0), &anchor);
    Ok(())
}

pub async fn jobs(options: &Options, nodes: u32, report: &mut Report) -> Result<()> {
    let target = options.cluster(nodes, "all").await?;
    let mut connection = Connection::open(&target, Http::One).await?;
    for (count, aim) in [(1, 4.0), (100, 45.0), (1_000, 500.0)] {
        let name = format!("job-{count}");
        let running = format!("{}?labelSelector=app%3D{name}&{RUNNING}", objects::pods(&target));
        let expected = arrivals::expect(&target, &running, "ADDED", count).await?;
        let begin = now();
        let path = objects::jobs(&target);
        let object = objects::job(&name, count);
        objects::send(&target, &mut connection, ("POST", &path), &object).await?;
        let arrived = expected.await?.context("the pods of the Job do not run")?;
        let what = format!("Job of {count}, until all run");
        let took = millis(arrived.last.duration_since(begin));
        let anchor = anchors::time(took.0, anchors::of(&anchors::JOB, count as u32));
        report.row(&what, took, Aim::AtMost(aim), &anchor);
        let all = format!("{}?labelSelector=app%3D{name}", objects::pods(&target));
        let gone = arrivals::expect(&target, &all, "DELETED", count).await?;
        let begin = now();
        let background = json!({"propagationPolicy": "Background"});
        let path = format!("{path}/{name}");
        objects::send(&target, &mut connection, ("DELETE", &path), &background).await?;
        let arrived = gone.await?.context("the pods of the Job do not go")?;
        let took = millis(arrived.last.duration_since(begin));
        report.row("  deleted, until all are gone", took, Aim::None, "");
    }
    Ok(())
}

async fn ready(
    target: &Arc<Target>,
    connection: &mut Connection,
    (path, field): (&str, &str),
    count: usize,
) -> Result<()> {
    until(target, connection, path, |object| object["status"][field] == count).await
}

/// Looks again and again: a Deployment's status is written too seldom for that to matter.
async fn until(
    target: &Arc<Target>,
    connection: &mut Connection,
    path: &str,
    holds: impl Fn(&Value) -> bool,
) -> Result<()> {
    let begin = now();
    loop {
        let object = objects::send(target, connection, ("GET", path), &Value::Null).await?;
        if holds(&object) {
            return Ok(());
        }
        anyhow::ensure!(begin.elapsed() < PATIENCE, "{path} is {}", object["status"]);
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}
