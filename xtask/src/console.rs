//! `cargo xtask console`: builds the web console into `console/dist`, from where the next build of
//! the program takes it. What npm installs is what the lock file says.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::workspace::{self, check};

/// Says which lock file was installed.
const STAMP: &str = "node_modules/.installed";
const LOCK: &str = "package-lock.json";

/// Installs what is missing, checks the types, and builds.
pub fn run() -> Result<()> {
    let console = workspace::root().join("console");
    install(&console)?;
    check(npm(&console).args(["run", "--silent", "check"]))?;
    clear(&console.join("dist"))?;
    check(npm(&console).args(["run", "--silent", "build"]))
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
    fs::write(&stamp, lock).context("could not note what is installed")
}

/// Removes what an earlier build left. The directory stays, and with it the file that keeps it.
fn clear(dist: &Path) -> Result<()> {
    let clearing = || format!("could not clear {}", dist.display());
    for entry in fs::read_dir(dist).with_context(clearing)? {
        let path = entry.with_context(clearing)?.path();
        if path.is_dir() {
            fs::remove_dir_all(&path).with_context(clearing)?;
        } else if !path.ends_with(".gitignore") {
            fs::remove_file(&path).with_context(clearing)?;
        }
    }
    Ok(())
}
