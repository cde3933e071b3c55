//! A snapshot: the whole live state at one revision, so that the log before it is only history.
//!
//! Blocks of entries in key order, each with its length and checksum; an empty block ends the file.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};

use super::disk::{Disk, DiskFile};
use super::segment::FORMAT;
use crate::record::{self, Malformed};
use crate::sequence::{Epochs, Sequence};
use crate::tree::Tree;
use crate::{Entry, Error, KeyRange, Revision};

const MAGIC: &[u8; 8] = b"SETPTSNP";
const HEADER_BYTES: usize = 48;
const BLOCK_HEADER_BYTES: u64 = 8;
/// A block is closed when it has grown past this.
const BLOCK_BYTES: usize = 256 * 1024;
/// No block is larger: one value over a full block.
const BLOCK_BYTES_MAX: usize = 4 << 20;

pub fn name(revision: Revision) -> String {
    format!("{:020}.snapshot", revision.0)
}

pub fn revision_of(name: &str) -> Option<Revision> {
    let digits = name.strip_suffix(".snapshot").filter(|digits| digits.len() == 20)?;
    Some(Revision(digits.parse().ok()?))
}

/// What a snapshot says besides the entries.
pub(super) struct Snapshot {
    pub store: u64,
    pub compacted: Revision,
    pub sequence: Sequence,
}

/// Writes a snapshot. It has its name only when it is whole and durable.
pub(super) fn write(disk: &dyn Disk, snapshot: &Snapshot) -> Result<u64, Error> {
    let name = name(snapshot.sequence.head);
    let temporary = format!("{name}.tmp");
    let failed = |source| Error::Disk { doing: "write", file: name.clone(), source };
    let write = || {
        let mut writer = Writer { file: disk.create(&temporary)?, offset: 0 };
        writer.put(&header(snapshot))?;
        let mut block = Vec::with_capacity(BLOCK_BYTES * 2);
        encode_epochs(&snapshot.sequence.epochs, &mut block);
        writer.put_block(&block)?;
        block.clear();
        for entry in snapshot.sequence.tree.range(&KeyRange::all()) {
            encode_entry(entry, &mut block);
            if block.len() >= BLOCK_BYTES {
                writer.put_block(&block)?;
                block.clear();
            }
        }
        if !block.is_empty() {
            writer.put_block(&block)?;
        }
        writer.put_block(&[])?;
        writer.file.sync()?;
        disk.rename(&temporary, &name)?;
        disk.sync_directory()?;
        Ok(writer.offset)
    };
    write().map_err(|source| {
        // What was written so far would only take up space.
        let _ = disk.remove(&temporary);
        failed(source)
    })
}

/// Reads a snapshot, keeping only the entries of a range.
pub(super) fn read(
    disk: &dyn Disk,
    revision: Revision,
    range: &KeyRange,
) -> Result<Snapshot, Error> {
    let name = name(revision);
    let failed = |source| Error::Disk { doing: "read", file: name.clone(), source };
    let file = disk.open(&name).map_err(failed)?;
    let length = file.length().map_err(failed)?;
    let mut reader = Reader { name: &name, file: &*file, length, offset: 0 };
    let head = decode_header(&reader.take(HEADER_BYTES)?, &name)?;
    if head.revision != revision {
        return Err(Error::Foreign { file: name });
    }
    let malformed = |error: Malformed, offset| reader_damage(&name, offset, error.to_string());
    let offset = reader.offset;
    let block = reader.take_block()?;
    let epochs = decode_epochs(&mut &block[..]).map_err(|error| malformed(error, offset))?;
    let mut entries = Vec::with_capacity(if range == &KeyRange::all() { head.count } else { 0 });
    let mut count = 0;
    loop {
        let offset = reader.offset;
        let block = reader.take_block()?;
        if block.is_empty() {
            break;
        }
        let mut input = &block[..];
        while !input.is_empty() {
            let entry =
                decode_entry(&mut input, range).map_err(|error| malformed(error, offset))?;
            entries.extend(entry);
            count += 1;
        }
    }
    if count != head.count || reader.offset != length {
        let what = format!("{count} entries instead of {}", head.count);
        return Err(reader_damage(&name, reader.offset, what));
    }
    let sequence = Sequence { tree: Tree::from_sorted(entries), epochs, head: revision };
    Ok(Snapshot { store: head.store, compacted: head.compacted, sequence })
}

struct Writer {
    file: Arc<dyn DiskFile>,
    offset: u64,
}

