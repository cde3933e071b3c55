//! `setpoint version`: what this program is, and whether it fits what is stored and what runs.
//! Nobody outside of this machine is asked.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;
use serde::Serialize;
use store::backends;
use store::backends::embedded::{self, Format};

use super::Context;
use super::exit;
use crate::config;
use crate::directories;
use crate::instance::Instance;
use crate::output::Marks;
use crate::server::API_VERSION;
use crate::upgrade::{self, OURS};

const AFTER_HELP: &str = "\
Examples:
  setpoint version -o json     how it was built: commit, compiler, target
  setpoint version --check     before an upgrade, and after: can it read what is stored?

With --check the exit code is 1 where this program cannot read the data. No server is asked for
newer releases. Before another version opens an embedded store for the first time, it copies it; the
last two copies are kept beside the store, in `store.upgrades`.";

/// Show the version, and with -o json how it was built.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Version {
    /// Look whether this program can read what is stored, and whether it is what runs.
    #[arg(long)]
    check: bool,

    /// The data directory to look at with --check. Else the usual one.
    #[arg(long, value_name = "DIR", requires = "check")]
    data_dir: Option<PathBuf>,
}

impl Version {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        if self.check {
            let checked = self.look()?;
            context.output.print(&checked)?;
            let code = if checked.fits() { 0 } else { exit::FAILED };
            return Ok(ExitCode::from(code));
        }
        let commit = env!("SETPOINT_BUILD_COMMIT");
        context.output.print(&Report {
            version: OURS,
            os: std::env::consts::OS,
            architecture: std::env::consts::ARCH,
            serves: API_VERSION,
            build: Build {
                commit: (!commit.is_empty()).then_some(commit),
                rustc: env!("SETPOINT_BUILD_RUSTC"),
                target: env!("SETPOINT_BUILD_TARGET"),
                profile: env!("SETPOINT_BUILD_PROFILE"),
            },
        })?;
        Ok(ExitCode::SUCCESS)
    }

    fn look(&self) -> Result<Checked> {
        let data_dir = directories::data(self.data_dir.as_deref())?;
        let storage = config::load(None)?.config.storage;
        let (mut upgrades_from, mut copies) = (None, Vec::new());
        let (store, format) = match storage.settings(&data_dir) {
            backends::Settings::Embedded(settings) => {
                let directory = settings.directory;
                let reading = || format!("could not look into {}", directory.display());
                let format = embedded::format_of(&directory).with_context(reading)?;
                upgrades_from = upgrade::is_due(&directory)?;
                copies = upgrade::copies(&directory);
                (directory.display().to_string(), format)
            }
            _ => (storage.kind.to_string(), None),
        };
        let running = Instance::running(&data_dir)?.map(|instance| instance.version);
        let (format_found, format_supported) = match format {
            Some(Format { found, supported }) => (Some(found), Some(supported)),
            None => (None, None),
        };
        Ok(Checked {
            version: OURS,
            running,
            store,
            format_found,
            format_supported,
            upgrades_from,
            copies,
        })
    }
}

/// How this program stands to what is there.
#[derive(Serialize)]
struct Checked {
    version: &'static str,
    /// The version of what runs on the data directory, if something does.
    running: Option<String>,
    /// Where it is kept: a directory, or the kind of another store.
    store: String,
    /// Of the files in that directory, where there are some.
    format_found: Option<u32>,
    format_supported: Option<u32>,
    /// The version that left the data, where the next start copies it first.
    upgrades_from: Option<String>,
    /// What was copied before earlier upgrades, the newest first.
    copies: Vec<PathBuf>,
}

impl Checked {
    fn fits(&self) -> bool {
        self.format_found <= self.format_supported
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let marks = Marks::of_stdout();
        writeln!(formatter, "{} program  {}", marks.well(), self.version)?;
        match self.running.as_deref() {
            None => writeln!(formatter, "{} running  nothing", marks.well())?,
            Some(OURS) => writeln!(formatter, "{} running  {OURS}", marks.well())?,
            Some(other) => writeln!(
                formatter,
                "{} running  {other}; `setpoint down` and `setpoint up` start this one",
                marks.so_so()
            )?,
        }
        let store = &self.store;
        match (self.format_found, self.format_supported) {
            (Some(found), Some(supported)) if found > supported => write!(
                formatter,
                "{} store    {store} has format {found}, this program reads up to {supported}\n  \
                 `setpoint help SP4003` says what to do",
                marks.unwell()
            ),
            (Some(found), Some(supported)) => write!(
                formatter,
                "{} store    {store} has format {found}, this program reads up to {supported}",
                marks.well()
            ),
            _ => write!(formatter, "{} store    {store}: no files of ours to read", marks.well()),
        }?;
        if let Some(before) = &self.upgrades_from {
            let told = "left this data: the next start copies it first";
            write!(formatter, "\n{} upgrade  {before} {told}", marks.so_so())?;
        }
        for copy in &self.copies {
            let copy = copy.display();
            write!(formatter, "\n{} copy     {copy}   from before an upgrade", marks.well())?;
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct Report {
    version: &'static str,
    os: &'static str,
    architecture: &'static str,
    serves: &'static str,
    build: Build,
}

#[derive(Serialize)]
struct Build {
    /// Where it is known: a release, or a build that was told.
    commit: Option<&'static str>,
    rustc: &'static str,
    target: &'static str,
    profile: &'static str,
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "setpoint {} {}/{}", self.version, self.os, self.architecture)?;
        if formatter.alternate() {
            let Build { commit, rustc, target, profile } = &self.build;
            let commit = commit.unwrap_or("unknown");
            write!(formatter, "\nserves   {}\ncommit   {commit}", self.serves)?;
            write!(formatter, "\nbuilt    {profile} for {target} by {rustc}")?;
        }
        Ok(())
    }
}
