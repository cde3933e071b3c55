//! Words that must not stand in a Rust file, and the header that must.

use super::Finding;
use super::files::TextFile;
use super::rust_text::{RustText, is_word};

/// Macros that are for the desk, not for the repository.
const MACROS: &[&str] = &["dbg!", "todo!", "unimplemented!"];

pub fn check(file: &TextFile, text: &RustText) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !file.text.starts_with("//!") {
        let what = "no `//!` header: say what the file is for and what it must not do";
        findings.push(Finding::new(&file.path, 1, what));
    }
    for index in 0..text.code.len() {
        let mut found = |what: String| {
            findings.push(Finding::new(&file.path, index + 1, what));
        };
        let code = &text.code[index];
        for name in MACROS.iter().filter(|name| has_word(code, name)) {
            found(format!("`{name}` is left over: remove it"));
        }
        if !file.is_test() && !text.is_test[index] && code.contains(".unwrap()") {
            let advice = "return an error, or `expect` with the invariant";
            found(format!("`.unwrap()` outside tests: {advice}"));
        }
        if let Some(word) = reminder(&text.comments[index]) {
            let advice = "do it, or open an issue and write `TODO(#number)`";
            found(format!("`{word}` without an issue: {advice}"));
        }
    }
    findings
}

/// The word in a comment that says work was left, unless it names an issue.
fn reminder(comment: &str) -> Option<&'static str> {
    if has_word(comment, "FIXME") {
        return Some("FIXME");
    }
    (has_word(comment, "TODO") && !names_issue(comment)).then_some("TODO")
}

fn names_issue(comment: &str) -> bool {
    let mut marks = comment.match_indices('#');
    marks.any(|(at, _)| comment[at + 1..].starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether a word stands in a line, not as part of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        !before.ends_with(is_word) && (word.ends_with('!') || !after.starts_with(is_word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let file = TextFile { path: path.to_owned(), text: text.to_owned() };
        let findings = check(&file, &RustText::read(text));
        findings.iter().map(|f| format!("{}: {}", f.line, f.what)).collect()
    }

    fn lines(text: &str) -> Vec<usize> {
        let file = TextFile { path: "src/a.rs".to_owned(), text: format!("//! A.\n{text}") };
        check(&file, &RustText::read(&file.text)).iter().map(|f| f.line).collect()
    }

    #[test]
    fn a_file_begins_with_its_header() {
        assert_eq!(found("a.rs", "//! What it is for.\n"), [""; 0]);
        let header = "1: no `//!` header: say what the file is for and what it must not do";
        assert_eq!(found("a.rs", "use x;\n//! Late.\n"), [header]);
        assert_eq!(found("a.rs", ""), [header]);
    }

    #[test]
    fn unwrap_is_for_tests() {
        assert_eq!(lines("a.unwrap();\nb.unwrap_or(1);\n// c.unwrap()\n\".unwrap()\"\n"), [2]);
        assert_eq!(lines("#[cfg(test)]\nmod tests {\n a.unwrap();\n}\nb.unwrap();\n"), [6]);
        assert_eq!(found("tests/a.rs", "//! A.\na.unwrap();\n"), [""; 0]);
    }

    #[test]
    fn desk_macros_are_found_in_tests_too() {
        assert_eq!(lines("dbg!(a);\nmy_dbg!(a);\n\"todo!\"\n// todo!\n"), [2]);
        assert_eq!(lines("#[cfg(test)]\nmod tests {\n todo!()\n}\nunimplemented!()"), [4, 6]);
    }

    #[test]
    fn a_reminder_names_its_issue() {
        assert_eq!(lines("// TODO: later\n// TODO(#12): later\n// FIXME #12\n// TODOS\n"), [2, 4]);
        assert_eq!(lines("let a = \"TODO\"; /* TODO # */\n"), [2]);
    }
}
