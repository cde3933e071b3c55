//! What a set says of its groups.

use k8s_openapi::jiff::Timestamp;
use reconcile::conditions::{self, Condition, Truth};
use reconcile::plan::Notice;
use serde_json::{Value, json};

use super::labels;
use super::observe::Observed;
use super::spec::Spec;
use crate::value::{list, text};

const AVAILABLE: (&str, &str, &str) = ("Available", "AllGroupsReady", "All replicas are ready");
const PROGRESSING: (&str, &str, &str) =
    ("Progressing", "GroupsProgressing", "Replicas are progressing");
const UPDATING: (&str, &str, &str) =
    ("UpdateInProgress", "GroupsUpdating", "Rolling Upgrade is in progress");

pub struct Status {
    pub value: Value,
    pub notices: Vec<Notice>,
    /// Whether every group that was asked for is of the current revision, and serves.
    pub is_update_done: bool,
}

/// How many groups are how.
#[derive(Default)]
struct Counts {
    ready: i64,
    updated: i64,
    /// Of those that were asked for.
    ready_asked: i64,
    /// Of those that an update reaches.
    reached: i64,
    /// Something of them is of another revision; what is only missing is not.
    reached_old: i64,
    reached_updated_ready: i64,
}

pub fn status(spec: &Spec<'_>, observed: &Observed, (key, now): (&str, Timestamp)) -> Status {
    let counts = count(spec, observed, key);
    let (true_ones, false_ones): (&[_], &[_]) = if counts.reached_old > 0 {
        (&[UPDATING, PROGRESSING], &[AVAILABLE])
    } else if counts.ready_asked == spec.replicas && counts.reached_updated_ready == counts.reached
    {
        (&[AVAILABLE], &[PROGRESSING, UPDATING])
    } else {
        (&[PROGRESSING], &[AVAILABLE])
    };
    let before = &spec.set.value["status"];
    let mut found = list(&before["conditions"]).to_vec();
    let mut notices = Vec::new();
    for (kind, reason, message) in false_ones {
        if conditions::is_true(before, kind) {
            set(&mut found, (kind, reason, message), Truth::False, now);
        }
    }
    for (kind, reason, message) in true_ones {
        if !conditions::is_true(before, kind) {
            let (ready, all) = (counts.ready_asked, spec.replicas);
            let message = format!("{message}, with {ready} groups ready of total {all} groups");
            notices.push(Notice::normal(reason, message));
        }
        set(&mut found, (kind, reason, message), Truth::True, now);
    }
    // Every condition was decided for this generation, also those that stay as they were.
    for condition in &mut found {
        condition["observedGeneration"] = json!(spec.set.generation());
    }
    // The order does not tell what happened first.
    found.sort_by(|one, other| text(&one["type"]).cmp(text(&other["type"])));
    let leaders = observed.leaders.as_ref().map(|leaders| &leaders.value["status"]["replicas"]);
    let replicas = leaders.and_then(Value::as_i64).unwrap_or(0);
    let value = json!({
        "conditions": found,
        "hpaPodSelector": format!("{}={},{}={}", labels::NAME, spec.name(),
            labels::WORKER_INDEX, labels::LEADER),
        "observedGeneration": spec.set.generation(),
        "replicas": replicas,
        "readyReplicas": counts.ready,
        "updatedReplicas": counts.updated,
    });
    let is_update_done = spec.rollout.partition == 0
        && counts.reached_updated_ready == spec.replicas
        && observed.leaders.is_some();
    Status { value, notices, is_update_done }
}

fn count(spec: &Spec<'_>, observed: &Observed, key: &str) -> Counts {
    let mut counts = Counts::default();
    for members in &observed.groups {
        let group = members.state(spec, key);
        let is_asked = members.index < spec.replicas;
        let is_reached = is_asked && members.index >= spec.rollout.partition;
        counts.ready += i64::from(group.is_ready);
        counts.updated += i64::from(group.is_updated);
        counts.ready_asked += i64::from(is_asked && group.is_ready);
        counts.reached += i64::from(is_reached);
        counts.reached_old += i64::from(is_reached && members.is_old(key));
        counts.reached_updated_ready += i64::from(is_reached && group.is_updated && group.is_ready);
    }
    counts
}

fn set(
    found: &mut Vec<Value>,
    (kind, reason, message): (&str, &str, &str),
    status: Truth,
    now: Timestamp,
) {
    let condition = Condition { kind, status, reason, message, observed_generation: None };
    conditions::set(found, &condition, now);
}
