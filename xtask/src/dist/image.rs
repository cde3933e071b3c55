//! The container image, written without a container engine or a base image: the program, the
//! shared libraries that it is linked to, and the certificate authorities of this machine. The
//! archive has the form that `docker load`, `podman load` and `skopeo` read.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::{VERSION, commit_time, copy, printed, remove_directory, write};
use crate::deb;
use crate::workspace::check;

const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";
/// User and group of the program; the manifests of the operators name them.
const USER: &str = "65532:65532";
const ACCOUNTS: &str = "root:x:0:0:root:/:/sbin/nologin\n\
    setpoint:x:65532:65532:setpoint:/:/sbin/nologin\n";

/// Writes the image of a program to a tar archive.
pub fn write_archive(program: &Path, archive: &Path) -> Result<()> {
    let work = archive.with_extension("work");
    remove_directory(&work)?;
    let root = work.join("root");
    fill(&root, program)?;
    let layer = work.join("layer.tar");
    tar(&root, &layer)?;
    remove_directory(&root)?;
    let digest = sha256(&layer)?;
    let config = json!({
        "architecture": deb::architecture(program)?,
        "os": "linux",
        "config": {
            "User": USER,
            "Entrypoint": ["/usr/local/bin/setpoint"],
            "Env": ["PATH=/usr/local/bin"],
            "Labels": {"org.opencontainers.image.version": VERSION},
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
    });
    let config = config.to_string();
    write(&work.join("config.json"), &config)?;
    let config_name = format!("{}.json", sha256(&work.join("config.json"))?);
    write(&work.join(&config_name), &config)?;
    fs::remove_file(work.join("config.json")).context("could not remove the configuration")?;
    let tags = json!([format!("setpoint:{VERSION}")]);
    let manifest = json!([{"Config": config_name, "RepoTags": tags, "Layers": ["layer.tar"]}]);
    write(&work.join("manifest.json"), manifest.to_string())?;
    tar(&work, archive)?;
    remove_directory(&work)
}

fn fill(root: &Path, program: &Path) -> Result<()> {
    put(program, &root.join("usr/local/bin/setpoint"))?;
    for library in shared_libraries(program)? {
        let relative = library.strip_prefix("/").unwrap_or(&library);
        put(&library, &root.join(relative))?;
    }
    let certificates = Path::new("/").join(CERTIFICATES);
    if !certificates.is_file() {
        bail!("{} is missing: install ca-certificates", certificates.display());
    }
    put(&certificates, &root.join(CERTIFICATES))?;
    write(&root.join("etc/passwd"), ACCOUNTS)?;
    fs::create_dir_all(root.join("tmp")).context("could not create a directory")?;
    check(Command::new("chmod").arg("1777").arg(root.join("tmp")))
}

/// Paths of the loader and of the libraries that the loader would map.
fn shared_libraries(program: &Path) -> Result<BTreeSet<PathBuf>> {
    let text = printed(Command::new("ldd").arg(program))?;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        if line.contains("not found") {
            bail!("a library of {} is missing: {}", program.display(), line.trim());
        }
        let path = line.split_whitespace().find(|word| word.starts_with('/'));
        found.extend(path.map(PathBuf::from));
    }
    Ok(found)
}

fn put(from: &Path, to: &Path) -> Result<()> {
    let directory = to.parent().context("a file must be in a directory")?;
    fs::create_dir_all(directory)
        .with_context(|| format!("could not create {}", directory.display()))?;
    copy(from, to)
}

fn tar(directory: &Path, archive: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{}", commit_time()?));
    check(tar.arg("-cf").arg(archive).arg("-C").arg(directory).arg("."))
}

fn sha256(file: &Path) -> Result<String> {
    let line = printed(Command::new("sha256sum").arg(file))?;
    Ok(line.split(' ').next().unwrap_or_default().to_owned())
}
