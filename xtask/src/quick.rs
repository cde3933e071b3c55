//! `cargo xtask test --quick`: the checks worth running after every edit. Only the crates that
//! changed, and those that use them, are built; only their unit and contract tests run.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::lints;
use crate::tidy;
use crate::tidy::metadata::{self, Graph};
use crate::workspace::{self, cargo, check};

/// Files outside of crates that every crate is built from.
const SHARED_FILES: [&str; 3] = ["Cargo.toml", "Cargo.lock", ".cargo/config.toml"];
/// Contract tests of the store that need no server.
const STORE_CONTRACTS: [&str; 2] = ["contract_memory", "contract_embedded"];

pub fn run() -> Result<()> {
    check(&mut cargo(&["fmt", "--all", "--check"]))?;
    tidy::run(tidy::Ratchet::Check)?;
    let graph = metadata::read(&workspace::root())?;
    let affected = affected_members(&graph, &changed_files()?);
    if affected.is_empty() {
        println!("xtask: no crate changed");
        return Ok(());
    }
    let names: Vec<&str> = affected.iter().map(|member| member.name).collect();
    println!("xtask: testing {}", names.join(", "));
    let packages: Vec<&str> = names.iter().flat_map(|name| ["--package", name]).collect();
    let mut unit = cargo(&["test", "--locked"]);
    unit.args(&packages).arg("--bins");
    if affected.iter().any(|member| member.has_library) {
        unit.arg("--lib");
    }
    lints::deny_warnings(&mut unit);
    check(&mut unit)?;
    if names.contains(&"store") {
        let mut contracts = cargo(&["test", "--locked", "--package", "store"]);
        contracts.args(["--test", "backends", "--"]).args(STORE_CONTRACTS);
        lints::deny_warnings(&mut contracts);
        check(&mut contracts)?;
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Member<'a> {
    name: &'a str,
    has_library: bool,
}

/// Returns the members whose files changed, and all members that depend on one of them.
fn affected_members<'a>(graph: &'a Graph, files: &[String]) -> Vec<Member<'a>> {
    let touches_all = files.iter().any(|file| SHARED_FILES.contains(&file.as_str()));
    let is_changed = |manifest: &str| {
        let directory = manifest.strip_suffix("Cargo.toml").unwrap_or(manifest);
        touches_all || files.iter().any(|file| file.starts_with(directory))
    };
    let members: Vec<_> = graph.members().collect();
    let changed = members.iter().filter(|(_, manifest)| is_changed(&manifest.path));
    let mut affected: BTreeSet<&str> = changed.map(|(package, _)| package.name.as_str()).collect();
    loop {
        let uses = |manifest: &metadata::Manifest| {
            manifest.dependencies.iter().any(|it| affected.contains(it.name.as_str()))
        };
        let users = members.iter().filter(|(_, manifest)| uses(manifest));
        let users: Vec<&str> = users.map(|(package, _)| package.name.as_str()).collect();
        let before = affected.len();
        affected.extend(users);
        if affected.len() == before {
            break;
        }
    }
    let found = members.iter().filter(|(package, _)| affected.contains(package.name.as_str()));
    let found = found.map(|(package, manifest)| {
        let library = manifest.path.replace("Cargo.toml", "src/lib.rs");
        let has_library = workspace::root().join(library).is_file();
        Member { name: &package.name, has_library }
    });
    found.collect()
}

/// Paths that differ from the upstream branch, or from the last commit if there is none.
fn changed_files() -> Result<Vec<String>> {
    let upstream = git(&["merge-base", "HEAD", "@{upstream}"]);
    let base = upstream.map_or_else(|_| "HEAD".to_owned(), |base| base.trim().to_owned());
    let mut files: Vec<String> = lines(&git(&["diff", "--name-only", &base])?);
    files.extend(lines(&git(&["ls-files", "--others", "--exclude-standard"])?));
    Ok(files)
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

fn git(words: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    let output = command.args(words).current_dir(workspace::root()).output();
    let output = output.context("could not run git")?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => bail!("git {}: {}", words[0], String::from_utf8_lossy(&output.stderr).trim()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::metadata::Origin;

    fn member(name: &str, path: &str, needs: &[&str]) -> (String, metadata::Package) {
        let dependency = |name: &&str| metadata::Dependency {
            name: (*name).to_owned(),
            usage: metadata::Use::Normal,
            line: 1,
        };
        let dependencies = needs.iter().map(dependency).collect();
        let origin = Origin::Ours(metadata::Manifest { path: path.to_owned(), dependencies });
        let name = name.to_owned();
        (name.clone(), metadata::Package { name, origin, ..metadata::Package::default() })
    }

    #[test]
    fn a_change_affects_its_crate_and_all_that_depend_on_it() {
        let packages = [
            member("store", "crates/store/Cargo.toml", &[]),
            member("apiserver", "crates/apiserver/Cargo.toml", &["store"]),
            member("setpoint", "app/Cargo.toml", &["apiserver"]),
            member("fields", "crates/fields/Cargo.toml", &[]),
        ];
        let graph = Graph { packages: packages.into_iter().collect() };
        let affected = |file: &str| -> Vec<String> {
            let members = affected_members(&graph, &[file.to_owned()]);
            members.iter().map(|member| member.name.to_owned()).collect()
        };
        assert_eq!(affected("crates/store/src/lib.rs"), ["apiserver", "setpoint", "store"]);
        assert_eq!(affected("app/src/main.rs"), ["setpoint"]);
        assert_eq!(affected("README.md"), Vec::<String>::new());
        assert_eq!(affected("Cargo.lock").len(), 4);
    }
}
