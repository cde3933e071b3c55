//! Decides about the pods at the head of the queue, many at a time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::events::Events;
use crate::gang::group::GroupKey;
use crate::gang::{self, Gang};
use crate::plugin::View;
use crate::plugins::volume_binding::{self, Step};
use crate::pod::PodInfo;
use crate::preempt::{Preemption, preempt};
use crate::profile::{Policy, Profile};
use crate::run::reports::Told;
use crate::run::reservation::{Reservation, VOLUMES_TIMEOUT};
use crate::run::state::{Assumed, State};
use crate::run::work::{Report, Work};
use crate::snapshot::Slot;
use crate::verdict::{Diagnosis, Verdict};

/// Decisions before the loop looks around again.
const DECISIONS_MAX: usize = 256;
/// How long a gang may be incomplete before its pods are told.
const MEMBERS_DELAY: Duration = Duration::from_secs(1);

impl State {
    /// Decides until nothing is active, enough is to be done, or it is time to look around.
    pub fn decide(&mut self, room: usize, now: Instant) -> Vec<Work> {
        self.classes.begin_round();
        self.refusals.clear();
        let mut work = Vec::new();
        for _ in 0..DECISIONS_MAX {
            if work.len() >= room {
                break;
            }
            let Some(pod) = self.queue.pop() else { break };
            match &pod.group {
                Some(key) => self.decide_gang(&key.clone(), &pod, now, &mut work),
                None => self.decide_one(&pod, now, &mut work),
            }
        }
        work
    }

    fn decide_one(&mut self, pod: &Arc<PodInfo>, now: Instant, work: &mut Vec<Work>) {
        let profiles = self.profiles.clone();
        let Some(profile) = Self::profile_of(&profiles, pod) else { return };
        let profile = &profiles[profile];
        self.snapshot.prepare(pod);
        match self.classes.schedule(&self.snapshot, pod, profile) {
            Verdict::Place(slot) => {
                let deadline = now + VOLUMES_TIMEOUT;
                self.assume(vec![(pod.clone(), slot)], profile, (now, deadline, None), work);
            }
            Verdict::Refuse(diagnosis) => self.refuse(pod, profile, &diagnosis, (now, work)),
        }
    }

    /// Decides about all members of a gang that have no node.
    fn decide_gang(
        &mut self,
        key: &GroupKey,
        first: &Arc<PodInfo>,
        now: Instant,
        work: &mut Vec<Work>,
    ) {
        let profiles = self.profiles.clone();
        let nodes = self.snapshot.node_count();
        if let Some(members) = self.groups.get(key)
            && let Some(group) = members.group.as_ref()
            && !members.may_suffice()
        {
            // Most members of a large gang come before the last: none of them looks at all others.
            let diagnosis = gang::lacks_members(nodes, first, members.pods.len(), group);
            return self.tell_later(first, &Arc::new(diagnosis), now);
        }
        let Some((group, members)) = self
            .groups
            .get(key)
            .and_then(|members| Some((members.group.clone()?, members.pods.clone())))
        else {
            let diagnosis = Diagnosis::because(nodes, gang::NOT_FOUND, Events::NONE);
            return self.tell_later(first, &Arc::new(diagnosis), now);
        };
        let is_placed = |pod: &PodInfo| pod.is_placed() || self.assumed.contains_key(&pod.uid);
        let placed = members.values().filter(|pod| is_placed(pod) || pod.is_finished).count();
        let mut pending: Vec<(Arc<PodInfo>, &Profile)> = Vec::new();
        for uid in members.keys() {
            // The queue has the newest; gated members wait and do not count.
            let Some(pod) = self.queue.get(uid).filter(|pod| !is_placed(pod) && !pod.is_gated)
            else {
                continue;
            };
            if let Some(at) = Self::profile_of(&profiles, pod) {
                pending.push((pod.clone(), &profiles[at]));
            }
        }
        pending.sort_by(|(one, _), (other, _)| {
            (other.priority, one.name()).cmp(&(one.priority, other.name()))
        });
        for (pod, _) in &pending {
            self.queue.take(&pod.uid);
        }
        let gang = Gang { group: &group, pending: &pending, placed };
        match gang::decide(&mut self.snapshot, &mut self.classes, &gang) {
            Ok(found) => {
                let deadline = now + group.timeout;
                let found_uids: BTreeSet<Arc<str>> =
                    found.iter().map(|(pod, _)| pod.uid.clone()).collect();
                let Some((_, profile)) = pending.first() else { return };
                self.assume(found, profile, (now, deadline, Some(deadline)), work);
                // Those beyond what the gang needs wait for room like any other pod.
                for (pod, profile) in &pending {
                    if !found_uids.contains(&pod.uid) {
                        self.refuse_late(pod, profile, now);
                    }
                }
            }
            Err(refusal) if refusal.lacks_members => {
                for (pod, _) in &pending {
                    self.queue.refuse(&pod.uid, Events::NONE, now);
                }
                self.tell_later(first, &refusal.diagnosis, now);
            }
            Err(refusal) => {
                for (pod, _) in &pending {
                    self.tell(pod, &refusal.diagnosis, "", now);
                }
            }
        }
    }

    fn refuse_late(&mut self, pod: &Arc<PodInfo>, profile: &Profile, now: Instant) {
        match crate::cycle::schedule(&self.snapshot, pod, profile) {
            Verdict::Refuse(diagnosis) => self.tell(pod, &diagnosis, "", now),
            Verdict::Place(_) => self.queue.put_back(&pod.uid),
        }
    }

