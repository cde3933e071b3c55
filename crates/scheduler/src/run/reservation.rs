//! Room that is kept for pods whose volumes are not there yet.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use reconcile::Name;
use tokio::time::Instant;

use crate::plugins::volume_binding::{SELECTED_NODE, is_bound};
use crate::pod::PodInfo;
use crate::run::state::State;
use crate::run::work::Work;

/// How long a pod that is alone waits for its volumes.
pub const VOLUMES_TIMEOUT: Duration = Duration::from_secs(600);

/// One pod or a whole gang.
#[derive(Debug)]
pub struct Reservation {
    pub members: Vec<(Arc<PodInfo>, Arc<str>)>,
    /// Claims that must be bound first.
    pub claims: BTreeSet<Name>,
    /// Volumes that are kept for them.
    pub volumes: Vec<Arc<str>>,
    pub deadline: Instant,
    /// Claims that were seen with the mark that tells for which node a volume is to be made.
    pub marked: BTreeSet<Name>,
}

enum Progress {
    Waits,
    Ready,
    Failed,
}

impl State {
    /// Goes on with reservations whose volumes are there, ends those that took too long.
    pub fn check_reservations(&mut self, now: Instant) -> Vec<Work> {
        let mut work = Vec::new();
        let ids: Vec<u64> = self.reservations.keys().copied().collect();
        for id in ids {
            match self.progress(id, now) {
                Progress::Waits => {}
                Progress::Failed => self.release(id, now),
                Progress::Ready => {
                    let Some(ready) = self.reservations.remove(&id) else { continue };
                    for (pod, node) in ready.members {
                        work.push(Work::Bind { pod, node, after: Duration::ZERO });
                    }
                }
            }
        }
        work
    }

    fn progress(&mut self, id: u64, now: Instant) -> Progress {
        let Some(one) = self.reservations.get_mut(&id) else { return Progress::Waits };
        let is_kept = |(pod, _): &(Arc<PodInfo>, _)| self.assumed.contains_key(&pod.uid);
        if now >= one.deadline || !one.members.iter().all(is_kept) {
            return Progress::Failed;
        }
        let mut progress = Progress::Ready;
        for name in &one.claims {
            let Some(claim) = self.snapshot.claims.get(name) else { return Progress::Failed };
            if is_bound(claim) {
                continue;
            }
            // Whoever makes volumes takes the mark away if it cannot make one there.
            match claim.annotation(SELECTED_NODE) {
                Some(_) => one.marked.insert(name.clone()),
                None if one.marked.contains(name) => return Progress::Failed,
                None => false,
            };
            progress = Progress::Waits;
        }
        progress
    }

    /// Gives the room back; the pods are tried again later.
    pub fn release(&mut self, id: u64, now: Instant) {
        let Some(one) = self.reservations.remove(&id) else { return };
        for volume in &one.volumes {
            self.snapshot.volumes_kept.remove(volume);
        }
        for (pod, _) in &one.members {
            self.unassume(pod, now);
        }
    }

    /// A pod that was decided does not get its node.
    pub fn unassume(&mut self, pod: &Arc<PodInfo>, now: Instant) {
        if self.assumed.remove(&pod.uid).is_some() {
            self.snapshot.displace(&pod.uid);
            self.queue.fail(&pod.uid, now);
        }
    }
}
