//! Runs kubectl as the administrator of a cluster.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::cluster::Cluster;

impl Cluster {
    /// kubectl as the administrator, with a home of its own.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.kubectl);
        command
            .env("KUBECONFIG", self.kubeconfig())
            .env("HOME", &self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs kubectl, with a manifest on its standard input.
    pub async fn run(&self, arguments: &[&str], input: &str) -> Output {
        let mut command = self.command();
        command.args(arguments);
        let input = input.to_owned();
        let run = move || {
            use std::io::Write;
            let mut child = command.spawn().expect("kubectl is installed");
            // A kubectl that has already failed does not read.
            let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
            child.wait_with_output().unwrap()
        };
        tokio::task::spawn_blocking(run).await.unwrap()
    }

    /// Runs kubectl, which must succeed, and answers what it printed.
    pub async fn kubectl(&self, line: &str) -> String {
        self.kubectl_with(line, "").await
    }

    pub async fn kubectl_with(&self, line: &str, input: &str) -> String {
        let output = self.run(&words(line), input).await;
        let errors = String::from_utf8_lossy(&output.stderr);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "kubectl {line}\n{text}{errors}");
        text.into_owned()
    }

    /// Runs kubectl, which must fail, and answers what it complained of.
    pub async fn refused(&self, line: &str, input: &str) -> String {
        let output = self.run(&words(line), input).await;
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success(), "kubectl {line} went through\n{text}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Runs kubectl, which must print exactly this.
    pub async fn prints(&self, line: &str, expected: &str) {
        assert_eq!(self.kubectl(line).await, expected, "kubectl {line}");
    }

    /// Runs kubectl, which must print all of these, whatever the width of its columns.
    pub async fn shows(&self, line: &str, expected: &[&str]) {
        let text = narrow(&self.kubectl(line).await);
        for part in expected {
            assert!(text.contains(part), "kubectl {line}: no `{part}` in\n{text}");
        }
    }

    /// One cluster for the machine's kubectl; in the long form one for each that is found.
    pub async fn for_each_kubectl() -> Vec<Cluster> {
        Cluster::for_each_kubectl_since(MINOR_MIN).await
    }

    /// The same without those that are older than a minor version.
    pub async fn for_each_kubectl_since(oldest: u32) -> Vec<Cluster> {
        let mut clusters = Vec::new();
        if std::env::var_os("SETPOINT_TEST_FULL").is_none() {
            clusters.push(Cluster::start().await);
            return clusters;
        }
        for (_, kubectl) in installed().into_iter().filter(|(minor, _)| *minor >= oldest) {
            let mut cluster = Cluster::start().await;
            cluster.kubectl = kubectl;
            clusters.push(cluster);
        }
        clusters
    }
}

/// With one space where there are several.
pub fn narrow(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        words.join(" ") + "\n"
    });
    lines.collect()
}

/// The words of a command line; what stands between apostrophes is one word.
pub fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for (index, part) in line.split('\'').enumerate() {
        match index % 2 {
            0 => words.extend(part.split_whitespace()),
            _ => words.push(part),
        }
    }
    words
}

/// The oldest minor version that the tests are written for.
const MINOR_MIN: u32 = 27;

/// Every kubectl of the machine by its minor version: those on the search path, and those of other
/// versions that are kept beside them.
pub fn installed() -> Vec<(u32, PathBuf)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for directory in std::env::split_paths(&path) {
        let Ok(first) = directory.join("kubectl").canonicalize() else { continue };
        for program in siblings(&first) {
            match minor_version(&program) {
                Some(minor) if minor >= MINOR_MIN => found.push((minor, program)),
                _ => {}
            }
        }
    }
    found.sort();
    found.dedup_by_key(|(minor, _)| *minor);
    assert!(!found.is_empty(), "no kubectl of version 1.{MINOR_MIN} or later is installed");
    found
}

/// A kubectl, and those named like `kubectl.1.30` in its directory.
fn siblings(kubectl: &Path) -> Vec<PathBuf> {
    let others = std::fs::read_dir(kubectl.parent().unwrap()).unwrap();
    let others = others.map(|entry| entry.unwrap().path()).filter(|path| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.starts_with("kubectl.1.")
    });
    std::iter::once(kubectl.to_owned()).chain(others).collect()
}

fn minor_version(program: &Path) -> Option<u32> {
    let mut command = Command::new(program);
    let output = command.args(["version", "--client", "-o", "json"]).output().ok()?;
    let version: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let minor = version["clientVersion"]["minor"].as_str()?;
    minor.trim_end_matches(|last: char| !last.is_ascii_digit()).parse().ok()
}
