//! Where things are kept on this machine.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{self, Component, Path, PathBuf};

use anyhow::{Context, Result};

pub const VARIABLE: &str = "SETPOINT_DATA_DIR";

/// The data directory: the option, else the variable, else the user's directory for data.
pub fn data(option: Option<&Path>) -> Result<PathBuf> {
    let chosen = choose(option, |name| env::var_os(name).filter(|value| !value.is_empty()));
    let chosen = chosen.context(
        "no place for the data directory: HOME is not set; choose one with --data-dir DIR",
    )?;
    path::absolute(&chosen)
        .and_then(|path| without_parents(&path))
        .with_context(|| format!("{} cannot be the data directory", chosen.display()))
}

/// Resolves `..`, which mount points in pods must not contain. The path before it must exist.
fn without_parents(path: &Path) -> io::Result<PathBuf> {
    let parts: Vec<Component> = path.components().collect();
    let Some(last) = parts.iter().rposition(|part| *part == Component::ParentDir) else {
        return Ok(path.to_owned());
    };
    let mut resolved = parts[..=last].iter().collect::<PathBuf>().canonicalize()?;
    resolved.extend(&parts[last + 1..]);
    Ok(resolved)
}

/// Where the user's own configuration is, if there is a home for it.
pub fn config() -> Option<PathBuf> {
    Some(of_user("XDG_CONFIG_HOME", ".config")?.join("setpoint"))
}

/// What is remembered between runs and belongs to no cluster.
pub fn state() -> Result<PathBuf> {
    let home = of_user("XDG_STATE_HOME", ".local/state");
    Ok(home.context("HOME is not set; set XDG_STATE_HOME")?.join("setpoint"))
}

/// What can be fetched again.
pub fn cache() -> Result<PathBuf> {
    let home = of_user("XDG_CACHE_HOME", ".cache");
    Ok(home.context("HOME is not set; set XDG_CACHE_HOME")?.join("setpoint"))
}

fn of_user(variable_name: &str, below_home: &str) -> Option<PathBuf> {
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    shared(variable_name, below_home, variable)
}

/// A directory of the XDG specification, which says to ignore a relative path.
fn shared(
    variable_name: &str,
    below_home: &str,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Option<PathBuf> {
    let said = variable(variable_name).map(PathBuf::from).filter(|path| path.is_absolute());
    match said {
        Some(said) => Some(said),
        None => Some(PathBuf::from(variable("HOME")?).join(below_home)),
    }
}

fn choose(option: Option<&Path>, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(option) = option {
        return Some(option.to_owned());
    }
    if let Some(directory) = variable(VARIABLE) {
        return Some(directory.into());
    }
    Some(shared("XDG_DATA_HOME", ".local/share", variable)?.join("setpoint"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(option: Option<&str>, variables: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        };
        let chosen = choose(option.map(Path::new), variable)?;
        Some(chosen.display().to_string())
    }

    #[test]
    fn the_option_wins_then_the_variable_then_xdg_then_home() {
        let all = [(VARIABLE, "/v"), ("XDG_DATA_HOME", "/x"), ("HOME", "/h")];
        assert_eq!(chosen(Some("/o"), &all).as_deref(), Some("/o"));
        assert_eq!(chosen(None, &all).as_deref(), Some("/v"));
        assert_eq!(chosen(None, &all[1..]).as_deref(), Some("/x/setpoint"));
        assert_eq!(chosen(None, &all[2..]).as_deref(), Some("/h/.local/share/setpoint"));
        assert_eq!(chosen(None, &[]), None);
    }

    #[test]
    fn parents_in_a_path_are_resolved() {
        let resolved = |path: &str| without_parents(Path::new(path));
        assert_eq!(resolved("/usr/../a/b").expect("resolved"), Path::new("/a/b"));
        assert_eq!(resolved("/no/such").expect("left alone"), Path::new("/no/such"));
        assert!(resolved("/no/such/../b").is_err());
    }

    #[test]
    fn a_relative_xdg_directory_is_ignored() {
        let variables = [("XDG_DATA_HOME", "x"), ("HOME", "/h")];
        assert_eq!(chosen(None, &variables).as_deref(), Some("/h/.local/share/setpoint"));
    }
}
