//! One file of the log: a header, then frames, then zeros.
//!
//! A frame is one group commit: written at once, synced before the next one begins. So at most the
//! last frame of a log can be torn, and a bad frame with a whole one after it is damage. Frames
//! carry their segment's salt, a random number no client knows: bytes inside a value can never be
//! taken for a frame.

use std::sync::Arc;

use bytes::{Buf, BufMut};

use super::disk::{Disk, DiskFile};
use crate::Error;
use crate::Revision;
use crate::record::{self, Malformed, Record};

pub const HEADER_BYTES: u64 = 40;
const FRAME_HEADER_BYTES: usize = 16;
const MAGIC: &[u8; 8] = b"SETPTLOG";
/// The format this program writes, and the newest it reads.
pub const FORMAT: u32 = 1;
/// Zeros are written in pieces of this size.
static ZEROS: [u8; 256 * 1024] = [0; 256 * 1024];
/// No frame is larger: a full batch, one commit over it, and their keys.
pub const FRAME_BYTES_MAX: usize = 3 << 20;

/// An open segment.
#[derive(Clone)]
pub struct Segment {
    pub name: String,
    pub index: u64,
    pub file: Arc<dyn DiskFile>,
    pub salt: u64,
    pub size: u64,
}

/// What a frame holds.
#[derive(Debug, PartialEq)]
pub(super) enum Item {
    Commit(Record),
    Compact(Revision),
}

pub fn name(index: u64) -> String {
    format!("{index:010}.log")
}

pub fn index_of(name: &str) -> Option<u64> {
    name.strip_suffix(".log").filter(|digits| digits.len() == 10)?.parse().ok()
}

/// The format that the header of a segment names, also where it is newer than ours.
pub fn format_of(header: &[u8]) -> Option<u32> {
    let mut rest = header.strip_prefix(MAGIC)?;
    (rest.len() >= 4).then(|| rest.get_u32_le())
}

impl Segment {
    /// Makes a segment of zeros. It has its name only when it is whole and durable.
    pub fn prepare(disk: &dyn Disk, plan: &Plan) -> Result<Segment, Error> {
        let name = name(plan.index);
        let temporary = format!("{name}.tmp");
        let failed = |source| Error::Disk { doing: "prepare", file: name.clone(), source };
        let write = || {
            let file = disk.create(&temporary)?;
            file.write_at(&plan.header(), 0)?;
            let mut offset = HEADER_BYTES;
            while offset < plan.size {
                let length = (plan.size - offset).min(ZEROS.len() as u64) as usize;
                file.write_at(&ZEROS[..length], offset)?;
                offset += length as u64;
            }
            file.sync()?;
            disk.rename(&temporary, &name)?;
            disk.sync_directory()?;
            Ok(file)
        };
        let file = write().map_err(|source| {
            // What was written so far would only take up the space that is missing.
            let _ = disk.remove(&temporary);
            failed(source)
        })?;
        Ok(Segment {
            name: name.clone(),
            index: plan.index,
            file,
            salt: plan.salt,
            size: plan.size,
        })
    }

    /// Opens a segment and checks that it is one of this store.
    pub fn open(disk: &dyn Disk, index: u64, store: Option<u64>) -> Result<(Segment, u64), Error> {
        let name = name(index);
        let failed = |source| Error::Disk { doing: "open", file: name.clone(), source };
        let file = disk.open(&name).map_err(failed)?;
        let size = file.length().map_err(failed)?;
        if size < HEADER_BYTES {
            return Err(Error::Foreign { file: name });
        }
        let mut header = [0; HEADER_BYTES as usize];
        file.read_at(&mut header, 0).map_err(failed)?;
        let plan = Plan::from_header(&header, &name)?;
        if plan.index != index || store.is_some_and(|store| store != plan.store) {
            return Err(Error::Foreign { file: name });
        }
        Ok((Segment { name, index, file, salt: plan.salt, size }, plan.store))
    }

    /// The bytes of a segment of the same name with other frames.
    pub fn again(&self, frames: &[u8], store: u64) -> Vec<u8> {
        let size = HEADER_BYTES + frames.len() as u64;
        let plan = Plan { index: self.index, store, salt: self.salt, size };
        let mut bytes = plan.header();
        bytes.extend_from_slice(frames);
        bytes
    }

