//! Where control groups are mounted, and which of them is ours. Pure: texts of `/proc` in, paths
//! out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The controllers that limits need.
pub const CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];

/// How control groups are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    None,
    /// A hierarchy for each controller.
    Legacy,
    /// As that, with a common hierarchy beside them that limits nothing.
    Hybrid,
    /// One hierarchy.
    Unified,
}

/// A hierarchy as it is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    pub point: PathBuf,
    /// Which group of the hierarchy is at the mount point.
    pub root: PathBuf,
    /// Of `CONTROLLERS`, those that are bound to it; of a unified one none are listed here.
    pub controllers: Vec<String>,
    pub is_unified: bool,
}

/// What `/proc/self/mountinfo` and `/proc/filesystems` tell.
pub fn detect(mounts: &str, filesystems: &str) -> (Layout, Vec<Mounted>) {
    let is_known = |kind: &str| filesystems.lines().any(|line| line.trim_end().ends_with(kind));
    let mut found: BTreeMap<PathBuf, Mounted> = BTreeMap::new();
    for mounted in mounts.lines().filter_map(read) {
        let kind = if mounted.is_unified { "\tcgroup2" } else { "\tcgroup" };
        let is_useful = mounted.is_unified || !mounted.controllers.is_empty();
        // The same hierarchy may be mounted twice: the first will do.
        let is_there = found.values().any(|other| {
            other.is_unified == mounted.is_unified && other.controllers == mounted.controllers
        });
        if is_known(kind) && is_useful && !is_there {
            found.insert(mounted.point.clone(), mounted);
        }
    }
    let found: Vec<Mounted> = found.into_values().collect();
    let (unified, legacy) =
        (found.iter().any(|one| one.is_unified), found.iter().any(|one| !one.is_unified));
    let layout = match (unified, legacy) {
        (false, false) => Layout::None,
        (false, true) => Layout::Legacy,
        (true, true) => Layout::Hybrid,
        (true, false) => Layout::Unified,
    };
    (layout, found)
}

fn read(line: &str) -> Option<Mounted> {
    let (before, after) = line.split_once(" - ")?;
    let fields: Vec<&str> = before.split(' ').collect();
    let kind: Vec<&str> = after.split(' ').collect();
    let is_unified = match *kind.first()? {
        "cgroup" => false,
        "cgroup2" => true,
        _ => return None,
    };
    // Where nothing can be written nothing can be limited.
    if !fields.get(5)?.split(',').any(|option| option == "rw") {
        return None;
    }
    let options: Vec<&str> = kind.get(2)?.split(',').collect();
    let bound = CONTROLLERS.iter().filter(|name| !is_unified && options.contains(*name));
    Some(Mounted {
        point: PathBuf::from(fields.get(4)?),
        root: PathBuf::from(fields.get(3)?),
        controllers: bound.map(|name| (*name).to_owned()).collect(),
        is_unified,
    })
}

/// The directory of the group that this process is in, from `/proc/self/cgroup`.
pub fn own(mounted: &Mounted, groups: &str) -> Option<PathBuf> {
    let line = groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let is_it = match mounted.is_unified {
            true => controllers.is_empty(),
            false => mounted
                .controllers
                .first()
                .is_some_and(|name| controllers.split(',').any(|one| one == name)),
        };
        is_it.then_some(path)
    })?;
    let below = Path::new(line).strip_prefix(&mounted.root).ok();
    // A path that is not below the root is told from a namespace whose root is the mount's.
    let below = below.unwrap_or_else(|| Path::new(line.trim_start_matches('/')));
    Some(mounted.point.join(below).components().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILESYSTEMS: &str = "nodev\tsysfs\nnodev\tcgroup\nnodev\tcgroup2\n\text4\n";
    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";
    const LEGACY: &str = "\
30 25 0:26 /docker/1 /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
31 25 0:27 /docker/1 /sys/fs/cgroup/memory rw,nosuid shared:10 - cgroup cgroup rw,memory
32 25 0:28 /docker/1 /sys/fs/cgroup/pids ro,nosuid shared:11 - cgroup cgroup rw,pids";
    const UNIFIED: &str = "\
24 1 254:0 / / rw,relatime - ext4 /dev/vda rw
29 22 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec shared:4 - cgroup2 cgroup2 rw,nsdelegate";

    fn told(mounts: &str) -> (Layout, Vec<String>) {
        let (layout, found) = detect(mounts, FILESYSTEMS);
        let each = found.iter().map(|one| {
            let kind = if one.is_unified { "unified" } else { &one.controllers.join("+") };
            format!("{} {kind}", one.point.display())
        });
        (layout, each.collect())
    }

    #[test]
    fn the_three_layouts_are_told_apart() {
        let hybrid = ["cpu cpu", "memory memory", "pids pids", "unified unified"];
        let hybrid = hybrid.map(|one| format!("/sys/fs/cgroup/{one}"));
        assert_eq!(told(HYBRID), (Layout::Hybrid, hybrid.into()));
        let legacy = ["cpu,cpuacct cpu", "memory memory"];
        let legacy = legacy.map(|one| format!("/sys/fs/cgroup/{one}"));
        assert_eq!(told(LEGACY), (Layout::Legacy, legacy.into()));
        assert_eq!(told(UNIFIED), (Layout::Unified, vec!["/sys/fs/cgroup unified".to_owned()]));
        assert_eq!(told("nonsense"), (Layout::None, Vec::new()));
        assert_eq!(detect(UNIFIED, "\text4\n").0, Layout::None);
    }

    #[test]
    fn our_own_group_is_found_below_what_is_mounted() {
        let groups = "4:memory:/docker/1/inner\n2:cpu,cpuacct:/docker/1\n0::/user.slice/a b";
        let own_of = |mounts: &str, index: usize| {
            own(&detect(mounts, FILESYSTEMS).1[index], groups).unwrap().display().to_string()
        };
        assert_eq!(own_of(LEGACY, 0), "/sys/fs/cgroup/cpu,cpuacct");
        assert_eq!(own_of(LEGACY, 1), "/sys/fs/cgroup/memory/inner");
        assert_eq!(own_of(UNIFIED, 0), "/sys/fs/cgroup/user.slice/a b");
    }
}
