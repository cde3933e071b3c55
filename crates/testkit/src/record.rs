//! What happened in a run: every request of a component, every event it was told, every change of
//! the store; and one number that stands for all of it.

use std::time::Duration;

use serde_json::Value;

use crate::faults::{Fault, Sort};

/// One request that was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    /// How long after the beginning of the world.
    pub at: Duration,
    /// Which life of the component, from 0.
    pub life: u32,
    pub sort: Sort,
    /// Which of its sort, from 0.
    pub number: usize,
    pub path: String,
    /// Which part of the component writes: its field manager. A delete does not say.
    pub manager: String,
    /// Of a create: the name of the object.
    pub name: String,
    /// Of a patch: which fields.
    pub shape: String,
    /// Whether the request says which object it means, beyond its name.
    pub has_uid: bool,
    /// The revision that the object must be at.
    pub expects: Option<u64>,
    /// The leader's term.
    pub epoch: Option<String>,
    /// The newest revision of the store when the request was made.
    pub head: u64,
    /// The code of the answer, whether it reached the caller or not; 0 where there was none.
    pub code: u16,
    /// The revision of the object in the answer.
    pub revision: u64,
    /// Whether the caller got the answer.
    pub is_answered: bool,
    pub fault: Option<Fault>,
}

impl Made {
    pub fn is_write(&self) -> bool {
        self.sort.is_write()
    }

    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Whether it is about a Kubernetes Event, which decides nothing.
    pub fn is_notice(&self) -> bool {
        self.sort.route.contains("/events")
    }

    /// The key of the object in the store.
    pub fn key(&self) -> String {
        let parts: Vec<&str> = self.path.trim_matches('/').split('/').collect();
        let head = if parts.first() == Some(&"api") { 2 } else { 3 };
        let rest = parts.get(head..).unwrap_or_default();
        let named = |name: &&str| (*name).to_owned();
        match rest {
            ["namespaces", namespace, plural, rest @ ..] => {
                let name = rest.first().map_or_else(|| self.name.clone(), named);
                format!("{plural}/{namespace}/{name}")
            }
            [plural, rest @ ..] => {
                let name = rest.first().map_or_else(|| self.name.clone(), named);
                format!("{plural}/{name}")
            }
            [] => String::new(),
        }
    }
}

/// One event that a component was told.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub at: Duration,
    pub life: u32,
    pub sort: Sort,
    /// Which of its sort, from 0.
    pub number: usize,
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub kind: String,
    /// `namespace/name`.
    pub name: String,
    pub revision: u64,
}

/// One change of the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub revision: u64,
    /// Who wrote.
    pub actor: String,
    pub key: String,
    pub old: Option<Value>,
    pub new: Option<Value>,
}

/// FNV-1a over 64 bits of everything that happened.
pub fn hash(made: &[Made], events: &[Event]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |text: String| {
        for byte in text.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    made.iter().for_each(|one| add(format!("{one:?}")));
    events.iter().for_each(|one| add(format!("{one:?}")));
    hash
}
