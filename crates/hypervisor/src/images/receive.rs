//! Reads an image, checks it, and keeps it: as it is, or, if it can be, already as the disk that it
//! is of. Reading and writing go on beside each other.

use std::fs::File;
use std::io::{Read, Write};

use aws_lc_rs::digest;
use bytes::Bytes;
use tokio::sync::mpsc;

use super::copy::{Sparse, beside, create};
use super::fault::Fault;
use super::fetch::{self, Download};
use super::format::{Format, HEAD_BYTES, detect};
use super::import::{CHUNK_BYTES, CONVERTED, Import, OVERHEAD_BYTES, PART, Progress, Source};
use super::open::{Access, open};
use super::qcow2::{Header, Laid, Layout};
use crate::system;

/// Pieces that were read and wait to be written.
const PIECES_MAX: usize = 16;

/// After so much the disk begins to write, so that the end need not wait for all of it.
const WRITE_BACK_BYTES: u64 = 16 << 20;

/// What there is.
pub enum Received {
    /// The image, as it was read.
    Image,
    /// The disk that it was of.
    Disk(File),
}

/// A piece of an image. Without an end it is not whole.
enum Piece {
    Bytes(Bytes),
    End,
}

pub async fn receive(order: &Import, progress: Progress) -> Result<Received, Fault> {
    let mut taking = Taking::new(order, progress)?;
    let written = match &order.source {
        Source::File(path) => {
            let reading = || Fault::io(format!("read {}", path.display()));
            let mut from = open(path, Access::Read).map_err(reading())?;
            taking.of = Some(from.metadata().map_err(reading())?.len());
            let path = path.clone();
            tokio::task::spawn_blocking(move || {
                let reading = || Fault::io(format!("read {}", path.display()));
                let mut chunk = vec![0; CHUNK_BYTES];
                loop {
                    match from.read(&mut chunk).map_err(reading())? {
                        0 => return taking.end(),
                        read => taking.take(&chunk[..read])?,
                    }
                }
            })
        }
        Source::Http { url, reach } | Source::Registry { url, reach } => {
            let mut download = fetch::open(url, *reach).await?;
            taking.of = download.length;
            taking.check(download.length.unwrap_or(0))?;
            let (sender, mut pieces) = mpsc::channel(PIECES_MAX);
            let writing = tokio::task::spawn_blocking(move || {
                while let Some(piece) = pieces.blocking_recv() {
                    match piece {
                        Piece::Bytes(bytes) => taking.take(&bytes)?,
                        Piece::End => return taking.end(),
                    }
                }
                Err(Fault::Broken("nobody waits for it any more".to_owned()))
            });
            let fed = feed(&mut download, sender).await;
            let written = writing.await.map_err(|error| Fault::Broken(error.to_string()))?;
            // Nobody writes any more, and files may go. Who stopped taking says why.
            fed?;
            return written;
        }
    };
    written.await.map_err(|error| Fault::Broken(error.to_string()))?
}

async fn feed(download: &mut Download, sender: mpsc::Sender<Piece>) -> Result<(), Fault> {
    loop {
        let piece = download.next().await?.map_or(Piece::End, Piece::Bytes);
        let is_last = matches!(piece, Piece::End);
        if sender.send(piece).await.is_err() || is_last {
            return Ok(());
        }
    }
}

/// Takes an image piece by piece.
struct Taking {
    order: Import,
    progress: Progress,
    /// How long it is said to be.
    of: Option<u64>,
    length: u64,
    /// Its beginning, until that is enough to see what it is.
    head: Vec<u8>,
    keeping: Option<Keeping>,
    wanted: Option<Checksum>,
    sum: Option<digest::Context>,
}

enum Keeping {
    Image(Sparse<File>),
    Disk(Box<Layout>, File),
}

impl Taking {
    fn new(order: &Import, progress: Progress) -> Result<Taking, Fault> {
        let wanted = order.checksum.as_deref().map(Checksum::parse).transpose()?;
        let sum = wanted.as_ref().map(|wanted| digest::Context::new(wanted.algorithm));
        Ok(Taking {
            order: order.clone(),
            progress,
            of: None,
            length: 0,
            head: Vec::new(),
            keeping: None,
            wanted,
            sum,
        })
    }

