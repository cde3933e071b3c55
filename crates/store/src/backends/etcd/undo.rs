//! The log entry of a commit: who wrote, and what each written key held before.
//!
//! The live entries are the newest state, so the past is reached by taking commits back. What a
//! commit wrote is not stored again: it is what the next later commit replaced, or what is live.

use std::sync::Arc;

use bytes::{BufMut, Bytes};

use crate::record::{self, Malformed};
use crate::record::{get_bytes, get_key, get_number, get_text, put_bytes, put_number};
use crate::{Commit, Entry, Epoch, Key, Mutation, Provenance, Revision};

/// A log entry as it is stored under `log/ID`.
#[derive(Debug, PartialEq)]
pub struct Logged {
    pub provenance: Arc<Provenance>,
    pub epoch: Option<Epoch>,
    pub undo: Undo,
}

/// Where the replaced entries are.
#[derive(Debug, PartialEq)]
pub enum Undo {
    /// Here: the encoded [`Written`].
    Inline(Bytes),
    /// In so many parts under `previous/ID/`, together of this length.
    Aside { parts: usize, bytes: usize },
}

/// One key of a commit.
#[derive(Debug, PartialEq)]
pub struct Written {
    pub key: Key,
    pub kind: Kind,
    pub previous: Option<Arc<Entry>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Put,
    Delete,
}

const INLINE: u8 = 0;
const ASIDE: u8 = 1;
const DELETE: u64 = 1;
const HAS_PREVIOUS: u64 = 2;

/// The keys that a commit writes, with what they held before, in the order of its operations.
pub fn written(commit: &Commit, previous: Vec<Option<Arc<Entry>>>) -> Vec<Written> {
    let pairs = commit.operations.iter().zip(previous);
    let written = pairs.filter_map(|(operation, previous)| {
        let kind = match operation.mutation {
            Mutation::Put(_) => Kind::Put,
            Mutation::Delete => Kind::Delete,
            Mutation::Keep => return None,
        };
        Some(Written { key: operation.key.clone(), kind, previous })
    });
    written.collect()
}

pub fn encode_written<'a>(
    written: impl IntoIterator<Item = &'a Written, IntoIter: ExactSizeIterator>,
) -> Bytes {
    let written = written.into_iter();
    let mut out = Vec::new();
    put_number(&mut out, written.len() as u64);
    for write in written {
        put_bytes(&mut out, write.key.as_bytes());
        let delete = if write.kind == Kind::Delete { DELETE } else { 0 };
        let previous = if write.previous.is_some() { HAS_PREVIOUS } else { 0 };
        put_number(&mut out, delete | previous);
        if let Some(entry) = &write.previous {
            put_number(&mut out, entry.created.0);
            put_number(&mut out, entry.modified.0);
            put_bytes(&mut out, &entry.value);
        }
    }
    out.into()
}

pub fn decode_written(bytes: &Bytes) -> Result<Vec<Written>, Malformed> {
    let mut input = &bytes[..];
    let count = get_number(&mut input)?;
    let mut written = Vec::new();
    for _ in 0..count {
        let key = get_key(&mut input)?;
        let flags = get_number(&mut input)?;
        if flags > DELETE | HAS_PREVIOUS {
            return Err(Malformed("a written key"));
        }
        let kind = if flags & DELETE == 0 { Kind::Put } else { Kind::Delete };
        let previous = match flags & HAS_PREVIOUS {
            0 => None,
            _ => {
                let created = Revision(get_number(&mut input)?);
                let modified = Revision(get_number(&mut input)?);
                // A copy: a part would keep the whole in memory.
                let value = Bytes::copy_from_slice(get_bytes(&mut input)?);
                Some(Arc::new(Entry::new(key.clone(), value, created, modified)))
            }
        };
        written.push(Written { key, kind, previous });
    }
    if !input.is_empty() {
        return Err(Malformed("the end of a log entry"));
    }
    Ok(written)
}

