//! Packages that must not be in the graph, and packages that a crate of ours must not ask for.
//!
//! `deny.toml` says the same for cargo-deny; the two are compared.

use std::collections::BTreeSet;

use super::Finding;
use super::licences;
use super::metadata::{Graph, Use};

pub const DENY_PATH: &str = "deny.toml";

/// A package that we do not build with.
struct Ban {
    name: &'static str,
    why: &'static str,
    /// The packages that may use it all the same.
    wrappers: &'static [&'static str],
}

const BANS: &[Ban] = &[
    Ban { name: "ring", why: "our cryptography is aws-lc-rs, once", wrappers: &[] },
    Ban { name: "openssl-sys", why: "it needs headers that a machine may lack", wrappers: &[] },
    Ban { name: "native-tls", why: "our TLS is rustls", wrappers: &[] },
    Ban { name: "rsa", why: "its timing leaks keys", wrappers: &[] },
    Ban { name: "serde_yaml", why: "it is not maintained; use serde-saphyr", wrappers: &[] },
    Ban { name: "prost-build", why: "it needs protoc; write the messages down", wrappers: &[] },
    Ban { name: "tonic-build", why: "it needs protoc; write the client down", wrappers: &[] },
    // aws-lc-sys names it, and runs it only where its own build with `cc` cannot work.
    Ban { name: "cmake", why: "a C compiler must be enough", wrappers: &["aws-lc-sys"] },
];

/// Packages that a crate of ours must not ask for, and for which uses.
const NOT_FOR: &[(&str, &str, &[Use])] = &[
    ("store", "kube", &[Use::Normal, Use::Build, Use::Dev]),
    ("store", "k8s-openapi", &[Use::Normal, Use::Build, Use::Dev]),
    ("store", "serde_json", &[Use::Normal, Use::Build, Use::Dev]),
];

pub fn check(graph: &Graph) -> Vec<Finding> {
    let mut findings = check_requests(graph);
    for user in graph.shipped() {
        for used in graph.needs(user) {
            let (user, used) = (&graph.packages[user].name, &graph.packages[used].name);
            let Some(ban) = BANS.iter().find(|ban| ban.name == used) else { continue };
            if !ban.wrappers.contains(&user.as_str()) {
                let what = format!(
                    "`{user}` pulls in `{used}`, which is banned ({}): turn the feature off, or \
                     use another package",
                    ban.why
                );
                findings.push(Finding::new("Cargo.lock", 1, what));
            }
        }
    }
    findings.dedup();
    findings
}

fn check_requests(graph: &Graph) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (package, manifest) in graph.members() {
        for dependency in &manifest.dependencies {
            let is_forbidden = NOT_FOR.iter().any(|(name, other, uses)| {
                *name == package.name
                    && *other == dependency.name
                    && uses.contains(&dependency.usage)
            });
            if is_forbidden {
                let what = format!(
                    "`{}` must not know `{}`: ARCHITECTURE.md, invariants",
                    package.name, dependency.name
                );
                findings.push(Finding::new(&manifest.path, dependency.line, what));
            }
        }
    }
    findings
}

/// Whether `deny.toml` bans and allows what we do.
pub fn check_deny_file(text: &str) -> Vec<Finding> {
    let bans = read_list(text, "bans", "deny");
    let licences = read_list(text, "licenses", "allow");
    let our_bans: BTreeSet<&str> = BANS.iter().map(|ban| ban.name).collect();
    let our_licences: BTreeSet<&str> = licences::ALLOWED.iter().copied().collect();
    let mut findings = compare("bans", &our_bans, &bans);
    findings.extend(compare("allowed licences", &our_licences, &licences));
    findings
}

fn compare(what: &str, ours: &BTreeSet<&str>, theirs: &BTreeSet<&str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in ours.symmetric_difference(theirs) {
        let (here, there) = match ours.contains(name) {
            true => ("xtask/src/tidy", DENY_PATH),
            false => (DENY_PATH, "xtask/src/tidy"),
        };
        let what =
            format!("`{name}` is among the {what} of {here}, not of {there}: make them equal");
        findings.push(Finding::new(DENY_PATH, 1, what));
    }
    findings
}

