//! The taints of a pod's node.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::jiff::Timestamp;
use reconcile::{Context, Name, Object, conditions};
use serde_json::Value;

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
    pub since: Timestamp,
}

/// When taints were first seen that do not say it themselves.
#[derive(Default)]
pub struct FirstSeen(Mutex<BTreeMap<Name, BTreeMap<String, Timestamp>>>);

pub fn observe(context: &Context, seen: &FirstSeen, pod: &Object) -> Observed {
    let name = Name::new("", pods::node(pod));
    let node = context.cache(NODE).get(&name);
    let taints = node.as_ref().map(|node| taints(node)).unwrap_or_default();
    let now = context.environment.now();
    let mut all = seen.0.lock().unwrap_or_else(PoisonError::into_inner);
    if taints.is_empty() {
        all.remove(&name);
    }
    let mut dated = Vec::new();
    for taint in taints {
        let text = |field: &str| taint[field].as_str().unwrap_or_default().to_owned();
        let said: Option<Timestamp> = text("timeAdded").parse().ok();
        let first = || {
            let of_node = all.entry(name.clone()).or_default();
            *of_node.entry(format!("{}={}", text("key"), text("value"))).or_insert(now)
        };
        let since = said.unwrap_or_else(first);
        dated.push(Taint { key: text("key"), value: text("value"), since });
    }
    if let Some(of_node) = all.get_mut(&name) {
        let stays =
            |taint: &str| dated.iter().any(|it| format!("{}={}", it.key, it.value) == taint);
        of_node.retain(|taint, _| stays(taint));
    }
    Observed { taints: dated, is_unheard: node.is_some_and(|node| is_unheard(&node)) }
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
