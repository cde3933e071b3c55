//! `setpoint version`: what this program is. Reads nothing and asks nobody.

use std::fmt;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::Context;

/// Show the version.
#[derive(Args)]
pub struct Version {}

impl Version {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        context.output.print(&Report {
            version: env!("CARGO_PKG_VERSION"),
            os: std::env::consts::OS,
            architecture: std::env::consts::ARCH,
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Serialize)]
struct Report {
    version: &'static str,
    os: &'static str,
    architecture: &'static str,
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "setpoint {} {}/{}", self.version, self.os, self.architecture)
    }
}
