//! Which pods to make and delete.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::{Notice, Target};
use reconcile::{Error, Object, Plan, Selector, Wake};
use serde_json::json;

use super::observe::Observed;
use super::placement::{self, Placement};
use super::spec::{Spec, Update};
use super::{pod, status};
use crate::claims;
use crate::kinds::{CONTROLLER_REVISION, DAEMON_SET, POD};
use crate::pods;
use crate::revisions;

/// Pods made, and pods deleted, in one reconcile; the rest follows in the next.
const BURST_MAX: usize = 250;

/// A set while its plan is made.
pub struct Scene<'a> {
    pub set: &'a Object,
    pub spec: Spec,
    pub observed: &'a Observed,
    /// By the node they run on or are meant for, from the oldest.
    pub pods: BTreeMap<&'a str, Vec<&'a Arc<Object>>>,
    pub nodes: Vec<(&'a Arc<Object>, Placement)>,
    /// Of the set's own template.
    pub hash: String,
    pub now: Timestamp,
}

/// What is to change.
#[derive(Default)]
pub struct Changes<'a> {
    /// Nodes that need a pod.
    pub make: Vec<&'a str>,
    pub delete: Vec<&'a Arc<Object>>,
    pub notices: Vec<Notice>,
    pub wake: Wake,
}

pub fn plan(set: &Object, observed: &Observed, now: Timestamp) -> Result<Plan, Error> {
    let selector = Selector::read(&set.value["spec"]["selector"])?;
    if selector.is_empty() {
        let message = "This daemon set is selecting all pods. A non-empty selector is required.";
        let notices = vec![Notice::warning("SelectingAll", message)];
        return Ok(Plan { notices, ..Plan::nothing() });
    }
    let mut plan = Plan::nothing();
    if set.is_terminating() {
        return Ok(plan);
    }
    let owner = (DAEMON_SET, set);
    let history =
        claims::settle(&mut plan, owner, CONTROLLER_REVISION, &selector, &observed.revisions);
    let held = claims::settle(&mut plan, owner, POD, &selector, &observed.pods);
    // What is adopted is changed, so only the next look can change it further.
    if !plan.steps.is_empty() {
        return Ok(plan);
    }
    let is_known = history.iter().any(|revision| revisions::is_of(revision, set));
    if observed.is_name_taken && !is_known {
        let mut status = set.value["status"].clone();
        status["collisionCount"] = json!(revisions::collisions(set) + 1);
        plan.status = Some(status);
        return Ok(plan);
    }
    let hash = revisions::ensure(&mut plan, owner, &history, revisions::POD_LABEL).hash;
    let scene = Scene::new(set, observed, &held, hash, now);
    let mut changes = scene.manage();
    if changes.make.is_empty() && changes.delete.is_empty() {
        scene.roll(&mut changes);
    }
    let is_live = |revision: &Object| {
        let hash = revision.label(revisions::POD_LABEL);
        held.iter().any(|pod| pod.label(revisions::POD_LABEL) == hash)
    };
    revisions::truncate(&mut plan, set, &history, is_live);
    plan.status = Some(status::status(&scene));
    plan.wake = status::wake(&scene).or_earlier(changes.wake);
    scene.write(&mut plan, changes);
    Ok(plan)
}

/// What is reported when a step was refused.
pub fn refused(set: &Object, observed: &Observed, error: &Error, now: Timestamp) -> Option<Plan> {
    let status = plan(set, observed, now).ok()?.status;
    let notice = Notice::warning("FailedCreate", format!("Error creating: {}", error.said()));
    Some(Plan { status, notices: vec![notice], ..Plan::nothing() })
}

impl<'a> Scene<'a> {
    fn new(
        set: &'a Object,
        observed: &'a Observed,
        held: &[&'a Arc<Object>],
        hash: String,
        now: Timestamp,
    ) -> Scene<'a> {
        let mut template = set.value["spec"]["template"]["spec"].clone();
        placement::add_tolerations(&mut template);
        let nodes = observed.nodes.iter();
        let nodes: Vec<_> = nodes.map(|node| (node, placement::of(&template, node))).collect();
        let mut pods: BTreeMap<&str, Vec<&Arc<Object>>> = BTreeMap::new();
        for pod in held.iter().copied() {
            // One that has ended and is deleted is as good as gone.
            if !(pods::is_finished(pod) && pod.is_terminating()) {
                pods.entry(pod::node(pod)).or_default().push(pod);
            }
        }
        for on_node in pods.values_mut() {
            on_node.sort_by_cached_key(|pod| {
                let created = pod.created().map(|at| at.as_second());
                (pods::node(pod).is_empty(), created, pod.name.clone())
            });
        }
        let wanted = nodes.iter().filter(|(_, placement)| *placement == Placement::Run).count();
        let spec = Spec::read(set, i64::try_from(wanted).unwrap_or(i64::MAX));
        Scene { set, spec, observed, pods, nodes, hash, now }
    }

