//! Which pods to make, wait for, replace and delete.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::{Notice, Target};
use reconcile::{Error, Object, Plan, Selector, Step};
use serde_json::{Value, json};

use super::identity::{self, is_running_and_available};
use super::observe::Observed;
use super::spec::{Management, Spec, Update};
use super::status;
use super::volume_claims::{self, Place};
use crate::claims;
use crate::kinds::{CONTROLLER_REVISION, PERSISTENT_VOLUME_CLAIM, POD, STATEFUL_SET};
use crate::pods;
use crate::revisions;

/// A set while its plan is made.
pub struct Scene<'a> {
    pub set: &'a Object,
    pub spec: Spec,
    pub observed: &'a Observed,
    pub held: Vec<&'a Arc<Object>>,
    /// The revision that most pods are of, and its template.
    pub current: (String, Value),
    /// The revision of the set's own template.
    pub update: String,
    pub now: Timestamp,
}

/// Whether what comes later may be looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Go,
    Wait,
}

pub fn plan(set: &Object, observed: &Observed, now: Timestamp) -> Result<Plan, Error> {
    let selector = Selector::read(&set.value["spec"]["selector"])?;
    let mut plan = Plan::nothing();
    let owner = (STATEFUL_SET, set);
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
    let update = revisions::ensure(&mut plan, owner, &history, revisions::HASH_LABEL).name;
    let current = set.value["status"]["currentRevision"].as_str();
    let current = history.iter().find(|revision| Some(&*revision.name.name) == current);
    let current = match current {
        Some(found) => (found.name.name.to_string(), revisions::template(found)),
        None => (update.clone(), set.value["spec"]["template"].clone()),
    };
    let scene = Scene { set, spec: Spec::read(set), observed, held, current, update, now };
    if set.is_terminating() {
        plan.steps.clear();
    } else {
        scene.manage(&mut plan);
        let status = status::status(&scene);
        let is_live = |revision: &Object| {
            let name = &*revision.name.name;
            let used = scene.held.iter().any(|pod| identity::revision(pod) == name);
            used || status["currentRevision"] == name || name == scene.current.0
        };
        revisions::truncate(&mut plan, set, &history, is_live);
    }
    // What pods need comes before them, and neighbours of a sort are made together.
    plan.steps.sort_by_key(|step| match step {
        Step::Create { kind, .. } if *kind == CONTROLLER_REVISION => 0,
        Step::Create { kind, .. } if *kind == PERSISTENT_VOLUME_CLAIM => 1,
        _ => 2,
    });
    plan.status = Some(status::status(&scene));
    plan.wake = status::wake(&scene);
    Ok(plan)
}

/// What is reported when a step was refused.
pub fn refused(set: &Object, observed: &Observed, error: &Error, now: Timestamp) -> Option<Plan> {
    let plan = plan(set, observed, now).ok()?;
    let pod = plan.steps.iter().find_map(|step| match step {
        Step::Create { kind, object } if *kind == POD => object["metadata"]["name"].as_str(),
        _ => None,
    })?;
    let (name, error) = (&set.name.name, error.said());
    let message = format!("create Pod {pod} in StatefulSet {name} failed error: {error}");
    let notices = vec![Notice::warning("FailedCreate", message)];
    Some(Plan { status: plan.status.clone(), notices, ..Plan::nothing() })
}

impl<'a> Scene<'a> {
    fn manage(&self, plan: &mut Plan) {
        let numbered: BTreeMap<i64, &Arc<Object>> = self
            .held
            .iter()
            .filter_map(|pod| Some((identity::ordinal(self.set, pod)?, *pod)))
            .collect();
        let asked = self.spec.start..self.spec.start + self.spec.replicas;
        let replicas: Vec<_> = asked.map(|ordinal| numbered.get(&ordinal).copied()).collect();
        for (at, pod) in (self.spec.start..).zip(&replicas) {
            let next = match pod {
                None => self.make(plan, at),
                Some(pod) => self.keep(plan, pod),
            };
            if next == Next::Wait && self.spec.management == Management::Ordered {
                return;
            }
        }
        if self.condemn(plan) == Next::Wait {
            return;
        }
        if let Update::Rolling { partition, unavailable_max } = self.spec.update {
            let first = usize::try_from(partition).unwrap_or(usize::MAX);
            self.roll(plan, &replicas, first, unavailable_max);
        }
    }

    /// Makes the pod of a number, and its claims before it.
    fn make(&self, plan: &mut Plan, ordinal: i64) -> Next {
        if volume_claims::is_stale(self.set, ordinal, &self.observed.claims)
            || !volume_claims::make(plan, self.set, ordinal, &self.observed.claims)
        {
            return Next::Wait;
        }
        let pod = if self.spec.is_held_back(ordinal) {
            identity::pod(self.set, &self.current.1, ordinal, &self.current.0)
        } else {
            let template = &self.set.value["spec"]["template"];
            identity::pod(self.set, template, ordinal, &self.update)
        };
        let name = identity::pod_name(self.set, ordinal);
        plan.create(POD, pod);
        let message = format!("create Pod {name} in StatefulSet {} successful", self.set.name.name);
        plan.notices.push(Notice::normal("SuccessfulCreate", message));
        Next::Wait
    }

