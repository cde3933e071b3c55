//! Record of the packages whose code runs while Setpoint is built: build scripts and procedural
//! macros. A version that nobody read may not be built.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::metadata::{Graph, Origin};

/// One line a package: name, version, and what its build-time code does.
pub const RECORD_PATH: &str = "supply-chain/audits.txt";

pub fn check(graph: &Graph, record: &str) -> Vec<Finding> {
    let mut audited: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut findings = Vec::new();
    for (index, line) in record.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            [name, version, _, ..] => {
                audited.insert((name, version), index + 1);
            }
            _ => {
                let what = "expected: name, version, and what the code does while we build";
                findings.push(Finding::new(RECORD_PATH, index + 1, what));
            }
        }
    }
    let built = built_packages(graph);
    for (name, version) in built.iter().filter(|key| !audited.contains_key(*key)) {
        let what = format!(
            "`{name} {version}` runs code while we build: read its build script or macro for \
             network access, programs it starts and files it writes, and add a line"
        );
        findings.push(Finding::new(RECORD_PATH, 1, what));
    }
    for ((name, version), line) in audited.iter().filter(|(key, _)| !built.contains(*key)) {
        let what = format!("`{name} {version}` is not built: remove the line");
        findings.push(Finding::new(RECORD_PATH, *line, what));
    }
    findings
}

/// Returns the foreign packages with build-time code, by name and version.
fn built_packages(graph: &Graph) -> BTreeSet<(&str, &str)> {
    let built = graph.shipped().into_iter().filter_map(|id| graph.packages.get(id));
    let foreign = built.filter(|package| matches!(package.origin, Origin::Foreign));
    let running = foreign.filter(|package| package.has_build_code);
    running.map(|package| (package.name.as_str(), package.version.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::metadata::{Manifest, Package, Use};

    fn graph() -> Graph {
        let foreign = |name: &str, has_build_code: bool| {
            let version = "1.0.0".to_owned();
            let package =
                Package { name: name.to_owned(), version, has_build_code, ..Package::default() };
            (name.to_owned(), package)
        };
        let ours = Package {
            name: "ours".to_owned(),
            origin: Origin::Ours(Manifest::default()),
            resolved: ["macros", "plain"].map(|id| (id.to_owned(), Use::Normal)).to_vec(),
            has_build_code: true,
            ..Package::default()
        };
        let packages = [foreign("macros", true), foreign("plain", false), foreign("unused", true)];
        let ours = [("ours".to_owned(), ours)];
        Graph { packages: packages.into_iter().chain(ours).collect() }
    }

    #[test]
    fn every_package_with_build_time_code_must_have_been_read() {
        let found = |record: &str| check(&graph(), record).len();
        assert_eq!(found("# Title\n\nmacros 1.0.0 derives code from tokens\n"), 0);
        assert_eq!(found(""), 1);
        assert_eq!(found("macros 0.9.0 derives code from tokens"), 2);
        assert_eq!(found("macros 1.0.0 derives code\nunused 1.0.0 probes rustc"), 1);
        assert_eq!(found("macros 1.0.0"), 2);
    }
}
