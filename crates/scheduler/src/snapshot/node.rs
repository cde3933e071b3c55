//! A node as the scheduler sees it, without the resources, which are in columns.

use std::sync::Arc;

use reconcile::{Object, conditions};

use crate::events::Events;
use crate::labels::{self, Labels, list, text};
use crate::pod::PodInfo;
use crate::pod::requests::amount_of;
use crate::pod::template::{Port, Taint, normal_image};
use crate::resources::{Catalogue, ResourceId};

#[derive(Clone, Debug)]
pub struct Node {
    pub name: Arc<str>,
    pub labels: Labels,
    pub taints: Vec<Taint>,
    pub is_unschedulable: bool,
    pub is_ready: bool,
    /// Sizes of the images that are on it, by name.
    pub images: Vec<(Arc<str>, i64)>,
    pub allocatable: Vec<(ResourceId, i64)>,
    pub pods: Vec<Arc<PodInfo>>,
    pub ports: Vec<Port>,
    /// Pods for which room is being made here.
    pub nominated: Vec<Arc<PodInfo>>,
}

impl Node {
    pub fn read(object: &Object, catalogue: &mut Catalogue) -> Node {
        let (spec, status) = (&object.value["spec"], &object.value["status"]);
        let allocatable = status["allocatable"].as_object().into_iter().flatten();
        let images = list(&status["images"]).flat_map(|image| {
            let size = image["sizeBytes"].as_i64().unwrap_or(0);
            list(&image["names"]).map(move |name| (normal_image(text(name)), size))
        });
        Node {
            name: object.name.name.clone(),
            labels: labels::read(&object.value["metadata"]["labels"]),
            taints: list(&spec["taints"]).map(Taint::read).collect(),
            is_unschedulable: spec["unschedulable"] == serde_json::Value::Bool(true),
            is_ready: conditions::is_true(status, "Ready"),
            images: images.collect(),
            allocatable: allocatable
                .map(|(name, amount)| (catalogue.id(name), amount_of(name, amount)))
                .collect(),
            pods: Vec::new(),
            ports: Vec::new(),
            nominated: Vec::new(),
        }
    }

    /// Whether it takes any pod, as far as cordons and taints are concerned.
    pub fn is_open(&self) -> bool {
        !self.is_unschedulable
            && self.taints.iter().all(|taint| &*taint.effect == "PreferNoSchedule")
    }

    pub fn has_soft_taints(&self) -> bool {
        self.taints.iter().any(|taint| &*taint.effect == "PreferNoSchedule")
    }

    /// What differs in the node itself, and could help a pod.
    pub fn differences(&self, new: &Node) -> Events {
        let mut events = Events::NONE;
        if self.labels != new.labels {
            events |= Events::NODE_LABELS;
        }
        if self.taints != new.taints || self.is_unschedulable != new.is_unschedulable {
            events |= Events::NODE_TAINTS;
        }
        if self.is_ready != new.is_ready {
            events |= Events::NODE_TAINTS;
        }
        if self.allocatable != new.allocatable {
            events |= Events::NODE_RESOURCES;
        }
        events
    }

    pub fn add(&mut self, pod: Arc<PodInfo>) {
        self.ports.extend(pod.template.ports.iter().cloned());
        self.pods.push(pod);
    }

    pub fn remove(&mut self, uid: &str) {
        let Some(at) = self.pods.iter().position(|pod| &*pod.uid == uid) else { return };
        let pod = self.pods.swap_remove(at);
        for port in &pod.template.ports {
            if let Some(at) = self.ports.iter().position(|held| held == port) {
                self.ports.swap_remove(at);
            }
        }
    }
}
