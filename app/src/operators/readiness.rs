//! Whether this process does what it is for, and what it waits for where it does not.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use reconcile::health::{Health, State};

/// What is waited for, by name, and why.
#[derive(Debug, Default)]
pub struct Readiness(Mutex<BTreeMap<&'static str, String>>);

impl Readiness {
    /// Something is waited for. True if that is news.
    pub fn waits(&self, what: &'static str, why: String) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(what, why.clone()) != Some(why)
    }

    pub fn done(&self, what: &'static str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(what);
    }

    /// A status code and a text, as servers of Kubernetes tell their readiness.
    pub fn told(&self, health: &Health) -> (u16, String) {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let states = health.all();
        let starting = states.iter().filter(|(_, state)| **state == State::Starting);
        let starting = starting.map(|(name, _)| (*name, "its caches are being filled".to_owned()));
        let unready: BTreeMap<&str, String> = waiting.into_iter().chain(starting).collect();
        if unready.is_empty() {
            return (200, "ok".to_owned());
        }
        let mut text = String::new();
        for (name, why) in unready {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "[-]{name}: {why}");
        }
        (500, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_ready_when_nothing_is_waited_for() {
        let (readiness, health) = (Readiness::default(), Health::default());
        assert_eq!(readiness.told(&health).0, 200);
        assert!(readiness.waits("a", "of b".to_owned()));
        assert!(!readiness.waits("a", "of b".to_owned()));
        health.set("c", State::Starting);
        let text = "[-]a: of b\n[-]c: its caches are being filled\n";
        assert_eq!(readiness.told(&health), (500, text.to_owned()));
        readiness.done("a");
        health.set("c", State::Standby);
        assert_eq!(readiness.told(&health), (200, "ok".to_owned()));
    }
}
