//! Forgets old ReplicaSets that are no longer kept to go back to.

use super::rollout::Rollout;
use super::status;

impl Rollout<'_> {
    pub fn clean_up_if_complete(&mut self) {
        if status::is_complete(self, &self.deployment.value["status"]) {
            self.clean_up();
        }
    }

    pub fn clean_up(&mut self) {
        let Some(kept) = self.spec.history_max else { return };
        let is_alive =
            |at: &usize| self.sets[*at].object().is_some_and(|object| !object.is_terminating());
        let mut alive: Vec<usize> = self.old().into_iter().filter(is_alive).collect();
        let Some(surplus) = alive.len().checked_sub(kept) else { return };
        alive.sort_by_key(|at| self.sets[*at].revision());
        alive.truncate(surplus);
        alive.retain(|at| {
            let set = &self.sets[*at];
            let is_seen = set.object().is_some_and(|object| {
                let observed = object.value["status"]["observedGeneration"].as_i64();
                object.generation() <= observed.unwrap_or(0)
            });
            is_seen && set.replicas == 0 && set.count("replicas") == 0
        });
        self.spare = alive;
    }
}