    /// The pods have the room from here on. If their volumes are there, they are bound.
    fn assume(
        &mut self,
        found: Vec<(Arc<PodInfo>, Slot)>,
        profile: &Profile,
        (now, deadline, keep_until): (Instant, Instant, Option<Instant>),
        work: &mut Vec<Work>,
    ) {
        let mut members = Vec::new();
        let mut steps: Vec<(Step, Arc<str>)> = Vec::new();
        for (pod, slot) in found {
            let Some(node) = self.snapshot.node(slot).map(|node| node.name.clone()) else {
                continue;
            };
            if !pod.template.claims.is_empty() {
                let view = View { snapshot: &self.snapshot, pod: &pod, profile };
                let own = volume_binding::steps(view, slot);
                self.keep_volumes(&own);
                steps.extend(own.into_iter().map(|step| (step, node.clone())));
            }
            self.snapshot.nominate(&pod, "");
            self.snapshot.place(&pod, &node);
            self.reports.remove(&pod.uid);
            let assumed = Assumed { since: now, keep_until };
            self.assumed.insert(pod.uid.clone(), assumed);
            members.push((pod, node));
        }
        if steps.is_empty() {
            work.extend(members.into_iter().map(|(pod, node)| Work::Bind {
                pod,
                node,
                after: Duration::ZERO,
            }));
            return;
        }
        self.reservations_made += 1;
        let id = self.reservations_made;
        let mut reservation = Reservation {
            members,
            claims: BTreeSet::new(),
            volumes: Vec::new(),
            deadline,
            marked: BTreeSet::new(),
        };
        for (step, _) in &steps {
            match step {
                Step::Provision { claim } => {
                    reservation.claims.insert(claim.clone());
                }
                Step::Bind { claim, volume } => {
                    reservation.claims.insert(claim.clone());
                    reservation.volumes.push(volume.clone());
                }
            }
        }
        self.reservations.insert(id, reservation);
        work.push(Work::Volumes { reservation: id, steps });
    }

    fn keep_volumes(&mut self, steps: &[Step]) {
        for step in steps {
            if let Step::Bind { claim, volume } = step {
                self.snapshot.volumes_kept.insert(volume.clone(), claim.clone());
            }
        }
    }

    /// No node fits: others may go, or the pod waits.
    fn refuse(
        &mut self,
        pod: &Arc<PodInfo>,
        profile: &Profile,
        diagnosis: &Arc<Diagnosis>,
        (now, work): (Instant, &mut Vec<Work>),
    ) {
        let address = Arc::as_ptr(diagnosis) as usize;
        let is_alone = pod.nominated.is_empty() && self.snapshot.nomination_of(&pod.uid).is_none();
        if let Some((_, known)) = self.refusals.get(&address).filter(|_| is_alone) {
            let known = known.clone();
            return self.tell(pod, &known, "", now);
        }
        if diagnosis.nodes == 0 || profile.policy == Policy::FirstReady {
            return self.tell(pod, diagnosis, "", now);
        }
        // What is written to it next must rest on what was written last.
        if self.unseen.contains_key(&pod.uid) || self.reporting.contains(&pod.uid) {
            return self.queue.fail(&pod.uid, now);
        }
        match preempt(&mut self.snapshot, pod, profile, diagnosis) {
            Preemption::Not(reason) => {
                let is_waiting = reason.contains("terminating pod");
                let told = Diagnosis {
                    preemption: reason,
                    resolvable: Vec::new(),
                    ..(**diagnosis).clone()
                };
                let told = Arc::new(told);
                if is_alone {
                    // The first is kept so that its address stays its own.
                    self.refusals.insert(address, (diagnosis.clone(), told.clone()));
                }
                let nominated = match is_waiting {
                    true => self.snapshot.nomination_of(&pod.uid).cloned().unwrap_or_default(),
                    false => {
                        self.snapshot.nominate(pod, "");
                        Arc::default()
                    }
                };
                self.tell(pod, &told, &nominated, now);
            }
            Preemption::Make { slot, victims } => {
                let Some(node) = self.snapshot.node(slot).map(|node| node.name.clone()) else {
                    return self.queue.fail(&pod.uid, now);
                };
                self.snapshot.nominate(pod, &node);
                self.preempting.insert(pod.uid.clone());
                self.verdicts.keep(pod.name(), diagnosis);
                self.reports.remove(&pod.uid);
                self.queue.refuse(&pod.uid, diagnosis.wakes | Events::POD_REMOVED, now);
                let report = Report { message: diagnosis.message(), nominated: node };
                work.push(Work::Preempt { pod: pod.clone(), report, victims });
            }
        }
    }

    /// The pod waits, and is told why.
    fn tell(
        &mut self,
        pod: &Arc<PodInfo>,
        diagnosis: &Arc<Diagnosis>,
        nominated: &str,
        now: Instant,
    ) {
        self.queue.refuse(&pod.uid, diagnosis.wakes, now);
        self.verdicts.keep(pod.name(), diagnosis);
        let report = Report { message: diagnosis.message(), nominated: nominated.into() };
        self.reports.put(Told { pod: pod.clone(), report, not_before: now });
    }

    /// The same, if it still waits after a while: others of its gang may be on their way.
    fn tell_later(&mut self, pod: &Arc<PodInfo>, diagnosis: &Arc<Diagnosis>, now: Instant) {
        self.tell(pod, diagnosis, "", now);
        if let Some(told) = self.reports.remove(&pod.uid) {
            self.reports.put(Told { not_before: now + MEMBERS_DELAY, ..told });
        }
    }
}
