//! A volume that is in a zone is used from that zone.

use std::sync::Arc;

use reconcile::Name;

use crate::events::Events;
use crate::labels::text;
use crate::plugin::{Filter, Filtering, Plugin, Scope, Unfit, View};
use crate::snapshot::Slot;

const ZONES: [&str; 4] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];
/// Between the zones of a volume that is in several.
const SEPARATOR: &str = "__";

pub struct VolumeZone;

impl Plugin for VolumeZone {
    fn name(&self) -> &'static str {
        "VolumeZone"
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn woken_by(&self) -> Events {
        Events::NODE_LABELS | Events::VOLUMES
    }

    fn filter<'a>(&self, view: View<'a>) -> Filtering<'a> {
        let mut wanted = Vec::new();
        for claim in &view.pod.template.claims {
            let name = Name::new(view.pod.name().namespace.clone(), claim.name.clone());
            let Some(claim) = view.snapshot.claims.get(&name) else { continue };
            let volume = text(&claim.value["spec"]["volumeName"]);
            let Some(volume) = view.snapshot.volumes.get(volume) else { continue };
            for key in ZONES {
                if let Some(zones) = volume.label(key) {
                    wanted.push((key, zones.split(SEPARATOR).map(Arc::from).collect()));
                }
            }
        }
        if wanted.is_empty() {
            return Filtering::Skip;
        }
        Filtering::Check(Box::new(Check { view, wanted }))
    }
}

struct Check<'a> {
    view: View<'a>,
    wanted: Vec<(&'static str, Vec<Arc<str>>)>,
}

impl Filter for Check<'_> {
    fn fits(&self, slot: Slot) -> bool {
        let Some(node) = self.view.snapshot.node(slot) else { return false };
        // A node that says nothing about zones is in all of them.
        if !ZONES.iter().any(|key| node.labels.contains_key(*key)) {
            return true;
        }
        let is_in = |(key, zones): &(&str, Vec<Arc<str>>)| {
            node.labels.get(*key).is_some_and(|zone| zones.contains(zone))
        };
        self.wanted.iter().all(is_in)
    }

    fn why(&self, _: Slot) -> Unfit {
        Unfit::unresolvable("node(s) had no available volume zone")
    }
}
