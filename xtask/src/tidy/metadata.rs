//! The packages of the workspace and all they depend on, as cargo resolves them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::workspace;

/// The machines that we build for: what others would pull in does not concern us.
const PLATFORMS: &[&str] = &["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

/// Everything that cargo would build, by package id.
#[derive(Debug, Default)]
pub struct Graph {
    pub packages: BTreeMap<String, Package>,
}

#[derive(Debug, Default)]
pub struct Package {
    pub name: String,
    pub version: String,
    pub licence: Option<String>,
    pub origin: Origin,
    /// What the resolver chose: the ids, and how each is used.
    pub resolved: Vec<(String, Use)>,
    /// Has a build script or is a procedural macro, so that its code runs while we build.
    pub has_build_code: bool,
}

#[derive(Debug, Default)]
pub enum Origin {
    Ours(Manifest),
    #[default]
    Foreign,
}

/// What a Cargo.toml of ours says.
#[derive(Debug, Default)]
pub struct Manifest {
    /// From the workspace's root.
    pub path: String,
    pub dependencies: Vec<Dependency>,
}

#[derive(Debug)]
pub struct Dependency {
    pub name: String,
    pub usage: Use,
    /// Where the manifest says it, from 1.
    pub line: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Normal,
    Build,
    Dev,
}

impl Graph {
    /// Our packages.
    pub fn members(&self) -> impl Iterator<Item = (&Package, &Manifest)> {
        self.packages.values().filter_map(|package| match &package.origin {
            Origin::Ours(manifest) => Some((package, manifest)),
            Origin::Foreign => None,
        })
    }

    /// The ids that a package needs, other than for its tests.
    pub fn needs<'a>(&'a self, id: &str) -> impl Iterator<Item = &'a str> {
        let resolved = self.packages.get(id).map(|package| package.resolved.as_slice());
        let shipped = resolved.unwrap_or_default().iter().filter(|(_, usage)| *usage != Use::Dev);
        shipped.map(|(id, _)| id.as_str())
    }

    /// Everything that is built when no test is, in a deterministic order.
    pub fn shipped(&self) -> BTreeSet<&str> {
        let ours = self.packages.iter().filter(|(_, p)| matches!(p.origin, Origin::Ours(_)));
        let mut pending: Vec<&str> = ours.map(|(id, _)| id.as_str()).collect();
        let mut shipped = BTreeSet::new();
        while let Some(id) = pending.pop() {
            if shipped.insert(id) {
                pending.extend(self.needs(id));
            }
        }
        shipped
    }
}

pub fn read(root: &Path) -> Result<Graph> {
    // Off the network first: the packages are usually here, and then it takes no time.
    let json = run_cargo(&["--offline"]).or_else(|_| run_cargo(&[]))?;
    parse(&json, |path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let relative = Path::new(path).strip_prefix(root).unwrap_or(Path::new(path));
        (relative.to_string_lossy().into_owned(), text)
    })
}

fn run_cargo(extra: &[&str]) -> Result<String> {
    let mut command = workspace::cargo(&["metadata", "--format-version", "1", "--locked"]);
    command.args(PLATFORMS.iter().flat_map(|name| ["--filter-platform", name])).args(extra);
    let line = workspace::line_of(&command);
    let output = command.output().with_context(|| format!("could not run `{line}`"))?;
    match output.status.success() {
        true => String::from_utf8(output.stdout).context("cargo's metadata is not UTF-8"),
        false => bail!("`{line}` failed: {}", String::from_utf8_lossy(&output.stderr).trim()),
    }
}

/// `manifest` gives the path that we show for a manifest's path, and its text.
fn parse(json: &str, manifest: impl Fn(&str) -> (String, String)) -> Result<Graph> {
    let json: Value = serde_json::from_str(json).context("cargo's metadata is not JSON")?;
    let ours: BTreeSet<&str> = list(&json["workspace_members"]).filter_map(Value::as_str).collect();
    let mut graph = Graph::default();
    for value in list(&json["packages"]) {
        let id = string(&value["id"]);
        let origin = match ours.contains(id.as_str()) {
            true => Origin::Ours(parse_manifest(value, &manifest)),
            false => Origin::Foreign,
        };
        let package = Package {
            name: string(&value["name"]),
            version: string(&value["version"]),
            licence: value["license"].as_str().map(str::to_owned),
            origin,
            resolved: Vec::new(),
            has_build_code: has_build_code(value),
        };
        graph.packages.insert(id, package);
    }
    let by_id = list(&json["packages"]).map(|package| (string(&package["id"]), package));
    let by_id: BTreeMap<String, &Value> = by_id.collect();
    let lookup = |id: &Value| {
        let package = by_id.get(id.as_str().unwrap_or_default()).copied();
        package.context("cargo's metadata resolves a package that it does not list")
    };
    for node in list(&json["resolve"]["nodes"]) {
        let user = lookup(&node["id"])?;
        let mut resolved = Vec::new();
        for dependency in list(&node["deps"]) {
            let name = &lookup(&dependency["pkg"])?["name"];
            for kind in list(&dependency["dep_kinds"]) {
                let kind = &kind["kind"];
                if is_active(user, &node["features"], |d| d["name"] == *name && d["kind"] == *kind)
                {
                    resolved.push((string(&dependency["pkg"]), parse_use(kind)));
                }
            }
        }
        if let Some(package) = graph.packages.get_mut(&string(&node["id"])) {
            package.resolved = resolved;
        }
    }
    Ok(graph)
}

