//! The world of a container: namespaces with a first process that makes them what they are to be,
//! and then takes in orphans. When it is killed, nothing in its namespace of processes survives.
//!
//! Containers of a pod share hostname and System V IPC with whichever of them lives, and the
//! processes of all if the pod says so; for that the pod has a shim of its own without a program,
//! its *holder*, which is there before them. Without the right to make namespaces a user namespace
//! is tried; where that is refused too containers are plain processes, and mounts are refused.

use std::fs::File;
use std::io::{self, Read, Write};

use super::cgroups::Group;
use super::namespaces::{self, Entrance, Mapping, Space};
use super::record::{Asked, Place, Sibling};
use super::{capabilities, root, system};
use crate::confinement::Processes;
use crate::runtime::ContainerSpec;

/// The container's name in the record of a holder, which no container can have.
pub const HOLDER: &str = "";
/// What the first process says when all is made.
const READY: &[u8] = b"ready";
/// The longest reason why it is not.
const REASON_BYTES_MAX: u64 = 4 << 10;

/// The first process of a container's namespaces.
#[derive(Debug)]
pub struct World {
    pub init: i32,
    pub ticks: u64,
    spaces: Vec<Space>,
}

/// Returns whether this process may create namespaces without a user namespace. To be called before
/// it joins the user namespace of a rootless network, in which it has all capabilities.
pub fn is_mighty() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    capabilities::has(capabilities::effective(&status), capabilities::SYS_ADMIN)
}

/// Makes the world of a container; `None` for a plain process. This process must have one thread.
pub fn make(asked: &Asked, place: &Place, is_mighty: bool) -> io::Result<Option<World>> {
    let (spec, group) = (&asked.spec, asked.group.as_ref());
    if !is_mighty && let Err(error) = namespaces::own_user() {
        return none(spec, &error);
    }
    let mapping = asked.ids.filter(|_| is_mighty).map(Mapping::new).transpose().map_err(no_ids)?;
    // Who has a user namespace of his own may not enter those of others.
    let shared = if is_mighty { shared(spec, place)? } else { Vec::new() };
    let mut flags = libc::CLONE_NEWNS;
    let is_new = |kind| !shared.iter().any(|space: &Space| space.kind == kind);
    if !spec.security.host_ipc && is_new(libc::CLONE_NEWIPC) {
        flags |= libc::CLONE_NEWIPC;
    }
    if spec.security.hostname.is_some() && is_new(libc::CLONE_NEWUTS) {
        flags |= libc::CLONE_NEWUTS;
    }
    if spec.security.processes != Processes::OfHost && is_new(libc::CLONE_NEWPID) {
        flags |= libc::CLONE_NEWPID;
    }
    // What is shared of processes counts for children only, so it is joined before there is one.
    let processes = shared.iter().find(|space| space.kind == libc::CLONE_NEWPID);
    let own = processes.map(|_| namespaces::own_processes()).transpose()?;
    processes.map(namespaces::join).transpose()?;
    let doors = group.map(Group::doors).transpose()?.unwrap_or_default();
    let has_network = namespaces::has_own_network();
    let (mut hears, mut says) = io::pipe()?;
    let init = match namespaces::fork_into(flags) {
        Ok(Some(init)) => init,
        Ok(None) => {
            drop(hears);
            let made = be_first(spec, (&shared, &doors), flags)
                .and_then(|()| root::make(asked, place.directory(), has_network, mapping.as_ref()))
                .and_then(|()| mapping.as_ref().map_or(Ok(()), Mapping::become_root));
            let _ = match &made {
                Ok(()) => says.write_all(READY),
                Err(error) => says.write_all(error.to_string().as_bytes()),
            };
            match made {
                Ok(()) => namespaces::reap_forever(),
                Err(_) => namespaces::leave(1),
            }
        }
        Err(error) => return none(spec, &error),
    };
    // Else there could be no more threads of this process.
    own.as_ref().map(namespaces::join).transpose()?;
    drop((says, doors));
    let mut said = Vec::new();
    hears.by_ref().take(REASON_BYTES_MAX).read_to_end(&mut said)?;
    if said != READY {
        let why = String::from_utf8_lossy(&said);
        return Err(io::Error::other(if why.is_empty() { "its world ended".into() } else { why }));
    }
    let ticks = system::began(init).ok_or_else(|| io::Error::other("/proc is not mounted"))?;
    Ok(Some(World { init, ticks, spaces: namespaces::of(init)? }))
}

