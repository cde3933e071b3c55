//! Control groups: what limits containers, tells which processes are theirs, and ends them all.
//!
//! Groups are `NAME/kubepods[/burstable|/besteffort]/pod<uid>/<container>.<attempt>`, NAME being
//! ours alone (it follows from the directory of the runtime), at the root of every hierarchy that
//! can limit something, or below our own group where that is all we may write. A shim makes the
//! group of its container and removes it; what is left of a pod goes with the pod. Nothing outside
//! NAME is touched.

mod detect;
mod limits;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::system;
use crate::confinement::{Limits, Quality, Share};
use crate::runtime::{ContainerId, PodUsage};
use detect::{CONTROLLERS, Mounted};
use limits::{Setting, inactive_file_bytes, killed_for_memory, settings};

/// Groups within a group, and processes of one, that are looked at.
const ENTRIES_MAX: usize = 65_536;
/// How long the kernel may take to let go of processes that were killed.
const EMPTY_MAX: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(1);
const PROCESSES: &str = "cgroup.procs";

/// A hierarchy in which we may make groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hierarchy {
    /// The directory below which groups are ours: ends with NAME.
    pub base: PathBuf,
    pub controllers: Vec<String>,
    pub is_unified: bool,
}

/// The group of a container or a pod, in every hierarchy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    pub hierarchies: Vec<Hierarchy>,
    /// Below each base.
    pub path: PathBuf,
}

/// Where groups are made on this machine.
#[derive(Clone, Debug)]
pub struct Cgroups {
    hierarchies: Vec<Hierarchy>,
}

impl Cgroups {
    /// Finds where we may make groups; empty where we may not, and nothing is limited then.
    pub fn open(directory: &Path) -> Cgroups {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (layout, mounted) =
            detect::detect(&read("/proc/self/mountinfo"), &read("/proc/filesystems"));
        let groups = read("/proc/self/cgroup");
        let name = name(directory);
        let hierarchies: Vec<Hierarchy> =
            mounted.iter().filter_map(|one| usable(one, &groups, &name)).collect();
        let limited: Vec<&str> = CONTROLLERS
            .into_iter()
            .filter(|name| {
                hierarchies.iter().any(|one| one.controllers.iter().any(|it| it == name))
            })
            .collect();
        if limited.len() < CONTROLLERS.len() {
            tracing::warn!(?layout, ?limited, "not every limit of containers can be enforced here");
        }
        Cgroups { hierarchies }
    }

    /// The group of a container; `None` where there are none.
    pub fn group(&self, id: &ContainerId, limits: &Limits) -> Option<Group> {
        if self.hierarchies.is_empty() {
            return None;
        }
        let pod = pod_path(&id.pod, limits.quality);
        // A container's name has no dot.
        let path = pod.join(format!("{}.{}", id.name, id.attempt));
        Some(Group { hierarchies: self.hierarchies.clone(), path })
    }

    /// A group that is of no pod.
    pub fn named(&self, path: &Path) -> Group {
        Group { hierarchies: self.hierarchies.clone(), path: path.to_owned() }
    }

    /// Ends what is left in the groups of a pod, and removes them.
    pub fn remove_pod(&self, pod: &str) {
        for quality in [Quality::Guaranteed, Quality::Burstable, Quality::BestEffort] {
            let path = pod_path(pod, quality);
            self.remove(&Group { hierarchies: self.hierarchies.clone(), path });
        }
    }

    /// Returns the resources that the processes of a pod use; `None` where nothing is counted.
    pub fn usage(&self, pod: &str) -> Option<PodUsage> {
        let qualities = [Quality::Guaranteed, Quality::Burstable, Quality::BestEffort];
        let directories = self.hierarchies.iter().flat_map(|hierarchy| {
            qualities.map(|quality| hierarchy.base.join(pod_path(pod, quality)))
        });
        let found: Vec<PathBuf> = directories.filter(|directory| directory.is_dir()).collect();
        let text = |file: &str| {
            found.iter().find_map(|directory| fs::read_to_string(directory.join(file)).ok())
        };
        let number = |file: &str| text(file)?.trim().parse::<u64>().ok();
        let memory = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
        let cache = text("memory.stat").map_or(0, |text| inactive_file_bytes(&text));
        let processes = number("pids.current").unwrap_or(0);
        Some(PodUsage { memory_bytes: memory.saturating_sub(cache), processes })
    }