impl Logged {
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        record::encode_provenance(&self.provenance, &mut out);
        match &self.epoch {
            None => out.put_u8(0),
            Some(epoch) => {
                out.put_u8(1);
                put_bytes(&mut out, epoch.group.as_bytes());
                put_number(&mut out, epoch.number);
            }
        }
        match &self.undo {
            Undo::Inline(written) => {
                out.put_u8(INLINE);
                out.extend_from_slice(written);
            }
            Undo::Aside { parts, bytes } => {
                out.put_u8(ASIDE);
                put_number(&mut out, *parts as u64);
                put_number(&mut out, *bytes as u64);
            }
        }
        out.into()
    }

    pub fn decode(bytes: &Bytes) -> Result<Logged, Malformed> {
        let mut input = &bytes[..];
        let provenance = Arc::new(record::decode_provenance(&mut input)?);
        let epoch = match take_byte(&mut input)? {
            0 => None,
            1 => Some(Epoch { group: get_text(&mut input)?, number: get_number(&mut input)? }),
            _ => return Err(Malformed("an epoch")),
        };
        let undo = match take_byte(&mut input)? {
            INLINE => Undo::Inline(bytes.slice_ref(input)),
            ASIDE => {
                let mut size = || {
                    let number = get_number(&mut input)?;
                    usize::try_from(number).map_err(|_| Malformed("a size"))
                };
                Undo::Aside { parts: size()?, bytes: size()? }
            }
            _ => return Err(Malformed("the kind of a log entry")),
        };
        Ok(Logged { provenance, epoch, undo })
    }
}

fn take_byte(input: &mut &[u8]) -> Result<u8, Malformed> {
    let (byte, rest) = input.split_first().ok_or(Malformed("a log entry"))?;
    *input = rest;
    Ok(*byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Timestamp;

    fn written_keys() -> impl Strategy<Value = Vec<Written>> {
        let previous = proptest::option::of((any::<u64>(), any::<u64>(), any::<Vec<u8>>()));
        let write = ("[a-z/]{1,20}", any::<bool>(), previous).prop_map(|(key, put, previous)| {
            let key = Key::new(key).unwrap();
            let previous = previous.map(|(created, modified, value)| {
                let (created, modified) = (Revision(created), Revision(modified));
                Arc::new(Entry::new(key.clone(), value.into(), created, modified))
            });
            Written { key, kind: if put { Kind::Put } else { Kind::Delete }, previous }
        });
        proptest::collection::vec(write, 0..6)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]
        #[test]
        fn a_log_entry_survives_its_bytes(
            written in written_keys(),
            epoch in proptest::option::of(any::<u64>()),
        ) {
            let logged = Logged {
                provenance: Arc::new(Provenance::of(Timestamp(5), "someone")),
                epoch: epoch.map(|number| Epoch { group: "group".into(), number }),
                undo: Undo::Inline(encode_written(&written)),
            };
            let decoded = Logged::decode(&logged.encode()).unwrap();
            prop_assert_eq!(&decoded, &logged);
            let Undo::Inline(bytes) = decoded.undo else { panic!("it was inline") };
            prop_assert_eq!(decode_written(&bytes).unwrap(), written);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in any::<Vec<u8>>()) {
            let bytes = Bytes::from(bytes);
            let _ = Logged::decode(&bytes);
            let _ = decode_written(&bytes);
        }

        #[test]
        fn a_truncated_list_of_keys_is_malformed(written in written_keys()) {
            let bytes = encode_written(&written);
            for length in 0..bytes.len() {
                prop_assert!(decode_written(&bytes.slice(..length)).is_err());
            }
        }
    }

    #[test]
    fn parts_put_aside_survive_their_bytes() {
        let logged = Logged {
            provenance: Arc::new(Provenance::of(Timestamp(-1), "")),
            epoch: None,
            undo: Undo::Aside { parts: 3, bytes: 3 << 20 },
        };
        assert_eq!(Logged::decode(&logged.encode()).unwrap(), logged);
    }
}
