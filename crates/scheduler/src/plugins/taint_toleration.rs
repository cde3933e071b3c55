//! Tainted nodes take no pods but those that tolerate every taint; softly tainted ones are liked
//! less.

use crate::events::Events;
use crate::plugin::{Filter, Filtering, Plugin, Scope, Score, Unfit, View, normalize};
use crate::pod::template::Taint;
use crate::snapshot::Slot;
use crate::snapshot::node::Node;

pub struct TaintToleration;

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    fn scope(&self) -> Scope {
        Scope::Node
    }

    fn woken_by(&self) -> Events {
        Events::NODE_TAINTS
    }

    fn filter<'a>(&self, view: View<'a>) -> Filtering<'a> {
        if view.snapshot.is_all_open() {
            return Filtering::Skip;
        }
        Filtering::Check(Box::new(Check(view)))
    }

    fn weight(&self) -> i64 {
        3
    }

    fn score<'a>(&self, view: View<'a>, _: &[Slot]) -> Option<Box<dyn Score + 'a>> {
        if view.snapshot.soft_taints == 0 {
            return None;
        }
        Some(Box::new(Check(view)))
    }
}

struct Check<'a>(View<'a>);

impl<'a> Check<'a> {
    fn untolerated(
        &self,
        node: &'a Node,
        effects: &'a [&'a str],
    ) -> impl Iterator<Item = &'a Taint> {
        let template = &self.0.pod.template;
        let of_effect = move |taint: &&Taint| effects.contains(&&*taint.effect);
        node.taints.iter().filter(of_effect).filter(move |taint| !template.tolerates(taint))
    }

    fn refusing(&self, slot: Slot) -> Option<&'a Taint> {
        let node = self.0.snapshot.node(slot)?;
        self.untolerated(node, &["NoSchedule", "NoExecute"]).next()
    }
}

/// Whether a pod tolerates what keeps pods away from a node.
pub fn tolerates(view: View<'_>, slot: Slot) -> bool {
    Check(view).refusing(slot).is_none()
}

impl Filter for Check<'_> {
    fn fits(&self, slot: Slot) -> bool {
        self.0.snapshot.is_open(slot) || self.refusing(slot).is_none()
    }

    fn why(&self, slot: Slot) -> Unfit {
        let (key, value) =
            self.refusing(slot).map_or(("", ""), |taint| (&*taint.key, &*taint.value));
        Unfit::unresolvable(format!("node(s) had untolerated taint {{{key}: {value}}}"))
    }
}

impl Score for Check<'_> {
    fn score(&self, slot: Slot) -> i64 {
        let Some(node) = self.0.snapshot.node(slot) else { return 0 };
        let count = self.untolerated(node, &["PreferNoSchedule"]).count();
        i64::try_from(count).unwrap_or(i64::MAX)
    }

    fn normalize(&self, _: &[Slot], scores: &mut [i64]) {
        normalize(scores, true);
    }
}