    /// Pods that have groups.
    pub fn pods(&self) -> Vec<String> {
        let mut found = Vec::new();
        for hierarchy in &self.hierarchies {
            for quality in [Quality::Guaranteed, Quality::Burstable, Quality::BestEffort] {
                let parent =
                    hierarchy.base.join(pod_path("", quality).parent().unwrap_or(Path::new("")));
                for name in children(&parent) {
                    let pod = name.file_name().and_then(|name| name.to_str()?.strip_prefix("pod"));
                    found.extend(pod.map(str::to_owned));
                }
            }
        }
        found.sort();
        found.dedup();
        found
    }

    fn remove(&self, group: &Group) {
        if group.directories().any(|directory| directory.exists()) {
            group.end();
            group.remove();
        }
    }
}

impl Group {
    fn directories(&self) -> impl Iterator<Item = PathBuf> {
        self.hierarchies.iter().map(|one| one.base.join(&self.path))
    }

    /// Makes the group of a container, with its limits and its pod's.
    pub fn make(&self, limits: &Limits) -> io::Result<()> {
        for one in &self.hierarchies {
            let directory = one.base.join(&self.path);
            let failed = |error: io::Error| {
                let directory = directory.display();
                io::Error::other(format!("could not make the control group {directory}: {error}"))
            };
            one.make(&self.path).map_err(failed)?;
            let pod = directory.parent().unwrap_or(&one.base);
            let of_pod = settings(one.is_unified, &one.controllers, &limits.pod, limits.processes);
            write(pod, &of_pod).map_err(failed)?;
            let own = settings(one.is_unified, &one.controllers, &limits.own, None);
            write(&directory, &own).map_err(failed)?;
        }
        Ok(())
    }

    /// Makes a group that is of no pod, with limits of its own alone.
    pub fn make_alone(&self, share: &Share, processes: u64) -> io::Result<()> {
        for one in &self.hierarchies {
            one.make(&self.path)?;
            let own = settings(one.is_unified, &one.controllers, share, Some(processes));
            write(&one.base.join(&self.path), &own)?;
        }
        Ok(())
    }

    /// What a process writes its number into to be in the group.
    pub fn doors(&self) -> io::Result<Vec<File>> {
        self.directories()
            .map(|directory| File::options().write(true).open(directory.join(PROCESSES)))
            .collect()
    }

    /// Whether a process is in the group, by its `/proc/PID/cgroup`.
    pub fn holds(&self, pid: i32) -> bool {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let path = self.path.to_string_lossy();
        text.lines().any(|line| line.ends_with(&*path))
    }

    /// Whether a process of it was killed because its memory was used up.
    pub fn was_short_of_memory(&self) -> bool {
        self.directories().any(|directory| {
            ["memory.oom_control", "memory.events"].iter().any(|file| {
                let text = fs::read_to_string(directory.join(file)).unwrap_or_default();
                killed_for_memory(&text) > 0
            })
        })
    }

    /// Kills everything in it, and returns when nothing is left or it does not die.
    pub fn end(&self) -> bool {
        let mut waited = Duration::ZERO;
        loop {
            let mut left = Vec::new();
            for directory in self.directories() {
                if fs::write(directory.join("cgroup.kill"), "1").is_err() {
                    system::kill_all(&processes(&directory));
                }
                left.extend(processes(&directory));
            }
            if left.is_empty() {
                return true;
            }
            if waited >= EMPTY_MAX {
                return false;
            }
            std::thread::sleep(LOOK);
            waited += LOOK;
        }
    }

    /// Removes it, and the groups around it that hold nothing any more.
    pub fn remove(&self) {
        for one in &self.hierarchies {
            let directory = one.base.join(&self.path);
            remove_below(&directory);
            let around = directory.ancestors().skip(1).take_while(|it| it.starts_with(&one.base));
            for parent in around {
                if fs::remove_dir(parent).is_err() {
                    break;
                }
            }
        }
    }
}

impl Hierarchy {
    /// Makes a group and those around it. Others may remove empty ones meanwhile.
    fn make(&self, path: &Path) -> io::Result<()> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for _ in 0..100 {
            match self.try_make(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => last = error,
                other => return other,
            }
        }
        Err(last)
    }

    fn try_make(&self, path: &Path) -> io::Result<()> {
        let mut directory = self.base.clone();
        let parent = self.base.parent().unwrap_or(&self.base);
        if self.is_unified && !self.controllers.is_empty() {
            hand_down(parent, &self.controllers)?;
        }
        make_one(&directory)?;
        for part in path.components() {
            if self.is_unified && !self.controllers.is_empty() {
                hand_down(&directory, &self.controllers)?;
            }
            directory.push(part);
            make_one(&directory)?;
        }
        Ok(())
    }
}

