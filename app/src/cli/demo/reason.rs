//! Reasons for parts of a demonstration that fail or take too long: their state, last Warning
//! events and lines of output.

use std::time::Duration;

use anyhow::{Result, bail};
use inference::kinds::GRAPH;
use machines::kinds::WUKONG;
use serde_json::Value;
use tokio::time::{Instant, timeout};
use training::kinds::TRAIN_JOB;

use super::{Part, inference as graph, machine, training as job};
use crate::cli::connect::Target;
use crate::cli::evidence::{Evidence, Reader};
use crate::cli::exit::{self, Failure};
use crate::cli::verdict::{ObjectState, Observation, Seen, Verdict, decide, object_state};
use crate::cli::vm::cluster::Cluster;
use crate::cli::wait::timed_out;

/// Time to collect the reasons of a part that took too long.
const COLLECT_MAX: Duration = Duration::from_secs(5);

/// Fails if an object cannot recover by itself.
pub async fn check(reader: Reader<'_>, observed: &Observation, seen: &mut Seen) -> Result<()> {
    let Verdict::Failed(cause) = decide(observed, seen, Instant::now()) else { return Ok(()) };
    let evidence = reader.collect(observed, cause.container).await;
    bail!(Failure { shown: evidence.text(), ..Failure::new(exit::WORKLOAD_FAILED, cause.why) })
}

/// Text for a part that was not done in time, and what explains it.
pub async fn late(target: &Target, part: Part, limit: Duration) -> (String, Option<String>) {
    let found = timeout(COLLECT_MAX, collect(target, part)).await;
    let found = found.ok().and_then(Result::ok);
    let (why, evidence) =
        found.unwrap_or_else(|| ("the cluster did not answer".to_owned(), Evidence::default()));
    (timed_out(limit, &why, &evidence), evidence.text())
}

async fn collect(target: &Target, part: Part) -> Result<(String, Evidence)> {
    let cluster = Cluster::connect(target).await?;
    let objects: &[_] = match part {
        Part::Training => &[(TRAIN_JOB, job::NAME)],
        Part::Inference => &graph::NAMES.map(|name| (GRAPH, name)),
        Part::Machine => &[(WUKONG, machine::NAME)],
    };
    let mut object = Value::Null;
    for (kind, name) in objects {
        let found = cluster.requests.get(*kind, &cluster.name(name)).await;
        if let Some(found) = found.ok().flatten() {
            object = found.value.clone();
        }
    }
    let why = match &object {
        Value::Null => "it was not created yet".to_owned(),
        object => match object_state(object) {
            ObjectState::Done => "it was ready and did not answer".to_owned(),
            ObjectState::Failed(why) | ObjectState::Waiting(why) => why,
        },
    };
    let reader = machine::reader(&cluster);
    let observed = reader.observe(object).await;
    Ok((why, reader.collect(&observed, None).await))
}
