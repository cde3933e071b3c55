//! The ReplicaSets of a Deployment while a plan is made.

use std::sync::Arc;

use reconcile::Object;
use reconcile::plan::Target;
use reconcile::{Plan, act};
use serde_json::{Value, json};

use super::annotations::{self, Annotations};
use crate::kinds::REPLICA_SET;

/// One ReplicaSet: what it is, and what it is to be.
#[derive(Clone)]
pub struct Set<'a> {
    pub name: String,
    pub origin: Origin<'a>,
    pub replicas: i64,
    pub min_ready_seconds: i64,
    pub annotations: Annotations,
}

#[derive(Clone)]
pub enum Origin<'a> {
    Seen(&'a Arc<Object>),
    /// To be made; here without replicas and annotations.
    New(Value),
}

impl<'a> Set<'a> {
    pub fn seen(object: &'a Arc<Object>) -> Set<'a> {
        Set {
            name: object.name.name.to_string(),
            origin: Origin::Seen(object),
            replicas: object.value["spec"]["replicas"].as_i64().unwrap_or(1).max(0),
            min_ready_seconds: object.value["spec"]["minReadySeconds"].as_i64().unwrap_or(0),
            annotations: annotations::of(object),
        }
    }

    pub fn made(object: Value) -> Set<'a> {
        Set {
            name: object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            replicas: 0,
            min_ready_seconds: object["spec"]["minReadySeconds"].as_i64().unwrap_or(0),
            annotations: Annotations::new(),
            origin: Origin::New(object),
        }
    }

    pub fn object(&self) -> Option<&'a Arc<Object>> {
        match &self.origin {
            Origin::Seen(object) => Some(*object),
            Origin::New(_) => None,
        }
    }

    pub fn is_active(&self) -> bool {
        self.replicas > 0
    }

    /// A number of its status.
    pub fn count(&self, field: &str) -> i64 {
        self.object().and_then(|object| object.value["status"][field].as_i64()).unwrap_or(0)
    }

    /// Pods that are available and stay: what it is yet to delete does not count.
    pub fn available(&self) -> i64 {
        self.count("availableReplicas").min(self.replicas)
    }

    pub fn revision(&self) -> i64 {
        annotations::number(&self.annotations, annotations::REVISION).unwrap_or(0)
    }

    /// The older is the lesser; one to be made is the youngest.
    pub fn age(&self) -> impl Ord + use<> {
        let created = self.object().map(|object| object.created().map(|at| at.as_second()));
        (created.is_none(), created, self.name.clone())
    }

    /// Makes it so.
    pub fn write(&self, plan: &mut Plan) {
        match &self.origin {
            Origin::New(object) => {
                let mut object = object.clone();
                object["spec"]["replicas"] = json!(self.replicas);
                object["metadata"]["annotations"] = json!(self.annotations);
                plan.create(REPLICA_SET, object);
            }
            Origin::Seen(seen) => {
                if let Some(patch) = self.change(seen) {
                    plan.patch(Target::unchanged(REPLICA_SET, seen), patch);
                }
            }
        }
    }

    /// What differs from the ReplicaSet that was seen.
    fn change(&self, seen: &Arc<Object>) -> Option<Value> {
        let before = Set::seen(seen);
        let mut patch = json!({});
        if let Some(change) = act::difference(&json!(before.annotations), &json!(self.annotations))
        {
            patch["metadata"]["annotations"] = change;
        }
        for (field, old, new) in [
            ("replicas", before.replicas, self.replicas),
            ("minReadySeconds", before.min_ready_seconds, self.min_ready_seconds),
        ] {
            if old != new {
                patch["spec"][field] = json!(new);
            }
        }
        patch.as_object().is_some_and(|fields| !fields.is_empty()).then_some(patch)
    }
}