fn make_one(directory: &Path) -> io::Result<()> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Lets the groups within a unified one have its controllers.
fn hand_down(directory: &Path, controllers: &[String]) -> io::Result<()> {
    let file = directory.join("cgroup.subtree_control");
    let held = fs::read_to_string(&file)?;
    let is_there = |name: &String| held.split_whitespace().any(|it| it == name);
    if controllers.iter().all(is_there) {
        return Ok(());
    }
    let wanted: Vec<String> = controllers.iter().map(|name| format!("+{name}")).collect();
    fs::write(&file, wanted.join(" "))
}

fn write(directory: &Path, settings: &[Setting]) -> io::Result<()> {
    for one in settings {
        let written = fs::write(directory.join(one.file), &one.text);
        if let (Err(error), false) = (written, one.is_optional) {
            return Err(io::Error::other(format!("{} to {:?}: {error}", one.text, one.file)));
        }
    }
    Ok(())
}

/// The hierarchy, if groups can be made in it: at its root, else below our own group.
fn usable(mounted: &Mounted, groups: &str, name: &str) -> Option<Hierarchy> {
    let own = detect::own(mounted, groups);
    for parent in [Some(mounted.point.clone()), own].into_iter().flatten() {
        let base = parent.join(name);
        let is_new = match fs::create_dir(&base) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(_) => continue,
        };
        let controllers = match mounted.is_unified {
            false => mounted.controllers.clone(),
            true => delegated(&parent),
        };
        if is_new {
            let _ = fs::remove_dir(&base);
        }
        return Some(Hierarchy { base, controllers, is_unified: mounted.is_unified });
    }
    None
}

/// The controllers that groups within this one can have. Where processes are in it the kernel lets
/// it hand down none: ours then moves into a group beside those of the pods.
fn delegated(parent: &Path) -> Vec<String> {
    let held = fs::read_to_string(parent.join("cgroup.controllers")).unwrap_or_default();
    let is_there = |name: &&str| held.split_whitespace().any(|it| it == *name);
    let wanted: Vec<String> = CONTROLLERS.into_iter().filter(is_there).map(str::to_owned).collect();
    if wanted.is_empty() || hand_down(parent, &wanted).is_ok() {
        return wanted;
    }
    let agent = parent.join("setpoint-agent");
    let moved = make_one(&agent).and_then(|()| fs::write(agent.join(PROCESSES), "0"));
    match moved.and_then(|()| hand_down(parent, &wanted)) {
        Ok(()) => wanted,
        Err(_) => Vec::new(),
    }
}

fn pod_path(pod: &str, quality: Quality) -> PathBuf {
    let class = match quality {
        Quality::Guaranteed => "kubepods",
        Quality::Burstable => "kubepods/burstable",
        Quality::BestEffort => "kubepods/besteffort",
    };
    Path::new(class).join(format!("pod{pod}"))
}

/// Ours alone: two runtimes of one machine have different directories.
fn name(directory: &Path) -> String {
    let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let digest = reconcile::names::digest(&[&*directory.to_string_lossy()]);
    format!("setpoint-{}", digest.get(..10).unwrap_or(&digest))
}

/// The processes of a group and of those within it.
fn processes(directory: &Path) -> Vec<i32> {
    let text = fs::read_to_string(directory.join(PROCESSES)).unwrap_or_default();
    let mut found: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    for child in children(directory) {
        found.extend(processes(&child));
    }
    found.truncate(ENTRIES_MAX);
    found
}

fn children(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().take(ENTRIES_MAX);
    let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.filter(is_directory).map(|entry| entry.path()).collect()
}

fn remove_below(directory: &Path) {
    children(directory).iter().for_each(|child| remove_below(child));
    let mut waited = Duration::ZERO;
    // A group whose last process has just ended is busy for a moment.
    while let Err(error) = fs::remove_dir(directory) {
        if error.kind() != io::ErrorKind::ResourceBusy || waited >= EMPTY_MAX {
            return;
        }
        std::thread::sleep(LOOK);
        waited += LOOK;
    }
}
