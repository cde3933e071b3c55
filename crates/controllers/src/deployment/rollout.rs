//! A Deployment and its ReplicaSets while a plan is made.

use k8s_openapi::jiff::Timestamp;
use reconcile::Object;
use reconcile::plan::Notice;
use serde_json::Value;

use super::annotations;
use super::sets::Set;
use super::spec::Spec;
use super::{status, template};

pub struct Rollout<'a> {
    pub deployment: &'a Object,
    pub spec: Spec,
    /// From the oldest to the youngest.
    pub sets: Vec<Set<'a>>,
    /// Which of them has the template of the Deployment.
    pub new: Option<usize>,
    pub conditions: Vec<Value>,
    pub notices: Vec<Notice>,
    /// Old ReplicaSets that are no longer kept.
    pub spare: Vec<usize>,
    pub now: Timestamp,
}

impl<'a> Rollout<'a> {
    pub fn new(deployment: &'a Object, spec: Spec, sets: Vec<Set<'a>>, now: Timestamp) -> Self {
        let mut sets = sets;
        sets.sort_by_cached_key(Set::age);
        let has_template = |set: &Set<'_>| {
            set.object().is_some_and(|object| template::is_same(deployment, object))
        };
        let new = sets.iter().position(has_template);
        let conditions = deployment.value["status"]["conditions"].as_array().cloned();
        Rollout {
            deployment,
            spec,
            sets,
            new,
            conditions: conditions.unwrap_or_default(),
            notices: Vec::new(),
            spare: Vec::new(),
            now,
        }
    }

    pub fn new_set(&self) -> Option<&Set<'a>> {
        self.new.and_then(|at| self.sets.get(at))
    }

    /// The places of the old ReplicaSets, the oldest first.
    pub fn old(&self) -> Vec<usize> {
        (0..self.sets.len()).filter(|at| Some(*at) != self.new).collect()
    }

    /// The places of the old ReplicaSets that ask for pods.
    pub fn old_active(&self) -> Vec<usize> {
        self.old().into_iter().filter(|at| self.sets[*at].is_active()).collect()
    }

    /// How many pods all ReplicaSets ask for.
    pub fn asked(&self) -> i64 {
        self.sets.iter().map(|set| set.replicas).sum()
    }

    /// The sum of a number of their statuses.
    pub fn sum(&self, field: &str) -> i64 {
        self.sets.iter().map(|set| set.count(field)).sum()
    }

    /// The ReplicaSet of the template takes over what the Deployment says of itself.
    pub fn renew(&mut self) {
        let Some(at) = self.new else { return };
        let revision = self.next_revision();
        let set = &mut self.sets[at];
        annotations::renew(&mut set.annotations, self.deployment, revision);
        set.min_ready_seconds = self.spec.min_ready_seconds;
        let message = format!("Found new replica set {:?}", set.name);
        if self.spec.deadline_seconds.is_some()
            && status::find(&self.conditions, "Progressing").is_none()
        {
            let found = status::progressing("True", "FoundNewReplicaSet", &message);
            status::set(&mut self.conditions, found, self.now);
        }
    }

    /// Makes the ReplicaSet of the template if there is none.
    pub fn ensure_new(&mut self) {
        if self.new.is_some() {
            return;
        }
        let revision = self.next_revision();
        let made = template::new_set(self.deployment, &self.spec);
        self.new = Some(self.sets.len());
        self.sets.push(Set::made(made));
        let (replicas, total_max) = (self.replicas_of_new(), self.spec.total_max());
        let asked = self.spec.replicas;
        let set = self.sets.last_mut().expect("one was pushed");
        annotations::renew(&mut set.annotations, self.deployment, revision);
        set.annotations.insert(annotations::DESIRED.to_owned(), asked.to_string());
        set.annotations.insert(annotations::TOTAL_MAX.to_owned(), total_max.to_string());
        set.replicas = replicas;
        let name = set.name.clone();
        if replicas > 0 {
            let message = format!("Scaled up replica set {name} from 0 to {replicas}");
            self.notices.push(Notice::normal("ScalingReplicaSet", message));
        }
        if self.spec.deadline_seconds.is_some() {
            let message = format!("Created new replica set {name:?}");
            let made = status::progressing("True", "NewReplicaSetCreated", &message);
            status::set(&mut self.conditions, made, self.now);
        }
    }

    /// Asks a ReplicaSet for a number of pods; true if that is another number than before.
    pub fn scale(&mut self, at: usize, replicas: i64) -> bool {
        let (asked, total_max) = (self.spec.replicas, self.spec.total_max());
        let set = &mut self.sets[at];
        set.annotations.insert(annotations::DESIRED.to_owned(), asked.to_string());
        set.annotations.insert(annotations::TOTAL_MAX.to_owned(), total_max.to_string());
        let before = std::mem::replace(&mut set.replicas, replicas);
        if before == replicas {
            return false;
        }
        let direction = if before < replicas { "up" } else { "down" };
        let name = &set.name;
        let message = format!("Scaled {direction} replica set {name} from {before} to {replicas}");
        self.notices.push(Notice::normal("ScalingReplicaSet", message));
        true
    }

    fn next_revision(&self) -> i64 {
        let old = self.old().into_iter().map(|at| self.sets[at].revision());
        old.max().unwrap_or(0).saturating_add(1)
    }
}
