//! The root of an isolated container: programs and settings of the host to be read, memory
//! everywhere else.
//!
//! Nothing of the host's homes, data or sockets is in it but what is named: the Python of the node
//! and directories that a command was given.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Component, Path, PathBuf};

use super::hidden::Hidden;
use super::mounts::{self, join, mount};
use super::namespaces::Mapping;
use super::{namespaces, system};

/// Directories of the host that can be read, if they exist.
const READABLE: [&str; 10] =
    ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt", "etc", "nix"];
/// Files of `/etc` that are not for programs of pods.
pub const SECRETS: [&str; 9] = [
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/setpoint",
    "/etc/ssh",
];
/// Empty directories, with their modes.
const EMPTY: [(&str, u32); 12] = [
    ("home", 0o755),
    ("media", 0o755),
    ("mnt", 0o755),
    ("proc", 0o555),
    ("root", 0o700),
    ("run", 0o755),
    ("run/lock", 0o1777),
    ("srv", 0o755),
    ("sys", 0o555),
    ("tmp", 0o1777),
    ("var", 0o755),
    ("var/tmp", 0o1777),
];
const LINKS: [(&str, &str); 7] = [
    ("/run", "var/run"),
    ("/run/lock", "var/lock"),
    ("/proc/self/fd", "dev/fd"),
    ("/proc/self/fd/0", "dev/stdin"),
    ("/proc/self/fd/1", "dev/stdout"),
    ("/proc/self/fd/2", "dev/stderr"),
    ("pts/ptmx", "dev/ptmx"),
];
const DEVICES: [&str; 6] = ["full", "null", "random", "tty", "urandom", "zero"];
/// Devices of accelerators begin with one of these.
const ACCELERATORS: [&str; 5] = ["nvidia", "dri", "kfd", "infiniband", "accel"];
/// Links that are followed in a path.
const LINKS_MAX: usize = 40;

/// Fills an empty root. Its directories belong to the root of the container, who may add to them.
pub fn populate(root: &Path, readable: &[PathBuf], mapping: Option<&Mapping>) -> io::Result<()> {
    let owner = mapping.map(|mapping| mapping.range.first);
    fs::set_permissions(root, fs::Permissions::from_mode(0o755))?;
    chown(root, owner, owner)?;
    for name in READABLE {
        bind_entry(Path::new("/"), name.as_ref(), root)?;
    }
    for (name, mode) in EMPTY {
        let place = root.join(name);
        fs::create_dir(&place)?;
        fs::set_permissions(&place, fs::Permissions::from_mode(mode))?;
        chown(&place, owner, owner)?;
    }
    mount(Path::new("/sys"), &root.join("sys"), libc::MS_BIND | libc::MS_REC)?;
    add_devices(&root.join("dev"))?;
    for (target, link) in LINKS {
        symlink(target, root.join(link))?;
    }
    for path in outermost(readable) {
        let place = join(root, path);
        let is_directory = fs::metadata(path)?.is_dir();
        mounts::point(&place, is_directory)?;
        bind_readable(path, &place, mapping)?;
    }
    Ok(())
}

/// Binds a directory that was named for the pod, so that its root reads files of the same user
/// where the file system has idmapped mounts.
fn bind_readable(path: &Path, place: &Path, mapping: Option<&Mapping>) -> io::Result<()> {
    if let Some(mapping) = mapping {
        let tree = system::open_tree(&mounts::text(path)?)?;
        if mapping.apply(&tree).is_ok() {
            return system::move_mount(&tree, &mounts::text(place)?);
        }
    }
    mount(path, place, libc::MS_BIND | libc::MS_REC)
}

/// Makes what is the host's read-only, but for volumes that are mounted within.
pub fn close(root: &Path, readable: &[PathBuf], volumes: &[PathBuf]) -> io::Result<()> {
    let named = outermost(readable).map(|path| join(root, path));
    let places = READABLE.iter().map(|name| root.join(name)).chain(named);
    for place in places {
        let is_plain = fs::symlink_metadata(&place).is_ok_and(|found| !found.is_symlink());
        if is_plain {
            namespaces::read_only(&place, true)?;
            let mut within = volumes.iter().filter(|volume| volume.starts_with(&place));
            within.try_for_each(|volume| namespaces::writable(volume))?;
        }
    }
    Ok(())
}

/// Returns the paths that are mounted: those that are in no directory that can be read anyway.
fn outermost(readable: &[PathBuf]) -> impl Iterator<Item = &Path> {
    let is_outer = |path: &&PathBuf| {
        let mut others = readable.iter().filter(|other| other != path);
        let is_usual = READABLE.iter().any(|name| path.starts_with(Path::new("/").join(name)));
        !is_usual && path.parent().is_some() && !others.any(|other| path.starts_with(other))
    };
    readable.iter().filter(is_outer).map(PathBuf::as_path)
}

