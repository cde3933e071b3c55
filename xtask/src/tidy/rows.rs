//! Tables that say which test shows what: every row is there, and every test that is named exists.
//!
//! A table is a file `rows.txt`. A line `# rows: A1-A7, flow` says which rows there must be; every
//! other line is `ROW: PROOF PROOF`, or `ROW, in words: PROOF PROOF`. A file `promises.txt` has
//! lines `sentence | PROOF PROOF`, as many as there are. A proof is the name of a test, or a file
//! `goldens/NAME` of the same crate.

use std::collections::BTreeSet;

use super::Finding;
use super::files::TextFile;

const NAME: &str = "rows.txt";
const PROMISES: &str = "promises.txt";
const ROWS: &str = "# rows: ";
/// How many lines before a function its attributes may begin.
const ATTRIBUTE_LINES_MAX: usize = 6;

pub fn check(files: &[TextFile]) -> Vec<Finding> {
    let is_table = |file: &&TextFile| matches!(file.path.rsplit('/').next(), Some(NAME | PROMISES));
    let tables = files.iter().filter(is_table);
    let tables: Vec<&TextFile> = tables.collect();
    if tables.is_empty() {
        return Vec::new();
    }
    let tests = tests(files);
    tables.into_iter().flat_map(|table| check_table(table, files, &tests)).collect()
}

/// The names of all functions that are tests.
fn tests(files: &[TextFile]) -> BTreeSet<&str> {
    let mut tests = BTreeSet::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let mut attribute_at = None;
        for (at, line) in file.text.lines().enumerate() {
            let line = line.trim_start();
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                attribute_at = Some(at);
            }
            let line = line.strip_prefix("async ").unwrap_or(line);
            let Some(name) = line.strip_prefix("fn ").and_then(|rest| rest.split('(').next())
            else {
                continue;
            };
            if attribute_at.take().is_some_and(|attribute| at - attribute <= ATTRIBUTE_LINES_MAX) {
                tests.insert(name);
            }
        }
    }
    tests
}

fn check_table(table: &TextFile, files: &[TextFile], tests: &BTreeSet<&str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found = |line: usize, what: String| {
        findings.push(Finding::new(&table.path, line, what));
    };
    let has_promises = table.path.ends_with(PROMISES);
    let separator = if has_promises { " | " } else { ": " };
    let (mut wanted, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for (index, line) in table.text.lines().enumerate() {
        if let Some(rows) = line.strip_prefix(ROWS) {
            wanted.extend(rows.split(", ").flat_map(expand));
        }
        if line.starts_with('#') || line.is_empty() {
            continue;
        }
        let Some((row, proofs)) = line.split_once(separator) else {
            found(index + 1, format!("write `ROW{separator}TEST TEST`"));
            continue;
        };
        // What follows a comma is for people.
        let row = if has_promises { row } else { row.split(',').next().unwrap_or(row) };
        if !seen.insert(row.to_owned()) {
            found(index + 1, format!("the row {row} is there twice"));
        }
        for proof in proofs.split(' ').filter(|proof| !is_there(proof, table, files, tests)) {
            found(index + 1, format!("there is no test `{proof}`"));
        }
    }
    if has_promises {
        return findings;
    }
    for row in wanted.difference(&seen) {
        found(1, format!("the row {row} is missing: say which test shows it"));
    }
    for row in seen.difference(&wanted) {
        found(1, format!("nobody asks for the row {row}: name it in `{}`", ROWS.trim()));
    }
    findings
}

fn is_there(proof: &str, table: &TextFile, files: &[TextFile], tests: &BTreeSet<&str>) -> bool {
    if !proof.starts_with("goldens/") {
        return tests.contains(proof);
    }
    let of_crate = table.path.split("/tests/").next().unwrap_or_default();
    files.iter().any(|file| file.path == format!("{of_crate}/{proof}"))
}

/// `A1-A3` is three rows, and so is `defect 1-3`; anything else is one.
fn expand(rows: &str) -> Vec<String> {
    let one = || vec![rows.trim().to_owned()];
    let Some((first, last)) = rows.trim().rsplit_once('-') else { return one() };
    let name = first.trim_end_matches(|one: char| one.is_ascii_digit());
    let number = |text: &str| text.parse::<u32>().ok();
    let last = last.strip_prefix(name).unwrap_or(last);
    match (number(&first[name.len()..]), number(last)) {
        (Some(first), Some(last)) => (first..=last).map(|at| format!("{name}{at}")).collect(),
        _ => one(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(table: &str) -> Vec<String> {
        let file =
            |path: &str, text: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file("crates/a/src/lib.rs", "#[test]\nfn it_holds() {}\nfn helper() {}\n"),
            file("crates/a/tests/t.rs", "#[tokio::test(x)]\nasync fn it_waits() {}\n"),
            file("crates/a/goldens/one.yaml", ""),
            file("crates/a/tests/t/rows.txt", table),
        ];
        check(&files).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_table_is_whole_and_names_tests() {
        let good = "# rows: A1-A2, defect 1-2, flow\nA1: it_holds\nA2: it_waits goldens/one.yaml\n\
                    defect 1: it_holds\ndefect 2: it_holds\nflow: it_holds\n";
        assert_eq!(findings(good), [] as [&str; 0]);
        let missing = findings(&good.replace("A2: it_waits goldens/one.yaml\n", ""));
        assert_eq!(missing, ["the row A2 is missing: say which test shows it"]);
        let no_test = findings(&good.replace("flow: it_holds", "flow: helper"));
        assert_eq!(no_test, ["there is no test `helper`"]);
        let no_golden = findings(&good.replace("one.yaml", "two.yaml"));
        assert_eq!(no_golden, ["there is no test `goldens/two.yaml`"]);
        assert_eq!(findings("# rows: 1\n1: it_holds\n1: it_holds\n").len(), 1);
        assert_eq!(findings("# rows: 1\n1: it_holds\n2: it_holds\n").len(), 1);
    }
}
