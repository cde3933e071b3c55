//! Which of our crates may depend on which. The table mirrors the one in ARCHITECTURE.md: a new
//! edge is a change of design and is made there first.

use super::Finding;
use super::metadata::{Dependency, Graph, Use};

/// What a crate may depend on, among ours.
#[derive(Debug, Clone, Copy)]
enum Allowed {
    Only(&'static [&'static str]),
    /// For what ships nothing.
    Everything,
}

const CRATES: &[(&str, Allowed)] = &[
    ("store", Allowed::Only(&[])),
    ("amounts", Allowed::Only(&[])),
    ("api", Allowed::Only(&[])),
    ("expressions", Allowed::Only(&[])),
    ("fields", Allowed::Only(&[])),
    ("link", Allowed::Only(&[])),
    ("schema", Allowed::Only(&["expressions"])),
    ("apiserver", Allowed::Only(&["store", "amounts", "expressions", "fields", "schema", "link"])),
    ("reconcile", Allowed::Only(&[])),
    ("controllers", Allowed::Only(&["reconcile", "amounts"])),
    ("scheduler", Allowed::Only(&["reconcile", "amounts"])),
    ("hypervisor", Allowed::Only(&["link"])),
    ("node", Allowed::Only(&["reconcile", "amounts", "hypervisor", "link"])),
    ("training", Allowed::Only(&["reconcile", "api", "amounts"])),
    ("inference", Allowed::Only(&["reconcile", "api", "amounts"])),
    ("machines", Allowed::Only(&["reconcile", "api", "amounts"])),
    ("testkit", Allowed::Only(&["apiserver", "store", "reconcile"])),
    ("servers", Allowed::Only(&[])),
    (
        "setpoint",
        Allowed::Only(&[
            "store",
            "api",
            "apiserver",
            "reconcile",
            "controllers",
            "scheduler",
            "node",
            "hypervisor",
            "training",
            "inference",
            "machines",
            "link",
        ]),
    ),
    ("bench", Allowed::Everything),
    ("xtask", Allowed::Only(&["servers"])),
];

/// What the tests of any crate may use beside what the crate may.
const FOR_TESTS: &[&str] = &["servers", "testkit"];

/// What the tests of one crate may use besides: an operator is tried together with the controllers
/// that make something of its objects.
const ALSO_FOR_TESTS: &[(&str, &str)] = &[
    ("training", "controllers"),
    ("inference", "controllers"),
    ("machines", "controllers"),
    // What stands in for the add-ons is two halves.
    ("machines", "node"),
    ("machines", "hypervisor"),
];

pub fn check(graph: &Graph) -> Vec<Finding> {
    let members: Vec<&str> = graph.members().map(|(package, _)| package.name.as_str()).collect();
    let mut findings = Vec::new();
    for (package, manifest) in graph.members() {
        let name = &package.name;
        let Some((_, allowed)) = CRATES.iter().find(|(known, _)| known == name) else {
            let what = format!(
                "`{name}` is not in the table of crates: add it to ARCHITECTURE.md and to \
                 xtask/src/tidy/edges.rs"
            );
            findings.push(Finding::new(&manifest.path, 1, what));
            continue;
        };
        for dependency in &manifest.dependencies {
            let is_ours = members.contains(&dependency.name.as_str());
            if is_ours && !may_depend(name, *allowed, dependency) {
                let what = format!(
                    "`{name}` may not depend on `{}`: ARCHITECTURE.md says which crate may see \
                     which",
                    dependency.name
                );
                findings.push(Finding::new(&manifest.path, dependency.line, what));
            }
        }
    }
    findings
}

fn may_depend(name: &str, allowed: Allowed, dependency: &Dependency) -> bool {
    let other = dependency.name.as_str();
    // A crate's tests may ask for the crate itself, with features for tests.
    let is_known = FOR_TESTS.contains(&other) || ALSO_FOR_TESTS.contains(&(name, other));
    let for_tests = dependency.usage == Use::Dev && (other == name || is_known);
    let by_table = match allowed {
        Allowed::Only(names) => names.contains(&other),
        Allowed::Everything => true,
    };
    for_tests || by_table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::metadata::{Manifest, Origin, Package};

    type Edge<'a> = (&'a str, Use);

    fn found(members: &[(&str, &[Edge])]) -> Vec<String> {
        let mut graph = Graph::default();
        for (name, edges) in members {
            let dependencies = edges.iter().enumerate().map(|(index, (name, usage))| Dependency {
                name: (*name).to_owned(),
                usage: *usage,
                line: index + 1,
            });
            let origin = Origin::Ours(Manifest {
                path: format!("{name}.toml"),
                dependencies: dependencies.collect(),
            });
            let package = Package { name: (*name).to_owned(), origin, ..Package::default() };
            graph.packages.insert((*name).to_owned(), package);
        }
        check(&graph).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn edges_of_the_table_are_silent() {
        let members: &[(&str, &[Edge])] = &[
            ("store", &[("servers", Use::Dev), ("store", Use::Dev), ("bytes", Use::Normal)]),
            ("servers", &[("libc", Use::Normal)]),
            ("apiserver", &[("store", Use::Normal)]),
            ("bench", &[("store", Use::Normal), ("servers", Use::Normal)]),
        ];
        assert_eq!(found(members), [""; 0]);
    }

    #[test]
    fn an_edge_outside_the_table_is_found_where_it_is_written() {
        let members: &[(&str, &[Edge])] = &[
            ("api", &[]),
            ("apiserver", &[("store", Use::Normal), ("api", Use::Dev)]),
            ("store", &[("servers", Use::Normal)]),
            ("servers", &[]),
        ];
        let rule = "ARCHITECTURE.md says which crate may see which";
        let expected = [
            format!("apiserver.toml:2: `apiserver` may not depend on `api`: {rule}"),
            format!("store.toml:1: `store` may not depend on `servers`: {rule}"),
        ];
        assert_eq!(found(members), expected);
    }

    #[test]
    fn an_unknown_crate_is_told_where_to_be_added() {
        let expected = "shop.toml:1: `shop` is not in the table of crates: add it to \
                        ARCHITECTURE.md and to xtask/src/tidy/edges.rs";
        assert_eq!(found(&[("shop", &[])]), [expected]);
    }
}
