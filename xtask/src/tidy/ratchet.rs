//! The exceptions to the length rules: a list that may only shrink.

use std::fmt;

use anyhow::{Context, Result};

use super::{Finding, RATCHET_PATH};

const HEADER: &str = "\
# What is longer than tidy allows: path, kind, number. May only shrink; when it can,
# `cargo xtask tidy --bless` lowers it. Kinds: file, function:NAME (lines), columns (long lines).
";

/// What an entry or an excess is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Lines of code of a file.
    File,
    /// Lines of code of a function.
    Function(String),
    /// How many lines are too wide.
    Columns,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::File => write!(f, "file"),
            Kind::Function(name) => write!(f, "function:{name}"),
            Kind::Columns => write!(f, "columns"),
        }
    }
}

/// Something longer than the rules allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excess {
    pub path: String,
    pub kind: Kind,
    pub number: usize,
    /// What to say unless the ratchet grants it; at least one.
    pub findings: Vec<Finding>,
}

/// An exception that was granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub path: String,
    pub kind: Kind,
    pub number: usize,
    /// Where it is written, from 1.
    pub line: usize,
}

pub fn parse(text: &str) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let entry = parse_line(line, index + 1);
        entries.push(entry.with_context(|| {
            format!("line {} is not a path, a kind and a number: `{line}`", index + 1)
        })?);
    }
    Ok(entries)
}

fn parse_line(text: &str, line: usize) -> Option<Entry> {
    let mut words = text.split_whitespace();
    let path = words.next()?.to_owned();
    let kind = match words.next()? {
        "file" => Kind::File,
        "columns" => Kind::Columns,
        kind => Kind::Function(kind.strip_prefix("function:")?.to_owned()),
    };
    let number = words.next()?.parse().ok()?;
    words.next().is_none().then_some(Entry { path, kind, number, line })
}

pub fn print(entries: &[Entry]) -> String {
    let lines = entries.iter().map(|entry| {
        let Entry { path, kind, number, line: _ } = entry;
        format!("{path} {kind} {number}\n")
    });
    HEADER.to_owned() + &lines.collect::<String>()
}

/// The excesses that no entry grants, and the entries that grant more than is needed.
pub fn check(entries: &[Entry], excesses: &[Excess]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for excess in excesses {
        let granted = granted(entries, excess);
        if granted < excess.number {
            findings.extend(excess.findings.iter().map(|finding| match granted {
                0 => finding.clone(),
                _ => {
                    let what = format!("{} (the ratchet grants {granted})", finding.what);
                    Finding { what, ..finding.clone() }
                }
            }));
        }
    }
    for entry in entries {
        let needed = needed(excesses, entry);
        if needed < entry.number {
            let what = format!(
                "{} {} is granted {} and needs {needed}: run `cargo xtask tidy --bless`",
                entry.path, entry.kind, entry.number
            );
            findings.push(Finding::new(RATCHET_PATH, entry.line, what));
        }
    }
    findings
}

/// The entries, lowered to what is needed; never raised, never more of them.
pub fn bless(entries: &[Entry], excesses: &[Excess]) -> Vec<Entry> {
    let lowered = entries.iter().map(|entry| {
        let number = entry.number.min(needed(excesses, entry));
        Entry { number, ..entry.clone() }
    });
    lowered.filter(|entry| entry.number > 0).collect()
}

fn granted(entries: &[Entry], excess: &Excess) -> usize {
    let same = entries.iter().find(|entry| entry.path == excess.path && entry.kind == excess.kind);
    same.map_or(0, |entry| entry.number)
}

fn needed(excesses: &[Excess], entry: &Entry) -> usize {
    let same =
        excesses.iter().find(|excess| excess.path == entry.path && excess.kind == entry.kind);
    same.map_or(0, |excess| excess.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# words\n\na.rs file 600\nb.rs function:run 90\n";

    fn excess(path: &str, kind: Kind, number: usize) -> Excess {
        let findings = vec![Finding::new(path, 3, "too long")];
        Excess { path: path.to_owned(), kind, number, findings }
    }

    fn check_text(excesses: &[Excess]) -> Vec<String> {
        let findings = check(&parse(TEXT).unwrap(), excesses);
        findings.iter().map(Finding::to_string).collect()
    }

    fn run(number: usize) -> Excess {
        excess("b.rs", Kind::Function("run".to_owned()), number)
    }

    #[test]
    fn an_excess_that_is_granted_exactly_is_silent() {
        assert_eq!(check_text(&[excess("a.rs", Kind::File, 600), run(90)]), [""; 0]);
    }

    #[test]
    fn an_excess_beyond_its_entry_or_without_one_is_found() {
        let excesses = [excess("a.rs", Kind::File, 601), run(90), excess("c.rs", Kind::Columns, 1)];
        let expected = ["a.rs:3: too long (the ratchet grants 600)", "c.rs:3: too long"];
        assert_eq!(check_text(&excesses), expected);
    }

    #[test]
    fn an_entry_that_grants_more_than_needed_is_found() {
        let found = check_text(&[run(80)]);
        let bless = "run `cargo xtask tidy --bless`";
        let expected = [
            format!("xtask/tidy-ratchet.txt:3: a.rs file is granted 600 and needs 0: {bless}"),
            format!(
                "xtask/tidy-ratchet.txt:4: b.rs function:run is granted 90 and needs 80: {bless}"
            ),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn blessing_lowers_and_removes_and_never_raises_or_adds() {
        let entries = parse(TEXT).unwrap();
        let bless = |excesses: &[Excess]| print(&bless(&entries, excesses));
        let more = [excess("a.rs", Kind::File, 700), excess("c.rs", Kind::File, 501), run(80)];
        assert_eq!(bless(&more), format!("{HEADER}a.rs file 600\nb.rs function:run 80\n"));
        assert_eq!(bless(&[]), HEADER);
    }

    #[test]
    fn a_line_that_is_no_entry_is_refused() {
        for line in ["a.rs", "a.rs size 3", "a.rs file many", "a.rs file 3 4"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
