//! `cargo xtask dist`: builds every file of a release into one directory, as the release workflow
//! does: archive, Debian package, wheel, container image, list of linked packages, installer, and
//! the signed list of checksums.

mod image;
mod installer;
mod signing;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::{self, cargo, check};
use crate::{deb, sbom, wheel};

/// Releases of the project.
const RELEASES: &str = "https://github.com/setpoint-dev/setpoint/releases";
const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];
const DOCUMENTS: [&str; 3] = ["LICENSE", "README.md", "CHANGELOG.md"];
/// Signed list of the checksums of all other files.
const CHECKSUMS: &str = "SHA256SUMS";
/// Version of the release, one line. `setpoint upgrade` compares it with its own.
const VERSION_FILE: &str = "VERSION";
const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    /// Directory of the finished files.
    pub directory: Option<PathBuf>,
    /// Cargo profile of the program.
    pub profile: String,
    /// Private key (PEM, P-256) that signs the checksums. A new one is generated if unset.
    pub signing_key: Option<PathBuf>,
    /// Base URL of the releases.
    pub releases: String,
    /// A program to pack instead of building one, to try the packaging.
    pub program: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            directory: None,
            profile: "dist".to_owned(),
            signing_key: None,
            releases: RELEASES.to_owned(),
            program: None,
        }
    }
}

/// Builds the program for this machine's target and packs it. The same sources give the same bytes.
pub fn run(options: &Options) -> Result<()> {
    let usual = workspace::target_directory()?.join("release-files");
    let directory = options.directory.clone().unwrap_or(usual);
    remove_directory(&directory)?;
    fs::create_dir_all(&directory)
        .with_context(|| format!("could not create {}", directory.display()))?;
    let key = signing::load_or_generate(options.signing_key.as_deref())?;
    let epoch = commit_time()?;
    let program = match &options.program {
        Some(program) => program.clone(),
        None => build(options, &key, &epoch)?,
    };
    let triple = host_triple()?;
    let files = directory.join("files");
    collect(&program, &files)?;
    let archive = directory.join(format!("setpoint-{triple}.tar.gz"));
    pack(&files, &archive, &epoch)?;
    deb::run(&files, &directory.join(format!("setpoint-{triple}.deb")))?;
    wheel::run(&files, &directory)?;
    image::write_archive(
        &files.join("setpoint"),
        &directory.join(format!("setpoint-{triple}-image.tar")),
    )?;
    remove_directory(&files)?;
    write(&directory.join(VERSION_FILE), format!("{VERSION}\n"))?;
    let installer = installer::text(&options.releases, &key.public_pem()?)?;
    write(&directory.join("install.sh"), installer)?;
    sign_all(&directory, &key)?;
    println!("release files of {VERSION} are in {}", directory.display());
    Ok(())
}

/// Signs the checksums of the files in a directory, such as those of several targets together.
pub fn sign(directory: &Path, signing_key: &Path) -> Result<()> {
    sign_all(directory, &signing::load_or_generate(Some(signing_key))?)
}

fn sign_all(directory: &Path, key: &signing::Key) -> Result<()> {
    let checksums = directory.join(CHECKSUMS);
    write(&checksums, checksum_lines(directory)?)?;
    key.sign(&checksums)
}

/// Builds the program and returns its path. Paths of this machine are left out of it.
fn build(options: &Options, key: &signing::Key, epoch: &str) -> Result<PathBuf> {
    let root = workspace::root();
    let home = std::env::var("HOME").unwrap_or_default();
    let mut flags = format!("--remap-path-prefix={}=.", root.display());
    if !home.is_empty() {
        flags += &format!(" --remap-path-prefix={home}=~");
    }
    let commit = printed(Command::new("git").args(["rev-parse", "HEAD"]).current_dir(&root))?;
    let target = workspace::target_directory()?.join("release-build");
    check(
        cargo(&["build", "--locked", "--package", "setpoint", "--profile", &options.profile])
            .env("RUSTFLAGS", flags)
            .env("CARGO_TARGET_DIR", &target)
            .env("SOURCE_DATE_EPOCH", epoch)
            .env("SETPOINT_COMMIT", commit)
            .env("SETPOINT_RELEASES", &options.releases)
            .env("SETPOINT_RELEASE_KEY", key.public_point()?),
    )?;
    // Cargo writes the profile `dev` to `debug`.
    let output = if options.profile == "dev" { "debug" } else { &options.profile };
    Ok(target.join(output).join("setpoint"))
}

/// Collects the files of the archive: the program, manual pages, completions and documents.
fn collect(program: &Path, files: &Path) -> Result<()> {
    let manuals = files.join("man");
    fs::create_dir_all(&manuals)
        .with_context(|| format!("could not create {}", manuals.display()))?;
    copy(program, &files.join("setpoint"))?;
    let program = files.join("setpoint");
    check(Command::new(&program).arg("man").arg("--dir").arg(&manuals))?;
    for shell in SHELLS {
        let script = printed(Command::new(&program).args(["completions", shell]))? + "\n";
        write(&files.join(format!("setpoint.{shell}")), script)?;
    }
    sbom::run(Some(&files.join("setpoint.cdx.json")))?;
    for document in DOCUMENTS {
        copy(&workspace::root().join(document), &files.join(document))?;
    }
    Ok(())
}

/// Packs a directory such that the same files give the same bytes.
fn pack(files: &Path, archive: &Path, epoch: &str) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{epoch}")).arg("-cf").arg("-").arg("-C").arg(files).arg(".");
    let packed = tar.output().context("could not run tar")?;
    if !packed.status.success() {
        bail!("tar failed: {}", String::from_utf8_lossy(&packed.stderr).trim());
    }
    let unzipped = archive.with_extension("");
    write(&unzipped, packed.stdout)?;
    check(Command::new("gzip").args(["--no-name", "--force", "-9"]).arg(&unzipped))
}

/// One line per file of the directory, in the form of `sha256sum`.
fn checksum_lines(directory: &Path) -> Result<String> {
    let reading = || format!("could not read {}", directory.display());
    let entries = fs::read_dir(directory).with_context(reading)?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .filter(|name| !name.starts_with(CHECKSUMS))
        .collect();
    names.sort();
    let lines = printed(Command::new("sha256sum").args(&names).current_dir(directory))?;
    Ok(lines + "\n")
}

fn host_triple() -> Result<String> {
    let text = printed(Command::new("rustc").args(["--version", "--verbose"]))?;
    let triple = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(triple.context("`rustc -vV` printed no host")?.to_owned())
}

fn commit_time() -> Result<String> {
    let mut git = Command::new("git");
    printed(git.args(["log", "-1", "--format=%ct"]).current_dir(workspace::root()))
}

/// Returns the output of a command that must succeed, without the last line break.
fn printed(command: &mut Command) -> Result<String> {
    let line = workspace::line_of(command);
    let output = command.output().with_context(|| format!("could not run `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    fs::write(path, content).with_context(|| format!("could not write {}", path.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let copying = || format!("could not copy {} to {}", from.display(), to.display());
    fs::copy(from, to).map(drop).with_context(copying)
}

fn remove_directory(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("could not remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}
