//! What a guest is told when it first starts, as cloud-init looks for it (NoCloud): a small disk in
//! the format of a CD, with three files.
//!
//! The format is ISO 9660 with the names of Joliet: every system reads it, and what we need of it
//! are nine blocks before the files.

use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Serialize, Serializer};

use crate::error::Error;

/// What all files together may have.
pub const SEED_BYTES_MAX: usize = 1 << 20;
/// By this name cloud-init finds the disk.
const LABEL: &str = "cidata";
const BLOCK: usize = 2_048;
const FIRST_DESCRIPTOR: usize = 16;
const PATHS: [usize; 4] = [19, 20, 21, 22];
const ROOT: usize = 23;
const ROOT_JOLIET: usize = 24;
const FIRST_FILE: usize = 25;
/// A path table that knows the root alone.
const PATHS_BYTES: u32 = 10;

/// The files.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Seed {
    pub meta_data: String,
    pub user_data: String,
    pub network_config: Option<String>,
}

/// Writes none of the texts: they can hold passwords, and records are on disk.
impl Serialize for Seed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_struct("Seed", 0)?.end()
    }
}

/// Shows none of the texts.
impl std::fmt::Debug for Seed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Seed").finish_non_exhaustive()
    }
}

/// A file, where it is.
struct Placed<'a> {
    /// For readers that know no Joliet.
    short: &'static str,
    name: &'static str,
    text: &'a str,
    block: usize,
}

/// The whole disk.
pub fn write(seed: &Seed) -> Result<Vec<u8>, Error> {
    let mut files = vec![("METADATA.;1", "meta-data", seed.meta_data.as_str())];
    if let Some(text) = &seed.network_config {
        files.push(("NETWORKC.;1", "network-config", text));
    }
    files.push(("USERDATA.;1", "user-data", &seed.user_data));
    if files.iter().map(|(_, _, text)| text.len()).sum::<usize>() > SEED_BYTES_MAX {
        let what = format!("what a machine is told at its start has more than {SEED_BYTES_MAX}");
        return Err(Error::Invalid(format!("{what} bytes")));
    }
    let mut next = FIRST_FILE;
    let mut placed = Vec::new();
    for (short, name, text) in files {
        placed.push(Placed { short, name, text, block: next });
        next += text.len().div_ceil(BLOCK).max(1);
    }
    let mut disk = vec![0; next * BLOCK];
    put(&mut disk, FIRST_DESCRIPTOR, &descriptor(Names::Plain, next));
    put(&mut disk, FIRST_DESCRIPTOR + 1, &descriptor(Names::Joliet, next));
    put(&mut disk, FIRST_DESCRIPTOR + 2, &[255, b'C', b'D', b'0', b'0', b'1', 1]);
    for (place, root) in PATHS.into_iter().zip([ROOT, ROOT, ROOT_JOLIET, ROOT_JOLIET]) {
        let root = number(root);
        let root = if place % 2 == 1 { root.to_le_bytes() } else { root.to_be_bytes() };
        let parent = if place % 2 == 1 { [1, 0] } else { [0, 1] };
        put(&mut disk, place, &[&[1, 0], &root[..], &parent, &[0, 0]].concat());
    }
    put(&mut disk, ROOT, &directory(&placed, Names::Plain));
    put(&mut disk, ROOT_JOLIET, &directory(&placed, Names::Joliet));
    for file in &placed {
        put(&mut disk, file.block, file.text.as_bytes());
    }
    Ok(disk)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Plain,
    Joliet,
}

impl Names {
    fn root(self) -> usize {
        if self == Names::Plain { ROOT } else { ROOT_JOLIET }
    }

    fn text(self, text: &str) -> Vec<u8> {
        match self {
            Names::Plain => text.as_bytes().to_vec(),
            Names::Joliet => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        }
    }

    /// A text in a field of this length, filled up with spaces.
    fn field(self, text: &str, length: usize) -> Vec<u8> {
        let mut bytes = self.text(text);
        let space = self.text(" ");
        while bytes.len() + space.len() <= length {
            bytes.extend_from_slice(&space);
        }
        bytes.resize(length, 0);
        bytes
    }
}

fn put(disk: &mut [u8], block: usize, bytes: &[u8]) {
    disk[block * BLOCK..block * BLOCK + bytes.len()].copy_from_slice(bytes);
}

fn number(value: usize) -> u32 {
    u32::try_from(value).expect("a seed is small")
}

