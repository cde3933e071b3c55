//! What the processes of a pod share: the network that `network` makes for it.

use crate::runtime::{Refusal, Sandbox, SandboxSpec};

use super::Process;

impl Process {
    pub(super) async fn make_sandbox(&self, spec: &SandboxSpec) -> Result<Sandbox, Refusal> {
        let _ = spec;
        Ok(Sandbox::default())
    }

    pub(super) fn find_sandbox(&self, _: &str) -> Option<Sandbox> {
        Some(Sandbox::default())
    }
}
