//! CT-8: nothing a component does rests on what it knew before its own last write. Controllers of
//! one process that write one object are held apart: each waits for its own writes, and what
//! another wrote may come late, as from anybody.

use std::collections::BTreeMap;

use super::{Case, Violation};
use crate::record::Made;

/// A write of one life that was acknowledged.
struct Wrote {
    revision: u64,
    is_create: bool,
}

pub fn freshness(case: &Case<'_>) -> Vec<Violation> {
    let mut wrote: BTreeMap<(u32, String), BTreeMap<&str, Wrote>> = BTreeMap::new();
    let mut violations = Vec::new();
    for made in case.run.made.iter().filter(|made| made.is_write() && !made.is_notice()) {
        let writers = wrote.entry((made.life, made.key())).or_default();
        // A delete does not say whose it is: where only one writes, it is that one's.
        let last = match made.manager.as_str() {
            "" if writers.len() == 1 => writers.values().next(),
            manager => writers.get(manager),
        };
        if let Some(last) = last
            && let Some(what) = is_behind(case, made, last)
        {
            violations.push(Violation::new("CT-8", what));
        }
        if made.is_success() && made.is_answered && made.revision > 0 {
            let is_create = made.sort.method == "POST";
            writers.insert(&made.manager, Wrote { revision: made.revision, is_create });
        }
    }
    violations
}

fn is_behind(case: &Case<'_>, made: &Made, last: &Wrote) -> Option<String> {
    // Whose a delete is can be mistaken; one that was refused rested on nothing.
    let is_refused_delete = made.sort.method == "DELETE" && made.code == 409;
    if made.expects.is_some_and(|expects| expects < last.revision) && !is_refused_delete {
        let (sort, revision) = (&made.sort, last.revision);
        return Some(format!("{sort} rests on less than its own write at {revision}"));
    }
    let is_second = made.sort.method == "POST" && made.code == 409 && last.is_create;
    let key = made.key();
    let mut between = case.run.history.iter().filter(|change| {
        change.key == key && change.revision > last.revision && change.revision <= made.head
    });
    let was_there = !between.any(|change| {
        change.new.as_ref().is_none_or(|new| !new["metadata"]["deletionTimestamp"].is_null())
    });
    (is_second && was_there && made.fault.is_none())
        .then(|| format!("{key} was made again by who had made it"))
}

/// `observedGeneration` goes forward only, and never ahead of the object.
pub fn generations(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for change in case.run.own() {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { continue };
        let observed = |object: &serde_json::Value| object["status"]["observedGeneration"].as_i64();
        let generation = new["metadata"]["generation"].as_i64();
        let (before, after) = (observed(old), observed(new));
        if after < before {
            let what = format!("{}: observedGeneration goes back", change.key);
            violations.push(Violation::new("CT-8", what));
        }
        if after.is_some() && generation.is_some() && after > generation {
            let what = format!("{}: observedGeneration is ahead", change.key);
            violations.push(Violation::new("CT-8", what));
        }
    }
    violations
}
