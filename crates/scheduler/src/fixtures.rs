//! Small clusters for tests, as data.

use std::sync::Arc;

use reconcile::{Name, Object};
use serde_json::{Value, json};

use crate::classes::Classes;
use crate::pod::PodInfo;
use crate::preempt::{Preemption, preempt};
use crate::profile::Profile;
use crate::snapshot::Snapshot;
use crate::verdict::{Diagnosis, Verdict};

pub struct Scene {
    pub snapshot: Snapshot,
    pub classes: Classes,
    pub profile: Profile,
}

impl Scene {
    pub fn new() -> Scene {
        Scene {
            snapshot: Snapshot::default(),
            classes: Classes::default(),
            profile: Profile::named("default-scheduler"),
        }
    }

    /// A node of 4 cpu, 8Gi and 110 pods, with what is said beside.
    pub fn node(mut self, name: &str, beside: Value) -> Scene {
        let mut node = json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}]}});
        merge(&mut node, beside);
        self.snapshot.put_node(&Object::new(node));
        self
    }

    /// A pod that is on a node.
    pub fn on(mut self, node: &str, name: &str, beside: Value) -> Scene {
        let mut pod = pod(name, beside);
        pod["spec"]["nodeName"] = json!(node);
        let pod = self.read(pod);
        self.snapshot.place(&pod, node);
        self
    }

    pub fn claim(mut self, name: &str, beside: Value) -> Scene {
        let object = object("PersistentVolumeClaim", name, beside);
        let name = Name::new("a", name);
        self.snapshot.put_claim(&name, Some(Arc::new(Object::new(object))));
        self
    }

    pub fn volume(mut self, name: &str, beside: Value) -> Scene {
        let object = object("PersistentVolume", name, beside);
        let name = Name::new("", name);
        self.snapshot.put_volume(&name, Some(Arc::new(Object::new(object))));
        self
    }

    pub fn class(mut self, name: &str, beside: Value) -> Scene {
        let object = object("StorageClass", name, beside);
        let name = Name::new("", name);
        self.snapshot.put_class(&name, Some(Arc::new(Object::new(object))));
        self
    }

    pub fn budget(mut self, name: &str, beside: Value) -> Scene {
        let object = object("PodDisruptionBudget", name, beside);
        self.snapshot.put_budget(&Name::new("a", name), Some(&Object::new(object)));
        self
    }

    pub fn read(&mut self, pod: Value) -> Arc<PodInfo> {
        self.snapshot.read_pod(Arc::new(Object::new(pod)))
    }

    /// Decides in both ways, which must agree.
    pub fn verdict(&mut self, pod: &PodInfo) -> Result<String, Arc<Diagnosis>> {
        self.snapshot.prepare(pod);
        self.classes.begin_round();
        let pure = crate::schedule(&self.snapshot, pod, &self.profile);
        let fast = self.classes.schedule(&self.snapshot, pod, &self.profile);
        let name = |verdict: &Verdict| match verdict {
            Verdict::Place(slot) => Ok(self
                .snapshot
                .node(*slot)
                .expect("a slot that was decided must have a node")
                .name
                .to_string()),
            Verdict::Refuse(diagnosis) => Err(diagnosis.clone()),
        };
        let (pure, fast) = (name(&pure), name(&fast));
        let text = |it: &Result<String, Arc<Diagnosis>>| match it {
            Ok(node) => node.clone(),
            Err(diagnosis) => diagnosis.message(),
        };
        assert_eq!(text(&pure), text(&fast), "{}", pod.name());
        pure
    }

    /// The node, the message, or who goes.
    pub fn decide(&mut self, name: &str, beside: Value) -> String {
        let pod = self.read(pod(name, beside));
        let diagnosis = match self.verdict(&pod) {
            Ok(node) => return node,
            Err(diagnosis) => diagnosis,
        };
        if diagnosis.nodes == 0 {
            return diagnosis.message();
        }
        match preempt(&mut self.snapshot, &pod, &self.profile, &diagnosis) {
            Preemption::Not(reason) => {
                let diagnosis = Diagnosis { preemption: reason, ..(*diagnosis).clone() };
                diagnosis.message()
            }
            Preemption::Make { slot, victims } => {
                let victims: Vec<&str> = victims.iter().map(|one| &*one.name().name).collect();
                let node = &self
                    .snapshot
                    .node(slot)
                    .expect("a slot that was decided must have a node")
                    .name;
                format!("{node} without {}", victims.join(", "))
            }
        }
    }
}

/// A pod in namespace `a` with one container that asks for nothing.
pub fn pod(name: &str, beside: Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "a", "name": name, "uid": name},
        "spec": {"schedulerName": "default-scheduler",
            "containers": [{"name": "c", "image": "i"}]}});
    merge(&mut pod, beside);
    pod
}

/// Containers that ask for this.
pub fn asks(requests: Value) -> Value {
    json!({"spec": {"containers": [{"name": "c", "image": "i",
        "resources": {"requests": requests}}]}})
}

pub fn with(mut one: Value, other: Value) -> Value {
    merge(&mut one, other);
    one
}

fn object(kind: &str, name: &str, beside: Value) -> Value {
    let mut object =
        json!({"kind": kind, "metadata": {"namespace": "a", "name": name, "uid": name}});
    merge(&mut object, beside);
    object
}

pub fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}