    /// Looks after a pod that is to be there.
    fn keep(&self, plan: &mut Plan, pod: &Object) -> Next {
        if pods::is_finished(pod) {
            if !pod.is_terminating() {
                self.replace_finished(plan, pod);
            }
            return Next::Wait;
        }
        let ordinal = identity::ordinal(self.set, pod).unwrap_or_default();
        if pods::phase(pod) == "Pending" {
            volume_claims::make(plan, self.set, ordinal, &self.observed.claims);
        }
        if !self.is_healthy(pod) && self.spec.management == Management::Ordered {
            return Next::Wait;
        }
        if pod.is_terminating() {
            return Next::Go;
        }
        if let Some(labels) = identity::missing_labels(self.set, pod) {
            plan.patch(Target::of(POD, pod), labels);
        }
        volume_claims::retain(plan, self.set, pod, &self.observed.claims, Place::Within);
        Next::Go
    }

    fn replace_finished(&self, plan: &mut Plan, pod: &Object) {
        let (name, pod_name) = (&self.set.name, &pod.name.name);
        let notice = if pods::phase(pod) == "Failed" {
            let message = format!("StatefulSet {name} is recreating failed Pod {pod_name}");
            Notice::warning("RecreatingFailedPod", message)
        } else {
            let message = format!("StatefulSet {name} is recreating terminated Pod {pod_name}");
            Notice::normal("RecreatingTerminatedPod", message)
        };
        plan.notices.push(notice);
        self.delete(plan, pod);
    }

    /// Deletes the pods beyond the number asked for, the last first.
    fn condemn(&self, plan: &mut Plan) -> Next {
        let number = |pod: &Arc<Object>| identity::ordinal(self.set, pod);
        let is_beyond = |pod: &Arc<Object>| number(pod).is_some_and(|it| !self.spec.has(it));
        let mut condemned: Vec<_> =
            self.held.iter().copied().filter(|pod| is_beyond(pod)).collect();
        condemned.sort_by_key(|pod| std::cmp::Reverse(number(pod)));
        for pod in &condemned {
            volume_claims::retain(plan, self.set, pod, &self.observed.claims, Place::Beyond);
        }
        let mut sick = self.held.iter().filter(|pod| !self.is_healthy(pod));
        let first_sick = sick.by_ref().min_by_key(|pod| number(pod)).map(|pod| &pod.uid);
        for pod in condemned {
            let is_ordered = self.spec.management == Management::Ordered;
            if pod.is_terminating() {
                if is_ordered {
                    return Next::Wait;
                }
                continue;
            }
            // A set that is not well is not taken apart further, but for what makes it unwell.
            if is_ordered && !self.is_healthy(pod) && first_sick != Some(&pod.uid) {
                return Next::Wait;
            }
            self.delete(plan, pod);
            if is_ordered {
                return Next::Wait;
            }
        }
        Next::Go
    }

    /// Replaces pods of another revision, the last first, as many as may be missing at once.
    fn roll(
        &self,
        plan: &mut Plan,
        replicas: &[Option<&Arc<Object>>],
        first: usize,
        unavailable_max: i64,
    ) {
        let is_well = |pod: &Option<&Arc<Object>>| pod.is_some_and(|pod| self.is_healthy(pod));
        let missing = replicas.iter().filter(|pod| !is_well(pod)).count();
        let mut budget = unavailable_max - i64::try_from(missing).unwrap_or(i64::MAX);
        for pod in replicas.iter().skip(first).rev().copied().flatten() {
            let is_old = identity::revision(pod) != self.update;
            if !is_old || pod.is_terminating() || pods::is_finished(pod) {
                continue;
            }
            if self.is_healthy(pod) {
                if budget <= 0 {
                    continue;
                }
                budget -= 1;
            }
            // One that serves nobody is replaced at no cost.
            self.delete(plan, pod);
        }
    }

    fn delete(&self, plan: &mut Plan, pod: &Object) {
        let (pod_name, name) = (&pod.name.name, &self.set.name.name);
        let message = format!("delete Pod {pod_name} in StatefulSet {name} successful");
        plan.notices.push(Notice::normal("SuccessfulDelete", message));
        plan.delete(Target::of(POD, pod));
    }

    fn is_healthy(&self, pod: &Object) -> bool {
        !pod.is_terminating()
            && is_running_and_available(pod, self.spec.min_ready_seconds, self.now)
    }
}
