//! Names of files and modules that say nothing.

use super::Finding;
use super::files::TextFile;
use super::rust_text::{RustText, is_word};

const PREFIXES: &[&str] = &["util", "helper", "common", "misc"];
const SUFFIXES: &[&str] = &["_v2"];

pub fn check(file: &TextFile, text: &RustText) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut check = |line: usize, name: &str| {
        if is_empty_name(name) {
            let what = format!("`{name}` names nothing: name the module after what it does");
            findings.push(Finding::new(&file.path, line, what));
        }
    };
    let stem = file.path.strip_suffix(".rs").unwrap_or(&file.path);
    stem.split('/').for_each(|part| check(1, part));
    for (index, code) in text.code.iter().enumerate() {
        // A module with a file of its own is found by the file.
        if let Some(name) = inline_module(code) {
            check(index + 1, name);
        }
    }
    findings
}

fn is_empty_name(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

/// The name in a line that opens a module, such as `pub mod name {`.
fn inline_module(code: &str) -> Option<&str> {
    let mut words = code.split_whitespace().skip_while(|word| *word != "mod").skip(1);
    let name = words.next()?;
    (words.next()?.starts_with('{') && name.chars().all(is_word)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let file = TextFile { path: path.to_owned(), text: text.to_owned() };
        check(&file, &RustText::read(text)).iter().map(|f| f.line).collect()
    }

    #[test]
    fn files_and_folders_have_names_that_say_something() {
        for path in ["src/utils.rs", "src/helper.rs", "tests/common/mod.rs", "misc/a.rs", "a_v2.rs"]
        {
            assert_eq!(lines(path, ""), [1], "{path}");
        }
        assert_eq!(lines("src/util/utils.rs", ""), [1, 1]);
        assert_eq!(lines("src/watch.rs", "mod key;\nmod tests {\n"), [0; 0]);
    }

    #[test]
    fn modules_inside_a_file_do_too() {
        assert_eq!(lines("a.rs", "mod a {}\npub(crate) mod helpers {\n// mod utils {\n"), [2]);
    }
}
