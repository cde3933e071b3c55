//! Memory that the containers of a pod share: where the node may mount, `/dev/shm` is the pod's.
//!
//! It is there before the first container and goes with the pod's volumes, so that it outlives the
//! containers that use it.

use std::path::Path;

use reconcile::Object;

use super::memory;
use crate::runtime::Mount;

/// Below a pod's directory.
const NAME: &str = "shared-memory";
const TARGET: &str = "/dev/shm";
/// As much as containers usually get.
const BYTES_MAX: u64 = 64 << 20;

/// Makes it, or finds it again; `None` for a pod that has the machine's.
pub fn make(pod: &Object, directory: &Path) -> Option<Mount> {
    if pod.value["spec"]["hostIPC"] == true || !Path::new(TARGET).is_dir() {
        return None;
    }
    let source = directory.join(NAME);
    if let Err(error) = memory::make(&source, 0o1777, Some(BYTES_MAX)) {
        tracing::warn!(pod = %pod.name, %error, "the pod has no shared memory of its own");
        return None;
    }
    let target = TARGET.into();
    memory::is_mounted(&source).then(|| Mount {
        source,
        target,
        optional: true,
        ..Mount::default()
    })
}
