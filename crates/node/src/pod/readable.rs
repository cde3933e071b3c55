//! Directories of the host that isolated pods of a namespace can read besides the usual ones.
//!
//! `setpoint train FILE.py` and `setpoint serve ./DIR` add them. The list is a file in the data
//! directory and no API object: only root and the user of the server can write there, and only
//! those who can read a directory add it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::prepare::is_name;

/// Directories of one namespace; the oldest gives way.
const DIRECTORIES_MAX: usize = 64;
/// Below the node's directory: one file for each namespace.
const LISTS: &str = "readable";
const LOCK: &str = ".lock";

/// Adds directories for the isolated pods of a namespace. Fails if this process cannot read one.
pub fn add(node: &Path, namespace: &str, directories: &[PathBuf]) -> io::Result<()> {
    if !is_name(namespace) {
        return Err(io::Error::other(format!("{namespace:?} is not the name of a namespace")));
    }
    let mut added = Vec::new();
    for directory in directories {
        let failed = |error| io::Error::other(format!("{}: {error}", directory.display()));
        let real = fs::canonicalize(directory).map_err(failed)?;
        fs::read_dir(&real).map_err(failed)?;
        if real.parent().is_none() {
            return Err(io::Error::other("pods cannot be given the root directory of the host"));
        }
        added.push(real);
    }
    let lists = node.join(LISTS);
    fs::create_dir_all(&lists)?;
    let lock = File::create(lists.join(LOCK))?;
    lock.lock()?;
    let mut all = read(node, namespace);
    all.retain(|directory| !added.contains(directory));
    all.extend(added);
    let excess = all.len().saturating_sub(DIRECTORIES_MAX);
    let draft = lists.join(format!(".{namespace}.draft"));
    fs::write(&draft, serde_json::to_vec(&all[excess..])?)?;
    fs::rename(&draft, lists.join(namespace))
}

/// Returns the directories that were added for a namespace and still exist.
pub fn read(node: &Path, namespace: &str) -> Vec<PathBuf> {
    let text = fs::read(node.join(LISTS).join(namespace)).unwrap_or_default();
    let mut all: Vec<PathBuf> = serde_json::from_slice(&text).unwrap_or_default();
    all.retain(|directory| directory.is_dir());
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::process::tests::directory;

    #[test]
    fn directories_are_added_for_one_namespace_and_only_if_they_can_be_read() {
        let place = directory("readable");
        let (node, one, two) = (place.0.join("node"), place.0.join("one"), place.0.join("two"));
        fs::create_dir_all(&one).unwrap();
        fs::create_dir_all(&two).unwrap();
        let real = |path: &PathBuf| fs::canonicalize(path).unwrap();
        add(&node, "a", &[one.clone(), two.clone()]).unwrap();
        add(&node, "a", std::slice::from_ref(&one)).unwrap();
        assert_eq!(read(&node, "a"), [real(&two), real(&one)]);
        assert_eq!(read(&node, "b"), [] as [PathBuf; 0]);
        for wrong in [place.0.join("missing"), PathBuf::from("/")] {
            assert!(add(&node, "a", &[wrong]).is_err());
        }
        assert!(add(&node, "../a", std::slice::from_ref(&one)).is_err());
        fs::remove_dir(&two).unwrap();
        assert_eq!(read(&node, "a"), [real(&one)]);
    }
}
