//! The gangs that are known: groups and the pods that name them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::{Name, Object};
use serde_json::Value;
use tokio::time::Instant;

use crate::gang::group::{Family, Group, GroupKey};
use crate::gang::status::{self, Tally};
use crate::pod::PodInfo;

/// How long a group rests after its status was written: its members come and go by the hundred.
const REST: Duration = Duration::from_millis(100);

#[derive(Default)]
pub struct Groups {
    held: BTreeMap<GroupKey, Members>,
    /// Whose status may not be as it should.
    dirty: BTreeSet<GroupKey>,
    writing: BTreeSet<GroupKey>,
    /// Writes that failed in a row.
    failures: BTreeMap<GroupKey, u32>,
    /// Groups that were written lately, and until when they rest.
    resting: BTreeMap<GroupKey, Instant>,
    /// Groups that are not seen yet as they were last written.
    unseen: BTreeMap<GroupKey, u64>,
}

#[derive(Default)]
pub struct Members {
    pub group: Option<Group>,
    pub pods: BTreeMap<Arc<str>, Arc<PodInfo>>,
}

impl Members {
    /// Whether there are as many as the group asks for, or nobody knows how many those are.
    pub fn may_suffice(&self) -> bool {
        self.group.as_ref().is_none_or(|group| self.pods.len() >= group.members_min)
    }
}

impl Groups {
    pub fn get(&self, key: &GroupKey) -> Option<&Members> {
        self.held.get(key)
    }

    pub fn put_group(&mut self, family: Family, name: &Name, object: Option<Arc<Object>>) {
        let key = GroupKey { family, name: name.clone() };
        let members = self.held.entry(key.clone()).or_default();
        members.group = object.map(Group::read);
        self.touch(key);
    }

    pub fn put_pod(&mut self, key: &GroupKey, pod: &Arc<PodInfo>) {
        let members = self.held.entry(key.clone()).or_default();
        members.pods.insert(pod.uid.clone(), pod.clone());
        self.touch(key.clone());
    }

    pub fn remove_pod(&mut self, key: &GroupKey, uid: &str) {
        if let Some(members) = self.held.get_mut(key) {
            members.pods.remove(uid);
        }
        self.touch(key.clone());
    }

    /// A pod went whose group is not known any more.
    pub fn remove_anywhere(&mut self, uid: &str) {
        let holding = self.held.iter().find(|(_, members)| members.pods.contains_key(uid));
        if let Some(key) = holding.map(|(key, _)| key.clone()) {
            self.remove_pod(&key, uid);
        }
    }

    fn touch(&mut self, key: GroupKey) {
        let is_empty = |one: &Members| one.group.is_none() && one.pods.is_empty();
        if self.held.get(&key).is_some_and(is_empty) {
            self.held.remove(&key);
            self.dirty.remove(&key);
        } else {
            self.dirty.insert(key);
        }
    }

    /// Statuses to be written; each group has at most one write under way.
    pub fn statuses(&mut self, now: Timestamp, at: Instant) -> Vec<(GroupKey, Arc<Object>, Value)> {
        self.resting.retain(|_, until| *until > at);
        let mut wanted = Vec::new();
        let is_ready = |key: &&GroupKey| !self.resting.contains_key(*key);
        let ready: Vec<GroupKey> =
            self.dirty.difference(&self.writing).filter(is_ready).cloned().collect();
        for key in ready {
            self.dirty.remove(&key);
            let Some(members) = self.held.get(&key) else { continue };
            let Some(group) = &members.group else { continue };
            if self.unseen.get(&key).is_some_and(|written| *written > group.object.revision) {
                // What comes next makes it dirty again.
                continue;
            }
            self.unseen.remove(&key);
            let tally = Tally::of(members.pods.values());
            if let Some(status) = status::plan(key.family, group, tally, now) {
                self.writing.insert(key.clone());
                self.resting.insert(key.clone(), at + REST);
                wanted.push((key, group.object.clone(), status));
            }
        }
        wanted
    }

    /// When a group has rested whose status may not be as it should.
    pub fn next_after(&self, now: Instant) -> Option<Instant> {
        let resting = self.resting.iter().filter(|(key, _)| self.dirty.contains(*key));
        resting.map(|(_, until)| *until).filter(|until| *until > now).min()
    }

    pub fn failures(&self, key: &GroupKey) -> u32 {
        self.failures.get(key).copied().unwrap_or(0)
    }

    /// A write ended; one that failed is made again.
    pub fn written(&mut self, key: &GroupKey, written: Option<u64>) {
        self.writing.remove(key);
        if !self.held.contains_key(key) {
            self.failures.remove(key);
            self.unseen.remove(key);
            return;
        }
        match written {
            Some(revision) => {
                self.failures.remove(key);
                self.unseen.insert(key.clone(), revision);
            }
            None => *self.failures.entry(key.clone()).or_default() += 1,
        }
        self.dirty.insert(key.clone());
    }
}
