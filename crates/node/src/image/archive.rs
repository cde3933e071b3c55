//! Archives of images as files: what `gzip` packed is unpacked here, as not every runtime does it.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use flate2::read::MultiGzDecoder;

/// How what `gzip` wrote begins.
const PACKED: [u8; 2] = [0x1f, 0x8b];

/// An archive, to be read unpacked.
pub enum Archive {
    Plain(File),
    Packed(MultiGzDecoder<File>),
}

impl Archive {
    pub fn open(path: &Path) -> io::Result<Archive> {
        let mut file = File::open(path)?;
        let mut begin = [0; PACKED.len()];
        let is_packed = file.read_exact(&mut begin).is_ok() && begin == PACKED;
        file.rewind()?;
        Ok(match is_packed {
            true => Archive::Packed(MultiGzDecoder::new(file)),
            false => Archive::Plain(file),
        })
    }
}

impl Read for Archive {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Archive::Plain(file) => file.read(bytes),
            Archive::Packed(packed) => packed.read(bytes),
        }
    }
}
