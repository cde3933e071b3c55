//! Finds the configuration file.
//!
//! `--config`, otherwise `CONFIG_PATH`, otherwise `.config.yaml` in the working directory, the
//! user's file, or the machine's file. `controller`, `storage` and `web` fall back to
//! `configs/config-example.yaml`. Without any file the built-in defaults apply.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::directories;

const VARIABLE: &str = "CONFIG_PATH";
const LOCAL: &str = ".config.yaml";
/// Read only by commands that fall back to it, and only if there is no other file.
const EXAMPLE: &str = "configs/config-example.yaml";
/// In the user's directory for configurations, and for the whole machine.
const USERS: &str = "config.yaml";
const MACHINES: &str = "/etc/setpoint/config.yaml";
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where the configuration comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    File(PathBuf),
    /// The example file: no other file exists, and the command falls back to it.
    Example(PathBuf),
    /// No file was named, and none of these exists.
    Defaults {
        tried: Vec<PathBuf>,
    },
}

/// Files that a command reads if none is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    Defaults,
    /// The example file before the built-in defaults.
    Example,
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(path) | Source::Example(path) => write!(formatter, "{}", path.display()),
            Source::Defaults { .. } => formatter.write_str("built-in defaults"),
        }
    }
}

/// Finds the file. A file that was named must exist.
pub fn find(option: Option<&Path>, fallback: Fallback) -> Result<Source> {
    let named = Named { option, variable: std::env::var_os(VARIABLE) };
    choose(named, fallback, Path::exists)
}

/// Files that are looked for if none is named, in this order.
pub fn usual_files() -> Vec<PathBuf> {
    let users = directories::config().map(|directory| directory.join(USERS));
    let local = std::iter::once(PathBuf::from(LOCAL));
    local.chain(users).chain([PathBuf::from(MACHINES)]).collect()
}

/// File names that the user gave.
struct Named<'a> {
    option: Option<&'a Path>,
    variable: Option<OsString>,
}

/// The text of a file.
pub fn read(path: &Path) -> Result<String> {
    let name = path.display();
    let reading = || format!("could not read the configuration file {name}");
    let mut bytes = Vec::new();
    let file = fs::File::open(path).with_context(reading)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).with_context(reading)?;
    let is_small = bytes.len() as u64 <= FILE_BYTES_MAX;
    ensure!(is_small, "{name} is larger than {FILE_BYTES_MAX} bytes; name a configuration file");
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(_) => bail!("{name} is not text in UTF-8; name a configuration file"),
    }
}

fn choose(named: Named<'_>, fallback: Fallback, exists: impl Fn(&Path) -> bool) -> Result<Source> {
    if let Some(path) = named.option {
        let name = path.display();
        ensure!(
            exists(path),
            "the configuration file {name} does not exist; correct --config or leave it out"
        );
        return Ok(Source::File(path.to_owned()));
    }
    if let Some(path) = named.variable.filter(|path| !path.is_empty()).map(PathBuf::from) {
        let name = path.display();
        ensure!(
            exists(&path),
            "the configuration file {name} does not exist; correct {VARIABLE} or unset it"
        );
        return Ok(Source::File(path));
    }
    let mut tried = usual_files();
    if let Some(path) = tried.iter().find(|path| exists(path)) {
        return Ok(Source::File(path.clone()));
    }
    if fallback == Fallback::Example {
        let example = PathBuf::from(EXAMPLE);
        if exists(&example) {
            return Ok(Source::Example(example));
        }
        tried.push(example);
    }
    Ok(Source::Defaults { tried })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(option: Option<&str>, variable: Option<&str>, files: &[&str]) -> String {
        let exists = |path: &Path| files.iter().any(|name| Path::new(name) == path);
        let named = Named { option: option.map(Path::new), variable: variable.map(OsString::from) };
        match choose(named, Fallback::Example, exists) {
            Ok(source) => source.to_string(),
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn the_first_of_option_variable_and_usual_files_wins_and_the_example_is_last() {
        let files = ["o", "v", LOCAL, MACHINES, EXAMPLE];
        assert_eq!(chosen(Some("o"), Some("v"), &files), "o");
        assert_eq!(chosen(None, Some("v"), &files), "v");
        assert_eq!(chosen(None, None, &files), LOCAL);
        assert_eq!(chosen(None, Some(""), &files[3..]), MACHINES);
        assert_eq!(chosen(None, None, &[EXAMPLE]), EXAMPLE);
        assert_eq!(chosen(None, None, &[]), "built-in defaults");
    }

    #[test]
    fn the_example_is_read_only_by_commands_that_fall_back_to_it() {
        let named = Named { option: None, variable: None };
        let source = choose(named, Fallback::Defaults, |path| path == Path::new(EXAMPLE));
        assert_eq!(source.expect("defaults").to_string(), "built-in defaults");
    }

    #[test]
    fn a_file_that_was_named_must_exist() {
        let files = [LOCAL];
        let option = chosen(Some("o"), Some("v"), &files);
        assert!(option.starts_with("error: the configuration file o does not exist"), "{option}");
        let variable = chosen(None, Some("v"), &files);
        assert!(variable.contains("file v does not exist; correct CONFIG_PATH"), "{variable}");
    }
}
