//! The text files of the project, as git knows them.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// Not part of the project when git cannot say what is.
const DIRECTORIES_LEFT_OUT: &[&str] = &[".git", "target", "node_modules", ".setpoint"];

/// A file that is text, by its path from the workspace's root.
pub struct TextFile {
    pub path: String,
    pub text: String,
}

impl TextFile {
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether a program wrote the file: nobody reads it from top to bottom.
    pub fn is_generated(&self) -> bool {
        self.path.starts_with("console/dist/")
            || self.path.split('/').any(|part| part == "generated")
    }

    /// Whether all of the file is test code: under `tests/`, or a contract suite, or the tests of
    /// a module in a file of their own.
    pub fn is_test(&self) -> bool {
        let stem = self.path.strip_suffix(".rs").unwrap_or(&self.path);
        stem.split('/').any(|part| part == "tests" || part == "contract")
    }
}

/// Every tracked file, and every one that would be if it were added, that is text.
pub fn read_all(root: &Path) -> Result<Vec<TextFile>> {
    let paths = match list_by_git(root) {
        Some(paths) => paths,
        None => list_by_walking(root)?,
    };
    let mut files = Vec::new();
    for path in paths {
        // A tracked file that was deleted is still listed.
        let Ok(bytes) = fs::read(root.join(&path)) else { continue };
        if let Ok(text) = String::from_utf8(bytes)
            && !text.contains('\0')
        {
            files.push(TextFile { path, text });
        }
    }
    Ok(files)
}

fn list_by_git(root: &Path) -> Option<Vec<String>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = git.current_dir(root).output().ok().filter(|output| output.status.success())?;
    let listing = String::from_utf8(output.stdout).ok()?;
    Some(listing.split_terminator('\0').map(str::to_owned).collect())
}

/// For a copy of the source without its repository.
fn list_by_walking(root: &Path) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    let mut pending = vec![String::new()];
    while let Some(directory) = pending.pop() {
        let reading = || format!("could not list `{directory}`");
        for entry in fs::read_dir(root.join(&directory)).with_context(reading)? {
            let entry = entry.with_context(reading)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path =
                if directory.is_empty() { name.clone() } else { format!("{directory}/{name}") };
            let kind = entry.file_type().with_context(reading)?;
            if kind.is_file() {
                paths.push(path);
            } else if kind.is_dir() && !DIRECTORIES_LEFT_OUT.contains(&name.as_str()) {
                pending.push(path);
            }
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_files_are_known_by_their_path() {
        let cases = [
            ("crates/store/src/watch.rs", false),
            ("crates/store/src/contests.rs", false),
            ("crates/store/tests/restart.rs", true),
            ("crates/store/src/contract/watch.rs", true),
            ("crates/store/src/contract.rs", true),
            ("crates/servers/src/cutter/tests.rs", true),
        ];
        for (path, expected) in cases {
            let file = TextFile { path: path.to_owned(), text: String::new() };
            assert_eq!(file.is_test(), expected, "{path}");
        }
    }
}
