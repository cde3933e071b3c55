//! The nodes that can be asked for what only a machine has: the output of containers, programs
//! beside them, connections to their ports.
//!
//! The server knows nothing of nodes; whoever runs one beside it says so here. Those of other
//! processes on the same store say in their status where they answer.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use link::remote::Remote;
use link::{Machines, Node};
use serde_json::Value;

use crate::identity::peers::Peers;
use crate::persist::stored;
use crate::registry::edit::{list, text};
use crate::server::Server;

/// What this process can ask.
#[derive(Clone, Default)]
pub struct Connected {
    /// The node of this process, if it runs one.
    own: Arc<OnceLock<Arc<dyn Node>>>,
    /// How those of other processes are asked, if there may be any.
    peers: Arc<OnceLock<Peers>>,
    /// What runs the virtual machines of this process.
    pub machines: Arc<OnceLock<Arc<dyn Machines>>>,
}

impl Connected {
    /// Says which node is here; only the first counts.
    pub fn set(&self, node: Arc<dyn Node>) {
        let _ = self.own.set(node);
    }

    /// Says that other processes may have nodes, and how they are known.
    pub fn share(&self, peers: Peers) {
        let _ = self.peers.set(peers);
    }

    /// How processes of the cluster know each other, if there may be several.
    pub fn peers(&self) -> Option<&Peers> {
        self.peers.get()
    }

    /// The node of this process, if that is its name.
    pub fn find(&self, name: &str) -> Option<&Arc<dyn Node>> {
        self.own.get().filter(|node| node.name() == name)
    }
}

impl Server {
    /// The node of that name, if it can be asked.
    pub async fn node(&self, name: &str) -> Option<Arc<dyn Node>> {
        match self.connected.find(name) {
            Some(node) => Some(node.clone()),
            None => self.node_elsewhere(name).await,
        }
    }

    /// The node of that name, if it is of another process.
    pub async fn node_elsewhere(&self, name: &str) -> Option<Arc<dyn Node>> {
        if name.is_empty() || self.connected.find(name).is_some() {
            return None;
        }
        let peers = self.connected.peers.get()?;
        let key = self.registry.find("", "nodes")?.key("", name).ok()?;
        let entry = self.store.get(&key, None).await.ok()??;
        let address = endpoint(&stored(&entry).object(entry.modified))?;
        match peers.connect(name, address) {
            Ok(connect) => Some(Arc::new(Remote { name: name.to_owned(), connect })),
            Err(error) => {
                tracing::warn!(%error, "nodes of other processes cannot be asked");
                None
            }
        }
    }
}

/// Where a node says that it answers.
fn endpoint(node: &Value) -> Option<SocketAddr> {
    let port = &node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"];
    let port = u16::try_from(port.as_u64()?).ok().filter(|port| *port > 0)?;
    let addresses = list(node, &["status", "addresses"]).iter();
    let mut internal = addresses.filter(|address| text(address, &["type"]) == "InternalIP");
    let address = internal.find_map(|address| text(address, &["address"]).parse().ok())?;
    Some(SocketAddr::new(address, port))
}
