//! The files that a container sees: the host's, with its volumes in their places.
//!
//! It is a root of its own in a mount namespace of its own, so that the host keeps no mark of it:
//! every entry of `/` is bound into it but for what is hidden (`hidden.rs`), and a directory that
//! lacks a mount point is replaced by a memory file system into which its entries are bound. An
//! isolated container has another root (`isolated.rs`).

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::hidden::Hidden;
use super::isolated;
use super::namespaces::Mapping;
use super::propagation::{self, Binding, Trees};
use super::{namespaces, system};
use crate::confinement::Isolation;
use crate::runtime::{Mount, Propagation};
use crate::volumes::below::{self, Last};
use crate::volumes::system::{make_read_only_below, open_below, opened};

/// Entries of a directory that are bound one by one.
const ENTRIES_MAX: usize = 4_096;

/// Parts of the root of a container.
pub struct Layout<'a> {
    pub mounts: &'a [Mount],
    pub trees: &'a Trees,
    pub hidden: &'a Hidden,
    pub isolation: &'a Isolation,
    /// Ids of the container, if they are not those of the host.
    pub mapping: Option<&'a Mapping>,
    /// True if only volumes can be written.
    pub is_fixed: bool,
}

/// Makes the root, in a namespace that is ours.
pub fn make(layout: &Layout<'_>, place: &Path) -> io::Result<PathBuf> {
    let Layout { mounts, trees, hidden, isolation, mapping, .. } = *layout;
    let root = begin(layout, place)?;
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
        let is_own = fs::canonicalize(&source.path).is_ok_and(|real| hidden.contains(&real));
        // Within another volume the mount point is that volume's matter.
        let around = (0..index).rev().find(|other| target.starts_with(&targets[*other]));
        let found = match around {
            Some(other) => {
                let within = target.strip_prefix(&targets[other]).unwrap_or(target);
                make_within(mounts[other], within, is_directory).map_err(failed)?;
                let outer = below::open_volume(&points[other].path).map_err(failed)?;
                let at = Point::open(&outer, within).map_err(failed)?;
                let binding = Binding { mount: one, trees, mapping, is_own };
                propagation::bind(&binding, &source, &at.path).map_err(failed)?;
                // What was opened before lies below what is mounted there.
                Point::open(&outer, within).map_err(failed)?
            }
            None => {
                let path = match isolation {
                    Isolation::Host => prepare((&root, hidden), target, is_directory),
                    Isolation::Isolated { .. } => {
                        isolated::prepare((&root, hidden), target, is_directory)
                    }
                };
                let path = path.map_err(failed)?;
                let binding = Binding { mount: one, trees, mapping, is_own };
                propagation::bind(&binding, &source, &path).map_err(failed)?;
                Point { path, _opened: None }
            }
        };
        let point = found.path.clone();
        points.push(found);
        propagation::cut_off(one, &point).map_err(failed)?;
        // Mounts would appear on the host, too; only privileged containers have such volumes.
        if one.propagation != Propagation::Both {
            let real = fs::canonicalize(&source.path).map_err(failed)?;
            hidden.cover(&real, &point).map_err(failed)?;
            hidden.close(&real, &point).map_err(failed)?;
        }
        if one.read_only && one.recursive {
            make_read_only_below(&point).map_err(failed)?;
        } else if one.read_only {
            namespaces::read_only(&point, false).map_err(failed)?;
        } else {
            writable.push(point);
        }
    }
    finish(layout, &root, &writable)?;
    Ok(root)
}

/// Makes a root without volumes.
fn begin(layout: &Layout<'_>, place: &Path) -> io::Result<PathBuf> {
    let root = place.join("root");
    fs::create_dir_all(&root)?;
    memory(&root)?;
    // Else it would be bound into itself.
    mount(Path::new("none"), &root, libc::MS_UNBINDABLE)?;
    match layout.isolation {
        Isolation::Host => mirror(Path::new("/"), &root)?,
        Isolation::Isolated { readable } => {
            isolated::populate(&root, readable, layout.mapping)?;
        }
    }
    layout.hidden.cover(Path::new("/"), &root)?;
    Ok(root)
}

/// Makes read-only what is not to be written, when the volumes are mounted.
fn finish(layout: &Layout<'_>, root: &Path, writable: &[PathBuf]) -> io::Result<()> {
    layout.hidden.close(Path::new("/"), root)?;
    if layout.is_fixed {
        namespaces::read_only(root, true)?;
        writable.iter().try_for_each(|point| namespaces::writable(point))?;
    } else if let Isolation::Isolated { readable } = layout.isolation {
        isolated::close(root, readable, writable)?;
    }
    Ok(())
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
fn prepare(
    (root, hidden): (&Path, &Hidden),
    target: &Path,
    is_directory: bool,
) -> io::Result<PathBuf> {
    let (real, rest) = resolve(target)?;
    let inside = join(root, &real);
    if inside.symlink_metadata().is_ok() {
        return Ok(inside);
    }
    if hidden.contains(&real) {
        point(&inside, is_directory)?;
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
        replace(&existing, &join(root, &existing))?;
    }
    point(&inside, is_directory)?;
    Ok(inside)
}

/// Replaces a directory of the host by a copy in memory, into which its entries are bound.
pub fn replace(directory: &Path, place: &Path) -> io::Result<()> {
    let permissions = fs::metadata(directory)?.permissions();
    memory(place)?;
    // In a directory that all may write to, the kernel lets nobody open devices of others to write.
    fs::set_permissions(place, permissions)?;
    mirror(directory, place)?;
    File::create(place.join(MARK)).map(drop)
}

/// In a directory that was replaced.
pub const MARK: &str = ".setpoint-mirror";

pub fn point(path: &Path, is_directory: bool) -> io::Result<()> {
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

/// Returns the place of an absolute path in another root.
pub fn join(root: &Path, path: &Path) -> PathBuf {
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
