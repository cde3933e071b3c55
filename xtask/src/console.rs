//! `cargo xtask console`: builds the web console into `console/dist`, which is committed so that
//! building the program needs no Node. npm installs exactly what the lock file names.
//!
//! The manifest in `console/dist` lists a checksum of every source and of every built file.
//! `cargo xtask tidy` compares it with the tree, without Node; `cargo xtask test` builds again and
//! compares the result.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::{self, check};

/// The directory of the console, from the root of the workspace.
pub const CONSOLE: &str = "console";
/// The committed pages, within [`CONSOLE`].
pub const DIST: &str = "dist";
/// Lists the checksums; its name begins with a dot, so `app/build.rs` does not embed it.
pub const MANIFEST: &str = ".manifest";
/// Directories of [`CONSOLE`] that do not influence the pages.
const NO_SOURCES: &[&str] = &[DIST, "node_modules", "test"];
/// A copy of the lock file whose packages are installed.
const STAMP: &str = "node_modules/.installed";
const LOCK: &str = "package-lock.json";
/// Directory of a fresh build, from the root of the workspace.
const FRESH: &str = "target/console-dist";

/// Files by their path, with `/` as separator.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Builds the pages and replaces the committed ones.
pub fn run() -> Result<()> {
    let root = workspace::root();
    let built = build(&root)?;
    let dist = root.join(CONSOLE).join(DIST);
    replace(&dist, &built)?;
    let sources = read_sources(&root)?;
    fs::write(dist.join(MANIFEST), manifest(&sources, &built))
        .with_context(|| format!("could not write {CONSOLE}/{DIST}/{MANIFEST}"))
}

/// Builds the pages and fails if the committed ones differ.
pub fn verify() -> Result<()> {
    let root = workspace::root();
    let built = build(&root)?;
    let committed = read_dist(&root)?;
    let stale = differing(&committed, &built);
    if !stale.is_empty() {
        bail!(
            "{CONSOLE}/{DIST} differs from a fresh build: {}; run `cargo xtask console` and commit \
             the result",
            stale.join(", ")
        );
    }
    Ok(())
}

/// Everything that decides what the pages are.
pub fn read_sources(root: &Path) -> Result<Files> {
    let mut files = Files::new();
    collect(&root.join(CONSOLE), "", NO_SOURCES, &mut files)?;
    Ok(files)
}

/// The committed pages, without the manifest.
pub fn read_dist(root: &Path) -> Result<Files> {
    let mut files = Files::new();
    collect(&root.join(CONSOLE).join(DIST), "", &[], &mut files)?;
    files.remove(MANIFEST);
    Ok(files)
}

/// The text of the manifest: one line per source, then one per built file.
pub fn manifest(sources: &Files, built: &Files) -> String {
    let mut text = "# Written by `cargo xtask console`.\n".to_owned();
    for (section, files) in [("source", sources), ("built", built)] {
        for (path, bytes) in files {
            text += &format!("{section} {:032x} {path}\n", checksum(bytes));
        }
    }
    text
}

/// FNV-1a of 128 bits: it detects forgotten builds, not attackers.
fn checksum(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

/// Paths that one side lacks or has with other bytes.
fn differing(committed: &Files, built: &Files) -> Vec<String> {
    let paths = committed.keys().chain(built.keys());
    let mut found: Vec<String> =
        paths.filter(|path| committed.get(*path) != built.get(*path)).cloned().collect();
    found.sort();
    found.dedup();
    found
}

/// Installs the packages, checks the types, and builds into a scratch directory.
fn build(root: &Path) -> Result<Files> {
    let console = root.join(CONSOLE);
    install(&console)?;
    check(npm(&console).args(["run", "--silent", "check"]))?;
    let fresh = root.join(FRESH);
    let mut command = npm(&console);
    command.args(["run", "--silent", "build", "--", "--emptyOutDir", "--outDir"]).arg(&fresh);
    check(&mut command)?;
    let mut files = Files::new();
    collect(&fresh, "", &[], &mut files)?;
    Ok(files)
}

fn npm(console: &Path) -> Command {
    let mut command = Command::new("npm");
    command.current_dir(console);
    command
}

fn install(console: &Path) -> Result<()> {
    let lock = fs::read_to_string(console.join(LOCK)).context("could not read the lock file")?;
    let stamp = console.join(STAMP);
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    check(npm(console).args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]))?;
    fs::write(&stamp, lock).with_context(|| format!("could not write {STAMP}"))
}

/// Removes the earlier pages and writes the new ones.
fn replace(dist: &Path, built: &Files) -> Result<()> {
    let clearing = || format!("could not replace {}", dist.display());
    if dist.exists() {
        fs::remove_dir_all(dist).with_context(clearing)?;
    }
    for (path, bytes) in built {
        let file = dist.join(path);
        let directory = file.parent().unwrap_or(dist);
        fs::create_dir_all(directory).with_context(clearing)?;
        fs::write(&file, bytes).with_context(clearing)?;
    }
    Ok(())
}

fn collect(directory: &Path, prefix: &str, left_out: &[&str], files: &mut Files) -> Result<()> {
    let reading = || format!("could not read {}", directory.display());
    for entry in fs::read_dir(directory).with_context(reading)? {
        let entry = entry.with_context(reading)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
        if left_out.contains(&path.as_str()) {
            continue;
        }
        if entry.file_type().with_context(reading)?.is_dir() {
            collect(&entry.path(), &path, left_out, files)?;
        } else {
            files.insert(path, fs::read(entry.path()).with_context(reading)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(all: &[(&str, &str)]) -> Files {
        all.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect()
    }

    #[test]
    fn a_build_that_differs_is_named_file_by_file() {
        let committed = files(&[("index.html", "a"), ("assets/old.js", "b"), ("same", "c")]);
        let built = files(&[("index.html", "x"), ("assets/new.js", "b"), ("same", "c")]);
        let expected = ["assets/new.js", "assets/old.js", "index.html"];
        assert_eq!(differing(&committed, &built), expected);
        assert!(differing(&built, &built).is_empty());
    }

    #[test]
    fn checksums_are_those_of_the_published_function() {
        assert_eq!(checksum(b""), 0x6c62272e07bb014262b821756295c58d);
        assert_eq!(checksum(b"a"), 0xd228cb696f1a8caf78912b704e4a8964);
    }
}
