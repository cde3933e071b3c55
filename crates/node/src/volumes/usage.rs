//! How much is in the volumes of a pod that are bounded, and on disk: nothing else bounds them.
//!
//! Upstream: pkg/kubelet/eviction/eviction_manager.go (emptyDirLimitEviction)

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use amounts::Quantity;
use reconcile::Object;
use serde_json::Value;

use super::{list, text};

/// Files that are counted; a volume of more is too large whatever is in them.
const FILES_MAX: usize = 1_000_000;
/// What the kernel counts blocks in.
const BLOCK_BYTES: u64 = 512;

/// Whether the pod has volumes that have to be looked at.
pub fn is_bounded(pod: &Object) -> bool {
    bounded(pod).next().is_some()
}

fn bounded(pod: &Object) -> impl Iterator<Item = (&str, &Value)> {
    let volumes = list(&pod.value["spec"]["volumes"]);
    let volumes = volumes.filter(|volume| text(&volume["emptyDir"]["medium"]).is_empty());
    let limit = |volume: &&Value| {
        let limit = Quantity::read(&volume["emptyDir"]["sizeLimit"]);
        limit.is_some_and(|limit| !limit.is_zero())
    };
    volumes.filter(limit).map(|volume| (text(&volume["name"]), &volume["emptyDir"]["sizeLimit"]))
}

/// Which volume holds more than it may, in the words that people know.
pub fn exceeded(pod: &Object, directory: &Path) -> Option<String> {
    let mut bounded = bounded(pod);
    bounded.find_map(|(name, limit)| {
        let allowed = u64::try_from(Quantity::read(limit)?.value()).ok()?;
        let used = bytes(&directory.join("empty-dir").join(name))?;
        let limit = text(limit);
        let message = format!("Usage of EmptyDir volume {name:?} exceeds the limit {limit:?}. ");
        (used > allowed).then_some(message)
    })
}

/// Returns the bytes of all files below a directory; `None` if it cannot be read.
pub fn bytes(directory: &Path) -> Option<u64> {
    let (mut sum, mut count) = (0, 0);
    let mut left = vec![directory.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).ok()?.flatten() {
            let Ok(found) = entry.metadata() else { continue };
            count += 1;
            if count > FILES_MAX {
                return Some(u64::MAX);
            }
            sum += found.blocks() * BLOCK_BYTES;
            if found.is_dir() {
                left.push(entry.path());
            }
        }
    }
    Some(sum)
}
