//! Asks before something is taken away that cannot be brought back. Where nobody sits at a
//! terminal nobody is asked, so that scripts go on.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::{Context as _, Result, anyhow};
use clap::Args;

use super::exit::{self, Failure};

/// For commands that take something away.
#[derive(Args, Clone, Copy)]
pub struct Consent {
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
}

impl Consent {
    /// Goes on only where somebody at the terminal types a word, or nobody is there to be asked.
    pub fn ask(self, what: &str, word: &str) -> Result<()> {
        if self.yes || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Ok(());
        }
        let typed = typed(what, word, &mut io::stdin().lock(), &mut io::stderr().lock());
        match typed.context("could not ask")? {
            true => Ok(()),
            false => {
                let what = "left as it is: the answer was another";
                Err(anyhow!(Failure::new(exit::FAILED, what).hint("`--yes` does not ask")))
            }
        }
    }
}

fn typed(what: &str, word: &str, from: &mut impl BufRead, to: &mut impl Write) -> io::Result<bool> {
    write!(to, "{what} Type {word:?} to go on: ")?;
    to.flush()?;
    let mut line = String::new();
    from.read_line(&mut line)?;
    Ok(line.trim() == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_word_is_consent() {
        let answer = |line: &str| {
            let mut shown = Vec::new();
            let typed = typed("All goes.", "web", &mut line.as_bytes(), &mut shown);
            assert_eq!(String::from_utf8_lossy(&shown), "All goes. Type \"web\" to go on: ");
            typed.expect("an answer")
        };
        assert!(answer("web\n") && answer(" web "));
        assert!(!answer("y\n") && !answer("") && !answer("webb\n"));
    }
}
