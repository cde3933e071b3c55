//! The durable form of a commit, and the bytes it is written as.
//!
//! Used by the embedded log and by the history kept in etcd. A record stores each value once; what
//! was there before is found by replaying.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};

use crate::{Commit, Epoch, Key, Mutation, Provenance, Revision, Timestamp};

/// What a commit did, without what was there before.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub revision: Revision,
    pub provenance: Arc<Provenance>,
    pub epoch: Option<Epoch>,
    pub writes: Vec<Write>,
}

/// One key of a record; no value means deleted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Write {
    pub key: Key,
    pub value: Option<Bytes>,
}

impl Record {
    pub fn of(commit: Commit, revision: Revision) -> Record {
        let writes = commit.operations.into_iter().filter_map(|operation| {
            let key = operation.key;
            match operation.mutation {
                Mutation::Put(value) => Some(Write { key, value: Some(value) }),
                Mutation::Delete => Some(Write { key, value: None }),
                Mutation::Keep => None,
            }
        });
        Record {
            revision,
            writes: writes.collect(),
            epoch: commit.epoch,
            provenance: Arc::new(commit.provenance),
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.revision.0);
        encode_provenance(&self.provenance, out);
        match &self.epoch {
            None => out.put_u8(0),
            Some(epoch) => {
                out.put_u8(1);
                put_bytes(out, epoch.group.as_bytes());
                put_number(out, epoch.number);
            }
        }
        put_number(out, self.writes.len() as u64);
        for write in &self.writes {
            put_bytes(out, write.key.as_bytes());
            put_optional_bytes(out, write.value.as_deref());
        }
    }

    pub fn decode(input: &mut &[u8]) -> Result<Record, Malformed> {
        let revision = Revision(get_number(input)?);
        let provenance = Arc::new(decode_provenance(input)?);
        let epoch = match get_byte(input)? {
            0 => None,
            1 => Some(Epoch { group: get_text(input)?, number: get_number(input)? }),
            _ => return Err(Malformed("an epoch")),
        };
        let count = get_number(input)?;
        let mut writes = Vec::new();
        for _ in 0..count {
            let key = get_key(input)?;
            let value = get_optional_bytes(input)?.map(Bytes::copy_from_slice);
            writes.push(Write { key, value });
        }
        Ok(Record { revision, provenance, epoch, writes })
    }
}

pub(crate) fn encode_provenance(provenance: &Provenance, out: &mut Vec<u8>) {
    out.put_i64_le(provenance.time.0);
    for text in [&provenance.actor, &provenance.manager, &provenance.request, &provenance.reconcile]
    {
        put_bytes(out, text.as_bytes());
    }
    put_number(out, provenance.cause.map_or(0, |cause| cause.0));
}

pub(crate) fn decode_provenance(input: &mut &[u8]) -> Result<Provenance, Malformed> {
    let time = Timestamp(input.try_get_i64_le().map_err(|_| Malformed("a time"))?);
    let actor = get_text(input)?;
    let manager = get_text(input)?;
    let request = get_text(input)?;
    let reconcile = get_text(input)?;
    let cause = Some(Revision(get_number(input)?)).filter(|cause| *cause != Revision::ZERO);
    Ok(Provenance { time, actor, manager, request, cause, reconcile })
}

/// Bytes that are no record, and what was looked for in them.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{0} is malformed")]
pub(crate) struct Malformed(pub &'static str);

/// Seven bits a byte, the lowest first, the top bit set on all but the last.
pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(crate) fn get_number(input: &mut &[u8]) -> Result<u64, Malformed> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = get_byte(input)?;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            break;
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(Malformed("a number"))
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(crate) fn get_bytes<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], Malformed> {
    let length = get_number(input)?;
    let length = usize::try_from(length).map_err(|_| Malformed("a length"))?;
    let (bytes, rest) = input.split_at_checked(length).ok_or(Malformed("a length"))?;
    *input = rest;
    Ok(bytes)
}

/// Like bytes, with the length one larger so that zero means none.
pub(crate) fn put_optional_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => out.push(0),
        Some(bytes) => {
            put_number(out, bytes.len() as u64 + 1);
            out.extend_from_slice(bytes);
        }
    }
}

pub(crate) fn get_optional_bytes<'a>(input: &mut &'a [u8]) -> Result<Option<&'a [u8]>, Malformed> {
    let Some(length) = get_number(input)?.checked_sub(1) else { return Ok(None) };
    let length = usize::try_from(length).map_err(|_| Malformed("a length"))?;
    let (bytes, rest) = input.split_at_checked(length).ok_or(Malformed("a length"))?;
    *input = rest;
    Ok(Some(bytes))
}

pub(crate) fn get_text(input: &mut &[u8]) -> Result<Arc<str>, Malformed> {
    let text = std::str::from_utf8(get_bytes(input)?).map_err(|_| Malformed("a text"))?;
    Ok(text.into())
}

pub(crate) fn get_key(input: &mut &[u8]) -> Result<Key, Malformed> {
    Key::new(get_text(input)?).map_err(|_| Malformed("a key"))
}

fn get_byte(input: &mut &[u8]) -> Result<u8, Malformed> {
    let (byte, rest) = input.split_first().ok_or(Malformed("a record"))?;
    *input = rest;
    Ok(*byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn records() -> impl Strategy<Value = Record> {
        let text = "[a-z/:]{0,12}".prop_map(|text| Arc::<str>::from(text.as_str()));
        let write =
            ("[a-z]{1,40}", proptest::option::of(any::<Vec<u8>>())).prop_map(|(key, value)| {
                Write { key: Key::new(key).unwrap(), value: value.map(Bytes::from) }
            });
        let provenance = (any::<i64>(), text.clone(), text.clone(), text.clone(), any::<u32>());
        let epoch = (text, any::<u64>()).prop_map(|(group, number)| Epoch { group, number });
        let writes = proptest::collection::vec(write, 0..5);
        (any::<u64>(), provenance, proptest::option::of(epoch), writes).prop_map(
            |(revision, (time, actor, manager, request, cause), epoch, writes)| Record {
                revision: Revision(revision),
                provenance: Arc::new(Provenance {
                    time: Timestamp(time),
                    actor,
                    manager,
                    reconcile: request.clone(),
                    request,
                    cause: Some(Revision(u64::from(cause))).filter(|cause| cause.0 != 0),
                }),
                epoch,
                writes,
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]
        #[test]
        fn a_record_survives_its_bytes(record in records()) {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            let mut input = &bytes[..];
            prop_assert_eq!(Record::decode(&mut input), Ok(record));
            prop_assert!(input.is_empty());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in any::<Vec<u8>>()) {
            let _ = Record::decode(&mut &bytes[..]);
        }
    }

    #[test]
    fn a_truncated_record_is_malformed() {
        let provenance = Arc::new(Provenance::of(Timestamp(1), "someone"));
        let key = Key::new("a").unwrap();
        let writes = vec![Write { key, value: Some("value".into()) }];
        let record = Record { revision: Revision(300), provenance, epoch: None, writes };
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        for length in 0..bytes.len() {
            assert!(Record::decode(&mut &bytes[..length]).is_err(), "{length}");
        }
    }
}