fn bind_entry(from: &Path, name: &Path, to: &Path) -> io::Result<()> {
    let (source, target) = (from.join(name), to.join(name));
    let Ok(found) = fs::symlink_metadata(&source) else { return Ok(()) };
    if found.is_symlink() {
        return symlink(fs::read_link(&source)?, &target);
    }
    mounts::point(&target, found.is_dir())?;
    mount(&source, &target, libc::MS_BIND | libc::MS_REC)
}

fn add_devices(devices: &Path) -> io::Result<()> {
    fs::create_dir(devices)?;
    // A mount, so that it can be written where the rest is read-only.
    mounts::memory(devices)?;
    fs::set_permissions(devices, fs::Permissions::from_mode(0o755))?;
    let host = Path::new("/dev");
    for name in DEVICES {
        bind_entry(host, name.as_ref(), devices)?;
    }
    for entry in fs::read_dir(host)?.flatten() {
        let name = entry.file_name();
        let text = name.to_string_lossy();
        if ACCELERATORS.iter().any(|prefix| text.starts_with(prefix)) {
            bind_entry(host, name.as_ref(), devices)?;
        }
    }
    for (name, mode) in [("pts", 0o755), ("shm", 0o1777)] {
        fs::create_dir(devices.join(name))?;
        fs::set_permissions(devices.join(name), fs::Permissions::from_mode(mode))?;
    }
    system::mount_terminals(&mounts::text(&devices.join("pts"))?)
}

/// Makes a mount point in an isolated root. Nothing is ever made in a directory of the host: one
/// that lacks the mount point is replaced by a copy in memory, as in `mounts.rs`.
pub fn prepare(
    (root, hidden): (&Path, &Hidden),
    target: &Path,
    is_directory: bool,
) -> io::Result<PathBuf> {
    let real = resolve(root, target)?;
    let inside = join(root, &real);
    if inside.symlink_metadata().is_ok() {
        return Ok(inside);
    }
    if hidden.contains(&real) {
        mounts::point(&inside, is_directory)?;
        return Ok(inside);
    }
    let exists = |path: &&Path| join(root, path).is_dir();
    let existing = real.ancestors().find(exists).unwrap_or(Path::new("/")).to_owned();
    let place = join(root, &existing);
    let is_ours = fs::metadata(&place)?.dev() == fs::metadata(root)?.dev()
        || existing == Path::new("/dev")
        || place.join(mounts::MARK).exists();
    if !is_ours {
        mounts::replace(&existing, &place)?;
    }
    mounts::point(&inside, is_directory)?;
    Ok(inside)
}

/// Returns a path without the links that the root has.
fn resolve(root: &Path, target: &Path) -> io::Result<PathBuf> {
    let mut left: Vec<PathBuf> = parts(target);
    let mut real = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = left.pop() {
        if part == Path::new("..") {
            real.pop();
            continue;
        }
        let next = real.join(&part);
        match fs::read_link(join(root, &next)) {
            Ok(link) => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(io::Error::other("too many levels of symbolic links"));
                }
                if link.is_absolute() {
                    real = PathBuf::from("/");
                }
                left.extend(parts(&link));
            }
            Err(_) => real = next,
        }
    }
    Ok(real)
}

/// The parts of a path, the last first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let parts = path.components().rev().filter_map(|part| match part {
        Component::Normal(part) => Some(PathBuf::from(part)),
        Component::ParentDir => Some(PathBuf::from("..")),
        _ => None,
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::process::tests::directory;

    #[test]
    fn only_paths_that_are_not_readable_anyway_are_mounted() {
        let paths = ["/usr", "/usr/local", "/x/venv", "/x/venv/lib", "/", "/opt/x"];
        let paths = paths.map(PathBuf::from);
        let outer: Vec<&Path> = outermost(&paths[..4]).collect();
        assert_eq!(outer, [Path::new("/x/venv")]);
        assert_eq!(outermost(&paths[4..]).count(), 0);
    }

    #[test]
    fn links_are_followed_within_the_root() {
        let directory = directory("isolated-links");
        let root = &directory.0;
        fs::create_dir_all(root.join("var")).unwrap();
        fs::create_dir_all(root.join("run")).unwrap();
        symlink("/run", root.join("var/run")).unwrap();
        symlink("../var/run", root.join("run/back")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let resolved = |path: &str| resolve(root, Path::new(path)).ok();
        assert_eq!(resolved("/var/run/secrets/x"), Some("/run/secrets/x".into()));
        assert_eq!(resolved("/run/back/y"), Some("/run/y".into()));
        assert_eq!(resolved("/data/z"), Some("/data/z".into()));
        assert_eq!(resolved("/loop/z"), None);
    }
}
