//! Keys and ranges of keys, ordered by bytes on every backend.

use std::fmt;
use std::sync::Arc;

use crate::Error;

/// The longest key in bytes. InnoDB indexes at most 3,072; etcd and the log have no limit.
pub const KEY_BYTES_MAX: usize = 1_024;

/// The name of an entry. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    pub fn new(text: impl Into<Arc<str>>) -> Result<Key, Error> {
        let text = text.into();
        if text.is_empty() {
            return Err(Error::Invalid { what: "a key is empty".into() });
        }
        if text.len() > KEY_BYTES_MAX {
            return Err(Error::TooLarge { what: "key", bytes: text.len(), max: KEY_BYTES_MAX });
        }
        Ok(Key(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// A range of keys: from a first key, up to but not including an end.
///
/// The bounds are bytes, since the end of a prefix need not be valid UTF-8.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyRange {
    pub start: Box<[u8]>,
    pub end: Option<Box<[u8]>>,
}

impl KeyRange {
    pub fn all() -> KeyRange {
        KeyRange { start: Box::default(), end: None }
    }

    pub fn single(key: &Key) -> KeyRange {
        let mut end = key.as_bytes().to_vec();
        end.push(0);
        KeyRange { start: key.as_bytes().into(), end: Some(end.into()) }
    }

    pub fn prefix(prefix: &str) -> KeyRange {
        let mut end = prefix.as_bytes().to_vec();
        while let Some(last) = end.pop() {
            if last < u8::MAX {
                end.push(last + 1);
                return KeyRange { start: prefix.as_bytes().into(), end: Some(end.into()) };
            }
        }
        KeyRange { start: prefix.as_bytes().into(), end: None }
    }

    pub fn between(start: &str, end: &str) -> KeyRange {
        KeyRange { start: start.as_bytes().into(), end: Some(end.as_bytes().into()) }
    }

    pub fn contains(&self, key: &Key) -> bool {
        key.as_bytes() >= &*self.start && self.is_before_end(key)
    }

    pub fn is_before_end(&self, key: &Key) -> bool {
        self.end.as_ref().is_none_or(|end| key.as_bytes() < &**end)
    }

    /// The part of the range that lies after a key, for the next page.
    pub fn after(&self, key: &Key) -> KeyRange {
        let mut start = key.as_bytes().to_vec();
        start.push(0);
        let start = if *start > *self.start { start.into() } else { self.start.clone() };
        KeyRange { start, end: self.end.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        Key::new(text).unwrap()
    }

    #[test]
    fn a_prefix_holds_exactly_what_starts_with_it() {
        let range = KeyRange::prefix("pods/");
        assert!(range.contains(&key("pods/")));
        assert!(range.contains(&key("pods/a/b")));
        assert!(!range.contains(&key("pods")));
        assert!(!range.contains(&key("pods0")));
        assert!(!range.contains(&key("podsa")));
    }

    #[test]
    fn a_single_key_is_not_a_prefix() {
        let range = KeyRange::single(&key("a"));
        assert!(range.contains(&key("a")));
        assert!(!range.contains(&key("a\0")));
        assert!(!range.contains(&key("b")));
    }

    #[test]
    fn an_empty_prefix_is_everything() {
        assert!(KeyRange::prefix("").contains(&key("\u{10ffff}")));
        assert_eq!(KeyRange::prefix("").end, None);
    }

    #[test]
    fn after_a_key_comes_its_direct_successor() {
        let rest = KeyRange::prefix("a").after(&key("ab"));
        assert!(!rest.contains(&key("ab")));
        assert!(rest.contains(&key("ab\0")));
        assert!(rest.contains(&key("ac")));
        assert!(!rest.contains(&key("b")));
    }

    #[test]
    fn keys_are_neither_empty_nor_too_long() {
        assert!(Key::new("").is_err());
        assert!(Key::new("k".repeat(KEY_BYTES_MAX)).is_ok());
        assert!(Key::new("k".repeat(KEY_BYTES_MAX + 1)).is_err());
    }
}
