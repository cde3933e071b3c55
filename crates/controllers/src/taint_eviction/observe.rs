//! The taints of a pod's node.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::{Context, Name, Object, conditions};
use serde_json::Value;
use tokio::time::Instant;

use crate::kinds::NODE;
use crate::pods;

/// What the node of a pod is like.
#[derive(Debug, Default)]
pub struct Observed {
    pub taints: Vec<Taint>,
    /// Nobody knows how the node is.
    pub is_unheard: bool,
}

/// A taint that drives pods away.
#[derive(Clone, Debug, PartialEq)]
pub struct Taint {
    pub key: String,
    pub value: String,
    /// How long it has been there.
    pub age: Duration,
}

/// When each taint was first seen, and how old it was then.
type Ages = BTreeMap<String, (Instant, Duration)>;

/// When taints were first seen, and how old they were then. From there on the monotonic clock
/// counts: somebody who sets the wall clock neither saves nor loses pods.
#[derive(Default)]
pub struct FirstSeen(Mutex<BTreeMap<Name, Ages>>);

impl FirstSeen {
    /// The taints of a node with their ages; those that went are forgotten.
    pub fn dated(
        &self,
        node: &Name,
        taints: &[Value],
        (wall, now): (Timestamp, Instant),
    ) -> Vec<Taint> {
        let text =
            |taint: &Value, field: &str| taint[field].as_str().unwrap_or_default().to_owned();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.remove(node).unwrap_or_default();
        let mut kept = BTreeMap::new();
        let mut dated = Vec::new();
        for taint in taints {
            let [key, value, added] = ["key", "value", "timeAdded"].map(|field| text(taint, field));
            let name = format!("{key}={value}@{added}");
            let first = || {
                let added: Option<Timestamp> = added.parse().ok();
                let seconds = added.map_or(0, |added| wall.as_second() - added.as_second());
                (now, Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
            };
            let seen = known.get(&name).copied().unwrap_or_else(first);
            let age = seen.1 + now.saturating_duration_since(seen.0);
            kept.insert(name, seen);
            dated.push(Taint { key, value, age });
        }
        if !kept.is_empty() {
            all.insert(node.clone(), kept);
        }
        dated
    }
}

pub fn observe(context: &Context, seen: &FirstSeen, pod: &Object) -> Observed {
    let name = Name::new("", pods::node(pod));
    let node = context.cache(NODE).get(&name);
    let taints = node.as_ref().map(|node| taints(node)).unwrap_or_default();
    let taints = seen.dated(&name, &taints, (context.environment.now(), Instant::now()));
    Observed { taints, is_unheard: node.is_some_and(|node| is_unheard(&node)) }
}

/// The taints of a node that drive pods away.
pub fn taints(node: &Object) -> Vec<Value> {
    let all = node.value["spec"]["taints"].as_array().into_iter().flatten();
    all.filter(|taint| taint["effect"] == "NoExecute").cloned().collect()
}

pub fn is_unheard(node: &Object) -> bool {
    let ready = conditions::find(&node.value["status"], "Ready");
    ready.is_some_and(|ready| ready["status"] == "Unknown")
}
