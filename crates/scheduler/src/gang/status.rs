//! What a PodGroup's status says of its members. Pure.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::conditions::time;
use serde_json::{Value, json};

use crate::gang::group::{Family, Group};
use crate::labels::text;
use crate::pod::PodInfo;

/// How many members are how far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub total: usize,
    pub scheduled: usize,
    pub running: usize,
    pub succeeded: usize,
    pub failed: usize,
}

impl Tally {
    pub fn of<'a>(pods: impl Iterator<Item = &'a Arc<PodInfo>>) -> Tally {
        let mut tally = Tally::default();
        for pod in pods {
            tally.total += 1;
            tally.scheduled += usize::from(!pod.node.is_empty());
            match text(&pod.object.value["status"]["phase"]) {
                "Running" => tally.running += 1,
                "Succeeded" => tally.succeeded += 1,
                "Failed" => tally.failed += 1,
                _ => {}
            }
        }
        tally
    }
}

/// The status as it should be; `None` if it is so.
pub fn plan(family: Family, group: &Group, tally: Tally, now: Timestamp) -> Option<Value> {
    let old = &group.object.value["status"];
    let mut status = if old.is_object() { old.clone() } else { json!({}) };
    let phase = match family {
        Family::Coscheduling => coscheduling(group, tally),
        Family::Volcano => volcano(group, tally),
    };
    status["phase"] = json!(phase);
    let mut counts =
        vec![("running", tally.running), ("succeeded", tally.succeeded), ("failed", tally.failed)];
    if family == Family::Coscheduling {
        counts.push(("scheduled", tally.scheduled));
        if phase == "Scheduling" && status["scheduleStartTime"].is_null() {
            status["scheduleStartTime"] = json!(time(now));
        }
    }
    for (field, count) in counts {
        // What is zero and was never said need not be said.
        if count > 0 || !status[field].is_null() {
            status[field] = json!(count);
        }
    }
    (status != *old).then_some(status)
}

fn coscheduling(group: &Group, tally: Tally) -> &'static str {
    let enough = group.members_min;
    let ended = tally.succeeded + tally.failed;
    if tally.total < enough || tally.total == 0 {
        return match text(&group.object.value["status"]["phase"]) {
            // Members of a group that ended may be cleaned up.
            "Finished" => "Finished",
            "Failed" => "Failed",
            _ => "Pending",
        };
    }
    if tally.failed > 0 && tally.running + ended >= enough {
        "Failed"
    } else if tally.succeeded >= enough {
        "Finished"
    } else if tally.running + tally.succeeded >= enough {
        "Running"
    } else if tally.scheduled >= enough {
        "Scheduled"
    } else {
        "Scheduling"
    }
}

fn volcano(group: &Group, tally: Tally) -> &'static str {
    let enough = group.members_min;
    if tally.total > 0 && tally.succeeded + tally.failed == tally.total {
        return "Completed";
    }
    if tally.total == 0 && text(&group.object.value["status"]["phase"]) == "Completed" {
        return "Completed";
    }
    if tally.scheduled >= enough && tally.total > 0 {
        "Running"
    } else if tally.running > 0 {
        "Unknown"
    } else if tally.total >= enough && tally.total > 0 {
        "Inqueue"
    } else {
        "Pending"
    }
}

#[cfg(test)]
mod tests {
    use reconcile::Object;

    use super::*;

    fn group(phase: &str) -> Group {
        Group::read(Arc::new(Object::new(json!({"metadata": {"name": "g", "namespace": "a"},
            "spec": {"minMember": 2}, "status": {"phase": phase}}))))
    }

    #[test]
    fn the_phase_follows_the_members() {
        let tally = |total, scheduled, running, succeeded, failed| Tally {
            total,
            scheduled,
            running,
            succeeded,
            failed,
        };
        for (members, own, volcanos) in [
            (tally(0, 0, 0, 0, 0), "Pending", "Pending"),
            (tally(1, 0, 0, 0, 0), "Pending", "Pending"),
            (tally(2, 0, 0, 0, 0), "Scheduling", "Inqueue"),
            (tally(2, 2, 1, 0, 0), "Scheduled", "Running"),
            (tally(2, 2, 2, 0, 0), "Running", "Running"),
            (tally(2, 2, 0, 2, 0), "Finished", "Completed"),
            (tally(2, 2, 1, 0, 1), "Failed", "Running"),
            (tally(3, 1, 1, 0, 0), "Scheduling", "Unknown"),
        ] {
            let of = |family| {
                let status = plan(family, &group(""), members, Timestamp::UNIX_EPOCH);
                status.expect("a new phase")["phase"].clone()
            };
            assert_eq!(of(Family::Coscheduling), own, "{members:?}");
            assert_eq!(of(Family::Volcano), volcanos, "{members:?}");
        }
    }

    #[test]
    fn a_status_that_is_so_is_not_written() {
        let none = Tally::default();
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(plan(Family::Coscheduling, &group("Pending"), none, now), None);
        assert_eq!(plan(Family::Coscheduling, &group("Finished"), none, now), None);
        assert_eq!(plan(Family::Volcano, &group("Completed"), none, now), None);
    }
}
