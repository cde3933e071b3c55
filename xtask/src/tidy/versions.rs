//! Packages that are built in more than one version: each costs time to build and bytes to ship, so
//! each has a reason here, and one that is gone leaves the list.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::metadata::Graph;

/// What may be there twice, and who keeps the older version.
const DUPLICATES: &[(&str, &str)] = &[
    (
        "base64",
        "kube-client, pem and serde-saphyr have 0.23; k8s-openapi, mysql_common and tonic 0.22",
    ),
    ("block-buffer", "comes with the two versions of digest"),
    ("cpufeatures", "comes with the two versions of sha1"),
    ("crypto-common", "comes with the two versions of digest"),
    ("digest", "comes with the two versions of sha1"),
    ("getrandom", "mysql_common and ahash have 0.3; rand has 0.4"),
    ("hashbrown", "kube-runtime has 0.16; indexmap and lru have 0.17"),
    ("rand", "opentelemetry_sdk has 0.9; mysql_async and tungstenite have 0.10"),
    ("rand_core", "comes with the two versions of rand"),
    ("sha1", "mysql_common has 0.10; tungstenite has 0.11"),
    (
        "syn",
        "macros that have not moved on: prost-derive, tracing-attributes and others; not linked",
    ),
];

pub fn check(graph: &Graph) -> Vec<Finding> {
    compare(&duplicates(graph), DUPLICATES)
}

/// Names of what is built in several versions, with these.
fn duplicates(graph: &Graph) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for id in graph.shipped() {
        let package = &graph.packages[id];
        versions.entry(&package.name).or_default().insert(&package.version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    versions
}

fn compare(found: &BTreeMap<&str, BTreeSet<&str>>, known: &[(&str, &str)]) -> Vec<Finding> {
    let finding = |what: String| Finding::new("Cargo.lock", 1, what);
    let mut findings = Vec::new();
    for (name, versions) in found {
        if !known.iter().any(|(known, _)| known == name) {
            let versions: Vec<&str> = versions.iter().copied().collect();
            findings.push(finding(format!(
                "`{name}` is built in the versions {}: bring its users to one, or give the reason \
                 in xtask/src/tidy/versions.rs",
                versions.join(" and ")
            )));
        }
    }
    for (name, _) in known.iter().filter(|(name, _)| !found.contains_key(name)) {
        let what = format!("`{name}` is built once: take it out of xtask/src/tidy/versions.rs");
        findings.push(finding(what));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::metadata::{Manifest, Origin, Package, Use};

    fn graph(packages: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::default();
        let id = |name: &str, version: &str| format!("{name} {version}");
        for (name, version) in packages {
            let (name, version) = ((*name).to_owned(), (*version).to_owned());
            let key = id(&name, &version);
            graph.packages.insert(key, Package { name, version, ..Package::default() });
        }
        let resolved = packages.iter().map(|(name, version)| (id(name, version), Use::Normal));
        let origin = Origin::Ours(Manifest::default());
        let ours = Package { origin, resolved: resolved.collect(), ..Package::default() };
        graph.packages.insert("ours".to_owned(), ours);
        graph
    }

    fn found(packages: &[(&str, &str)], known: &[(&str, &str)]) -> Vec<String> {
        let graph = graph(packages);
        compare(&duplicates(&graph), known).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn what_is_built_twice_needs_a_reason_and_a_reason_needs_what_it_is_for() {
        let twice = [("a", "1.0.0"), ("a", "2.0.0"), ("b", "1.0.0")];
        assert_eq!(found(&twice, &[("a", "because")]), [""; 0]);
        let said = found(&twice, &[]).join("\n");
        assert!(said.starts_with("`a` is built in the versions 1.0.0 and 2.0.0"), "{said}");
        let said = found(&twice, &[("a", "because"), ("b", "because")]).join("\n");
        assert_eq!(said, "`b` is built once: take it out of xtask/src/tidy/versions.rs");
    }
}
