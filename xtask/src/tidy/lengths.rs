//! How long files, functions and lines are. Comments, blank lines and tests do not count towards
//! the length of a file or a function.

use super::Finding;
use super::files::TextFile;
use super::ratchet::{Excess, Kind};
use super::rust_text::{Place, RustText, is_word, item_end};

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 100;

/// Everything in a file that is longer than it may be.
pub fn measure(file: &TextFile) -> Vec<Excess> {
    if file.is_generated() {
        return Vec::new();
    }
    let text = RustText::read(&file.text);
    let mut excesses: Vec<Excess> = long_lines(file, &text).into_iter().collect();
    if !file.is_test() {
        excesses.extend(long_file(file, &text));
        excesses.extend(long_functions(file, &text));
    }
    excesses
}

fn long_file(file: &TextFile, text: &RustText) -> Option<Excess> {
    let lines = text.code.iter().zip(&text.is_test);
    let number = lines.filter(|(line, is_test)| !**is_test && !line.trim().is_empty()).count();
    (number > FILE_LINES_MAX).then(|| {
        let what = format!(
            "{number} lines of code, {FILE_LINES_MAX} at most: split the file where a good name \
             appears"
        );
        excess(file, Kind::File, number, vec![Finding::new(&file.path, 1, what)])
    })
}

fn long_functions(file: &TextFile, text: &RustText) -> Vec<Excess> {
    let mut excesses: Vec<Excess> = Vec::new();
    for function in functions(text) {
        let number = function.lines;
        if number <= FUNCTION_LINES_MAX || text.is_test[function.line] {
            continue;
        }
        let what = format!(
            "`{}` has {number} lines of code, {FUNCTION_LINES_MAX} at most: move a part that has a \
             name of its own into a function",
            function.name
        );
        let finding = Finding::new(&file.path, function.line + 1, what);
        let kind = Kind::Function(function.name);
        // Functions of one name in a file share their entry: the longest counts.
        match excesses.iter_mut().find(|excess| excess.kind == kind) {
            Some(known) => {
                known.number = known.number.max(number);
                known.findings.push(finding);
            }
            None => excesses.push(excess(file, kind, number, vec![finding])),
        }
    }
    excesses
}

/// Lines inside a string of several lines are data, and an address cannot be broken.
fn long_lines(file: &TextFile, text: &RustText) -> Option<Excess> {
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let columns = line.chars().count();
        let is_exempt = text.starts_in_string[index] || line.contains("://");
        if columns > COLUMNS_MAX && !is_exempt {
            let what = format!("{columns} columns, {COLUMNS_MAX} at most: break the line");
            findings.push(Finding::new(&file.path, index + 1, what));
        }
    }
    let number = findings.len();
    (number > 0).then(|| excess(file, Kind::Columns, number, findings))
}

fn excess(file: &TextFile, kind: Kind, number: usize, findings: Vec<Finding>) -> Excess {
    Excess { path: file.path.clone(), kind, number, findings }
}

#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    /// From 0.
    line: usize,
    lines: usize,
}

/// Every function with a body.
fn functions(text: &RustText) -> Vec<Function> {
    let mut functions = Vec::new();
    for (line, code) in text.code.iter().enumerate() {
        for (column, name) in names_after_fn(code) {
            let Some(end) = item_end(&text.code, Place { line, column }) else { continue };
            if text.code[end.line][end.column..].starts_with('}') {
                let lines = text.code_lines(line, end.line);
                functions.push(Function { name, line, lines });
            }
        }
    }
    functions
}

/// The names that follow the word `fn` in a line, with the column of the word.
fn names_after_fn(code: &str) -> Vec<(usize, String)> {
    let mut names = Vec::new();
    for (column, _) in code.match_indices("fn ") {
        let is_whole_word = !code[..column].ends_with(is_word);
        let rest = code[column + "fn ".len()..].trim_start();
        let name: String = rest.chars().take_while(|c| is_word(*c)).collect();
        if is_whole_word && !name.is_empty() {
            names.push((column, name));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(path: &str, text: &str) -> Vec<(Kind, usize, usize)> {
        let file = TextFile { path: path.to_owned(), text: text.to_owned() };
        let excesses = measure(&file);
        excesses.into_iter().map(|e| (e.kind, e.number, e.findings[0].line)).collect()
    }

    #[test]
    fn a_file_may_have_500_lines_of_code_beside_comments_and_tests() {
        let mut text = "a;\n".repeat(FILE_LINES_MAX);
        text.push_str("// comment\n\n#[cfg(test)]\nmod tests {\n  a;\n}\n");
        assert_eq!(measured("a.rs", &text), []);
        text.insert_str(0, "a;\n");
        assert_eq!(measured("a.rs", &text), [(Kind::File, 501, 1)]);
        assert_eq!(measured("tests/a.rs", &text), []);
        assert_eq!(measured("src/contract/a.rs", &text), []);
        assert_eq!(measured("src/generated/a.rs", &text), []);
    }

    #[test]
    fn a_function_may_have_70_lines_of_code() {
        let function = |lines| format!("\nfn f(a: [u8; 3]) {{\n{}}}\n", "a;\n// b\n".repeat(lines));
        assert_eq!(measured("a.rs", &function(68)), []);
        let kind = Kind::Function("f".to_owned());
        assert_eq!(measured("a.rs", &function(69)), [(kind, 71, 2)]);
        let in_tests = format!("#[cfg(test)]\nmod tests {{{}}}", function(69));
        assert_eq!(measured("a.rs", &in_tests), []);
    }

    #[test]
    fn a_line_may_have_100_columns_unless_it_is_data_or_an_address() {
        let long = "é".repeat(101);
        assert_eq!(measured("a.rs", &format!("a\n// {}\n", &long[..2 * 97])), []);
        assert_eq!(measured("a.rs", &format!("a\n//{long}\n{long}")), [(Kind::Columns, 2, 2)]);
        assert_eq!(measured("a.rs", &format!("\"\n{long}\n\"; // http://{long}")), []);
    }

    #[test]
    fn functions_without_a_body_and_pointer_types_are_not_functions() {
        let text =
            RustText::read("trait T {\n fn a(&self);\n fn b() {\n }\n}\ntype F = fn (u8);\n");
        let b = Function { name: "b".to_owned(), line: 2, lines: 2 };
        assert_eq!(functions(&text), [b]);
    }
}
