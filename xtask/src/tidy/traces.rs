//! Traces of one developer's machine: hosts of package registries and paths of home directories.
//!
//! The project builds from whatever registry a machine is set up for, wherever it is cloned.

use super::Finding;
use super::files::TextFile;

/// Hosts, in two parts so that this file does not name one.
const HOSTS: &[(&str, &str)] = &[
    ("index", "crates.io"),
    ("static", "crates.io"),
    ("registry", "npmjs.org"),
    ("registry", "yarnpkg.com"),
    ("files", "pythonhosted.org"),
    ("deb", "debian.org"),
    ("security", "debian.org"),
    ("proxy", "golang.org"),
];

/// Directories at the root of a machine that belong to a person.
const DIRECTORIES: &[&str] = &["root", "work", "home"];

/// Paths inside containers that other projects' interfaces fix: directory, then what follows.
const PATHS_IN_CONTAINERS: &[(&str, &str)] =
    &[("root", ".ssh"), ("root", ".cache"), ("home", "mpiuser"), ("home", "nonroot")];

/// The only source of packages that the lock file may name.
const LOCK_SOURCE: (&str, &str) = ("registry+https://github.com/rust-lang/", "crates.io-index");

pub fn check(file: &TextFile) -> Vec<Finding> {
    let is_lock = file.path == "Cargo.lock" || file.path.ends_with("/Cargo.lock");
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let mut found = |what: String| {
            findings.push(Finding::new(&file.path, index + 1, what));
        };
        for (name, domain) in HOSTS {
            let host = format!("{name}.{domain}");
            if line.contains(&host) {
                found(format!("`{host}` is the host of a registry: leave it to the machine"));
            }
        }
        for directory in DIRECTORIES.iter().filter(|directory| has_path(line, directory)) {
            found(format!(
                "a path under `/{directory}` is of one machine: make it relative, or, if it is \
                 inside a container, add it to PATHS_IN_CONTAINERS in xtask/src/tidy/traces.rs"
            ));
        }
        if is_lock && is_foreign_source(line) {
            found("this package is from another source: use the default registry".to_owned());
        }
    }
    findings
}

/// Whether an absolute path into a directory stands in the line.
fn has_path(line: &str, directory: &str) -> bool {
    let start = format!("/{directory}/");
    line.match_indices(&start).any(|(at, _)| {
        let rest = &line[at + start.len()..];
        // After a word it is the middle of a path or of an address.
        let continues = |c: char| c.is_alphanumeric() || "._-~*}])$/".contains(c);
        let mut allowed = PATHS_IN_CONTAINERS.iter().filter(|(first, _)| *first == directory);
        let is_allowed = allowed.any(|(_, path)| rest.starts_with(path));
        !line[..at].ends_with(continues) && !is_allowed
    })
}

fn is_foreign_source(line: &str) -> bool {
    let expected = format!("{}{}", LOCK_SOURCE.0, LOCK_SOURCE.1);
    line.strip_prefix("source = ").is_some_and(|source| source.trim_matches('"') != expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let file = TextFile { path: path.to_owned(), text: text.to_owned() };
        check(&file).iter().map(|f| f.line).collect()
    }

    #[test]
    fn paths_of_a_machine_are_found_and_parts_of_paths_are_not() {
        for directory in DIRECTORIES {
            let text = format!("a\ncd /{directory}/x\n\"/{directory}/\"\n");
            assert_eq!(lines("a.md", &text), [2, 3], "{directory}");
            let text = format!("a/{directory}/x\nhttp://a.b/{directory}/x\n/{directory}\n");
            assert_eq!(lines("a.md", &text), [0; 0], "{directory}");
        }
        let (directory, path) = PATHS_IN_CONTAINERS[0];
        assert_eq!(lines("a.rs", &format!("mount(\"/{directory}/{path}\")")), [0; 0]);
    }

    #[test]
    fn hosts_of_registries_are_found() {
        for (name, domain) in HOSTS {
            assert_eq!(lines("a.json", &format!("x\n\"https://{name}.{domain}/a\"")), [2]);
        }
    }

    #[test]
    fn the_lock_file_names_only_the_default_registry() {
        let text = format!("source = \"{}{}\"\n", LOCK_SOURCE.0, LOCK_SOURCE.1);
        assert_eq!(lines("Cargo.lock", &text), [0; 0]);
        let mirror = format!("{text}source = \"sparse+https://mirror.example/\"\n");
        assert_eq!(lines("Cargo.lock", &mirror), [2]);
        assert_eq!(lines("a.toml", &mirror), [0; 0]);
    }
}
