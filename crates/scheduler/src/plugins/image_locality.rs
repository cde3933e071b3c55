//! Nodes that have the images of a pod are liked better, the more so the larger they are.

use crate::plugin::{Plugin, SCORE_MAX, Scope, Score, View};
use crate::snapshot::Slot;

const MEGABYTE: i64 = 1_024 * 1_024;
/// Less than this is not worth it.
const SIZE_MIN: i64 = 23 * MEGABYTE;
/// More than this, for each container, makes no difference.
const SIZE_MAX: i64 = 1_000 * MEGABYTE;

pub struct ImageLocality;

impl Plugin for ImageLocality {
    fn name(&self) -> &'static str {
        "ImageLocality"
    }

    fn scope(&self) -> Scope {
        Scope::Load
    }

    fn score<'a>(&self, view: View<'a>, _: &[Slot]) -> Option<Box<dyn Score + 'a>> {
        let images = &view.snapshot.images;
        if !view.pod.template.images.iter().any(|image| images.contains_key(image)) {
            return None;
        }
        Some(Box::new(Images(view)))
    }
}

struct Images<'a>(View<'a>);

impl Score for Images<'_> {
    fn score(&self, slot: Slot) -> i64 {
        let View { snapshot, pod, .. } = self.0;
        let Some(node) = snapshot.node(slot) else { return 0 };
        let mut sum = 0;
        for image in &pod.template.images {
            let Some((_, size)) = node.images.iter().find(|(name, _)| name == image) else {
                continue;
            };
            // An image that few nodes have would draw every pod to them.
            let having = snapshot.images.get(image).copied().unwrap_or(0);
            let share = having as f64 / snapshot.node_count().max(1) as f64;
            sum += (*size as f64 * share) as i64;
        }
        let containers = i64::try_from(pod.template.containers).unwrap_or(1).max(1);
        let most = SIZE_MAX * containers;
        SCORE_MAX * (sum.clamp(SIZE_MIN, most) - SIZE_MIN) / (most - SIZE_MIN)
    }
}
