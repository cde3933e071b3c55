//! How results and errors are printed: results to stdout as text or JSON, errors as one line.

use std::env;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs: one object on one line.
    Json,
    /// For programs and people.
    Yaml,
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
            Format::Yaml => yaml(result)?,
        };
        let mut stdout = io::stdout().lock();
        stdout.write_all(line.as_bytes())?;
        stdout.flush()
    }
}

/// A result as a document of YAML.
pub fn yaml(result: &impl Serialize) -> io::Result<String> {
    serde_saphyr::to_string(result).map_err(io::Error::other)
}

/// How things are marked as well or not: with ticks for a terminal, with words for a file.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    is_terminal: bool,
    has_colours: bool,
}

impl Marks {
    /// As stdout can show them.
    pub fn of_stdout() -> Marks {
        let is_terminal = io::stdout().is_terminal();
        let is_plain = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Marks { is_terminal, has_colours: is_terminal && !is_plain }
    }

    pub fn well(self) -> &'static str {
        self.choose("ok  ", "✓", "\x1b[32m✓\x1b[0m")
    }

    /// It works, but not as well as it could.
    pub fn so_so(self) -> &'static str {
        self.choose("note", "!", "\x1b[33m!\x1b[0m")
    }

    pub fn unwell(self) -> &'static str {
        self.choose("fail", "✗", "\x1b[31m✗\x1b[0m")
    }

    fn choose(
        self,
        word: &'static str,
        tick: &'static str,
        coloured: &'static str,
    ) -> &'static str {
        match (self.is_terminal, self.has_colours) {
            (false, _) => word,
            (true, false) => tick,
            (true, true) => coloured,
        }
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
