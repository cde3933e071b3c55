//! A disk that can be attached once is not attached twice; a claim for one pod serves one pod.

use reconcile::Name;

use crate::events::Events;
use crate::labels::{list, text};
use crate::plugin::{Filter, Filtering, Plugin, Scope, Unfit, View};
use crate::pod::volumes::Disk;
use crate::snapshot::Slot;

const DISK: &str = "node(s) had no available disk";
const CLAIM: &str = "node has pod using PersistentVolumeClaim with the same name and \
                     ReadWriteOncePod access mode";

pub struct VolumeRestrictions;

impl Plugin for VolumeRestrictions {
    fn name(&self) -> &'static str {
        "VolumeRestrictions"
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn woken_by(&self) -> Events {
        Events::POD_REMOVED | Events::VOLUMES
    }

    fn filter<'a>(&self, view: View<'a>) -> Filtering<'a> {
        let template = &view.pod.template;
        let own = template
            .claims
            .iter()
            .map(|claim| Name::new(view.pod.name().namespace.clone(), claim.name.clone()));
        let contested: Vec<Name> = own.filter(|name| is_contested(&view, name)).collect();
        if template.disks.is_empty() && contested.is_empty() {
            return Filtering::Skip;
        }
        Filtering::Check(Box::new(Check { view, contested }))
    }
}

/// Whether a claim serves only one pod, and serves another.
fn is_contested(view: &View<'_>, name: &Name) -> bool {
    let Some(claim) = view.snapshot.claims.get(name) else { return false };
    let modes = &claim.value["spec"]["accessModes"];
    list(modes).any(|mode| text(mode) == "ReadWriteOncePod")
        && view.snapshot.claims_used.contains_key(name)
}

struct Check<'a> {
    view: View<'a>,
    contested: Vec<Name>,
}

impl Check<'_> {
    fn has_disks(&self, slot: Slot) -> bool {
        let Some(node) = self.view.snapshot.node(slot) else { return false };
        let own = &self.view.pod.template.disks;
        let is_free = |held: &Disk| own.iter().all(|disk| !disk.conflicts(held));
        node.pods.iter().flat_map(|pod| &pod.template.disks).all(is_free)
    }
}

impl Filter for Check<'_> {
    fn fits(&self, slot: Slot) -> bool {
        // The other pod keeps the claim wherever this one goes.
        self.contested.is_empty() && self.has_disks(slot)
    }

    fn why(&self, slot: Slot) -> Unfit {
        Unfit::resolvable(if self.has_disks(slot) { CLAIM } else { DISK })
    }
}
