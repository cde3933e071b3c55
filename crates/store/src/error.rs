//! What can go wrong, in words that say what to do.

use std::path::PathBuf;

use crate::{Key, Revision};

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why the store did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{key} is {}, the commit expected {}", at(.current), at(.expected))]
    Conflict { key: Key, expected: Option<Revision>, current: Option<Revision> },

    #[error("epoch {offered} of {group} is over: {current} has begun")]
    Fenced { group: String, offered: u64, current: u64 },

    #[error("revision {requested} is compacted, the oldest is {oldest}")]
    Compacted { requested: Revision, oldest: Revision },

    #[error("revision {requested} does not exist yet, the newest is {newest}")]
    Future { requested: Revision, newest: Revision },

    #[error("{what}")]
    Invalid { what: String },

    #[error("{what} of {bytes} bytes is over the limit of {max}")]
    TooLarge { what: &'static str, bytes: usize, max: usize },

    /// For stores that keep values in a form of their own.
    #[error("{key} cannot be read: {why}")]
    Unreadable { key: Key, why: String },

    /// Nothing was written; the same call may succeed later.
    #[error("{what}; nothing was written")]
    Unavailable {
        what: String,
        #[source]
        source: Option<Source>,
    },

    /// The commit may or may not have happened, and reading back was not possible either.
    #[error("the outcome of the commit is unknown: {what}")]
    OutcomeUnknown {
        what: String,
        #[source]
        source: Option<Source>,
    },

    #[error("the store has stopped: {reason}")]
    Stopped { reason: String },

    #[error("{} is in use by another process; stop it, or choose another data directory",
            .directory.display())]
    Locked { directory: PathBuf },

    #[error("{file} is not a file of this store; move it out of the data directory")]
    Foreign { file: String },

    #[error(
        "{file} has format {found}, this program reads up to {supported}; use a newer setpoint"
    )]
    NewerFormat { file: String, found: u32, supported: u32 },

    #[error("{file} is damaged at byte {offset} ({what}); restore the directory from a backup")]
    Corrupt { file: String, offset: u64, what: String },

    #[error("could not {doing} {file}")]
    Disk {
        doing: &'static str,
        file: String,
        #[source]
        source: std::io::Error,
    },

    #[error(
        "could not connect to {server}; check that it runs and that storage.{section} is right"
    )]
    Connect {
        server: String,
        section: &'static str,
        #[source]
        source: Source,
    },

    #[error("{server} refused the user {user:?}; check storage.{section}.{keys}")]
    Login {
        server: String,
        user: String,
        section: &'static str,
        keys: &'static str,
        #[source]
        source: Source,
    },
}

impl Error {
    /// Whether the same call can never succeed: the caller must change it, or start over.
    pub fn is_terminal(&self) -> bool {
        !matches!(self, Error::Unavailable { .. } | Error::OutcomeUnknown { .. })
    }

    pub(crate) fn unavailable(what: impl Into<String>, source: impl Into<Source>) -> Error {
        Error::Unavailable { what: what.into(), source: Some(source.into()) }
    }

    pub(crate) fn unknown(what: impl Into<String>, source: impl Into<Source>) -> Error {
        Error::OutcomeUnknown { what: what.into(), source: Some(source.into()) }
    }
}

fn at(revision: &Option<Revision>) -> String {
    match revision {
        Some(revision) => format!("at revision {revision}"),
        None => "absent".to_owned(),
    }
}
