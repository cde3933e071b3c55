//! A qcow2 image that is laid out as a disk while it still arrives. Its tables usually come before
//! what they speak of, so that most of it is written once, where it belongs; what comes too early
//! is kept aside (`part`) and put in its place at the end. What is packed or unusual is left to
//! QEMU.
//!
//! Nothing that the image says is trusted: what it may place, and what is remembered of it, is
//! bounded, and nothing is read but itself.
//!
//! Upstream: qemu, docs/interop/qcow2.txt

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::copy::is_zero;
use super::fault::Fault;

/// Tables, and pieces that lie together, that are remembered. What is beyond is put in its place at
/// the end.
const TABLES_MAX: u64 = 1 << 18;
const RUNS_MAX: usize = 1 << 18;
/// Where something lies in the image, in an entry of a table.
const PLACE: u64 = 0x00ff_ffff_ffff_fe00;
const PACKED: u64 = 1 << 62;
const ZERO: u64 = 1;
/// Features that change nothing of where things are: that somebody had it open.
const HARMLESS: u64 = 1;

/// What the beginning of an image says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    version: u64,
    bits: u32,
    pub size: u64,
    first_at: u64,
    first_entries: u64,
}

impl Header {
    /// `None` if the image has something that is not read here.
    pub fn read(head: &[u8]) -> Option<Header> {
        let number = |at: usize, length: usize| -> Option<u64> {
            let bytes = head.get(at..at + length)?;
            Some(bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
        };
        let version = number(4, 4)?;
        let header = Header {
            version,
            bits: u32::try_from(number(20, 4)?).ok()?,
            size: number(24, 8)?,
            first_at: number(40, 8)?,
            first_entries: number(36, 4)?,
        };
        let is_plain = version == 2 || number(72, 8)? & !HARMLESS == 0;
        let is_known = is_plain && (9..=21).contains(&header.bits) && header.size > 0;
        if !is_known || !header.first_at.is_multiple_of(header.cluster()) || header.first_at == 0 {
            return None;
        }
        let needed = header.tables();
        header.first_at.checked_add(needed.checked_mul(8)?)?;
        (needed <= TABLES_MAX && header.first_entries >= needed).then_some(header)
    }

    fn cluster(&self) -> u64 {
        1 << self.bits
    }

    /// Entries of one table of the second level.
    fn entries(&self) -> u64 {
        1 << (self.bits - 3)
    }

    /// Tables of the second level.
    fn tables(&self) -> u64 {
        self.size.div_ceil(self.cluster()).div_ceil(self.entries())
    }

    fn first_end(&self) -> u64 {
        self.first_at + self.tables() * 8
    }

    /// What an entry means. `None`: only QEMU knows.
    fn meaning(&self, entry: u64) -> Option<Meaning> {
        let is_zero = entry & ZERO != 0;
        let at = entry & PLACE;
        match () {
            () if entry & PACKED != 0 || is_zero && self.version == 2 => None,
            () if is_zero || at == 0 => Some(Meaning::Nothing),
            () if !at.is_multiple_of(self.cluster()) => None,
            () => Some(Meaning::At(at)),
        }
    }
}

enum Meaning {
    Nothing,
    At(u64),
}

/// Bytes that lie together in the image and in the disk: where in the disk, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    disk: u64,
    length: u64,
}

/// What the next bytes are.
enum Next {
    /// For the disk, at this place.
    Data(u64),
    /// The table of tables, or one of them that begins here.
    First,
    Second(u64),
    Other,
}

/// How it ended.
pub enum Laid {
    /// The disk is whole.
    Whole,
    /// The image is, and only QEMU can read it.
    Foreign,
}

pub struct Layout {
    header: Header,
    /// What is not put in its place yet, where it is in the image.
    part: File,
    disk: File,
    /// How much has come.
    pub length: u64,
    /// Tables that are still to come: where, and which.
    tables: BTreeMap<u64, u64>,
    /// What is still to come and whose place is known, by where it is in the image.
    expected: BTreeMap<u64, Run>,
    /// What is in its place.
    placed: BTreeMap<u64, Run>,
    /// Whether something was found that only QEMU reads: then nothing more is placed.
    is_foreign: bool,
}

impl Layout {
    /// Both files are empty.
    pub fn new(header: Header, part: File, disk: File) -> io::Result<Layout> {
        disk.set_len(header.size)?;
        Ok(Layout {
            header,
            part,
            disk,
            length: 0,
            tables: BTreeMap::new(),
            expected: BTreeMap::new(),
            placed: BTreeMap::new(),
            is_foreign: false,
        })
    }

