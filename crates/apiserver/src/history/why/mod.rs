//! `why/{path}`: what led to an object as it is, from whoever asked for it to what runs, and what
//! it waits for.
//!
//! The trace is made of what the store keeps: every change says who made it and why. An object's
//! family are its owners, itself, and all that has it as an owner; their changes and events in
//! order are the steps.

pub mod family;
pub mod hints;
pub mod sentences;
pub mod state;

use std::sync::Arc;

use serde_json::{Value, json};

use super::foresight::Refusal;
use super::place::Place;
use super::revisions::{newest, object_of};
use super::{Asked, GROUP, VERSION, moment, redact};
use crate::answer::Answer;
use crate::object;
use crate::server::Server;
use crate::status::Error;
use family::{Family, Step};

/// Steps that are told: of more, the first and the last.
const STEPS_MAX: usize = 2_000;
/// Pods whose refusals are looked for.
const REFUSED_PODS_MAX: usize = 100;

pub async fn answer(server: &Arc<Server>, rest: &str, asked: &Asked) -> Result<Answer, Error> {
    let place = Place::one(server, rest)?;
    place.authorize(server, &asked.user, "get")?;
    place.authorize_question(server, asked, ("get", "why"))?;
    let since = place.since(server, &asked.user, "get").await?;
    let until = asked.until(server).await?;
    if asked.is_of_the_past() {
        place.refuse_before(since, until)?;
    }
    let found = newest(server, &place, (since, Some(until)), 1).await?;
    let live = server.store.get(&place.key()?, Some(until)).await;
    let live = live.map_err(crate::server::store_failure)?;
    let last = found.batches.back();
    let entry = live.clone().or_else(|| last.and_then(|(_, change)| change.previous.clone()));
    let Some(entry) = entry else {
        return Err(Error::not_found(place.resource.about(), &place.target.name));
    };
    let target = redact::object(&place.resource, object_of(&place, Some(&entry)).await?);
    let seen = (&target, entry.created);
    let mut family = Family::of(server, (asked, until), &place, seen).await?;
    let steps = family.walk(server, since).await?;
    let pods = family.pods();
    let is_gone = live.is_none();
    let judged = match is_gone {
        true => state::gone(&target, last.map(|(batch, _)| &**batch)),
        false => state::judge(&target, &pods),
    };
    // The scheduler knows the present alone.
    let refusals = match asked.is_of_the_past() {
        true => Vec::new(),
        false => refusals(server, &target, &pods),
    };
    let trace = json!({
        "kind": "Trace", "apiVersion": format!("{GROUP}/{VERSION}"),
        "object": super::revisions::reference(&place),
        "state": judged.state.name(),
        "sentence": judged.sentence,
        "waitingFor": judged.waiting.iter().map(state::Waiting::to_json).collect::<Vec<_>>(),
        "steps": tell(&shorten(steps)),
        "verdicts": refusals.iter().map(Refusal::to_json).collect::<Vec<_>>(),
    });
    Ok(Answer::value(200, &trace))
}

/// Why the scheduler has no node for the first pod that waits for one.
fn refusals(server: &Server, target: &Value, pods: &[Value]) -> Vec<Refusal> {
    let Some(foresight) = server.beside.foresight() else { return Vec::new() };
    let is_pod = target["kind"] == "Pod" && target["apiVersion"] == "v1";
    let own = is_pod.then_some(target);
    let waiting = |pod: &&Value| pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    let all = own.into_iter().chain(pods).filter(waiting).take(REFUSED_PODS_MAX);
    let found = all.map(|pod| foresight.refusals(object::namespace(pod), object::name(pod)));
    found.into_iter().find(|refusals| !refusals.is_empty()).unwrap_or_default()
}

fn shorten(mut steps: Vec<Step>) -> Vec<Step> {
    if steps.len() > STEPS_MAX {
        let end = steps.len() - STEPS_MAX / 2;
        steps.drain(STEPS_MAX / 2..end);
    }
    steps
}

fn tell(steps: &[Step]) -> Vec<Value> {
    let mut previous = steps.first().map_or(0, |step| step.time.0);
    let tell = |step: &Step| {
        let milliseconds = (step.time.0 - previous).max(0) / 1_000;
        previous = step.time.0;
        json!({
            "time": moment::text(step.time),
            "revision": step.revision.0,
            "milliseconds": milliseconds,
            "depth": step.depth,
            "actor": step.actor,
            "object": step.object,
            "cause": step.cause.map(|cause| cause.0),
            "eventType": step.event_type,
            "sentence": step.sentence,
        })
    };
    steps.iter().map(tell).collect()
}
