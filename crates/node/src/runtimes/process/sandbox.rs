//! What the processes of a pod share: the network that `network` makes for it.
//!
//! The shim joins it before it does anything else, so that all it starts is in it.

use std::fs::File;
use std::io;
use std::path::Path;

use super::{Process, namespaces};
use crate::runtime::{Refusal, Sandbox, SandboxSpec};

impl Process {
    pub(super) async fn make_sandbox(&self, spec: &SandboxSpec) -> Result<Sandbox, Refusal> {
        match self.options.network.as_ref().filter(|_| !spec.host_network) {
            Some(network) => network.make(spec).await,
            None => {
                self.lock().sharing.insert(spec.pod.clone());
                Ok(Sandbox::default())
            }
        }
    }

    pub(super) fn find_sandbox(&self, pod: &str) -> Option<Sandbox> {
        let found = self.options.network.as_ref().and_then(|network| network.find(pod));
        found.or_else(|| self.lock().sharing.contains(pod).then(Sandbox::default))
    }

    /// The pods that have one of their own.
    pub(super) fn sandboxes(&self) -> Vec<String> {
        self.options.network.as_ref().map(|network| network.pods()).unwrap_or_default()
    }

    pub(super) async fn remove_sandbox(&self, pod: &str) {
        self.lock().sharing.remove(pod);
        let Some(network) = self.options.network.clone() else { return };
        let pod = pod.to_owned();
        // It waits for the kernel.
        let _ = tokio::task::spawn_blocking(move || network.remove(&pod)).await;
    }
}

/// Puts this process into a network, given by the file of its namespace.
pub fn join(file: &Path) -> io::Result<()> {
    let joined = File::open(file).and_then(namespaces::join_network);
    joined.map_err(|error| {
        io::Error::other(format!("could not join the network {}: {error}", file.display()))
    })
}
