//! Machines on a cluster that has no KubeVirt and no CDI: what makes instances of VirtualMachines,
//! finds nodes for instances, and claims for DataVolumes, and tells of policies. What needs a
//! machine's hands, its node does (`crates/node/src/machines/`).
//!
//! Upstream: kubevirt/kubevirt pkg/virt-controller/watch, kubevirt/containerized-data-importer
//! pkg/controller/datavolume

pub mod data_volume;
pub mod instance;
pub mod machine;
pub mod policy;
pub mod subresources;

use std::time::Duration;

use reconcile::entry::run_boxed;
use reconcile::{Context, entry};

use crate::add_ons::AddOns;

/// How often is looked whether the definitions are there.
const LOOK: Duration = Duration::from_secs(1);
/// Whoever deletes an instance waits until its machine is gone; its node says so.
pub const INSTANCE_FINALIZER: &str = "kubevirt.io/foregroundDeleteVirtualMachine";
/// Nodes that run machines say so.
pub const SCHEDULABLE: &str = "kubevirt.io/schedulable";

type Entry = reconcile::Entry<(), ()>;

/// Every controller, one line each.
#[rustfmt::skip]
pub const ALL: &[Entry] = &[
    Entry { name: machine::NAME, is_enabled: |()| true,
        start: |context, ()| run_boxed(context, machine::Controller) },
    Entry { name: instance::NAME, is_enabled: |()| true,
        start: |context, ()| run_boxed(context, instance::Controller) },
    Entry { name: data_volume::NAME, is_enabled: |()| true,
        start: |context, ()| run_boxed(context, data_volume::Controller) },
    Entry { name: policy::NAME, is_enabled: |()| true,
        start: |context, ()| run_boxed(context, policy::Controller) },
];

/// Runs them from when the cluster knows their kinds until everything is to stop.
pub async fn run(context: Context) {
    let requests = context.requests("provider", Default::default());
    loop {
        let found = AddOns::find(&requests).await;
        if found
            .is_ok_and(|found| found.kubevirt && found.importer && found.snapshots && found.nmstate)
        {
            break;
        }
        tokio::select! {
            () = context.stopping() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
    }
    let mut running = entry::start(ALL, |_| context.clone(), ((), &()));
    while running.join_next().await.is_some() {}
}
