//! Tells the program how it was built. The commit is looked up for releases only: a change of it
//! would otherwise build the program again after every commit.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SETPOINT_COMMIT");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let (profile, target) = (variable("PROFILE"), variable("TARGET"));
    let commit = match env::var("SETPOINT_COMMIT") {
        Ok(commit) => commit,
        Err(_) if profile == "release" => git(&["rev-parse", "HEAD"]),
        Err(_) => String::new(),
    };
    if profile == "release" {
        let head = git(&["rev-parse", "--git-path", "logs/HEAD"]);
        if !head.is_empty() {
            println!("cargo::rerun-if-changed={head}");
        }
    }
    let rustc = said(Command::new(variable("RUSTC")).arg("--version"));
    println!("cargo::rustc-env=SETPOINT_BUILD_COMMIT={commit}");
    println!("cargo::rustc-env=SETPOINT_BUILD_PROFILE={profile}");
    println!("cargo::rustc-env=SETPOINT_BUILD_TARGET={target}");
    println!("cargo::rustc-env=SETPOINT_BUILD_RUSTC={rustc}");
}

fn git(words: &[&str]) -> String {
    said(Command::new("git").args(words))
}

/// What a program says; nothing when it is not there or fails.
fn said(command: &mut Command) -> String {
    match command.output() {
        Ok(ended) if ended.status.success() => {
            String::from_utf8_lossy(&ended.stdout).trim().to_owned()
        }
        _ => String::new(),
    }
}
