//! SGLang over many pods: all join the leader, each with its rank.

use serde_json::Value;

use super::commands::inject;
use super::{Framework, Place, Role, drop_probes};

/// Where the leader waits for the others.
const PORT: u16 = 29_500;

pub fn rewrite(container: &mut Value, place: &Place<'_>) {
    if place.role == Role::Main {
        return;
    }
    let (leader, nodes) = (place.deployer.leader(), place.nodes);
    let (rank, needs_shell) = match place.role {
        Role::Worker => (place.deployer.rank(), place.deployer.needs_shell()),
        Role::Main | Role::Leader => ("0".to_owned(), false),
    };
    let flags = format!("--dist-init-addr {leader}:{PORT} --nnodes {nodes} --node-rank {rank}");
    inject(container, &flags, needs_shell, Framework::Sglang);
    if place.role == Role::Worker {
        drop_probes(container);
    }
}
