//! What another part of this process knows of where pods go: the scheduler, which the server does
//! not know.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::{Value, json};

/// Why a pod does not fit on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub node: String,
    pub reason: String,
}

impl Refusal {
    pub fn to_json(&self) -> Value {
        json!({"node": self.node, "reason": self.reason})
    }
}

/// Nodes that are not there, for trying things out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WhatIf {
    /// How many nodes more, each like the largest there is.
    pub nodes: usize,
    /// What each of them has instead or besides: `nvidia.com/gpu`.
    pub resources: BTreeMap<String, String>,
}

/// Pods to find places for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// In the order in which they are made.
    pub pods: Vec<Value>,
    /// The uids of pods that they come in place of.
    pub replaced: Vec<String>,
    /// PodGroups that would be there with them.
    pub groups: Vec<Value>,
    /// PersistentVolumeClaims that would be there with them.
    pub claims: Vec<Value>,
    pub what_if: WhatIf,
}

/// What a plan knows besides the cluster as it is.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// Objects that would be there to be read.
    pub read: &'a [Value],
    pub what_if: &'a WhatIf,
}

/// What would be made of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Made {
    /// Those that pods are made of at the end, or the pods themselves.
    pub objects: Vec<Value>,
    /// What else there is to know, for people.
    pub note: String,
}

/// Where a pod would go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    pub node: Option<String>,
    /// Why not, where it fits nowhere.
    pub refusals: Vec<Refusal>,
}

/// Knows where pods go.
#[async_trait]
pub trait Foresee: Send + Sync {
    /// Why a pod that waits has no node, if it was looked at.
    fn refusals(&self, namespace: &str, name: &str) -> Vec<Refusal>;

    /// The objects that others would make of one; nothing where nobody here has to do with it. An
    /// error is a text for people.
    async fn made_of(&self, object: &Value, around: Around<'_>) -> Result<Option<Made>, String>;

    /// Where pods would go; one answer for each. Pods of a group go together or not at all. An
    /// error is a text for people.
    async fn place(&self, wanted: Wanted) -> Result<Vec<Placement>, String>;
}
