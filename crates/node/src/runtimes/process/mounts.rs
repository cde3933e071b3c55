//! The files that a container sees: the host's, with its volumes in their places.
//!
//! It is a root of its own in a mount namespace of its own, so that the host keeps no mark of it:
//! every entry of `/` is bound into it, and a directory that lacks a mount point is replaced by a
//! memory file system into which its entries are bound.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::propagation::{self, Trees};
use super::{namespaces, system};
use crate::runtime::Mount;
use crate::volumes::below::{self, Last};
use crate::volumes::system::{make_read_only_below, open_below, opened};

/// Entries of a directory that are bound one by one.
const ENTRIES_MAX: usize = 4_096;

/// Makes the root, in a namespace that is ours.
pub fn make(mounts: &[Mount], trees: &Trees, place: &Path, is_fixed: bool) -> io::Result<PathBuf> {
    let root = place.join("root");
    fs::create_dir_all(&root)?;
    memory(&root)?;
    // Else it would be bound into itself.
    mount(Path::new("none"), &root, libc::MS_UNBINDABLE)?;
    mirror(Path::new("/"), &root)?;
    let mut mounts: Vec<&Mount> = mounts.iter().collect();
    mounts.sort_by_key(|one| one.target.components().count());
    let targets = mounts.iter().map(|one| clean(&one.target)).collect::<io::Result<Vec<_>>>()?;
    let mut writable = vec![root.join("dev")];
    let mut points: Vec<Point> = Vec::new();
    for (index, one) in mounts.iter().enumerate() {
        let failed = |error: io::Error| missing(one, &error);
        let source = Source::open(one).map_err(failed)?;
        let is_directory = fs::metadata(&source.path).map_err(failed)?.is_dir();
        let target = &targets[index];
        // Within another volume the mount point is that volume's matter.
        let around = (0..index).rev().find(|other| target.starts_with(&targets[*other]));
        let found = match around {
            Some(other) => {
                let within = target.strip_prefix(&targets[other]).unwrap_or(target);
                make_within(mounts[other], within, is_directory).map_err(failed)?;
                let outer = below::open_volume(&points[other].path).map_err(failed)?;
                let at = Point::open(&outer, within).map_err(failed)?;
                propagation::bind(one, &source, &at.path, trees).map_err(failed)?;
                // What was opened before lies below what is mounted there.
                Point::open(&outer, within).map_err(failed)?
            }
            None => {
                let path = prepare(&root, target, is_directory).map_err(failed)?;
                propagation::bind(one, &source, &path, trees).map_err(failed)?;
                Point { path, _opened: None }
            }
        };
        let point = found.path.clone();
        points.push(found);
        propagation::cut_off(one, &point).map_err(failed)?;
        if one.read_only && one.recursive {
            make_read_only_below(&point).map_err(failed)?;
        } else if one.read_only {
            namespaces::read_only(&point, false).map_err(failed)?;
        } else {
            writable.push(point);
        }
    }
    if is_fixed {
        namespaces::read_only(&root, true)?;
        writable.iter().try_for_each(|point| namespaces::writable(point))?;
    }
    Ok(root)
}

/// Where a volume is mounted. Within another volume it is opened and not looked up again, as what
/// is mounted is.
struct Point {
    path: PathBuf,
    _opened: Option<OwnedFd>,
}

impl Point {
    fn open(outer: &File, within: &Path) -> io::Result<Point> {
        let found = open_below(outer, within)?;
        Ok(Point { path: opened(&found), _opened: Some(found) })
    }
}

/// Makes a mount point in a volume, from which no link leads out.
fn make_within(outer: &Mount, within: &Path, is_directory: bool) -> io::Result<()> {
    let mut volume = below::open_volume(&outer.source)?;
    if let Some(part) = &outer.within {
        volume = File::from(open_below(&volume, part)?);
    }
    let last = if is_directory { Last::Directory } else { Last::File };
    below::make(&volume, within, last).map(drop)
}

/// What is mounted. A part of a volume is opened here and not looked up again: programs of the pod
/// may change it meanwhile.
pub struct Source {
    pub path: PathBuf,
    _part: Option<OwnedFd>,
}

impl Source {
    pub fn open(one: &Mount) -> io::Result<Source> {
        let Some(within) = &one.within else {
            return Ok(Source { path: one.source.clone(), _part: None });
        };
        let part = open_below(&File::open(&one.source)?, within)?;
        Ok(Source { path: opened(&part), _part: Some(part) })
    }
}

fn missing(one: &Mount, error: &io::Error) -> io::Error {
    let (source, target) = (one.source.display(), one.target.display());
    io::Error::other(format!("could not mount {source} at {target}: {error}"))
}

/// Only absolute paths without steps upwards are mount points.
fn clean(target: &Path) -> io::Result<PathBuf> {
    let is_plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    if !target.is_absolute() || !target.components().all(is_plain) || target == Path::new("/") {
        let target = target.display();
        return Err(io::Error::other(format!("{target} cannot be a mount point")));
    }
    Ok(target.components().collect())
}

/// The part of a path that exists on the host, without links, and the part that does not.
fn resolve(target: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let mut existing = target;
    loop {
        if let Ok(real) = fs::canonicalize(existing) {
            let rest = target.strip_prefix(existing).unwrap_or(Path::new(""));
            return Ok((real.join(rest), rest.to_owned()));
        }
        existing = existing.parent().ok_or(io::ErrorKind::NotFound)?;
    }
}

/// Makes a mount point in the new root.
fn prepare(root: &Path, target: &Path, is_directory: bool) -> io::Result<PathBuf> {
    let (real, rest) = resolve(target)?;
    let inside = join(root, &real);
    if inside.symlink_metadata().is_ok() {
        return Ok(inside);
    }
    let depth = rest.components().count();
    let existing = real.ancestors().nth(depth).unwrap_or(Path::new("/")).to_owned();
    let first =
        rest.components().next().map(|part| existing.join(part)).unwrap_or(existing.clone());
    // A directory that was mirrored already takes the mount point as it is.
    let is_mirrored = existing == Path::new("/") || join(root, &first).exists() || {
        let parent = join(root, &existing);
        parent.join(MARK).exists()
    };
    if !is_mirrored {
        let place = join(root, &existing);
        memory(&place)?;
        mirror(&existing, &place)?;
        File::create(place.join(MARK))?;
    }
    point(&inside, is_directory)?;
    Ok(inside)
}

/// In a directory that was replaced.
const MARK: &str = ".setpoint-mirror";

fn point(path: &Path, is_directory: bool) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    if is_directory {
        return fs::create_dir_all(path);
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    File::create(path).map(drop)
}

/// Binds every entry of a directory into another, which is empty.
fn mirror(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)?.take(ENTRIES_MAX) {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&source)?, &target)?;
            continue;
        }
        if kind.is_dir() {
            fs::create_dir(&target)?;
        } else {
            File::create(&target)?;
        }
        // What goes away meanwhile, or cannot be bound, is not there.
        let _ = mount(&source, &target, libc::MS_BIND | libc::MS_REC);
    }
    Ok(())
}

fn join(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Mounts a memory file system.
pub fn memory(place: &Path) -> io::Result<()> {
    system::mount(c"tmpfs", &text(place)?, (Some(c"tmpfs"), 0))
}

pub fn mount(source: &Path, target: &Path, flags: u64) -> io::Result<()> {
    system::mount(&text(source)?, &text(target)?, (None, flags))
}

pub fn text(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}