    pub fn damaged(&self, offset: u64, what: &str) -> Error {
        Error::Corrupt { file: self.name.clone(), offset, what: what.to_owned() }
    }

    pub fn failed(&self, doing: &'static str) -> impl Fn(std::io::Error) -> Error {
        let file = self.name.clone();
        move |source| Error::Disk { doing, file: file.clone(), source }
    }
}

/// What a new segment will be.
pub struct Plan {
    pub index: u64,
    pub store: u64,
    pub salt: u64,
    pub size: u64,
}

impl Plan {
    fn header(&self) -> Vec<u8> {
        let mut header = Vec::with_capacity(HEADER_BYTES as usize);
        header.put_slice(MAGIC);
        header.put_u32_le(FORMAT);
        header.put_u64_le(self.store);
        header.put_u64_le(self.index);
        header.put_u64_le(self.salt);
        let checksum = crc32fast::hash(&header);
        header.put_u32_le(checksum);
        header
    }

    fn from_header(header: &[u8], name: &str) -> Result<Plan, Error> {
        let (checked, mut checksum) = header.split_at(HEADER_BYTES as usize - 4);
        let mut fields = checked;
        if !fields.starts_with(MAGIC) {
            return Err(Error::Foreign { file: name.to_owned() });
        }
        fields.advance(MAGIC.len());
        let format = fields.get_u32_le();
        // Before the checksum: a newer format may keep it elsewhere.
        if format > FORMAT {
            let file = name.to_owned();
            return Err(Error::NewerFormat { file, found: format, supported: FORMAT });
        }
        if crc32fast::hash(checked) != checksum.get_u32_le() {
            let what = "the header's checksum is wrong".to_owned();
            return Err(Error::Corrupt { file: name.to_owned(), offset: 0, what });
        }
        let store = fields.get_u64_le();
        let index = fields.get_u64_le();
        Ok(Plan { index, store, salt: fields.get_u64_le(), size: 0 })
    }
}

/// Builds frames; keeps its buffer.
#[derive(Default)]
pub struct FrameBuilder {
    bytes: Vec<u8>,
}

impl FrameBuilder {
    pub fn start(&mut self) {
        self.bytes.clear();
        self.bytes.resize(FRAME_HEADER_BYTES, 0);
    }

    pub(super) fn push(&mut self, item: &Item) {
        match item {
            Item::Commit(record) => {
                self.bytes.push(1);
                record.encode(&mut self.bytes);
            }
            Item::Compact(revision) => {
                self.bytes.push(2);
                record::put_number(&mut self.bytes, revision.0);
            }
        }
    }

    pub fn length(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.len() <= FRAME_HEADER_BYTES
    }

    /// The finished frame for a segment.
    pub fn finish(&mut self, salt: u64) -> &[u8] {
        let length = (self.bytes.len() - FRAME_HEADER_BYTES) as u32;
        self.bytes[..8].copy_from_slice(&salt.to_le_bytes());
        self.bytes[8..12].copy_from_slice(&length.to_le_bytes());
        let checksum = checksum(&self.bytes);
        self.bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        &self.bytes
    }
}

/// Over all of a frame but the checksum itself.
fn checksum(frame: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&frame[..12]);
    hasher.update(&frame[FRAME_HEADER_BYTES..]);
    hasher.finalize()
}

/// Walks the frames of a segment.
pub struct FrameReader<'a> {
    segment: &'a Segment,
    /// Where the next frame begins.
    pub offset: u64,
    buffer: Vec<u8>,
    buffer_offset: u64,
}

/// What comes next in a segment.
pub(super) enum Next {
    Frame(Vec<Item>),
    /// Only zeros to the end.
    End,
    /// Not a frame, and no whole frame after it.
    Torn,
}

impl<'a> FrameReader<'a> {
    const READ_BYTES: usize = 1 << 20;

