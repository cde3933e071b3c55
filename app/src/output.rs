//! How results and errors are printed: results to stdout as text or JSON, errors as one line.

use std::fmt::Display;
use std::io::{self, Write};

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs: one object on one line.
    Json,
}

#[derive(Clone, Copy, Debug)]
pub struct Output {
    pub format: Format,
}

impl Output {
    /// Prints a result: its text, or its fields.
    pub fn print(&self, result: &(impl Display + Serialize)) -> io::Result<()> {
        let line = match self.format {
            Format::Text => format!("{result}\n"),
            Format::Json => format!("{}\n", serde_json::to_string(result)?),
        };
        let mut stdout = io::stdout().lock();
        stdout.write_all(line.as_bytes())?;
        stdout.flush()
    }
}

/// An error and what caused it, on one line.
pub fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let text = cause.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        // Some libraries repeat the cause in their own message.
        if line.contains(&text) {
            continue;
        }
        if !line.is_empty() {
            line.push_str(": ");
        }
        line.push_str(&text);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_and_says_nothing_twice() {
        let error =
            anyhow::anyhow!("refused\n  by peer").context("could not ask: `refused by peer'");
        assert_eq!(one_line(&error), "could not ask: `refused by peer'");
        let error = anyhow::anyhow!("refused").context("could not ask");
        assert_eq!(one_line(&error), "could not ask: refused");
    }
}
