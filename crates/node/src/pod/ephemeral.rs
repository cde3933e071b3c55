//! Containers that are added to a pod that runs, to look into it: `kubectl debug`.
//!
//! They may start at any time, before initialisation is over too, run once, and count for nothing:
//! not for the phase of the pod, not for whether it is ready. They end with its other containers.
//!
//! Upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go (EphemeralContainersToStart)

use reconcile::Object;

use super::spec::{self, Restart, Role, Spec};

/// The containers that were added.
pub fn containers(pod: &Object) -> Vec<Spec<'_>> {
    let list = pod.value["spec"]["ephemeralContainers"].as_array();
    let added = list.into_iter().flatten().map(|value| {
        let name = value["name"].as_str().unwrap_or_default();
        Spec { name, role: Role::Ephemeral, restart: Restart::Never, value }
    });
    added.collect()
}

/// All containers there are, these last.
pub fn and_others(pod: &Object) -> Vec<Spec<'_>> {
    [spec::containers(pod), containers(pod)].concat()
}
