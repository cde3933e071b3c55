//! What came up at the start: each part, what it is, and when it was there.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// One part of the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    pub name: String,
    /// For people: what it is, and why that one.
    pub detail: String,
    /// When it was there, from the beginning of the program.
    pub at_micros: u64,
    /// False where it is not what was asked for.
    pub is_well: bool,
}

/// The parts so far.
pub struct Parts {
    began: Instant,
    pub list: Vec<Part>,
}

impl Parts {
    pub fn since(began: Instant) -> Parts {
        Parts { began, list: Vec::new() }
    }

    pub fn add(&mut self, name: &str, detail: impl Into<String>) {
        self.put(name, detail.into(), true);
    }

    pub fn add_unwell(&mut self, name: &str, detail: impl Into<String>) {
        self.put(name, detail.into(), false);
    }

    fn put(&mut self, name: &str, detail: String, is_well: bool) {
        let at_micros = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.list.push(Part { name: name.to_owned(), detail, at_micros, is_well });
    }
}

impl Part {
    pub fn at(&self) -> Duration {
        Duration::from_micros(self.at_micros)
    }
}
