//! Ends every old pod before the first new one begins.

use super::observe::Observed;
use super::rollout::Rollout;

impl Rollout<'_> {
    pub fn recreate(&mut self, observed: &Observed) {
        self.renew();
        let active = self.old_active();
        for at in &active {
            self.scale(*at, 0);
        }
        if !active.is_empty() || self.old_pods_run(observed) {
            return;
        }
        self.ensure_new();
        let at = self.new.expect("it was made above");
        if self.sets[at].object().is_none() || self.sets[at].replicas != self.spec.replicas {
            self.scale(at, self.spec.replicas);
        } else {
            self.clean_up_if_complete();
        }
    }

    /// Pods that are going still run.
    fn old_pods_run(&self, observed: &Observed) -> bool {
        self.old().into_iter().any(|at| {
            let set = &self.sets[at];
            let uid = set.object().map_or("", |object| object.uid.as_str());
            set.count("replicas") > 0 || observed.running.get(uid).is_some_and(|pods| *pods > 0)
        })
    }
}
