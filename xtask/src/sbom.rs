//! `cargo xtask sbom`: everything that is linked into the program, as CycloneDX has it, from
//! cargo's own metadata and lock file. The same sources give the same bytes: no time is in it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::tidy::metadata::{self, Graph, Origin, Package};
use crate::workspace;

/// The program whose parts are listed.
const PROGRAM: &str = "setpoint";

/// Prints the list, or writes it to a file.
pub fn run(file: Option<&Path>) -> Result<()> {
    let root = workspace::root();
    let lock = fs::read_to_string(root.join("Cargo.lock")).context("could not read Cargo.lock")?;
    let graph = metadata::read(&root)?;
    let text = serde_json::to_string_pretty(&document(&graph, &lock)?)? + "\n";
    match file {
        Some(file) => {
            fs::write(file, text).with_context(|| format!("could not write {}", file.display()))
        }
        None => {
            print!("{text}");
            Ok(())
        }
    }
}

fn document(graph: &Graph, lock: &str) -> Result<Value> {
    let is_program =
        |package: &Package| package.name == PROGRAM && matches!(package.origin, Origin::Ours(_));
    let program = graph.packages.iter().find(|(_, package)| is_program(package));
    let (id, program) = program.context("the program is not in the metadata")?;
    let linked = linked(graph, id);
    let others = linked.iter().filter(|other| *other != id);
    let components: Vec<Value> = others
        .filter_map(|id| graph.packages.get(*id))
        .map(|package| component(package, "library", lock))
        .collect();
    let dependencies: Vec<Value> = linked
        .iter()
        .filter_map(|id| Some((graph.packages.get(*id)?, graph.needs(id))))
        .map(|(package, needs)| {
            let needs = needs.filter_map(|id| graph.packages.get(id)).map(reference);
            let needs: BTreeSet<String> = needs.collect();
            json!({"ref": reference(package), "dependsOn": needs})
        })
        .collect();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(program, "application", lock)},
        "components": components,
        "dependencies": dependencies,
    }))
}

/// A package and all that it needs, other than for its tests.
fn linked<'a>(graph: &'a Graph, id: &'a str) -> BTreeSet<&'a str> {
    let mut pending = vec![id];
    let mut linked = BTreeSet::new();
    while let Some(id) = pending.pop() {
        if linked.insert(id) {
            pending.extend(graph.needs(id));
        }
    }
    linked
}

fn reference(package: &Package) -> String {
    match package.origin {
        Origin::Ours(_) => format!("{}@{}", package.name, package.version),
        Origin::Foreign => format!("pkg:cargo/{}@{}", package.name, package.version),
    }
}

fn component(package: &Package, kind: &str, lock: &str) -> Value {
    let mut value = json!({"type": kind, "name": package.name, "version": package.version,
        "bom-ref": reference(package)});
    if let Some(licence) = &package.licence {
        value["licenses"] = json!([{"expression": licence.replace('/', " OR ")}]);
    }
    if matches!(package.origin, Origin::Foreign) {
        value["purl"] = json!(reference(package));
        if let Some(checksum) = checksum(package, lock) {
            value["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
        }
    }
    value
}

/// What the lock file says a package must hash to.
fn checksum<'a>(package: &Package, lock: &'a str) -> Option<&'a str> {
    let head = format!("name = \"{}\"\nversion = \"{}\"\n", package.name, package.version);
    let (_, rest) = lock.split_once(&head)?;
    let own = rest.split("[[package]]").next()?;
    let (_, line) = own.split_once("checksum = \"")?;
    line.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_named_with_its_licence_and_what_it_hashes_to() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"r\"\n\
                    checksum = \"abc\"\n\n[[package]]\nname = \"b\"\nversion = \"1.0.0\"\n";
        let package = |name: &str| Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            licence: Some("MIT/Apache-2.0".to_owned()),
            ..Package::default()
        };
        let a = component(&package("a"), "library", lock);
        assert_eq!(a["purl"], "pkg:cargo/a@1.0.0");
        assert_eq!(a["hashes"][0]["content"], "abc");
        assert_eq!(a["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(component(&package("b"), "library", lock)["hashes"], Value::Null);
    }

    #[test]
    fn what_is_linked_is_listed_once_and_always_the_same() {
        let root = workspace::root();
        let lock = fs::read_to_string(root.join("Cargo.lock")).unwrap();
        let graph = metadata::read(&root).unwrap();
        let first = document(&graph, &lock).unwrap();
        assert_eq!(first, document(&graph, &lock).unwrap());
        let components = first["components"].as_array().unwrap();
        let names: Vec<&str> = components.iter().filter_map(|one| one["name"].as_str()).collect();
        assert!(names.contains(&"tokio") && names.contains(&"store"), "{names:?}");
        assert!(!names.contains(&"servers") && !names.contains(&"proptest"), "{names:?}");
        let references: BTreeSet<&str> =
            components.iter().filter_map(|one| one["bom-ref"].as_str()).collect();
        assert_eq!(references.len(), components.len());
        let foreign = components.iter().filter(|one| one["purl"].is_string());
        assert!(foreign.into_iter().all(|one| one["hashes"].is_array()));
    }
}