fn has_build_code(package: &Value) -> bool {
    let kinds = list(&package["targets"]).flat_map(|target| list(&target["kind"]));
    kinds.filter_map(Value::as_str).any(|kind| kind == "custom-build" || kind == "proc-macro")
}

/// Whether a package builds with a dependency of its own.
///
/// Cargo also resolves what it does not build: an optional dependency that a feature mentions
/// only weakly (`name?/feature`) is in the lock file and in the metadata (rust-lang/cargo#10801).
fn is_active(package: &Value, features: &Value, is_it: impl Fn(&Value) -> bool) -> bool {
    let mut declared = list(&package["dependencies"]).filter(|dependency| is_it(dependency));
    declared.any(|dependency| {
        let key = dependency["rename"].as_str().or(dependency["name"].as_str()).unwrap_or_default();
        let turns_on = |value: &Value| {
            let value = value.as_str().unwrap_or_default();
            let value = value.strip_prefix("dep:").unwrap_or(value);
            // `name/feature` turns the dependency on; `name?/feature` does not.
            value.split_once('/').map_or(value, |(name, _)| name) == key
        };
        let by_feature = |feature: &Value| {
            let feature = feature.as_str().unwrap_or_default();
            feature == key || list(&package["features"][feature]).any(turns_on)
        };
        dependency["optional"] != true || list(features).any(by_feature)
    })
}

fn parse_manifest(value: &Value, manifest: impl Fn(&str) -> (String, String)) -> Manifest {
    let (path, text) = manifest(value["manifest_path"].as_str().unwrap_or_default());
    let dependencies = list(&value["dependencies"]).map(|dependency| {
        let name = string(&dependency["name"]);
        let usage = parse_use(&dependency["kind"]);
        Dependency { line: find_dependency(&text, &name, usage), name, usage }
    });
    Manifest { path, dependencies: dependencies.collect() }
}

/// The line of a manifest that names a dependency; 1 when none does plainly.
fn find_dependency(manifest: &str, name: &str, usage: Use) -> usize {
    let wanted = match usage {
        Use::Normal => "dependencies",
        Use::Build => "build-dependencies",
        Use::Dev => "dev-dependencies",
    };
    let mut section = "";
    for (index, line) in manifest.lines().enumerate() {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end().trim_end_matches(']');
        }
        let key = line.split(['.', '=', ' ']).next().unwrap_or_default();
        // Dependencies of one platform are under `target.'cfg(..)'.dependencies`.
        let is_here = section == wanted || section.ends_with(&format!(".{wanted}"));
        if is_here && key == name {
            return index + 1;
        }
    }
    1
}

fn parse_use(value: &Value) -> Use {
    match value.as_str() {
        Some("dev") => Use::Dev,
        Some("build") => Use::Build,
        _ => Use::Normal,
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{
        "workspace_members": ["ours"],
        "packages": [
            {"id": "ours", "name": "store", "version": "0.1.0", "license": "Apache-2.0",
             "manifest_path": "crates/store/Cargo.toml",
             "dependencies": [{"name": "bytes", "kind": null}, {"name": "rand", "kind": "dev"}]},
            {"id": "b", "name": "bytes", "version": "1.0.0", "license": null,
             "features": {"std": ["serde?/std"], "more": ["dep:more"], "most": ["m/std"]},
             "dependencies": [{"name": "serde", "kind": null, "optional": true},
                              {"name": "most", "rename": "m", "kind": null, "optional": true},
                              {"name": "more", "kind": null, "optional": true}]},
            {"id": "s", "name": "serde", "targets": [{"kind": ["lib"]}, {"kind": ["custom-build"]}]}, {"id": "m", "name": "more"}, {"id": "x", "name": "most"},
            {"id": "r", "name": "rand", "version": "1.0.0", "license": "MIT"}
        ],
        "resolve": {"nodes": [
            {"id": "ours", "deps": [
                {"pkg": "b", "dep_kinds": [{"kind": null}]},
                {"pkg": "r", "dep_kinds": [{"kind": "dev"}]}
            ]},
            {"id": "b", "features": ["std", "more", "most"], "deps": [
                {"pkg": "s", "dep_kinds": [{"kind": null}]},
                {"pkg": "x", "dep_kinds": [{"kind": null}]},
                {"pkg": "m", "dep_kinds": [{"kind": null}]}
            ]},
            {"id": "r", "deps": []}
        ]}
    }"#;

    const TOML: &str = "[package]\nbytes = 1\n[dependencies]\nbytes.workspace = true\n\
        [dev-dependencies]\nrand = \"1\"\n";

    #[test]
    fn the_graph_knows_what_is_ours_and_what_is_only_for_tests() {
        let graph = parse(JSON, |path| (path.to_owned(), TOML.to_owned())).unwrap();
        let (store, manifest) = graph.members().next().unwrap();
        assert_eq!(store.name, "store");
        let dependencies = manifest.dependencies.iter().map(|d| (d.name.as_str(), d.usage, d.line));
        let expected = [("bytes", Use::Normal, 4), ("rand", Use::Dev, 6)];
        assert_eq!(dependencies.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_ships_is_neither_for_tests_only_nor_mentioned_only_weakly() {
        let graph = parse(JSON, |path| (path.to_owned(), TOML.to_owned())).unwrap();
        assert_eq!(graph.shipped().into_iter().collect::<Vec<_>>(), ["b", "m", "ours", "x"]);
    }

    #[test]
    fn build_scripts_are_code_that_runs_while_we_build() {
        let graph = parse(JSON, |path| (path.to_owned(), TOML.to_owned())).unwrap();
        let has = graph.packages.iter().filter(|(_, package)| package.has_build_code);
        assert_eq!(has.map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["s"]);
    }
}