/// The first strings of the lines of an array that is written one element a line.
fn read_list<'a>(text: &'a str, section: &str, key: &str) -> BTreeSet<&'a str> {
    let header = format!("[{section}]");
    let opening = format!("{key} = [");
    let lines = text.lines().skip_while(|line| line.trim() != header).skip(1);
    let in_section = lines.take_while(|line| !line.starts_with('['));
    let elements = in_section.skip_while(|line| line.trim() != opening).skip(1);
    let elements = elements.take_while(|line| line.trim() != "]");
    elements.filter_map(|line| line.split('"').nth(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::metadata::{Dependency, Manifest, Origin};

    /// Packages `user > used (use)`; a package named `store` is ours.
    fn graph(edges: &[(&str, &str, Use)]) -> Graph {
        let mut graph = Graph::default();
        for (user, used, usage) in edges {
            for name in [user, used] {
                let package = graph.packages.entry((*name).to_owned()).or_default();
                package.name = (*name).to_owned();
            }
            let package = graph.packages.get_mut(*user).unwrap();
            package.resolved.push(((*used).to_owned(), *usage));
            if *user == "store" {
                let dependency = Dependency { name: (*used).to_owned(), usage: *usage, line: 7 };
                let path = "store.toml".to_owned();
                match &mut package.origin {
                    Origin::Ours(manifest) => manifest.dependencies.push(dependency),
                    Origin::Foreign => {
                        let dependencies = vec![dependency];
                        package.origin = Origin::Ours(Manifest { path, dependencies });
                    }
                }
            }
        }
        graph
    }

    fn found(edges: &[(&str, &str, Use)]) -> Vec<String> {
        check(&graph(edges)).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_banned_package_is_found_anywhere_below_us_with_who_pulls_it_in() {
        let edges = [("store", "tls", Use::Normal), ("tls", "ring", Use::Build)];
        let expected = "Cargo.lock:1: `tls` pulls in `ring`, which is banned (our cryptography is \
                        aws-lc-rs, once): turn the feature off, or use another package";
        assert_eq!(found(&edges), [expected]);
    }

    #[test]
    fn bans_leave_alone_what_only_tests_use_and_what_has_a_reason() {
        let edges = [
            ("store", "tls", Use::Normal),
            ("store", "bench", Use::Dev),
            ("bench", "ring", Use::Normal),
            ("tls", "aws-lc-sys", Use::Normal),
            ("aws-lc-sys", "cmake", Use::Build),
        ];
        assert_eq!(found(&edges), [""; 0]);
        let edges = [("store", "zlib", Use::Normal), ("zlib", "cmake", Use::Build)];
        assert_eq!(found(&edges).len(), 1);
    }

    #[test]
    fn the_store_does_not_know_kubernetes_even_in_its_tests() {
        let expected = "store.toml:7: `store` must not know `serde_json`: ARCHITECTURE.md, \
                        invariants";
        assert_eq!(found(&[("store", "serde_json", Use::Dev)]), [expected]);
    }

    #[test]
    fn the_deny_file_says_the_same() {
        let quoted = |names: Vec<&str>| -> String {
            names
                .iter()
                .map(|name| format!("    {{ crate = \"{name}\", reason = \"x\" }},\n"))
                .collect()
        };
        let bans: Vec<&str> = BANS.iter().map(|ban| ban.name).collect();
        let file = |bans: Vec<&str>| {
            let licences = quoted(licences::ALLOWED.to_vec());
            let bans = quoted(bans);
            format!("[licenses]\nallow = [\n{licences}]\n[bans]\nx = 1\ndeny = [\n{bans}]\n")
        };
        assert_eq!(check_deny_file(&file(bans.clone())), []);
        let mut others = bans[1..].to_vec();
        others.push("left-pad");
        let found = check_deny_file(&file(others));
        let found: Vec<&str> = found.iter().map(|finding| finding.what.as_str()).collect();
        let expected = [
            "`left-pad` is among the bans of deny.toml, not of xtask/src/tidy: make them equal",
            "`ring` is among the bans of xtask/src/tidy, not of deny.toml: make them equal",
        ];
        assert_eq!(found, expected);
    }
}
