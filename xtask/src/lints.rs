//! Clippy's lints in the same pass that builds the tests. `cargo clippy` would type-check the
//! workspace and all dependencies a second time, which is a quarter of a cold test run.

use std::process::Command;

/// Lets Clippy compile the crates of the workspace; dependencies are left to rustc.
const WRAPPER_VARIABLE: &str = "RUSTC_WORKSPACE_WRAPPER";
/// Arguments of `cargo clippy -- ...`, each followed by Clippy's separator.
const ARGUMENTS_VARIABLE: &str = "CLIPPY_ARGS";
const ARGUMENTS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

/// Runs Clippy on what a cargo command builds. All commands of one run must agree on it, or they
/// build the workspace again.
pub fn deny_warnings(command: &mut Command) {
    command.env(WRAPPER_VARIABLE, "clippy-driver").env(ARGUMENTS_VARIABLE, ARGUMENTS);
}
