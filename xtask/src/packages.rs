//! The Debian packages that the tests use: installed when they are missing.

use std::fs;
use std::process::Command;

use anyhow::{Result, bail};

use crate::workspace;

/// How long to wait for another installation to end.
const LOCK_TIMEOUT: &str = "DPkg::Lock::Timeout=300";

/// Installs what is missing as root; says what to install as anyone else.
pub fn install_missing() -> Result<()> {
    let missing = servers::missing_packages();
    match missing.is_empty() {
        true => Ok(()),
        false if is_root() => install(&missing),
        false => bail!("the tests need programs that are not installed; run: {}", advice(&missing)),
    }
}

fn install(packages: &[&str]) -> Result<()> {
    workspace::check(apt_get(&["update"]).arg("--quiet"))?;
    let mut command = apt_get(&["install", "--quiet", "-y", "--no-install-recommends"]);
    workspace::check(command.args(packages))?;
    match servers::missing_packages().as_slice() {
        [] => Ok(()),
        rest => bail!("{} installed, and still without its programs", rest.join(" ")),
    }
}

fn apt_get(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.args(["-o", LOCK_TIMEOUT]).args(arguments);
    // In run level 1 a package does not start its service; we start our own, privately.
    command.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
    command
}

fn advice(packages: &[&str]) -> String {
    format!("sudo apt-get install -y --no-install-recommends {}", packages.join(" "))
}

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    effective_user(&status) == Some("0")
}

/// The second number of the line `Uid:` (real, effective, saved, file system).
fn effective_user(status: &str) -> Option<&str> {
    status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_user_is_the_second_number() {
        assert_eq!(effective_user("Name:\tx\nUid:\t1000\t0\t1000\t1000\n"), Some("0"));
        assert_eq!(effective_user(""), None);
    }

    #[test]
    fn the_advice_is_a_line_that_can_be_run() {
        let line = "sudo apt-get install -y --no-install-recommends etcd-server etcd-client";
        assert_eq!(advice(&["etcd-server", "etcd-client"]), line);
    }
}
