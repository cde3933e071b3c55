//! `cargo xtask bench`: the benchmarks, always in release mode.

use std::process::Command;

use anyhow::Result;

use crate::workspace;

/// The program is built with the benchmarks, which start it from beside themselves.
pub fn run(arguments: &[String]) -> Result<()> {
    let build = ["build", "--release", "--locked", "--package", "bench", "--package", "setpoint"];
    workspace::check(&mut workspace::cargo(&build))?;
    let mut command = Command::new(workspace::target_directory()?.join("release/bench"));
    command.args(arguments);
    workspace::check(&mut command)
}
