//! `setpoint version`: what this program is. Reads nothing and asks nobody.

use std::fmt;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::Context;
use crate::server::API_VERSION;

/// Show the version, and with -o json how it was built.
#[derive(Args)]
pub struct Version {}

impl Version {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let commit = env!("SETPOINT_BUILD_COMMIT");
        context.output.print(&Report {
            version: env!("CARGO_PKG_VERSION"),
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