impl Writer {
    fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.file.write_at(bytes, self.offset)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn put_block(&mut self, block: &[u8]) -> std::io::Result<()> {
        let mut header = Vec::with_capacity(BLOCK_HEADER_BYTES as usize);
        header.put_u32_le(block.len() as u32);
        header.put_u32_le(crc32fast::hash(block));
        self.put(&header)?;
        self.put(block)
    }
}

struct Reader<'a> {
    name: &'a str,
    file: &'a dyn DiskFile,
    length: u64,
    offset: u64,
}

impl Reader<'_> {
    fn take(&mut self, length: usize) -> Result<Vec<u8>, Error> {
        if self.offset + length as u64 > self.length {
            return Err(reader_damage(self.name, self.offset, "it ends too early".to_owned()));
        }
        let mut bytes = vec![0; length];
        let file = self.name.to_owned();
        let failed = |source| Error::Disk { doing: "read", file, source };
        self.file.read_at(&mut bytes, self.offset).map_err(failed)?;
        self.offset += length as u64;
        Ok(bytes)
    }

    fn take_block(&mut self) -> Result<Vec<u8>, Error> {
        let offset = self.offset;
        let mut header = &self.take(BLOCK_HEADER_BYTES as usize)?[..];
        let length = header.get_u32_le() as usize;
        let checksum = header.get_u32_le();
        if length > BLOCK_BYTES_MAX {
            return Err(reader_damage(self.name, offset, format!("a block of {length} bytes")));
        }
        let block = self.take(length)?;
        if crc32fast::hash(&block) != checksum {
            return Err(reader_damage(self.name, offset, "a checksum is wrong".to_owned()));
        }
        Ok(block)
    }
}

fn reader_damage(name: &str, offset: u64, what: String) -> Error {
    Error::Corrupt { file: name.to_owned(), offset, what }
}

struct Header {
    store: u64,
    revision: Revision,
    compacted: Revision,
    count: usize,
}

fn header(snapshot: &Snapshot) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.put_slice(MAGIC);
    header.put_u32_le(FORMAT);
    header.put_u64_le(snapshot.store);
    header.put_u64_le(snapshot.sequence.head.0);
    header.put_u64_le(snapshot.compacted.0);
    header.put_u64_le(snapshot.sequence.tree.len() as u64);
    let checksum = crc32fast::hash(&header);
    header.put_u32_le(checksum);
    header
}

fn decode_header(bytes: &[u8], name: &str) -> Result<Header, Error> {
    let (mut header, mut checksum) = bytes.split_at(HEADER_BYTES - 4);
    let computed = crc32fast::hash(header);
    if !header.starts_with(MAGIC) {
        return Err(Error::Foreign { file: name.to_owned() });
    }
    header.advance(MAGIC.len());
    let format = header.get_u32_le();
    if format > FORMAT {
        let file = name.to_owned();
        return Err(Error::NewerFormat { file, found: format, supported: FORMAT });
    }
    if computed != checksum.get_u32_le() {
        return Err(reader_damage(name, 0, "the header's checksum is wrong".to_owned()));
    }
    Ok(Header {
        store: header.get_u64_le(),
        revision: Revision(header.get_u64_le()),
        compacted: Revision(header.get_u64_le()),
        count: header.get_u64_le() as usize,
    })
}

fn encode_epochs(epochs: &Epochs, out: &mut Vec<u8>) {
    record::put_number(out, epochs.0.len() as u64);
    for (group, number) in &epochs.0 {
        record::put_bytes(out, group.as_bytes());
        record::put_number(out, *number);
    }
}

fn decode_epochs(input: &mut &[u8]) -> Result<Epochs, Malformed> {
    let mut epochs = Epochs::default();
    for _ in 0..record::get_number(input)? {
        let group = record::get_text(input)?;
        epochs.0.insert(group, record::get_number(input)?);
    }
    Ok(epochs)
}

fn encode_entry(entry: &Entry, out: &mut Vec<u8>) {
    record::put_bytes(out, entry.key.as_bytes());
    record::put_number(out, entry.created.0);
    record::put_number(out, entry.modified.0);
    record::put_bytes(out, &entry.value);
}

fn decode_entry(input: &mut &[u8], range: &KeyRange) -> Result<Option<Arc<Entry>>, Malformed> {
    let key = record::get_key(input)?;
    let created = Revision(record::get_number(input)?);
    let modified = Revision(record::get_number(input)?);
    let value = record::get_bytes(input)?;
    if !range.contains(&key) {
        return Ok(None);
    }
    let value = Bytes::copy_from_slice(value);
    Ok(Some(Arc::new(Entry::new(key, value, created, modified))))
}
