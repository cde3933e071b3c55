//! CT-12: what keeps failing is tried less and less often, and a server that asks for time gets it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Case, Violation};
use crate::faults::{Fault, RETRY_AFTER_SECONDS};
use crate::record::Made;

/// Tries of one write that fails for long: what doubling from 5 ms to 5 minutes takes, and some.
const TRIES_MAX: usize = 40;

pub fn backoff(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let struck = case.run.made.iter().filter_map(|made| Some((made, made.fault?)));
    for (struck, fault) in struck {
        match fault {
            Fault::RefuseLong(_, seconds) => violations.extend(too_often(case, struck, seconds)),
            Fault::Refuse(429) => violations.extend(too_soon(case, struck)),
            _ => {}
        }
    }
    violations
}

fn too_often(case: &Case<'_>, struck: &Made, seconds: u64) -> Vec<Violation> {
    let end = struck.at + Duration::from_secs(seconds);
    let during = |at: Duration| at >= struck.at && at < end;
    // Whatever changes meanwhile is a reason to look again at once.
    let changes = case.run.events.iter().filter(|event| during(event.at)).count();
    let mut tries: BTreeMap<String, usize> = BTreeMap::new();
    for made in case.run.made.iter().filter(|made| made.sort == struck.sort && during(made.at)) {
        *tries.entry(made.key()).or_default() += 1;
    }
    let often = tries.into_iter().filter(|(_, count)| *count > TRIES_MAX + changes);
    often
        .map(|(key, count)| {
            let what = format!("{} of {key} was tried {count} times", struck.sort);
            Violation::new("CT-12", what)
        })
        .collect()
}

fn too_soon(case: &Case<'_>, struck: &Made) -> Option<Violation> {
    let wait = Duration::from_secs(RETRY_AFTER_SECONDS);
    let same = |made: &&Made| {
        made.life == struck.life
            && made.sort == struck.sort
            && made.key() == struck.key()
            && made.number > struck.number
    };
    let next = case.run.made.iter().find(same)?;
    // Changes that come meanwhile are a reason of their own.
    let has_news = case.run.events.iter().any(|event| event.at >= struck.at && event.at < next.at);
    let is_soon = next.at < struck.at + wait && !has_news && next.at > struck.at;
    let took = next.at.saturating_sub(struck.at);
    is_soon.then(|| {
        let what = format!("{} was tried again after {took:?}, before it was asked", struck.sort);
        Violation::new("CT-12", what)
    })
}
