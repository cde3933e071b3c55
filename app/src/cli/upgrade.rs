//! `setpoint upgrade`: replaces an installed program with a newer release.
//!
//! The installer of the new release does the work, after its signature was verified with the key
//! of this program.

use std::fmt;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use serde::Serialize;

use super::exit::{self, Failure};
use super::uninstall::Installation;
use super::{Context, small_runtime};
use crate::directories;
use crate::instance::Instance;
use crate::output;
use crate::release::{self, ReleaseKey, SignedRelease};
use crate::upgrade::OURS;

const AFTER_HELP: &str = "\
Examples:
  setpoint upgrade                    install the newest release
  setpoint upgrade --check            only show whether there is a newer one
  setpoint upgrade --version 0.1.0    install that version, also an older one

The program must have been installed with install.sh; packages are upgraded by their package manager
(`apt`, `pip`, `docker pull`). The release is verified against the key that this program was built
with. A running cluster keeps running the old version until `setpoint down` and `setpoint up`; its
pods are not stopped by that.

Environment:
  SETPOINT_RELEASES   base URL of the releases, for a mirror";

/// Upgrade this program to a newer release.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Upgrade {
    /// Only show whether there is a newer release.
    #[arg(long)]
    check: bool,

    /// Version to install; the newest release by default.
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,

    /// Public key (PEM) that verifies the release, for a mirror that signs its own.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

impl Upgrade {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let key = self.release_key()?;
        let base = release::base_url(None);
        let runtime = small_runtime()?;
        let opened = SignedRelease::open(&base, self.version.as_deref(), &key);
        let release = runtime.block_on(opened)?;
        let available = runtime.block_on(release.file("VERSION"))?.trim().to_owned();
        let is_wanted = match &self.version {
            Some(_) => available != OURS,
            None => is_newer(&available, OURS),
        };
        let mut report = Report { version: OURS, available, state: State::Current };
        if is_wanted && self.check {
            report.state = State::Available;
        } else if is_wanted {
            let installation = Installation::find()?;
            let script = runtime.block_on(release.file("install.sh"))?;
            install(&script, &installation, &base, &report.available)?;
            report.state = State::Upgraded;
            remark_on_running();
        }
        context.output.print(&report)?;
        Ok(ExitCode::SUCCESS)
    }

    fn release_key(&self) -> Result<ReleaseKey> {
        if let Some(file) = &self.key {
            let reading = || format!("could not read {}", file.display());
            let text = std::fs::read_to_string(file).with_context(reading)?;
            return ReleaseKey::from_pem(&text).with_context(reading);
        }
        ReleaseKey::built_in().ok_or_else(|| {
            let what = "this program was built from source and has no key to verify releases with";
            let hint =
                "update the sources and build it again, or install a release with install.sh";
            anyhow!(Failure::new(exit::FAILED, what).hint(hint))
        })
    }
}

/// Runs the verified installer of a release.
fn install(script: &str, installation: &Installation, base: &str, version: &str) -> Result<()> {
    let mut shell = Command::new("sh")
        .arg("-s")
        .env("SETPOINT_PREFIX", &installation.prefix)
        .env("SETPOINT_RELEASES", base)
        .env("SETPOINT_VERSION", version)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .context("could not run sh")?;
    let mut input = shell.stdin.take().context("the input of sh must be a pipe")?;
    input.write_all(script.as_bytes()).context("could not send the installer to sh")?;
    drop(input);
    let status = shell.wait().context("could not wait for the installer")?;
    match status.success() {
        true => Ok(()),
        false => Err(anyhow!(Failure::new(exit::FAILED, "the installer failed; see above"))),
    }
}

fn remark_on_running() {
    let running = directories::data(None).and_then(|data| Instance::running(&data));
    if let Ok(Some(instance)) = running {
        let version = instance.version;
        output::remark(format!(
            "the running cluster still has version {version}; `setpoint down` and `setpoint up` \
             start the new one, and pods keep running"
        ));
    }
}

/// Compares versions by their numbers; a pre-release is older than its release.
fn is_newer(available: &str, current: &str) -> bool {
    let key = |version: &str| {
        let (numbers, pre) = version.split_once('-').unwrap_or((version, ""));
        let numbers = numbers.split('.').map(|part| part.parse().unwrap_or(0));
        (numbers.collect::<Vec<u64>>(), pre.is_empty(), pre.to_owned())
    };
    key(available) > key(current)
}

#[derive(Clone, Copy, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum State {
    Current,
    Available,
    Upgraded,
}

#[derive(Serialize)]
struct Report {
    version: &'static str,
    available: String,
    state: State,
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { version, available, state } = self;
        match state {
            State::Current => write!(formatter, "setpoint {version} is up to date"),
            State::Available => write!(
                formatter,
                "setpoint {available} is available, this is {version}; install it with `setpoint \
                 upgrade`"
            ),
            State::Upgraded => write!(formatter, "upgraded setpoint {version} to {available}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for (newer, older) in
            [("0.2.0", "0.1.9"), ("0.10.0", "0.9.0"), ("1.0.0", "1.0.0-rc.1"), ("1.0.1", "1.0")]
        {
            assert!(is_newer(newer, older), "{newer} {older}");
            assert!(!is_newer(older, newer), "{older} {newer}");
        }
        assert!(!is_newer("0.1.0", "0.1.0"));
    }
}
