//! Virtual machines in this process: the controllers that stand in for KubeVirt and CDI, what runs
//! machines on this node, and what may be asked of a machine beside its object.
//!
//! ```text
//! subresources.rs   what is asked of machines, wherever they run: `subresources.kubevirt.io`
//! here.rs           what is asked of those of this node, by servers of this process and of others
//! ```

mod here;
mod subresources;

use std::path::Path;
use std::sync::Arc;

use hypervisor::Hypervisor;
use hypervisor::images::Reach;
use hypervisor::qemu::Qemu;
use node::machines::Gateway;
use tokio::sync::watch;

pub use here::Here;
pub use subresources::Subresources;

/// In the data directory: what is kept of machines.
const DIRECTORY: &str = "machines";
const SNAPSHOTS: &str = "snapshots";
/// Notes of the interfaces that were made for policies.
const LINKS: &str = "links.json";

/// The name of the family whose machines these are.
pub const FAMILY: &str = "machines";

/// Finds machines that run again, and says what the launcher is told.
pub async fn open(
    node: &str,
    data: &Path,
    (reach, gateway): (Reach, watch::Receiver<Gateway>),
) -> Result<node::machines::Options, hypervisor::Error> {
    let directory = data.join(DIRECTORY);
    let groups = node::machines::groups::Groups::open(&directory);
    let hypervisor = Qemu::open_bounded(&directory, Some(Arc::new(groups))).await?;
    let hypervisor: Arc<dyn Hypervisor> = Arc::new(hypervisor);
    let snapshots = directory.join(SNAPSHOTS);
    let (node, links) = (node.to_owned(), directory.join(LINKS));
    Ok(node::machines::Options { node, hypervisor, reach, snapshots, links, gateway })
}
