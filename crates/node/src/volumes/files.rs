//! Writes the files of a volume so that a reader sees all of them old or all of them new.
//!
//! The files are in a directory of their own, to which the link `..data` points; the names that
//! users see are links through it. Replacing the link replaces everything at once.
//!
//! Upstream: pkg/volume/util/atomic_writer.go

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path};

use super::owner::give_file;

/// A file to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    pub bytes: Vec<u8>,
    pub mode: u32,
    /// Whose it is, if not ours.
    pub user: Option<u32>,
}

impl Content {
    pub fn new(bytes: Vec<u8>, mode: u32) -> Content {
        Content { bytes, mode, user: None }
    }
}

/// Files by their relative path.
pub type Payload = BTreeMap<String, Content>;

const DATA: &str = "..data";
const NEXT: &str = "..data_tmp";

/// Makes a directory hold these files and no others; `group` may read them.
pub fn write(directory: &Path, payload: &Payload, group: Option<u32>) -> io::Result<()> {
    for path in payload.keys() {
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        if path.is_empty() || path.starts_with("..") || !Path::new(path).components().all(is_plain)
        {
            return Err(io::Error::other(format!("{path:?} is no path within a volume")));
        }
    }
    fs::create_dir_all(directory)?;
    let before = fs::read_link(directory.join(DATA)).ok();
    if before.as_ref().is_some_and(|before| holds(&directory.join(before), payload)) {
        return Ok(());
    }
    let number = before
        .as_ref()
        .and_then(|before| before.to_string_lossy().rsplit('_').next()?.parse::<u64>().ok());
    let name = format!("..payload_{}", number.unwrap_or(0) + 1);
    let made = directory.join(&name);
    // What a crash left there is not whole.
    let _ = fs::remove_dir_all(&made);
    fs::create_dir(&made)?;
    fs::set_permissions(&made, fs::Permissions::from_mode(0o755))?;
    for (path, content) in payload {
        let file = made.join(path);
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&file, &content.bytes)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(content.mode))?;
        give_file(&file, (content.user, group))?;
    }
    let _ = fs::remove_file(directory.join(NEXT));
    symlink(&name, directory.join(NEXT))?;
    fs::rename(directory.join(NEXT), directory.join(DATA))?;
    link_names(directory, payload)?;
    if let Some(before) = before {
        let _ = fs::remove_dir_all(directory.join(before));
    }
    Ok(())
}

/// The names that users see.
fn link_names(directory: &Path, payload: &Payload) -> io::Result<()> {
    let names: BTreeSet<&str> = payload.keys().filter_map(|path| path.split('/').next()).collect();
    for name in &names {
        if directory.join(name).symlink_metadata().is_err() {
            symlink(Path::new(DATA).join(name), directory.join(name))?;
        }
    }
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with("..") && !names.contains(&*name) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Whether a directory has these files and no others.
fn holds(directory: &Path, payload: &Payload) -> bool {
    let is_same = |(path, content): (&String, &Content)| {
        fs::read(directory.join(path)).is_ok_and(|bytes| bytes == content.bytes)
    };
    payload.iter().all(is_same) && count_files(directory) == payload.len()
}

fn count_files(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let count = |entry: fs::DirEntry| match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
        true => count_files(&entry.path()),
        false => 1,
    };
    entries.map(count).sum()
}
