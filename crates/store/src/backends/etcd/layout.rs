//! Where things are in etcd: the names of all keys, and what a name means.
//!
//! ```text
//! {prefix}/registry/KEY           an entry, with its raw value
//! {prefix}/setpoint/churn         up to where it was taken out of the log, see `thin.rs`
//! {prefix}/setpoint/compacted     the oldest revision whose history is kept
//! {prefix}/setpoint/epoch/GROUP   the newest term of a group of leaders
//! {prefix}/setpoint/format        the version of this layout
//! {prefix}/setpoint/head          written by every commit: its revision is the newest commit's
//! {prefix}/setpoint/log/ID        what a commit replaced, see `undo.rs`
//! {prefix}/setpoint/previous/ID/N parts of a log entry that did not fit beside the commit
//! ```
//!
//! Everything a follower must see lies between `registry/` and `log/`, so one watch brings a
//! commit together with its log entry; `previous/` is outside, it would only cost bandwidth.

use std::fmt;

use bytes::Bytes;

use crate::{Error, Key, Revision, Timestamp};

use super::messages::RangeRequest;

/// The version of the layout that this program writes.
pub const FORMAT: u32 = 1;
/// The longest prefix; it is part of every key of a transaction, whose size etcd limits.
const PREFIX_BYTES_MAX: usize = 64;

/// The names of keys below a prefix.
#[derive(Clone, Debug)]
pub struct Layout {
    prefix: String,
    registry: String,
    ours: String,
}

/// What a key of etcd is.
#[derive(Debug, PartialEq)]
pub enum Place<'a> {
    Entry(Key),
    Epoch(&'a str),
    Log(Id),
    Compacted,
    Format,
    /// The head, or what is not ours.
    Other,
}

/// The name of a log entry. It tells age and size, so retention need not read the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// Microseconds since 1970.
    pub time: u64,
    pub bytes: u32,
    pub random: u64,
    /// The revision that it tells of, where it took the place of the commit's own entry.
    pub of: Option<Revision>,
}

/// Keys from a first one up to, but not including, an end.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub start: Bytes,
    pub end: Bytes,
}

impl Layout {
    pub fn new(prefix: &str) -> Result<Layout, Error> {
        if prefix.len() > PREFIX_BYTES_MAX {
            let (bytes, max) = (prefix.len(), PREFIX_BYTES_MAX);
            return Err(Error::TooLarge { what: "etcd prefix", bytes, max });
        }
        let registry = format!("{prefix}/registry/");
        Ok(Layout { prefix: prefix.into(), registry, ours: format!("{prefix}/setpoint/") })
    }

    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    pub fn entry(&self, key: &Key) -> Bytes {
        format!("{}{key}", self.registry).into()
    }

    pub fn compacted(&self) -> Bytes {
        self.own("compacted")
    }

    pub fn epoch(&self, group: &str) -> Bytes {
        self.own(format_args!("epoch/{group}"))
    }

    pub fn format(&self) -> Bytes {
        self.own("format")
    }

    pub fn head(&self) -> Bytes {
        self.own("head")
    }

    pub fn thinned(&self) -> Bytes {
        self.own("churn")
    }

    pub fn log(&self, id: Id) -> Bytes {
        self.own(format_args!("log/{id}"))
    }

    pub fn previous(&self, id: Id, part: usize) -> Bytes {
        self.own(format_args!("previous/{id}/{part:04x}"))
    }

    pub fn entries(&self) -> Span {
        Span::below(&self.registry)
    }

    pub fn epochs(&self) -> Span {
        Span::below(&format!("{}epoch/", self.ours))
    }

    pub fn logs(&self) -> Span {
        Span::below(&format!("{}log/", self.ours))
    }

    pub fn all_previous(&self) -> Span {
        Span::below(&format!("{}previous/", self.ours))
    }

    pub fn previous_of(&self, id: Id) -> Span {
        Span::below(&format!("{}previous/{id}/", self.ours))
    }

    /// What a follower must see.
    pub fn followed(&self) -> Span {
        Span { start: self.entries().start, end: self.logs().end }
    }