    pub fn new(segment: &'a Segment) -> FrameReader<'a> {
        FrameReader { segment, offset: HEADER_BYTES, buffer: Vec::new(), buffer_offset: 0 }
    }

    /// The next frame, the end, or what a crash left there.
    pub(super) fn next(&mut self) -> Result<Next, Error> {
        match self.whole_frame()? {
            Some(items) => Ok(Next::Frame(items)),
            None => self.judge_rest(),
        }
    }

    /// The next frame, if there is a whole one.
    pub(super) fn whole_frame(&mut self) -> Result<Option<Vec<Item>>, Error> {
        let Some(length) = self.frame_length(self.offset)? else { return Ok(None) };
        let frame = self.bytes(self.offset, length)?;
        let items = decode(&frame[FRAME_HEADER_BYTES..]).map_err(|error| {
            self.segment.damaged(self.offset, &format!("{error}, though its checksum holds"))
        })?;
        self.offset += length as u64;
        Ok(Some(items))
    }

    /// The length of the whole frame at an offset, if there is one.
    fn frame_length(&mut self, offset: u64) -> Result<Option<usize>, Error> {
        if offset + FRAME_HEADER_BYTES as u64 > self.segment.size {
            return Ok(None);
        }
        let salt = self.segment.salt;
        let mut header = self.bytes(offset, FRAME_HEADER_BYTES)?;
        if header.get_u64_le() != salt {
            return Ok(None);
        }
        let length = header.get_u32_le() as usize + FRAME_HEADER_BYTES;
        let expected = header.get_u32_le();
        if length > FRAME_BYTES_MAX || offset + length as u64 > self.segment.size {
            return Ok(None);
        }
        Ok((checksum(self.bytes(offset, length)?) == expected).then_some(length))
    }

    /// Something that is no frame: the end, a torn tail, or damage.
    fn judge_rest(&mut self) -> Result<Next, Error> {
        let salt = self.segment.salt.to_le_bytes();
        let finder = memchr::memmem::Finder::new(&salt);
        let mut clean = true;
        let mut at = self.offset;
        while at < self.segment.size {
            let length = ((self.segment.size - at) as usize).min(Self::READ_BYTES);
            let piece = self.bytes(at, length)?.to_vec();
            clean &= piece.iter().all(|byte| *byte == 0);
            for hit in finder.find_iter(&piece) {
                let candidate = at + hit as u64;
                if candidate != self.offset && self.frame_length(candidate)?.is_some() {
                    let what = "a frame is broken, but whole ones follow it";
                    return Err(self.segment.damaged(self.offset, what));
                }
            }
            // Overlap, so that a salt across two pieces is found.
            let step = if length < Self::READ_BYTES { length } else { length - (salt.len() - 1) };
            at += step as u64;
        }
        Ok(if clean { Next::End } else { Next::Torn })
    }

    fn bytes(&mut self, offset: u64, length: usize) -> Result<&[u8], Error> {
        let end = offset + length as u64;
        let buffered = self.buffer_offset..self.buffer_offset + self.buffer.len() as u64;
        if !(buffered.contains(&offset) && end <= buffered.end) {
            let wanted = length.max(Self::READ_BYTES) as u64;
            let available = wanted.min(self.segment.size - offset) as usize;
            self.buffer.resize(available, 0);
            let failed = self.segment.failed("read");
            self.segment.file.read_at(&mut self.buffer, offset).map_err(failed)?;
            self.buffer_offset = offset;
        }
        let start = (offset - self.buffer_offset) as usize;
        Ok(&self.buffer[start..start + length])
    }

    /// Puts zeros over a torn tail, durably, so that the next frame has clean ground after it.
    pub fn cut_tail(&self) -> Result<(), Error> {
        let failed = self.segment.failed("repair the end of");
        let mut at = self.offset;
        while at < self.segment.size {
            let length = (self.segment.size - at).min(ZEROS.len() as u64) as usize;
            self.segment.file.write_at(&ZEROS[..length], at).map_err(&failed)?;
            at += length as u64;
        }
        self.segment.file.sync().map_err(failed)
    }
}

fn decode(mut payload: &[u8]) -> Result<Vec<Item>, Malformed> {
    let mut items = Vec::new();
    while let Some((tag, rest)) = payload.split_first() {
        payload = rest;
        items.push(match tag {
            1 => Item::Commit(Record::decode(&mut payload)?),
            2 => Item::Compact(Revision(record::get_number(&mut payload)?)),
            _ => return Err(Malformed("an item")),
        });
    }
    Ok(items)
}
