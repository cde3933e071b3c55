//! Pods that ask for more than room: the templates of scheduler_perf.

use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Options, anchors, arrivals, objects, schedule};
use crate::api::client::{Connection, Http};
use crate::api::load::{self, Load};
use crate::api::report::{Aim, Report};
use crate::api::target::Target;
use crate::api::usage;
use crate::statistics::now;

const CREATORS: usize = 16;
/// Only pods that have a node.
const BOUND: &str = "?fieldSelector=spec.nodeName!%3D";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

pub async fn all(options: &Options, nodes: u32, report: &mut Report) -> Result<()> {
    let zone = "topology.kubernetes.io/zone";
    let selector = json!({"matchLabels": {"app": "bench"}});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [
            {"key": zone, "operator": "In", "values": ["zone-0", "zone-1"]}]}]}}});
    let spread = json!([{"maxSkew": 5, "topologyKey": zone, "labelSelector": selector,
        "whenUnsatisfiable": "DoNotSchedule"}]);
    let anti = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}]}});
    let fields = [
        ("node affinity", "affinity", affinity, anchors::NODE_AFFINITY, options.pods),
        ("spread over zones", "topologySpreadConstraints", spread, anchors::SPREAD, options.pods),
        (
            "anti-affinity",
            "affinity",
            anti,
            anchors::ANTI_AFFINITY,
            options.pods.min(nodes as usize),
        ),
    ];
    for (what, field, value, anchor, count) in fields {
        let target = options.cluster(nodes, "all").await?;
        let make = move |number: usize| {
            let mut pod = objects::pod(&format!("pod-{number}"));
            pod["spec"][field] = value.clone();
            pod
        };
        let what = format!("{nodes} nodes: {what}");
        place(&target, (&what, anchor), count, Arc::new(make), report).await?;
    }
    preemption(options, nodes, report).await
}

/// As many pods as there are nodes fill them; half as many that matter more take their places.
async fn preemption(options: &Options, nodes: u32, report: &mut Report) -> Result<()> {
    let target = options.cluster(nodes, "all").await?;
    let mut connection = Connection::open(&target, Http::One).await?;
    for (name, value) in [("low", 1), ("high", 1_000)] {
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value});
        objects::send(&target, &mut connection, ("POST", CLASSES), &class).await?;
    }
    let large = |class: &'static str| {
        move |number: usize| {
            let mut pod = objects::pod(&format!("{class}-{number}"));
            pod["spec"]["priorityClassName"] = json!(class);
            pod["spec"]["terminationGracePeriodSeconds"] = json!(0);
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("60");
            pod
        }
    };
    let count = (nodes as usize).min(options.pods);
    let path = format!("{}{BOUND}", objects::pods(&target));
    let expected = arrivals::expect(&target, &path, "ADDED", count).await?;
    create(&target, count, Arc::new(large("low"))).await?;
    expected.await?.context("the nodes were not filled")?;
    let what = format!("{nodes} nodes, {count} of them full: preemption");
    let make = Arc::new(large("high"));
    place(&target, (&what, anchors::PREEMPTION), count / 2, make, report).await
}

type Make = dyn Fn(usize) -> Value + Send + Sync;

async fn place(
    target: &Arc<Target>,
    (what, anchor): (&str, f64),
    count: usize,
    make: Arc<Make>,
    report: &mut Report,
) -> Result<()> {
    // What is bound already is told at the beginning.
    let mut connection = Connection::open(target, Http::One).await?;
    let before = objects::count(target, &mut connection, &objects::pods(target)).await?;
    let path = format!("{}{BOUND}", objects::pods(target));
    let expected = arrivals::expect(target, &path, "ADDED", before + count).await?;
    let used = target.pid.map(usage::processor_time);
    let begin = now();
    create(target, count, make).await?;
    let arrived = match expected.await? {
        Ok(arrived) => arrived,
        Err(error) => {
            report.missing(what, &format!("{error:#}"));
            return Ok(());
        }
    };
    let rate = count as f64 / arrived.last.duration_since(begin).as_secs_f64();
    report.row(what, (rate, "/s"), Aim::None, &anchors::rate(rate, Some(anchor)));
    schedule::processor(target, used, count, report);
    Ok(())
}

async fn create(target: &Arc<Target>, count: usize, make: Arc<Make>) -> Result<()> {
    let owner = target.clone();
    let make = move |number: usize| {
        owner.request("POST", &objects::pods(&owner), make(number).to_string())
    };
    let load = Load { http: Http::One, connections: CREATORS, streams: 1, count };
    load::run(target, load, Arc::new(make)).await.map(|_| ())
}