fn no_ids(error: io::Error) -> io::Error {
    io::Error::other(format!(
        "could not create a user namespace for an isolated pod: {error}; allow them with `sysctl \
         user.max_user_namespaces=28633`, or set the label setpoint.dev/isolation=host on the \
         namespace of the pod"
    ))
}

/// Who asks for what only a world can give is told that there is none.
fn none(spec: &ContainerSpec, error: &io::Error) -> io::Result<Option<World>> {
    if spec.mounts.iter().all(|one| one.optional) && !spec.security.read_only_root {
        return Ok(None);
    }
    let why = "mounts need root, or a kernel that lets users make namespaces";
    Err(io::Error::other(format!("could not make a mount namespace: {error}; {why}")))
}

/// What the first process does before anybody else is there.
fn be_first(
    spec: &ContainerSpec,
    (shared, doors): (&[Space], &[File]),
    flags: i32,
) -> io::Result<()> {
    namespaces::die_with_parent()?;
    for mut door in doors {
        door.write_all(b"0")?;
    }
    for space in shared.iter().filter(|space| space.kind != libc::CLONE_NEWPID) {
        namespaces::join(space)?;
    }
    if let (Some(hostname), true) = (&spec.security.hostname, flags & libc::CLONE_NEWUTS != 0) {
        namespaces::set_hostname(hostname)?;
    }
    Ok(())
}

/// The namespaces of other containers of the pod that this one is to be in.
fn shared(spec: &ContainerSpec, place: &Place) -> io::Result<Vec<Space>> {
    let mut wanted = Vec::new();
    if !spec.security.host_ipc {
        wanted.push(libc::CLONE_NEWIPC);
    }
    if spec.security.hostname.is_some() {
        wanted.push(libc::CLONE_NEWUTS);
    }
    let siblings = place.siblings();
    let of = |one: &Sibling, kinds: &[i32]| {
        let mut spaces = namespaces::of(one.first).ok()?;
        spaces.retain(|space| kinds.contains(&space.kind));
        Some(spaces)
    };
    let mut spaces = siblings.iter().find_map(|one| of(one, &wanted)).unwrap_or_default();
    let whose = match (spec.security.processes, spec.security.processes_of.as_deref()) {
        (Processes::OfHost, _) => None,
        (Processes::OfPod, _) => Some(HOLDER),
        (Processes::Own, target) => target,
    };
    if let Some(name) = whose {
        let found = siblings.iter().find(|one| one.name == name);
        let found = found.and_then(|one| of(one, &[libc::CLONE_NEWPID]));
        if found.is_none() && name != HOLDER {
            return Err(io::Error::other(format!("target container {name:?} is not running")));
        }
        spaces.extend(found.unwrap_or_default());
    }
    Ok(spaces)
}

impl World {
    /// How a child of the shim gets in. Its thread has joined the namespace of processes.
    pub fn entrance(&self) -> io::Result<Vec<Space>> {
        let others = self.spaces.iter().filter(|space| space.kind != libc::CLONE_NEWPID);
        others.map(|it| Ok(Space { file: it.file.try_clone()?, kind: it.kind })).collect()
    }

    /// From here on children of this thread are in the world's namespace of processes.
    pub fn join_processes(&self) -> io::Result<()> {
        let own = self.spaces.iter().filter(|space| space.kind == libc::CLONE_NEWPID);
        own.into_iter().try_for_each(namespaces::join)
    }
}

/// How a program that is no child of the shim gets into a container: through its first process, or
/// the program itself where that has none.
pub fn door(asked: &Asked, pid: i32) -> io::Result<Entrance> {
    Ok(Entrance {
        doors: asked.group.as_ref().map(Group::doors).transpose()?.unwrap_or_default(),
        oom_score: asked.spec.limits.oom_score,
        streams_owner: asked.ids.and_then(|_| asked.host_user()),
        spaces: namespaces::of(pid)?,
        forks: true,
    })
}
