//! Tests that failed and passed when they were run again. A run with `--full` accepts only those in
//! `xtask/flakes.txt`, each with its cause.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::workspace;

const FILE: &str = "xtask/flakes.txt";

/// A test that passed only when it was run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flake {
    pub suite: String,
    pub test: String,
}

/// Flakes with a known cause.
#[derive(Debug, Default)]
pub struct KnownFlakes {
    /// Flake and cause.
    rows: Vec<(Flake, String)>,
}

impl KnownFlakes {
    pub fn read() -> Result<KnownFlakes> {
        let path = workspace::root().join(FILE);
        let text = fs::read_to_string(&path);
        KnownFlakes::parse(&text.with_context(|| format!("could not read {}", path.display()))?)
    }

    fn parse(text: &str) -> Result<KnownFlakes> {
        let lines = text.lines().zip(1..).filter(|(line, _)| {
            let line = line.trim();
            !line.is_empty() && !line.starts_with('#')
        });
        let row = |(line, number): (&str, usize)| {
            let mut words = line.split_whitespace();
            let (suite, test) = (words.next(), words.next());
            let cause = words.collect::<Vec<_>>().join(" ");
            match (suite, test, cause.is_empty()) {
                (Some(suite), Some(test), false) => {
                    Ok((Flake { suite: suite.to_owned(), test: test.to_owned() }, cause))
                }
                _ => bail!("{FILE}:{number}: expected a suite, a test and the cause"),
            }
        };
        Ok(KnownFlakes { rows: lines.map(row).collect::<Result<_>>()? })
    }

    pub fn cause(&self, flake: &Flake) -> Option<&str> {
        let row = self.rows.iter().find(|(known, _)| known == flake);
        row.map(|(_, cause)| cause.as_str())
    }

    /// One line for each flake of a run, and one with the count.
    pub fn describe(&self, flakes: &[Flake]) -> String {
        let mut text = format!("xtask: {} tests passed only when run again\n", flakes.len());
        for flake in flakes {
            let cause = match self.cause(flake) {
                Some(cause) => format!("known: {cause}"),
                None => format!("NEW: not in {FILE}; find its cause and fix it"),
            };
            text += &format!("xtask: flake {} {}: {cause}\n", flake.suite, flake.test);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flake(suite: &str, test: &str) -> Flake {
        Flake { suite: suite.to_owned(), test: test.to_owned() }
    }

    #[test]
    fn a_flake_is_known_by_suite_and_test_and_has_a_cause() {
        let known = KnownFlakes::parse("# about\n\ns/t a::b the clock jumps\n").unwrap();
        assert_eq!(known.cause(&flake("s/t", "a::b")), Some("the clock jumps"));
        assert_eq!(known.cause(&flake("s", "a::b")), None);
        let told = known.describe(&[flake("s/t", "a::b"), flake("s/t", "c")]);
        assert!(told.starts_with("xtask: 2 tests passed only when run again\n"), "{told}");
        assert!(told.contains("a::b: known: the clock jumps"), "{told}");
        assert!(told.contains("s/t c: NEW"), "{told}");
        let refused = KnownFlakes::parse("s/t a::b\n").unwrap_err().to_string();
        assert!(refused.contains("flakes.txt:1: expected"), "{refused}");
    }

    #[test]
    fn the_list_of_known_flakes_can_be_read() {
        KnownFlakes::read().unwrap();
    }
}
