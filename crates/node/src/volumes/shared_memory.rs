//! Memory that the containers of a pod share: where the node may mount, `/dev/shm` is the pod's.
//!
//! It is there before the first container and goes with the pod's volumes, so that it outlives the
//! containers that use it.

use std::io;
use std::path::{Path, PathBuf};

use super::memory;
use crate::runtime::Mount;

/// Below a pod's directory.
const NAME: &str = "shared-memory";
const TARGET: &str = "/dev/shm";
/// As much as containers usually get.
const BYTES_MAX: u64 = 64 << 20;

/// Makes it, or finds it again; `None` where nothing may be mounted.
pub fn make(directory: &Path) -> io::Result<Option<Mount>> {
    if !Path::new(TARGET).is_dir() {
        return Ok(None);
    }
    let source = directory.join(NAME);
    memory::make(&source, 0o1777, Some(BYTES_MAX))?;
    let target = TARGET.into();
    let mount = |source: PathBuf| Mount { source, target, optional: true, ..Mount::default() };
    Ok(memory::is_mounted(&source).then(|| mount(source)))
}
