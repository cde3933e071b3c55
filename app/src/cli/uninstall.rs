//! `setpoint uninstall`: removes the files that install.sh installed.

use std::fmt;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use serde::Serialize;

use super::Context;
use super::confirm::Consent;
use super::exit::{self, Failure};
use crate::directories;
use crate::instance::Instance;

/// Files of the installation, one line each, relative to the prefix. install.sh writes it.
const MANIFEST: &str = "share/doc/setpoint/installed-files";

const AFTER_HELP: &str = "\
Examples:
  setpoint down --delete-data     first, to remove the cluster and what it has stored as well
  setpoint uninstall              remove the program, its manual pages and completions

Only files that install.sh installed are removed. Data, kubeconfigs and configuration are kept.
Packages are removed by their package manager (`apt remove setpoint`, `pip uninstall setpoint`).";

/// Remove this program and the files that were installed with it.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Uninstall {
    #[command(flatten)]
    consent: Consent,
}

impl Uninstall {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let installation = Installation::find()?;
        let data_dir = directories::data(None)?;
        if let Some(instance) = Instance::running(&data_dir)? {
            let what = format!("a cluster is running (process {})", instance.pid);
            let hint = "stop it with `setpoint down`, or `setpoint down --delete-data`";
            return Err(anyhow!(Failure::new(exit::CONFLICT, what).hint(hint)));
        }
        let Installation { prefix, files } = &installation;
        let what = format!("This removes {} files below {}.", files.len(), prefix.display());
        self.consent.ask(&what, "uninstall")?;
        installation.remove()?;
        let data_dir = data_dir.exists().then_some(data_dir);
        let files = files.len();
        context.output.print(&Report { prefix: prefix.clone(), files, data_dir })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Files that install.sh installed together with the running program.
pub struct Installation {
    pub prefix: PathBuf,
    files: Vec<PathBuf>,
}

impl Installation {
    /// Finds the installation that the running program belongs to.
    pub fn find() -> Result<Installation> {
        let program = std::env::current_exe().context("could not find this program")?;
        let prefix = program.parent().and_then(Path::parent);
        let prefix = prefix.context("this program must be in a directory")?;
        let manifest = prefix.join(MANIFEST);
        let text = fs::read_to_string(&manifest).map_err(|_| not_installed(&program))?;
        let files: Vec<PathBuf> = text.lines().map(PathBuf::from).collect();
        let is_below = |file: &PathBuf| {
            !file.as_os_str().is_empty()
                && file.components().all(|part| matches!(part, Component::Normal(_)))
        };
        if !files.iter().all(is_below) {
            let what = format!("{} names files outside of its prefix", manifest.display());
            return Err(anyhow!(Failure::new(exit::FAILED, what)));
        }
        Ok(Installation { prefix: prefix.to_owned(), files })
    }

    fn remove(&self) -> Result<()> {
        for file in &self.files {
            let path = self.prefix.join(file);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error)
                        .with_context(|| format!("could not remove {}", path.display()));
                }
                _ => {}
            }
        }
        // Fails if the directory has other files.
        let _ = fs::remove_dir(self.prefix.join("share/doc/setpoint"));
        Ok(())
    }
}

fn not_installed(program: &Path) -> anyhow::Error {
    let what = format!("{} was not installed with install.sh", program.display());
    let hint = "upgrade or remove it with the tool that installed it: `apt`, `pip` or `cargo`";
    anyhow!(Failure::new(exit::FAILED, what).hint(hint))
}

#[derive(Serialize)]
struct Report {
    prefix: PathBuf,
    files: usize,
    /// Data that is kept.
    data_dir: Option<PathBuf>,
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "removed {} files below {}", self.files, self.prefix.display())?;
        match &self.data_dir {
            Some(data) => write!(formatter, "\nkept the data in {}", data.display()),
            None => Ok(()),
        }
    }
}
