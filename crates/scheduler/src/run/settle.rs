//! What follows from how something ended.

use std::sync::Arc;

use reconcile::plan::Notice;
use tokio::time::Instant;

use crate::events::Events;
use crate::pod::PodInfo;
use crate::run::state::State;
use crate::run::work::{Bound, Done, Work};

/// Events that wait to be written; the oldest go first when there are more.
const NOTICES_WAITING_MAX: usize = 10_000;

impl State {
    /// Returns what is to be done next because of it.
    pub fn settle(&mut self, done: Done, now: Instant) -> Vec<Work> {
        match done {
            Done::Bind { pod, node, ended } => return self.settle_binding(pod, node, ended, now),
            Done::Volumes { is_done: true, .. } => {}
            Done::Volumes { reservation, is_done: false } => self.release(reservation, now),
            Done::Report { uid, written } => {
                self.reporting.remove(&uid);
                if let Some(revision) = written {
                    self.expect(&uid, revision);
                    self.queue.forget_failures(&uid);
                } else if self.queue.holds(&uid) && !self.assumed.contains_key(&uid) {
                    self.queue.fail(&uid, now);
                }
            }
            Done::Preempt { pod, written } => {
                self.preempting.remove(&pod.uid);
                self.expect(&pod.uid, written.unwrap_or(0));
                if written.is_none()
                    && self.queue.holds(&pod.uid)
                    && !self.assumed.contains_key(&pod.uid)
                {
                    self.snapshot.nominate(&pod, "");
                    self.queue.fail(&pod.uid, now);
                }
            }
            Done::Group { key, written } => self.groups.written(&key, written),
            Done::Notice => {}
        }
        Vec::new()
    }

    /// Nothing more is written to a pod until it is seen as it was written.
    fn expect(&mut self, uid: &Arc<str>, revision: u64) {
        let known = self.queue.get(uid).map_or(u64::MAX, |pod| pod.object.revision);
        if known < revision {
            self.unseen.insert(uid.clone(), revision);
        }
    }

    fn settle_binding(
        &mut self,
        pod: Arc<PodInfo>,
        node: Arc<str>,
        ended: Bound,
        now: Instant,
    ) -> Vec<Work> {
        match ended {
            Bound::Done => {
                self.verdicts.forget(pod.name());
                let (namespace, name) = (&pod.name().namespace, &pod.name().name);
                let message = format!("Successfully assigned {namespace}/{name} to {node}");
                self.notify(pod, Notice::normal("Scheduled", message));
            }
            Bound::Gone(name) => {
                if self.assumed.remove(&pod.uid).is_some() {
                    self.snapshot.displace(&pod.uid);
                    self.queue.wake(Events::POD_REMOVED, now);
                }
                tracing::debug!(pod = %name, "gone before it was bound");
            }
            Bound::Elsewhere(object) => {
                let is_ours = object.value["spec"]["nodeName"] == *node;
                let events = self.put_pod(pod.name(), Some(object), now);
                self.queue.wake(events, now);
                if is_ours {
                    return self.settle_binding(pod, node, Bound::Done, now);
                }
            }
            Bound::Not => return self.bind_again(&pod, node, now),
        }
        Vec::new()
    }

    /// A gang keeps its room for a while; any other pod is decided anew.
    fn bind_again(&mut self, pod: &Arc<PodInfo>, node: Arc<str>, now: Instant) -> Vec<Work> {
        let Some(assumed) = self.assumed.get(&pod.uid) else { return Vec::new() };
        let is_wanted = self.queue.get(&pod.uid).is_some_and(|held| held.is_pending());
        if is_wanted && assumed.keep_until.is_some_and(|until| now < until) {
            let after = self.queue.count_failure(&pod.uid);
            let pod = pod.clone();
            return vec![Work::Bind { pod, node, after }];
        }
        self.unassume(pod, now);
        self.queue.wake(Events::POD_REMOVED, now);
        Vec::new()
    }

    fn notify(&mut self, pod: Arc<PodInfo>, notice: Notice) {
        if self.notices.len() >= NOTICES_WAITING_MAX {
            self.notices.pop_front();
        }
        self.notices.push_back((pod, notice));
    }

    /// Pods that are to be told why they wait; each is told one thing at a time.
    pub fn take_reports(&mut self, room: usize, now: Instant) -> Vec<Work> {
        let ready = self.reports.due(now).filter(|uid| {
            !self.reporting.contains(*uid)
                && !self.preempting.contains(*uid)
                && !self.unseen.contains_key(*uid)
        });
        let ready: Vec<Arc<str>> = ready.take(room).cloned().collect();
        let mut work = Vec::new();
        for uid in ready {
            let Some(told) = self.reports.remove(&uid) else { continue };
            let (pod, report) = (told.pod, told.report);
            if is_told(&pod, &report) {
                continue;
            }
            self.reporting.insert(uid);
            work.push(Work::Report { pod, report });
        }
        work
    }

    pub fn take_notices(&mut self, room: usize) -> Vec<Work> {
        let count = room.min(self.notices.len());
        let notices = self.notices.drain(..count);
        notices.map(|(pod, notice)| Work::Notice { pod, notice }).collect()
    }
}

/// Whether the pod says already what it is to be told.
fn is_told(pod: &PodInfo, report: &crate::run::work::Report) -> bool {
    let status = &pod.object.value["status"];
    let condition = reconcile::conditions::find(status, "PodScheduled");
    pod.nominated == report.nominated
        && condition.is_some_and(|one| {
            one["status"] == "False"
                && one["reason"] == "Unschedulable"
                && one["message"] == report.message.as_str()
        })
}
