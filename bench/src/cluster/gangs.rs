//! Gangs of pods that are placed together or not at all.

use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::json;

use super::{Options, anchors, arrivals, objects, schedule};
use crate::api::client::{Connection, Http};
use crate::api::load::{self, Load};
use crate::api::report::{Aim, Report};
use crate::api::usage;
use crate::statistics::now;

/// Which gang a pod is of.
const LABEL: &str = "scheduling.x-k8s.io/pod-group";

pub async fn all(options: &Options, nodes: u32, report: &mut Report) -> Result<()> {
    for (gangs, members) in [(100, 64), (750, 4)] {
        place(options, nodes, (gangs, members), report).await?;
    }
    Ok(())
}

async fn place(
    options: &Options,
    nodes: u32,
    (gangs, members): (usize, usize),
    report: &mut Report,
) -> Result<()> {
    let target = options.cluster(nodes, "all").await?;
    let mut connection = Connection::open(&target, Http::One).await?;
    let groups =
        format!("/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{}/podgroups", target.namespace);
    for gang in 0..gangs {
        let group = json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": format!("gang-{gang}")}, "spec": {"minMember": members}});
        objects::send(&target, &mut connection, ("POST", &groups), &group).await?;
    }
    let bound = format!("{}?fieldSelector=spec.nodeName!%3D", objects::pods(&target));
    let expected = arrivals::expect(&target, &bound, "ADDED", gangs * members).await?;
    let owner = target.clone();
    let make = move |number: usize| {
        let mut pod = objects::pod(&format!("member-{number}"));
        pod["metadata"]["labels"][LABEL] = json!(format!("gang-{}", number / members));
        owner.request("POST", &objects::pods(&owner), pod.to_string())
    };
    let count = gangs * members;
    let load = Load { http: Http::One, connections: 16, streams: 1, count };
    let used = target.pid.map(usage::processor_time);
    let begin = now();
    load::run(&target, load, Arc::new(make)).await?;
    let arrived = expected.await?.context("not every gang was placed")?;
    let elapsed = arrived.last.duration_since(begin).as_secs_f64();
    let what = format!("{nodes} nodes: {gangs} gangs of {members}");
    let rate = count as f64 / elapsed;
    let anchor = anchors::rate(rate, Some(anchors::GANGS));
    report.row(&what, (rate, "/s"), Aim::AtLeast(3_000.0), &anchor);
    schedule::processor(&target, used, count, report);
    Ok(())
}
