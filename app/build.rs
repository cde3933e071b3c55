//! Records how the program is built, and embeds the committed pages of the web console, compressed.
//! Node is not needed: `cargo xtask console` builds the pages and `console/dist` is committed.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;

/// The committed pages of the console.
const BUILT: &str = "../console/dist";
/// The page that shows every view.
const PAGE: &str = "index.html";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    tell_how();
    println!("cargo::rerun-if-changed={BUILT}");
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from);
    let out = out.ok_or_else(|| io::Error::other("cargo must say where to write"))?;
    let mut files = Vec::new();
    collect(Path::new(BUILT), &mut files)?;
    if !Path::new(BUILT).join(PAGE).exists() {
        let why = format!("{BUILT}/{PAGE} is missing; restore it or run `cargo xtask console`");
        return Err(io::Error::other(why));
    }
    files.sort();
    let mut table = "&[\n".to_owned();
    for (number, path) in files.iter().enumerate() {
        let compressed = out.join(format!("console-{number}.gz"));
        let mut encoder = GzEncoder::new(fs::File::create(&compressed)?, Compression::best());
        encoder.write_all(&fs::read(path)?)?;
        encoder.finish()?;
        let name = path.strip_prefix(BUILT).map_err(io::Error::other)?;
        table += &format!("    ({name:?}, include_bytes!({compressed:?})),\n");
    }
    table += "]\n";
    fs::write(out.join("console.rs"), table)
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), files)?;
        } else if !entry.file_name().to_string_lossy().starts_with('.') {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// How it was built. The commit is looked up for releases only: a change of it would otherwise
/// build the program again after every commit.
fn tell_how() {
    println!("cargo::rerun-if-env-changed=SETPOINT_COMMIT");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let (profile, target) = (variable("PROFILE"), variable("TARGET"));
    let commit = match std::env::var("SETPOINT_COMMIT") {
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
    tell_release();
    println!("cargo::rustc-env=SETPOINT_BUILD_COMMIT={commit}");
    println!("cargo::rustc-env=SETPOINT_BUILD_PROFILE={profile}");
    println!("cargo::rustc-env=SETPOINT_BUILD_TARGET={target}");
    println!("cargo::rustc-env=SETPOINT_BUILD_RUSTC={rustc}");
}

/// Passes on what `cargo xtask dist` sets: the URL of releases, and the key that signs them.
fn tell_release() {
    for name in ["RELEASES", "RELEASE_KEY"] {
        println!("cargo::rerun-if-env-changed=SETPOINT_{name}");
        let value = std::env::var(format!("SETPOINT_{name}")).unwrap_or_default();
        println!("cargo::rustc-env=SETPOINT_BUILD_{name}={value}");
    }
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
