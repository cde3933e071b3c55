//! Programs built from public Go modules, once per version.
//!
//! A program of a module that replaces its dependencies by directories of its repository, as
//! Kubernetes does, cannot be installed by `go install`. It is built in a module of ours that
//! requires it and names published versions in place of the directories.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::output;
use crate::workspace;

/// Directory in which Kubernetes keeps the sources of its published modules.
const STAGING: &str = "=> ./staging/src/";

/// A Go module and what is built of it.
pub struct Module {
    /// Directory in the cache.
    pub name: &'static str,
    pub path: &'static str,
    pub version: &'static str,
    /// Version of the modules that the repository publishes from directories.
    pub staging_version: &'static str,
    pub link_flags: &'static str,
    /// Modules of which another version than the required one is used, as that is not published.
    pub replacements: &'static [(&'static str, &'static str)],
}

/// A program of a module.
#[derive(Clone, Copy)]
pub struct Program {
    pub name: &'static str,
    /// Package below the module.
    pub package: &'static str,
    pub tags: &'static str,
    pub cgo: Cgo,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cgo {
    Off,
    On,
}

impl Module {
    /// Builds a program unless the cache has it.
    pub fn build(&self, cache: &Path, program: Program) -> Result<PathBuf> {
        let directory = cache.join(format!("{}-{}", self.name, self.version));
        let built = directory.join("bin").join(program.name);
        if built.exists() {
            return Ok(built);
        }
        println!("xtask: building {} of {} {}", program.name, self.path, self.version);
        let source = directory.join("source");
        let go = servers::go(&workspace::root().join("target"))?;
        if !source.join("go.mod").exists() {
            self.write_source(&go, &source)?;
        }
        let mut build = self.go(&go, &source);
        build.args(["build", "-trimpath", "-ldflags", self.link_flags, "-tags", program.tags]);
        // Moved when it is complete, so that an interrupted build is not taken for a program.
        build.args(["-o", "built", &format!("{}/{}", self.path, program.package)]);
        let cgo = if program.cgo == Cgo::On { "1" } else { "0" };
        output(build.env("CGO_ENABLED", cgo))?;
        fs::create_dir_all(directory.join("bin")).context("could not create the cache")?;
        fs::rename(source.join("built"), &built).context("could not keep a built program")?;
        Ok(built)
    }

    /// Returns the directory of the module's files.
    pub fn sources(&self) -> Result<PathBuf> {
        let go = servers::go(&workspace::root().join("target"))?;
        let found = self.download(&go)?;
        Ok(PathBuf::from(found["Dir"].as_str().context("go names a directory")?))
    }

    fn download(&self, go: &Path) -> Result<Value> {
        let module = format!("{}@{}", self.path, self.version);
        let printed = output(Command::new(go).args(["mod", "download", "-json", &module]))?;
        serde_json::from_str(&printed).context("go prints JSON")
    }

    fn write_source(&self, go: &Path, source: &Path) -> Result<()> {
        let sources = self.sources()?;
        let read = |name: &str| {
            let file = sources.join(name);
            fs::read_to_string(&file).with_context(|| format!("no {}", file.display()))
        };
        fs::create_dir_all(source).context("could not create the cache")?;
        fs::write(source.join("go.sum"), read("go.sum")?).context("could not write go.sum")?;
        let wrapper = self.wrapper(&read("go.mod")?);
        fs::write(source.join("go.mod"), wrapper).context("could not write go.mod")?;
        output(self.go(go, source).args(["mod", "download", self.path])).map(|_| ())
    }

    /// Returns the go.mod of a module that requires this one, with the same dependencies.
    fn wrapper(&self, text: &str) -> String {
        let mut wrapper = String::new();
        for line in text.lines() {
            if line.starts_with("module ") {
                let (path, version) = (self.path, self.version);
                wrapper += &format!("module peer\n\nrequire {path} {version}\n");
                continue;
            }
            match line.split_once(STAGING) {
                Some((replaced, path)) => {
                    wrapper += &format!("{replaced}=> {path} {}\n", self.staging_version);
                }
                None => wrapper += &format!("{line}\n"),
            }
        }
        for (module, version) in self.replacements {
            wrapper += &format!("\nreplace {module} => {module} {version}\n");
        }
        wrapper
    }

    fn go(&self, go: &Path, source: &Path) -> Command {
        let mut command = Command::new("nice");
        command.arg(go).current_dir(source).env("GOFLAGS", "-mod=mod -buildvcs=false");
        command.env("GOWORK", "off");
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_a_repository_are_replaced_by_published_versions() {
        let module = Module {
            name: "a",
            path: "k8s.io/a",
            version: "v1.2.3",
            staging_version: "v0.2.3",
            link_flags: "",
            replacements: &[("d", "v1.0.0")],
        };
        let text = "module k8s.io/a\n\ngo 1.26.0\n\nreplace (\n\
            \tk8s.io/api => ./staging/src/k8s.io/api\n\tb => c v1\n)\n";
        let expected = "module peer\n\nrequire k8s.io/a v1.2.3\n\ngo 1.26.0\n\nreplace (\n\
            \tk8s.io/api => k8s.io/api v0.2.3\n\tb => c v1\n)\n\nreplace d => d v1.0.0\n";
        assert_eq!(module.wrapper(text), expected);
    }
}
