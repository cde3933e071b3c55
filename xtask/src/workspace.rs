//! Where the workspace is, and how cargo is run in it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The directory of the workspace's Cargo.toml.
pub fn root() -> PathBuf {
    // Cargo says where this package is when it runs it; asked at run time, so that the binary
    // works after its directory was moved.
    let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let root = package.as_deref().and_then(Path::parent).map(Path::to_owned);
    root.unwrap_or_else(|| PathBuf::from("."))
}

/// The cargo that runs us, at the root of the workspace.
pub fn cargo(arguments: &[&str]) -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// Where cargo builds: this program was built there as well.
pub fn target_directory() -> Result<PathBuf> {
    let program = env::current_exe().context("could not tell where this program is")?;
    program.ancestors().nth(2).map(Path::to_owned).context("this program must be in a directory")
}

/// Runs a command to its end; anything but success is an error.
pub fn check(command: &mut Command) -> Result<()> {
    let line = line_of(command);
    let status = command.status().with_context(|| format!("could not run `{line}`"))?;
    match status.success() {
        true => Ok(()),
        false => bail!("`{line}` ended with {status}"),
    }
}

/// The command as one would type it.
pub fn line_of(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
