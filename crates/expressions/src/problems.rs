//! What is wrong with an expression, where, and how it is shown: the line with a caret under the
//! place.

use std::fmt;

/// One fault of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line, counted from one.
    pub line: usize,
    /// Column in characters, counted from one.
    pub column: usize,
    pub message: String,
    /// The line of the expression that holds the fault.
    pub snippet: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            return formatter.write_str(&self.message);
        }
        write!(formatter, "ERROR: <input>:{}:{}: {}", self.line, self.column, self.message)?;
        write!(formatter, "\n | {}", self.snippet.replace('\t', " "))?;
        write!(formatter, "\n | ")?;
        for character in self.snippet.chars().take(self.column.saturating_sub(1)) {
            formatter.write_str(if is_wide(character) { "\u{ff0e}" } else { "." })?;
        }
        let under = self.snippet.chars().nth(self.column.saturating_sub(1));
        formatter.write_str(if under.is_some_and(is_wide) { "\u{ff3e}" } else { "^" })
    }
}

/// A character that takes more than one byte gets a full-width mark below it.
fn is_wide(character: char) -> bool {
    character.len_utf8() > 1
}

/// All faults of an expression, in the order of their places. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    pub problems: Vec<Problem>,
}

impl Problems {
    /// Faults given as character offsets into the source.
    pub(crate) fn locate(source: &str, faults: Vec<(u32, String)>) -> Problems {
        let lines: Vec<&str> = source.split('\n').collect();
        let mut faults = faults;
        faults.sort_by_key(|(offset, _)| *offset);
        let problems = faults
            .into_iter()
            .map(|(offset, message)| {
                let mut rest = offset as usize;
                let mut line = 0;
                while line + 1 < lines.len() && rest > lines[line].chars().count() {
                    rest -= lines[line].chars().count() + 1;
                    line += 1;
                }
                let snippet = lines[line].to_owned();
                Problem { line: line + 1, column: rest + 1, message, snippet }
            })
            .collect();
        Problems { problems }
    }

    /// A fault of the expression as a whole, shown without a place.
    pub(crate) fn plain(message: String) -> Problems {
        let problem = Problem { line: 0, column: 0, message, snippet: String::new() };
        Problems { problems: vec![problem] }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                formatter.write_str("\n")?;
            }
            problem.fmt(formatter)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