    pub fn is_available(&self, pod: &Object) -> bool {
        pods::is_available(pod, self.spec.min_ready_seconds, self.now)
    }

    pub fn is_updated(&self, pod: &Object) -> bool {
        pod::is_updated(self.set, pod, &self.hash)
    }

    pub fn on(&self, node: &Object) -> &[&'a Arc<Object>] {
        self.pods.get(&*node.name.name).map_or(&[], Vec::as_slice)
    }

    /// One pod where one is to be, none where none is.
    fn manage(&self) -> Changes<'a> {
        let mut changes = Changes::default();
        for (node, placement) in &self.nodes {
            let pods = self.on(node);
            match placement {
                Placement::Run if pods.is_empty() => changes.make.push(&node.name.name),
                Placement::Run | Placement::Stay => {
                    self.tidy(&mut changes, node, *placement, pods);
                }
                Placement::Leave => {
                    let staying = pods.iter().filter(|pod| !pod.is_terminating());
                    changes.delete.extend(staying.copied());
                }
            }
        }
        let known: BTreeSet<&str> = self.nodes.iter().map(|(node, _)| &*node.name.name).collect();
        let lost = self.pods.iter().filter(|(node, _)| !known.contains(*node));
        for pod in lost.flat_map(|(_, pods)| pods) {
            // No node will ever take it.
            if pods::node(pod).is_empty() && !pod.is_terminating() {
                changes.delete.push(pod);
            }
        }
        changes
    }

    /// Replaces pods that have ended, and leaves no more than there are to be.
    fn tidy(
        &self,
        changes: &mut Changes<'a>,
        node: &'a Object,
        placement: Placement,
        pods: &[&'a Arc<Object>],
    ) {
        let mut running = Vec::new();
        for pod in pods.iter().copied().filter(|pod| !pod.is_terminating()) {
            match pods::phase(pod) {
                "Failed" => self.replace_failed(changes, node, pod),
                "Succeeded" => {
                    let (pod_name, on) = (&pod.name, &node.name.name);
                    let message = format!(
                        "Found succeeded daemon pod {pod_name} on node {on}, will try to delete it"
                    );
                    changes.notices.push(Notice::normal("SucceededDaemonPod", message));
                    changes.delete.push(pod);
                }
                _ => running.push(pod),
            }
        }
        if !matches!(self.spec.update, Update::Surge { .. }) {
            changes.delete.extend(running.into_iter().skip(1));
        } else if running.is_empty() && placement == Placement::Run {
            changes.make.push(&node.name.name);
        } else if running.len() > 1 {
            self.tidy_surge(changes, &running);
        }
    }

    fn replace_failed(&self, changes: &mut Changes<'a>, node: &Object, pod: &'a Arc<Object>) {
        let due = self.observed.replaceable.get(&pod.uid).copied().unwrap_or(0);
        let left = due - self.now.as_second();
        if left > 0 {
            let after = Wake::After(Duration::from_secs(left.unsigned_abs()));
            changes.wake = changes.wake.or_earlier(after);
            return;
        }
        let (pod_name, on) = (&pod.name, &node.name.name);
        let message =
            format!("Found failed daemon pod {pod_name} on node {on}, will try to kill it");
        changes.notices.push(Notice::warning("FailedDaemonPod", message));
        changes.delete.push(pod);
    }

    /// Two may be there while the new one gets ready and the old one serves.
    fn tidy_surge(&self, changes: &mut Changes<'a>, running: &[&'a Arc<Object>]) {
        let (new, old): (Vec<_>, Vec<_>) =
            running.iter().copied().partition(|pod| self.is_updated(pod));
        changes.delete.extend(new.iter().skip(1));
        changes.delete.extend(old.iter().skip(1));
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (!pods::is_ready(old) || self.is_available(new))
        {
            changes.delete.push(old);
        }
    }

    fn write(&self, plan: &mut Plan, changes: Changes<'a>) {
        plan.notices.extend(changes.notices);
        let mut taken = self.observed.foreign_names.clone();
        let own = self.observed.pods.owned.iter();
        taken.extend(own.map(|pod| pod.name.name.to_string()));
        for node in changes.make.into_iter().take(BURST_MAX) {
            let failures = self.observed.failures.get(node).copied().unwrap_or(0);
            let name = pod::free_name(self.set, node, (&self.hash, failures), &mut taken);
            plan.create(POD, pod::made(self.set, &name, node, &self.hash));
            plan.notices.push(Notice::normal("SuccessfulCreate", format!("Created pod: {name}")));
        }
        for pod in changes.delete.into_iter().take(BURST_MAX) {
            let name = &pod.name.name;
            plan.delete(Target::of(POD, pod));
            plan.notices.push(Notice::normal("SuccessfulDelete", format!("Deleted pod: {name}")));
        }
    }
}