    /// Takes the next bytes.
    pub fn take(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (next, until) = self.next();
            let left = usize::try_from(until - self.length).unwrap_or(usize::MAX);
            let (piece, rest) = bytes.split_at(left.min(bytes.len()));
            match next {
                Next::Data(at) => {
                    if !is_zero(piece) {
                        self.disk.write_all_at(piece, at)?;
                    }
                    self.place(Run { disk: at, length: piece.len() as u64 });
                }
                Next::First | Next::Second(_) | Next::Other => {
                    self.part.write_all_at(piece, self.length)?;
                }
            }
            self.length += piece.len() as u64;
            bytes = rest;
            if self.length == until {
                match next {
                    Next::First => self.read_first()?,
                    Next::Second(index) => self.read_second(index)?,
                    Next::Data(_) | Next::Other => {}
                }
            }
        }
        Ok(())
    }

    /// What comes next, and up to where it is that.
    fn next(&self) -> (Next, u64) {
        let (at, first_at) = (self.length, self.header.first_at);
        if at < first_at {
            return (Next::Other, first_at);
        }
        if at < self.header.first_end() {
            return (Next::First, self.header.first_end());
        }
        let table = self.tables.range(..=at).next_back();
        if let Some((table, index)) = table.filter(|(it, _)| at < *it + self.header.cluster()) {
            return (Next::Second(*index), table + self.header.cluster());
        }
        let next_table = self.tables.range(at..).next().map_or(u64::MAX, |(at, _)| *at);
        let run = self.expected.range(..=at).next_back();
        if let Some((from, run)) = run.filter(|(from, run)| at < *from + run.length) {
            return (Next::Data(run.disk + (at - from)), (from + run.length).min(next_table));
        }
        let next_run = self.expected.range(at..).next().map_or(u64::MAX, |(at, _)| *at);
        (Next::Other, next_table.min(next_run))
    }

    /// Notes that the next bytes are in their place.
    fn place(&mut self, run: Run) {
        remember(&mut self.placed, self.length, run);
    }

    fn read_first(&mut self) -> io::Result<()> {
        for index in 0..self.header.tables() {
            let at = self.entry(self.header.first_at + index * 8)? & PLACE;
            // What has passed is found at the end.
            if at >= self.length && at.is_multiple_of(self.header.cluster()) {
                self.tables.insert(at, index);
            }
        }
        Ok(())
    }

    fn read_second(&mut self, index: u64) -> io::Result<()> {
        let cluster = self.header.cluster();
        self.tables.remove(&(self.length - cluster));
        let table = self.table(self.length - cluster)?;
        for (disk, entry) in self.entries_of(index, &table) {
            let at = match self.header.meaning(entry) {
                None => {
                    self.is_foreign = true;
                    self.expected.clear();
                    return Ok(());
                }
                Some(Meaning::At(at)) if at >= self.length => at,
                Some(_) => continue,
            };
            let length = cluster.min(self.header.size - disk);
            let has_room = self.expected.len() < RUNS_MAX && self.placed.len() < RUNS_MAX;
            if has_room && !self.is_foreign {
                remember(&mut self.expected, at, Run { disk, length });
            }
        }
        Ok(())
    }

    /// The entries of a table with the places of the disk that they speak of.
    fn entries_of(&self, index: u64, table: &[u8]) -> Vec<(u64, u64)> {
        let (entries, bits) = (self.header.entries(), self.header.bits);
        let all = table.chunks_exact(8).zip(0..).map(|(bytes, number)| {
            let entry = bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
            ((index * entries + number) << bits, entry)
        });
        all.take_while(|(disk, _)| *disk < self.header.size).collect()
    }

    fn entry(&self, at: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(&mut bytes, at)?;
        Ok(u64::from_be_bytes(bytes))
    }

    fn table(&self, at: u64) -> io::Result<Vec<u8>> {
        let mut table = vec![0; usize::try_from(self.header.cluster()).unwrap_or(0)];
        self.read(&mut table, at)?;
        Ok(table)
    }

    /// Reads of the image what has come, wherever it is. What has not come is zeros.
    fn read(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let here = at + done as u64;
            let left = (bytes.len() - done) as u64;
            let run = self.placed.range(..=here).next_back();
            let inside = run.filter(|(from, run)| here < *from + run.length);
            let (file, from, length) = match inside {
                Some((from, run)) => {
                    (&self.disk, run.disk + (here - from), left.min(from + run.length - here))
                }
                None => {
                    let next = self.placed.range(here..).next().map_or(u64::MAX, |(at, _)| *at);
                    (&self.part, here, left.min(next - here))
                }
            };
            let length = usize::try_from(length).unwrap_or(0);
            read_zeros(file, &mut bytes[done..done + length], from)?;
            done += length;
        }
        Ok(())
    }

    /// Puts what came too early in its place. The whole image has come.
    pub fn finish(mut self) -> Result<Laid, Fault> {
        let doing = || Fault::io("lay out an image");
        if !self.is_foreign && self.settle()? {
            return Ok(Laid::Whole);
        }
        let runs = std::mem::take(&mut self.placed);
        let mut piece = vec![0; 1 << 20];
        for (at, run) in runs {
            let mut done = 0;
            while done < run.length {
                let left = usize::try_from(run.length - done).unwrap_or(usize::MAX);
                let length = left.min(piece.len());
                read_zeros(&self.disk, &mut piece[..length], run.disk + done).map_err(doing())?;
                self.part.write_all_at(&piece[..length], at + done).map_err(doing())?;
                done += length as u64;
            }
        }
        self.part.set_len(self.length).map_err(doing())?;
        Ok(Laid::Foreign)
    }

    /// Says whether everything is in its place.
    fn settle(&self) -> Result<bool, Fault> {
        let doing = || Fault::io("lay out an image");
        let cut = || Fault::Broken("the image is cut off".to_owned());
        if self.length < self.header.first_end() {
            return Err(cut());
        }
        let cluster = usize::try_from(self.header.cluster()).unwrap_or(0);
        let mut bytes = vec![0; cluster];
        for index in 0..self.header.tables() {
            let first = self.header.first_at + index * 8;
            let at = self.entry(first).map_err(doing())? & PLACE;
            if at == 0 {
                continue;
            }
            if at + self.header.cluster() > self.length {
                return Err(cut());
            }
            let table = self.table(at).map_err(doing())?;
            for (disk, entry) in self.entries_of(index, &table) {
                let at = match self.header.meaning(entry) {
                    None => return Ok(false),
                    Some(Meaning::Nothing) => continue,
                    Some(Meaning::At(at)) => at,
                };
                if at >= self.length {
                    return Err(cut());
                }
                if self.is_placed(at, disk) {
                    continue;
                }
                let length = (self.header.size - disk).min(self.header.cluster());
                let piece = &mut bytes[..usize::try_from(length).unwrap_or(0)];
                self.read(piece, at).map_err(doing())?;
                if !is_zero(piece) {
                    self.disk.write_all_at(piece, disk).map_err(doing())?;
                }
            }
        }
        Ok(true)
    }

    fn is_placed(&self, at: u64, disk: u64) -> bool {
        let run = self.placed.range(..=at).next_back();
        let wanted = self.header.cluster().min(self.header.size - disk);
        // The last cluster of an image may be cut short.
        let wanted = wanted.min(self.length - at);
        run.is_some_and(|(from, run)| {
            at + wanted <= from + run.length && run.disk + (at - from) == disk
        })
    }
}

