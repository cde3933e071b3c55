//! `audit`: whether it is written who asked for what, and how much of it.

use std::path::PathBuf;

use anyhow::Result;
use apiserver::audit::{Level, Policy, Scope};

use super::Remarks;
use super::section::Section;

/// What a file can say about the audit log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Audit {
    /// The file; nothing is written where none is named.
    pub log: Option<PathBuf>,
    pub policy: Policy,
}

impl Audit {
    pub(super) fn read(mut section: Section<'_>, remarks: &mut Remarks) -> Result<Audit> {
        let log = section.path("log")?;
        let level = section.read("level", "metadata or request", |text| match text {
            "metadata" => Some(Level::Metadata),
            "request" => Some(Level::Request),
            _ => None,
        })?;
        let scope = section.read("scope", "all or writes", |text| match text {
            "all" => Some(Scope::All),
            "writes" => Some(Scope::Writes),
            _ => None,
        })?;
        section.finish(remarks);
        let policy = Policy { level: level.unwrap_or_default(), scope: scope.unwrap_or_default() };
        Ok(Audit { log, policy })
    }
}