/// In both orders, one after the other.
fn both(value: usize) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&number(value).to_le_bytes());
    bytes[4..].copy_from_slice(&number(value).to_be_bytes());
    bytes
}

/// What the disk is and where its parts are.
fn descriptor(names: Names, blocks: usize) -> Vec<u8> {
    let (kind, paths) = match names {
        Names::Plain => (1, [PATHS[0], PATHS[1]]),
        Names::Joliet => (2, [PATHS[2], PATHS[3]]),
    };
    let mut bytes = vec![kind];
    bytes.extend_from_slice(b"CD001\x01\x00");
    bytes.extend(names.field("", 32));
    bytes.extend(names.field(LABEL, 32));
    bytes.extend([0; 8]);
    bytes.extend(both(blocks));
    let mut escapes = [0; 32];
    if names == Names::Joliet {
        escapes[..3].copy_from_slice(b"%/E");
    }
    bytes.extend(escapes);
    // One disk of one, and the length of a block.
    bytes.extend([1, 0, 0, 1, 1, 0, 0, 1, 0, 8, 8, 0]);
    bytes.extend(PATHS_BYTES.to_le_bytes());
    bytes.extend(PATHS_BYTES.to_be_bytes());
    bytes.extend(number(paths[0]).to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(number(paths[1]).to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(record(&[0], (names.root(), BLOCK), Entry::Directory));
    for length in [128, 128, 128, 128, 37, 37, 37] {
        bytes.extend(names.field("", length));
    }
    // Four times nobody knows when.
    for _ in 0..4 {
        bytes.extend([b'0'; 16]);
        bytes.push(0);
    }
    bytes.push(1);
    bytes
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    Directory,
    File,
}

fn directory(files: &[Placed<'_>], names: Names) -> Vec<u8> {
    let own = (names.root(), BLOCK);
    let mut bytes = record(&[0], own, Entry::Directory);
    bytes.extend(record(&[1], own, Entry::Directory));
    for file in files {
        let name = match names {
            Names::Plain => file.short.as_bytes().to_vec(),
            Names::Joliet => names.text(file.name),
        };
        bytes.extend(record(&name, (file.block, file.text.len()), Entry::File));
    }
    bytes
}

fn record(name: &[u8], (block, length): (usize, usize), entry: Entry) -> Vec<u8> {
    let mut bytes = vec![0, 0];
    bytes.extend(both(block));
    bytes.extend(both(length));
    // Always the same day, so that the same seed is the same disk.
    bytes.extend([120, 1, 1, 0, 0, 0, 0]);
    bytes.push(if entry == Entry::Directory { 2 } else { 0 });
    bytes.extend([0, 0, 1, 0, 0, 1]);
    bytes.push(u8::try_from(name.len()).expect("names are short"));
    bytes.extend_from_slice(name);
    if bytes.len() % 2 == 1 {
        bytes.push(0);
    }
    bytes[0] = u8::try_from(bytes.len()).expect("names are short");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_its_label_its_names_and_its_texts() {
        let long = "x".repeat(5_000);
        let seed = Seed {
            meta_data: "{}".to_owned(),
            user_data: long.clone(),
            network_config: Some("version: 2\n".to_owned()),
        };
        let disk = write(&seed).unwrap();
        assert_eq!(disk.len() % BLOCK, 0);
        let primary = &disk[16 * BLOCK..17 * BLOCK];
        assert_eq!(&primary[40..46], b"cidata");
        assert_eq!(primary[881], 1, "the version of the structure is where it belongs");
        let root = &disk[ROOT_JOLIET * BLOCK..];
        let name: Vec<u8> = "user-data".encode_utf16().flat_map(u16::to_be_bytes).collect();
        let at = root.windows(name.len()).position(|window| window == name).unwrap();
        let block = u32::from_le_bytes(root[at - 31..at - 27].try_into().unwrap());
        let start = usize::try_from(block).unwrap() * BLOCK;
        assert_eq!(&disk[start..start + long.len()], long.as_bytes());
    }

    #[test]
    fn a_seed_that_is_too_long_is_refused() {
        let seed = Seed { user_data: "x".repeat(SEED_BYTES_MAX), ..Seed::default() };
        assert!(write(&seed).is_ok());
        let seed = Seed { meta_data: "x".to_owned(), ..seed };
        assert!(write(&seed).is_err());
    }
}
