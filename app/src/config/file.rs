//! Which file is read.
//!
//! `--config`, else `CONFIG_PATH`, else one of two files below the working directory, else the
//! user's own, else the machine's, else none: then the built-in defaults hold.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::directories;

const VARIABLE: &str = "CONFIG_PATH";
/// Looked for in this order.
const USUAL: &[&str] = &[".config.yaml", "configs/config-example.yaml"];
/// In the user's directory for configurations, and for the whole machine.
const USERS: &str = "config.yaml";
const MACHINES: &str = "/etc/setpoint/config.yaml";
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where the configuration comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    File(PathBuf),
    /// No file was named, and none of the usual ones is there.
    Defaults {
        tried: &'static [&'static str],
    },
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(path) => write!(formatter, "{}", path.display()),
            Source::Defaults { .. } => formatter.write_str("built-in defaults"),
        }
    }
}

/// Finds the file. One that was named must be there.
pub fn find(option: Option<&Path>) -> Result<Source> {
    let variable = std::env::var_os(VARIABLE);
    choose(option, variable, Path::exists)
}

/// Where a file is looked for when none is named, in this order.
pub fn usual_files() -> Vec<PathBuf> {
    let users = directories::config().map(|directory| directory.join(USERS));
    let near = USUAL.iter().map(PathBuf::from);
    near.chain(users).chain([PathBuf::from(MACHINES)]).collect()
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

fn choose(
    option: Option<&Path>,
    variable: Option<OsString>,
    exists: impl Fn(&Path) -> bool,
) -> Result<Source> {
    if let Some(path) = option {
        let name = path.display();
        ensure!(
            exists(path),
            "the configuration file {name} does not exist; correct --config or leave it out"
        );
        return Ok(Source::File(path.to_owned()));
    }
    if let Some(path) = variable.filter(|path| !path.is_empty()).map(PathBuf::from) {
        let name = path.display();
        ensure!(
            exists(&path),
            "the configuration file {name} does not exist; correct {VARIABLE} or unset it"
        );
        return Ok(Source::File(path));
    }
    let usual = usual_files().into_iter().find(|path| exists(path));
    Ok(match usual {
        Some(path) => Source::File(path),
        None => Source::Defaults { tried: USUAL },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(option: Option<&str>, variable: Option<&str>, there: &[&str]) -> String {
        let exists = |path: &Path| there.iter().any(|name| Path::new(name) == path);
        match choose(option.map(Path::new), variable.map(OsString::from), exists) {
            Ok(source) => source.to_string(),
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn the_first_of_option_variable_and_usual_files_wins() {
        let there = ["o", "v", USUAL[0], USUAL[1]];
        assert_eq!(chosen(Some("o"), Some("v"), &there), "o");
        assert_eq!(chosen(None, Some("v"), &there), "v");
        assert_eq!(chosen(None, None, &there), USUAL[0]);
        assert_eq!(chosen(None, Some(""), &there[3..]), USUAL[1]);
        assert_eq!(chosen(None, None, &[MACHINES]), MACHINES);
        assert_eq!(chosen(None, None, &[]), "built-in defaults");
    }

    #[test]
    fn a_file_that_was_named_must_be_there() {
        let there = [USUAL[0]];
        let option = chosen(Some("o"), Some("v"), &there);
        assert!(option.starts_with("error: the configuration file o does not exist"), "{option}");
        let variable = chosen(None, Some("v"), &there);
        assert!(variable.contains("file v does not exist; correct CONFIG_PATH"), "{variable}");
    }
}
