//! Replaces pods a few at a time: never more than the surge allows, never fewer available than
//! may be missing.

use super::rollout::Rollout;
use super::spec::Strategy;

impl Rollout<'_> {
    /// One move of a rolling update: up, or else down.
    pub fn roll(&mut self) {
        self.renew();
        self.ensure_new();
        if !self.grow_new() && !self.shrink_old() {
            self.clean_up_if_complete();
        }
    }

    /// How many pods the new ReplicaSet may ask for.
    pub fn replicas_of_new(&self) -> i64 {
        let current = self.new_set().map_or(0, |set| set.replicas);
        if self.spec.strategy == Strategy::Recreate {
            return self.spec.replicas;
        }
        // Pods that an old ReplicaSet has yet to delete take up room as well.
        let held = self.sets.iter().map(|set| set.replicas.max(set.count("replicas")));
        let room = self.spec.total_max() - held.sum::<i64>();
        if room <= 0 {
            return current;
        }
        current + room.min(self.spec.replicas - current)
    }

    fn grow_new(&mut self) -> bool {
        let Some(at) = self.new else { return false };
        let (current, wanted) = (self.sets[at].replicas, self.spec.replicas);
        if self.sets[at].object().is_none() {
            return true;
        }
        if current == wanted {
            return false;
        }
        let replicas = if current > wanted { wanted } else { self.replicas_of_new() };
        replicas != current && self.scale(at, replicas)
    }

    fn shrink_old(&mut self) -> bool {
        let active = self.old_active();
        if active.is_empty() {
            return false;
        }
        let available_min = self.spec.replicas - self.spec.unavailable();
        let starting = self.new_set().map_or(0, |set| set.replicas - set.available());
        let removable = self.asked() - available_min - starting;
        if removable <= 0 {
            return false;
        }
        let broken = self.remove_broken(&active, removable);
        let healthy = self.remove_available(&active, available_min);
        broken || healthy
    }

    /// Pods that serve nobody go first; their loss is none.
    fn remove_broken(&mut self, active: &[usize], removable: i64) -> bool {
        let mut left = removable;
        for at in active {
            let set = &self.sets[*at];
            let broken = (set.replicas - set.available()).min(left);
            if broken > 0 {
                left -= broken;
                self.scale(*at, self.sets[*at].replicas - broken);
            }
        }
        left < removable
    }

    fn remove_available(&mut self, active: &[usize], available_min: i64) -> bool {
        let available: i64 = self.sets.iter().map(|set| set.available()).sum();
        let spare = available - available_min;
        let mut left = spare;
        for at in active {
            let removed = self.sets[*at].replicas.min(left);
            if removed > 0 {
                left -= removed;
                self.scale(*at, self.sets[*at].replicas - removed);
            }
        }
        left < spare
    }
}
