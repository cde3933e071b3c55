//! `cargo xtask bench`: the benchmarks, always in release mode.

use anyhow::Result;

use crate::workspace;

pub fn run(arguments: &[String]) -> Result<()> {
    let mut command =
        workspace::cargo(&["run", "--release", "--locked", "--package", "bench", "--"]);
    command.args(arguments);
    workspace::check(&mut command)
}