/// Adds a run to others, as part of the one before it if they lie together.
fn remember(runs: &mut BTreeMap<u64, Run>, at: u64, run: Run) {
    if let Some((from, last)) = runs.range_mut(..=at).next_back() {
        if from + last.length == at && last.disk + last.length == run.disk {
            last.length += run.length;
            return;
        }
        // What two entries speak of is placed once; the other is made at the end.
        if at < from + last.length {
            return;
        }
    }
    if runs.range(at..).next().is_none_or(|(next, _)| at + run.length <= *next) {
        runs.insert(at, run);
    }
}

/// Reads what is there; what is not is zeros.
fn read_zeros(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], at + done as u64)? {
            0 => break,
            read => done += read,
        }
    }
    bytes[done..].fill(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_at_the_end_of_all_places_is_left_to_qemu() {
        let mut head = vec![0; 104];
        head[7] = 3;
        head[20..24].copy_from_slice(&16u32.to_be_bytes());
        head[24..32].copy_from_slice(&(1u64 << 43).to_be_bytes());
        head[36..40].copy_from_slice(&u32::MAX.to_be_bytes());
        let mut read = |first_at: u64| {
            head[40..48].copy_from_slice(&first_at.to_be_bytes());
            Header::read(&head)
        };
        assert!(read(1 << 16).is_some());
        assert_eq!(read(u64::MAX << 16), None);
    }
}
