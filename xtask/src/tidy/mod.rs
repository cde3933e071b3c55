//! `cargo xtask tidy`: the rules of ARCHITECTURE.md and STYLE.md that a program can check.
//!
//! Every check is a function from text to findings; this file reads the text and prints what
//! they found.

mod audits;
mod bans;
mod console;
mod edges;
mod files;
mod lengths;
mod licences;
pub mod metadata;
mod names;
mod ratchet;
mod rows;
mod rust_text;
mod sources;
mod traces;
mod versions;

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::workspace;
use files::TextFile;
use rust_text::RustText;

/// Where the exceptions to the length rules are.
const RATCHET_PATH: &str = "xtask/tidy-ratchet.txt";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ratchet {
    Check,
    /// Write what the code needs, where that is less than what the file grants.
    Bless,
}

/// What is wrong, where, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub path: String,
    /// From 1.
    pub line: usize,
    pub what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

pub fn run(ratchet: Ratchet) -> Result<()> {
    let root = workspace::root();
    let files = files::read_all(&root)?;
    let mut findings = check_lengths(&root, &files, ratchet)?;
    findings.extend(check_files(&files));
    findings.extend(check_packages(&root)?);
    findings.extend(console::check(&root)?);
    findings.sort();
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => bail!("tidy has {count} finding(s), above"),
    }
}

fn check_files(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = rows::check(files);
    for file in files {
        findings.extend(traces::check(file));
        if file.is_rust() {
            let text = RustText::read(&file.text);
            findings.extend(names::check(file, &text));
            findings.extend(sources::check(file, &text));
        }
    }
    findings
}

fn check_lengths(root: &Path, files: &[TextFile], ratchet: Ratchet) -> Result<Vec<Finding>> {
    let rust = files.iter().filter(|file| file.is_rust());
    let excesses: Vec<_> = rust.flat_map(lengths::measure).collect();
    let path = root.join(RATCHET_PATH);
    let text = fs::read_to_string(&path).unwrap_or_default();
    let mut entries = ratchet::parse(&text).with_context(|| format!("in {RATCHET_PATH}"))?;
    if ratchet == Ratchet::Bless {
        let blessed = ratchet::bless(&entries, &excesses);
        if blessed != entries {
            fs::write(&path, ratchet::print(&blessed))
                .with_context(|| format!("could not write {RATCHET_PATH}"))?;
        }
        entries = blessed;
    }
    Ok(ratchet::check(&entries, &excesses))
}

fn check_packages(root: &Path) -> Result<Vec<Finding>> {
    let graph = metadata::read(root)?;
    let deny = fs::read_to_string(root.join(bans::DENY_PATH))
        .with_context(|| format!("could not read {}", bans::DENY_PATH))?;
    let mut findings = edges::check(&graph);
    findings.extend(bans::check(&graph));
    findings.extend(bans::check_deny_file(&deny));
    findings.extend(licences::check(&graph));
    findings.extend(versions::check(&graph));
    let record = fs::read_to_string(root.join(audits::RECORD_PATH))
        .with_context(|| format!("could not read {}", audits::RECORD_PATH))?;
    findings.extend(audits::check(&graph, &record));
    Ok(findings)
}
