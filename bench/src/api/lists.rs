//! Lists of many objects, in the forms that clients ask for.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;

use super::client::{Connection, Http};
use super::report::{Aim, Report, millis};
use super::target::Target;
use super::{Options, items, usage};
use crate::statistics::{Samples, now};

const REPETITIONS: usize = 5;
const PAGE: usize = 500;
const JSON: &str = "application/json";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// What is asked for, as what, and the aim in milliseconds for ten thousand objects.
fn forms() -> Vec<(&'static str, String, &'static str, Option<f64>)> {
    let only = |query: &str| format!("?labelSelector=app%3Dbench{query}");
    vec![
        ("list, JSON", String::new(), JSON, Some(26.0)),
        ("list, JSON, resourceVersion=0", "?resourceVersion=0".to_owned(), JSON, Some(26.0)),
        ("list, protobuf", String::new(), PROTOBUF, None),
        ("list, Table", String::new(), TABLE, Some(10.0)),
        ("list, PartialObjectMetadata", String::new(), METADATA, None),
        ("list, one label of all", only(""), JSON, None),
        ("list, one label of 16", only("%2Cshard%3Ds3"), JSON, None),
    ]
}

pub async fn measure(target: &Arc<Target>, options: &Options, report: &mut Report) -> Result<()> {
    let mut connection = Connection::open(target, Http::One).await?;
    let before = count(target, &mut connection).await?;
    for (what, query, accept, aim) in forms() {
        let path = format!("{}{query}", items::collection(target));
        let (mut samples, mut bytes, mut refused) = (Samples::default(), 0, None);
        let processor = target.pid.map(usage::processor_time);
        for _ in 0..REPETITIONS {
            let start = now();
            let request = target.request_as("GET", &path, ("", accept), String::new());
            let answer = connection.send(request).await?;
            samples.push(start.elapsed());
            bytes = answer.body.len();
            refused = (answer.status != 200).then_some(answer.status);
        }
        if let Some(status) = refused {
            report.missing(what, &format!("answered with {status}"));
            continue;
        }
        let each = target.pid.zip(processor).map(|(pid, before)| {
            usage::processor_time(pid).saturating_sub(before) / REPETITIONS as u32
        });
        let remark = remark(bytes, samples.percentile(0.5), each);
        let aim = aim.filter(|_| options.objects == 10_000).map_or(Aim::None, Aim::AtMost);
        report.row(what, millis(samples.percentile(0.5)), aim, &remark);
    }
    pages(target, &mut connection, before, report).await
}

fn remark(bytes: usize, took: Duration, each: Option<Duration>) -> String {
    let megabytes = bytes as f64 / 1e6;
    let rate = megabytes / took.as_secs_f64();
    let processor = match each {
        Some(each) => format!(", processor {:.1} ms", each.as_secs_f64() * 1e3),
        None => String::new(),
    };
    format!("{megabytes:.2} MB, {rate:.0} MB/s{processor}")
}

async fn count(target: &Target, connection: &mut Connection) -> Result<usize> {
    let path = format!("{}?limit=1", items::collection(target));
    let answer = connection.send(target.request("GET", &path, String::new())).await?;
    let list: Value = serde_json::from_slice(&answer.body)?;
    let remaining = list["metadata"]["remainingItemCount"].as_u64().unwrap_or_default();
    Ok(1 + remaining as usize)
}

/// All of it in pages, as kubectl reads it.
async fn pages(
    target: &Target,
    connection: &mut Connection,
    expected: usize,
    report: &mut Report,
) -> Result<()> {
    let start = now();
    let (mut found, mut next) = (0, String::new());
    loop {
        let path = format!("{}?limit={PAGE}&continue={next}", items::collection(target));
        let answer = connection.send(target.request("GET", &path, String::new())).await?;
        // The token is near the beginning or the end, but parsing is the client's cost as well.
        let list: Value = serde_json::from_slice(&answer.body)?;
        found += list["items"].as_array().map_or(0, Vec::len);
        next = list["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        if next.is_empty() {
            break;
        }
    }
    ensure!(found == expected, "pages had {found} objects instead of {expected}");
    let remark = format!("{found} objects, parsed by the driver");
    report.row("list, pages of 500", millis(start.elapsed()), Aim::None, &remark);
    Ok(())
}