    /// Whether so much may come.
    fn check(&self, length: u64) -> Result<(), Fault> {
        let available = self.order.bytes + OVERHEAD_BYTES;
        match length > available {
            true => Err(Fault::TooLarge {
                image: self.of.unwrap_or(length).max(available),
                available: self.order.bytes,
            }),
            false => Ok(()),
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let before = self.length;
        self.length += bytes.len() as u64;
        self.check(self.length)?;
        if let Some(sum) = &mut self.sum {
            sum.update(bytes);
        }
        match &mut self.keeping {
            Some(keeping) => {
                keeping.take(bytes)?;
                if self.length / WRITE_BACK_BYTES > before / WRITE_BACK_BYTES {
                    system::begin_to_write_back(keeping.file());
                }
            }
            None => {
                self.head.extend_from_slice(bytes);
                if self.head.len() >= HEAD_BYTES {
                    self.begin()?;
                }
            }
        }
        if let Some(of) = self.of.filter(|of| *of > 0) {
            (self.progress)(self.length as f64 / of as f64);
        }
        Ok(())
    }

    /// Decides how the image is kept, by how it begins.
    fn begin(&mut self) -> Result<(), Fault> {
        let head = std::mem::take(&mut self.head);
        let part = create(&beside(&self.order.disk, PART))?;
        let header = match detect(&head)? {
            Format::Qcow2 { size } if size > self.order.bytes => {
                return Err(Fault::TooLarge { image: size, available: self.order.bytes });
            }
            Format::Qcow2 { .. } => Header::read(&head),
            Format::Raw | Format::Gzip | Format::Xz => None,
        };
        let mut keeping = match header {
            None => Keeping::Image(Sparse::new(part)),
            Some(header) => {
                let doing = || Fault::io("make room for an image");
                let disk = create(&beside(&self.order.disk, CONVERTED))?;
                let kept = disk.try_clone().map_err(doing())?;
                let layout = Layout::new(header, part, disk).map_err(doing())?;
                Keeping::Disk(Box::new(layout), kept)
            }
        };
        keeping.take(&head)?;
        self.keeping = Some(keeping);
        Ok(())
    }

    fn end(mut self) -> Result<Received, Fault> {
        if self.keeping.is_none() {
            self.begin()?;
        }
        if let (Some(wanted), Some(sum)) = (self.wanted, self.sum) {
            wanted.check(sum.finish().as_ref())?;
        }
        match self.keeping {
            Some(Keeping::Disk(layout, disk)) => match layout.finish()? {
                Laid::Whole => Ok(Received::Disk(disk)),
                Laid::Foreign => Ok(Received::Image),
            },
            Some(Keeping::Image(sparse)) => {
                sparse.end().map_err(Fault::io("write an image"))?;
                Ok(Received::Image)
            }
            None => Ok(Received::Image),
        }
    }
}

impl Keeping {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let written = match self {
            Keeping::Image(sparse) => sparse.write_all(bytes),
            Keeping::Disk(layout, _) => layout.take(bytes),
        };
        written.map_err(Fault::io("write an image"))
    }

    /// What most of it is written into.
    fn file(&self) -> &File {
        match self {
            Keeping::Image(sparse) => sparse.file(),
            Keeping::Disk(_, disk) => disk,
        }
    }
}

struct Checksum {
    algorithm: &'static digest::Algorithm,
    text: String,
}

impl Checksum {
    fn parse(text: &str) -> Result<Checksum, Fault> {
        let bad = || Fault::ChecksumForm(text.to_owned());
        let (name, value) = text.split_once(':').ok_or_else(bad)?;
        let algorithm: &digest::Algorithm = match name {
            "sha256" => &digest::SHA256,
            "sha512" => &digest::SHA512,
            "sha1" => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            _ => return Err(bad()),
        };
        let is_hex = value.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hex || value.len() != 2 * algorithm.output_len() {
            return Err(bad());
        }
        Ok(Checksum { algorithm, text: text.to_ascii_lowercase() })
    }

    fn check(&self, found: &[u8]) -> Result<(), Fault> {
        let name = self.text.split(':').next().unwrap_or_default();
        let hex: String = found.iter().map(|byte| format!("{byte:02x}")).collect();
        let found = format!("{name}:{hex}");
        match found == self.text {
            true => Ok(()),
            false => Err(Fault::Checksum { wanted: self.text.clone(), found }),
        }
    }
}