    /// What a key is; entries whose names are no keys of ours are not ours.
    pub fn place<'a>(&self, key: &'a [u8]) -> Place<'a> {
        let Ok(text) = std::str::from_utf8(key) else { return Place::Other };
        if let Some(name) = text.strip_prefix(&self.registry) {
            return Key::new(name).map_or(Place::Other, Place::Entry);
        }
        let Some(name) = text.strip_prefix(&self.ours) else { return Place::Other };
        match name.split_once('/') {
            Some(("epoch", group)) => Place::Epoch(group),
            Some(("log", id)) => Id::parse(id).map_or(Place::Other, Place::Log),
            None if name == "compacted" => Place::Compacted,
            None if name == "format" => Place::Format,
            _ => Place::Other,
        }
    }

    /// The log entry that a part belongs to.
    pub fn owner_of_previous(&self, key: &[u8]) -> Option<Id> {
        let text = std::str::from_utf8(key).ok()?;
        let name = text.strip_prefix(&self.ours)?.strip_prefix("previous/")?;
        Id::parse(name.split_once('/')?.0)
    }

    fn own(&self, name: impl fmt::Display) -> Bytes {
        format!("{}{name}", self.ours).into()
    }
}

impl Id {
    pub fn new(time: Timestamp, bytes: usize, random: u64) -> Id {
        let time = u64::try_from(time.0).unwrap_or(0);
        Id { time, bytes: 0, random, of: None }.sized(bytes, random)
    }

    /// The same for another size.
    pub fn sized(self, bytes: usize, random: u64) -> Id {
        Id { bytes: u32::try_from(bytes).unwrap_or(u32::MAX), random, ..self }
    }

    fn parse(text: &str) -> Option<Id> {
        let mut parts = text.split('-');
        let parse = |part: &str, digits: usize| {
            let part = Some(part).filter(|part| part.len() == digits)?;
            u64::from_str_radix(part, 16).ok()
        };
        let mut number = |digits: usize| parse(parts.next()?, digits);
        let (time, bytes, random) = (number(16)?, number(8)?, number(16)?);
        let bytes = u32::try_from(bytes).ok()?;
        let of = match parts.next() {
            Some(part) => Some(Revision(parse(part, 16)?)),
            None => None,
        };
        parts.next().is_none().then_some(Id { time, bytes, random, of })
    }
}

impl fmt::Display for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}-{:08x}-{:016x}", self.time, self.bytes, self.random)?;
        match self.of {
            Some(revision) => write!(formatter, "-{:016x}", revision.0),
            None => Ok(()),
        }
    }
}

impl Span {
    /// Everything below a name that ends in a slash.
    fn below(start: &str) -> Span {
        let stem = start.strip_suffix('/').expect("a span must be that of a directory");
        Span { start: start.to_owned().into(), end: format!("{stem}0").into() }
    }

    pub fn request(self) -> RangeRequest {
        RangeRequest { key: self.start, range_end: self.end, ..RangeRequest::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> Id {
        Id { time: 0x1234, bytes: 77, random: u64::MAX, of: None }
    }

    #[test]
    fn every_name_says_what_it_is() {
        for prefix in ["", "/a", "a/b"] {
            let layout = Layout::new(prefix).unwrap();
            let key = Key::new("pods/default/a").unwrap();
            assert_eq!(layout.place(&layout.entry(&key)), Place::Entry(key.clone()));
            assert_eq!(layout.place(&layout.epoch("a/b")), Place::Epoch("a/b"));
            assert_eq!(layout.place(&layout.log(id())), Place::Log(id()));
            assert_eq!(layout.place(&layout.compacted()), Place::Compacted);
            assert_eq!(layout.place(&layout.format()), Place::Format);
            assert_eq!(layout.place(&layout.head()), Place::Other);
            assert_eq!(layout.owner_of_previous(&layout.previous(id(), 3)), Some(id()));
        }
    }

    #[test]
    fn what_is_not_ours_is_other() {
        let layout = Layout::new("").unwrap();
        for key in ["", "/registry/", "/registry", "x/registry/a", "/setpoint/log/x", "/setpoint/"]
        {
            assert_eq!(layout.place(key.as_bytes()), Place::Other, "{key}");
        }
        assert_eq!(layout.place(b"/registry/\xff"), Place::Other);
    }

    #[test]
    fn the_watch_sees_all_but_the_parts_put_aside() {
        let layout = Layout::new("/p").unwrap();
        let Span { start, end } = layout.followed();
        let followed = [layout.head(), layout.log(id()), layout.compacted(), layout.format()];
        for key in followed.into_iter().chain([layout.epoch("x"), layout.entries().start]) {
            assert!(key >= start && key < end, "{key:?}");
        }
        assert!(layout.previous(id(), 0) >= end);
    }

    #[test]
    fn an_id_survives_its_text_and_sorts_by_time() {
        assert_eq!(Id::parse(&id().to_string()), Some(id()));
        let later = Id { time: 0x1235, bytes: 0, random: 0, of: Some(Revision(7)) };
        assert_eq!(Id::parse(&later.to_string()), Some(later));
        assert!(later.to_string() > id().to_string());
        assert_eq!(Id::parse("1-2-3"), None);
        assert_eq!(Id::parse(&format!("{}-0", id())), None);
    }
}
