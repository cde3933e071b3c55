//! A pod as the scheduler sees it.
//!
//! What decides where a pod may run is its [`Template`]; pods of one workload share one. What is
//! special about the one pod is beside it.

pub mod affinity;
pub mod requests;
pub mod template;
pub mod volumes;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::{Name, Object};
use serde_json::Value;

use crate::gang::group::{self, GroupKey};
use crate::labels::{self, Labels, text};
use crate::pod::template::Template;

/// One pod at one revision.
#[derive(Clone, Debug)]
pub struct PodInfo {
    pub object: Arc<Object>,
    pub template: Arc<Template>,
    pub labels: Arc<Labels>,
    pub uid: Arc<str>,
    pub priority: i32,
    pub preempts: bool,
    /// The node it was bound to; empty while it has none.
    pub node: Arc<str>,
    /// The node on which room is being made for it; empty if there is none.
    pub nominated: Arc<str>,
    pub group: Option<GroupKey>,
    pub is_finished: bool,
    pub is_terminating: bool,
    pub is_gated: bool,
}

impl PodInfo {
    pub fn new(object: Arc<Object>, template: Arc<Template>) -> PodInfo {
        let spec = &object.value["spec"];
        let status = &object.value["status"];
        PodInfo {
            labels: Arc::new(labels::read(&object.value["metadata"]["labels"])),
            uid: object.uid.as_str().into(),
            priority: spec["priority"].as_i64().map_or(0, |it| i32::try_from(it).unwrap_or(0)),
            preempts: text(&spec["preemptionPolicy"]) != "Never",
            node: text(&spec["nodeName"]).into(),
            nominated: text(&status["nominatedNodeName"]).into(),
            group: group::of_pod(&object),
            is_finished: matches!(text(&status["phase"]), "Succeeded" | "Failed"),
            is_terminating: object.is_terminating(),
            is_gated: !list_is_empty(&spec["schedulingGates"]),
            template,
            object,
        }
    }

    pub fn name(&self) -> &Name {
        &self.object.name
    }

    pub fn scheduler(&self) -> &str {
        text(&self.object.value["spec"]["schedulerName"])
    }

    /// Whether it takes room on its node.
    pub fn is_placed(&self) -> bool {
        !self.node.is_empty() && !self.is_finished
    }

    /// Whether somebody must find a node for it.
    pub fn is_pending(&self) -> bool {
        self.node.is_empty() && !self.is_finished && !self.is_terminating
    }

    /// When it began to run, for the choice among victims: the later, the rather.
    pub fn started(&self) -> Option<Timestamp> {
        text(&self.object.value["status"]["startTime"]).parse().ok()
    }
}

fn list_is_empty(value: &Value) -> bool {
    value.as_array().is_none_or(Vec::is_empty)
}
