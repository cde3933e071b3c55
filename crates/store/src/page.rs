//! Pages of a list.

use std::sync::Arc;

use crate::{Entry, Key, Revision};

/// The most entries in one page.
pub const PAGE_ENTRIES_MAX: usize = 1_000_000;

/// Which part of a list is wanted: everything unless said otherwise.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PageRequest {
    /// At most this many entries; `None` means all, up to [`PAGE_ENTRIES_MAX`].
    pub limit: Option<usize>,
    /// Only entries after this key: the `next` of the page before.
    pub after: Option<Key>,
}

impl PageRequest {
    pub fn all() -> PageRequest {
        PageRequest::default()
    }

    pub fn first(limit: usize) -> PageRequest {
        PageRequest { limit: Some(limit), after: None }
    }

    pub fn next(limit: usize, after: Key) -> PageRequest {
        PageRequest { limit: Some(limit), after: Some(after) }
    }
}

/// Part of a list, in key order.
#[derive(Clone, Debug)]
pub struct Page {
    pub entries: Vec<Arc<Entry>>,
    /// The revision all entries are of; pass it as `at` to continue.
    pub revision: Revision,
    /// Where the next page starts; `None` when this was the last.
    pub next: Option<Key>,
    /// How many entries of the range come after this page.
    pub remaining: usize,
}
