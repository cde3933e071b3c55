//! Changes the number of pods without changing the template. In the middle of a rollout every
//! ReplicaSet gets its share.
//!
//! Upstream: pkg/controller/deployment/sync.go

use super::annotations;
use super::rollout::Rollout;
use super::spec::Strategy;

impl Rollout<'_> {
    /// Whether another number of pods is asked for than when the ReplicaSets were last scaled.
    pub fn is_scaled(&self) -> bool {
        let asked = self.spec.replicas;
        self.sets.iter().filter(|set| set.is_active()).any(|set| {
            let then = annotations::number(&set.annotations, annotations::DESIRED);
            then.is_some_and(|then| then != asked)
        })
    }

    pub fn rescale(&mut self) {
        let active: Vec<usize> =
            (0..self.sets.len()).filter(|at| self.sets[*at].is_active()).collect();
        match active[..] {
            [] => {
                if let Some(at) = self.new.or_else(|| self.sets.len().checked_sub(1)) {
                    self.scale(at, self.spec.replicas);
                }
            }
            [one] => {
                self.scale(one, self.spec.replicas);
            }
            _ if self.is_saturated() => {
                for at in self.old_active() {
                    self.scale(at, 0);
                }
            }
            _ if self.spec.strategy != Strategy::Recreate => self.rescale_in_proportion(active),
            _ => {}
        }
    }

    /// Whether the new ReplicaSet has all the pods there are to be.
    fn is_saturated(&self) -> bool {
        let Some(set) = self.new_set() else { return false };
        let asked = self.spec.replicas;
        let then = annotations::number(&set.annotations, annotations::DESIRED);
        set.replicas == asked && then == Some(asked) && set.available() == asked
    }

    fn rescale_in_proportion(&mut self, active: Vec<usize>) {
        let allowed = if self.spec.replicas > 0 { self.spec.total_max() } else { 0 };
        let to_add = allowed - active.iter().map(|at| self.sets[*at].replicas).sum::<i64>();
        // The largest first; among equals the youngest grows and the oldest shrinks.
        let mut ordered = active;
        if to_add > 0 {
            ordered.reverse();
        }
        ordered.sort_by_key(|at| std::cmp::Reverse(self.sets[*at].replicas));
        let mut sizes = Vec::with_capacity(ordered.len());
        let mut added = 0;
        for at in &ordered {
            let share = self.share(*at, to_add, added);
            added += share;
            sizes.push(self.sets[*at].replicas + share);
        }
        // What rounding left over is the largest one's.
        if let Some(first) = sizes.first_mut() {
            *first = (*first + to_add - added).max(0);
        }
        for (at, size) in ordered.into_iter().zip(sizes) {
            self.scale(at, size);
        }
    }

    /// How much a ReplicaSet grows so that it keeps its part of the whole.
    fn share(&self, at: usize, to_add: i64, added: i64) -> i64 {
        let set = &self.sets[at];
        let left = to_add - added;
        if left == 0 {
            return 0;
        }
        let fraction = self.fraction(set.replicas, || {
            annotations::number(&set.annotations, annotations::TOTAL_MAX)
        });
        if to_add > 0 { fraction.clamp(0, left) } else { fraction.clamp(left, 0) }
    }

    fn fraction(&self, replicas: i64, total_before: impl Fn() -> Option<i64>) -> i64 {
        if self.spec.replicas == 0 {
            return -replicas;
        }
        let reported = || self.deployment.value["status"]["replicas"].as_i64();
        let before = total_before().or_else(reported).unwrap_or(0);
        if before <= 0 {
            return 0;
        }
        // Half is rounded away from zero; nothing here is negative.
        let size = (2 * replicas * self.spec.total_max() + before) / (2 * before);
        size - replicas
    }
}
