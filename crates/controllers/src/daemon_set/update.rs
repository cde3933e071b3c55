//! Replaces pods of an old template: in place, or by a second one beside the first.

use std::sync::Arc;

use reconcile::Object;

use super::plan::{Changes, Scene};
use super::spec::Update;

/// The pods on one node that are not going: of the present template, and of another.
enum Pair<'a> {
    None,
    New(&'a Arc<Object>),
    Old(&'a Arc<Object>),
    Both {
        new: &'a Arc<Object>,
        old: &'a Arc<Object>,
    },
    /// More than there are to be; they are tidied up first.
    Many,
}

impl<'a> Scene<'a> {
    /// One move of an update, where all else is in order.
    pub fn roll(&self, changes: &mut Changes<'a>) {
        match self.spec.update {
            Update::OnDelete => {}
            Update::Replace { unavailable_max } => self.replace(changes, unavailable_max),
            Update::Surge { surge_max } => self.surge(changes, surge_max),
        }
    }

    fn replace(&self, changes: &mut Changes<'a>, unavailable_max: i64) {
        let mut missing = 0;
        let mut candidates = Vec::new();
        for pods in self.pods.values() {
            match self.pair(pods) {
                Pair::New(pod) if self.is_available(pod) => {}
                Pair::Old(pod) if self.is_available(pod) => candidates.push(pod),
                Pair::Old(pod) => {
                    // It serves nobody, so that replacing it costs nothing.
                    changes.delete.push(pod);
                    missing += 1;
                }
                Pair::None | Pair::New(_) | Pair::Both { .. } | Pair::Many => missing += 1,
            }
        }
        let left = usize::try_from(unavailable_max - missing).unwrap_or(0);
        changes.delete.extend(candidates.into_iter().take(left));
    }

    fn surge(&self, changes: &mut Changes<'a>, surge_max: i64) {
        let mut beside = 0;
        let mut candidates = Vec::new();
        for (node, pods) in &self.pods {
            match self.pair(pods) {
                Pair::None | Pair::New(_) => {}
                Pair::Many => beside += 1,
                Pair::Old(pod) if self.is_available(pod) => candidates.push(*node),
                Pair::Old(_) => changes.make.push(node),
                Pair::Both { new, old } if self.is_available(new) => changes.delete.push(old),
                Pair::Both { .. } => beside += 1,
            }
        }
        let left = usize::try_from(surge_max - beside).unwrap_or(0);
        changes.make.extend(candidates.into_iter().take(left));
    }

    fn pair(&self, pods: &[&'a Arc<Object>]) -> Pair<'a> {
        let here = pods.iter().copied().filter(|pod| !pod.is_terminating());
        let (new, old): (Vec<_>, Vec<_>) = here.partition(|pod| self.is_updated(pod));
        match (&new[..], &old[..]) {
            ([], []) => Pair::None,
            ([new], []) => Pair::New(new),
            ([], [old]) => Pair::Old(old),
            ([new], [old]) => Pair::Both { new, old },
            _ => Pair::Many,
        }
    }
}
