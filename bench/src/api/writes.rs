//! Single objects: created, read, changed and deleted.

use std::sync::Arc;

use anyhow::Result;
use serde_json::json;

use super::client::Http;
use super::load::{Aims, Load, Make, measure};
use super::report::{Aim, Report};
use super::target::Target;
use super::{Options, Workload, items, usage};

/// How many objects are changed for one figure.
const CHANGES: usize = 3_000;
const MERGE_PATCH: &str = "application/merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// The last load leaves the objects `item-…` that all others use.
pub async fn create(target: &Arc<Target>, options: &Options, report: &mut Report) -> Result<()> {
    let one = |connections, count| Load { http: Http::One, connections, streams: 1, count };
    let few = options.objects.min(CHANGES);
    let mut loads = Vec::new();
    if options.wants(Workload::Create) {
        loads.push(("one", one(1, few / 3), aims_alone()));
        loads.push(("some", one(16, few), Aims::NONE));
        let two = Load { http: Http::Two, connections: 4, streams: 16, count: few };
        loads.push(("shared", two, Aims::NONE));
    }
    loads.push((items::ITEM, one(64, options.objects), aims_together()));
    for (prefix, load, aims) in loads {
        let requests = target.clone();
        let make: Arc<Make> = Arc::new(move |number| {
            let body = items::text(prefix, number, "");
            requests.request("POST", &items::collection_of(&requests, prefix), body)
        });
        measure(target, ("create", load), (make, aims), report).await?;
    }
    if let Some(pid) = target.pid {
        let what = format!("memory with {} objects and history", options.objects);
        report.row(&what, (usage::resident(pid), "MiB"), Aim::AtMost(60.0), "");
    }
    Ok(())
}

fn aims_alone() -> Aims {
    Aims { median: Aim::AtMost(420.0), worst: Aim::AtMost(1_500.0), ..Aims::NONE }
}

fn aims_together() -> Aims {
    Aims {
        rate: Aim::AtLeast(10_000.0),
        median: Aim::None,
        worst: Aim::AtMost(8_000.0),
        processor: Aim::AtMost(85.0),
    }
}

pub async fn read_and_change(
    target: &Arc<Target>,
    options: &Options,
    report: &mut Report,
) -> Result<()> {
    let changes = options.objects.min(CHANGES);
    for connections in [16, 64] {
        let load = |count| Load { http: Http::One, connections, streams: 1, count };
        let get = aims(31_000.0, 25.0);
        let make = by_path(target, "GET", |_, _| String::new(), "application/json");
        measure(target, ("get", load(options.objects)), (make, get), report).await?;
        let mark = format!("put-{connections}");
        let make =
            by_path(target, "PUT", move |number, _| items::text(items::ITEM, number, &mark), "");
        measure(target, ("put", load(changes)), (make, aims(10_000.0, 95.0)), report).await?;
        let body = move |_, _: &Target| json!({"data": {"patched": connections.to_string()}});
        let make = by_path(target, "PATCH", move |n, t| body(n, t).to_string(), MERGE_PATCH);
        let aim = aims(8_600.0, 95.0);
        measure(target, ("merge patch", load(changes)), (make, aim), report).await?;
        let make = by_path(target, "PATCH", move |n, _| applied(n, connections), APPLY_PATCH);
        let aim = aims(6_600.0, 150.0);
        measure(target, ("apply", load(changes)), (make, aim), report).await?;
    }
    let deleted = target.clone();
    let make: Arc<Make> = Arc::new(move |number| {
        let number = number % CHANGES;
        deleted.request("DELETE", &items::path(&deleted, "some", number), String::new())
    });
    if options.wants(Workload::Create) {
        let load = Load { http: Http::One, connections: 16, streams: 1, count: changes };
        measure(target, ("delete", load), (make, Aims::NONE), report).await?;
    }
    Ok(())
}

fn aims(rate: f64, processor: f64) -> Aims {
    let (rate, processor) = (Aim::AtLeast(rate), Aim::AtMost(processor));
    Aims { rate, processor, ..Aims::NONE }
}

/// Requests to the objects `item-…`, each once.
fn by_path(
    target: &Arc<Target>,
    method: &'static str,
    body: impl Fn(usize, &Target) -> String + Send + Sync + 'static,
    content_type: &'static str,
) -> Arc<Make> {
    let target = target.clone();
    Arc::new(move |number| {
        let mut path = items::path(&target, items::ITEM, number);
        if content_type == APPLY_PATCH {
            path += "?fieldManager=bench&force=true";
        }
        let content_type = if content_type.is_empty() { "application/json" } else { content_type };
        let types = (content_type, "application/json");
        target.request_as(method, &path, types, body(number, &target))
    })
}

fn applied(number: usize, connections: usize) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": items::name(items::ITEM, number)},
        "data": {"applied": connections.to_string()},
    })
    .to_string()
}
