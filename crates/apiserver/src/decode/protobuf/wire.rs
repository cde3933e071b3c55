//! The wire form of protobuf: tags, numbers and runs of bytes, each checked against what is there.
//!
//! Upstream: protobuf.dev/programming-guides/encoding

use crate::decode::Error;

/// How a field's value is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    Varint,
    Fixed64,
    Bytes,
    GroupStart,
    GroupEnd,
    Fixed32,
}

/// What stands before a value.
#[derive(Clone, Copy, Debug)]
pub struct Tag {
    pub number: u64,
    pub wire: Wire,
}

/// The rest of a message.
pub struct Reader<'a> {
    rest: &'a [u8],
    /// What it is a message of, for errors, which leave out its package.
    of: &'static str,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8], of: &'static str) -> Reader<'a> {
        Reader { rest: bytes, of }
    }

    pub fn error(&self, problem: impl std::fmt::Display) -> Error {
        let of = self.of.rsplit('.').next().unwrap_or(self.of);
        Error::Syntax(format!("invalid protobuf in {of}: {problem}"))
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next tag; none at the end.
    pub fn tag(&mut self) -> Result<Option<Tag>, Error> {
        if self.is_empty() {
            return Ok(None);
        }
        let tag = self.raw_varint()?;
        let wire = match tag & 7 {
            0 => Wire::Varint,
            1 => Wire::Fixed64,
            2 => Wire::Bytes,
            3 => Wire::GroupStart,
            4 => Wire::GroupEnd,
            5 => Wire::Fixed32,
            other => return Err(self.error(format_args!("there is no wire type {other}"))),
        };
        match tag >> 3 {
            0 => Err(self.error("a field has the number 0")),
            number => Ok(Some(Tag { number, wire })),
        }
    }

    pub fn varint(&mut self, tag: Tag) -> Result<u64, Error> {
        self.expect(tag, Wire::Varint)?;
        self.raw_varint()
    }

    /// A number of at most ten bytes of seven bits, the lowest first.
    pub fn raw_varint(&mut self) -> Result<u64, Error> {
        const LENGTH_MAX: usize = 10;
        let mut number = 0;
        for (index, byte) in self.rest.iter().take(LENGTH_MAX).enumerate() {
            number |= u64::from(byte & 0x7f) << (7 * index);
            if *byte < 0x80 {
                self.rest = &self.rest[index + 1..];
                return Ok(number);
            }
        }
        Err(match self.rest.len() >= LENGTH_MAX {
            true => self.error("a number is longer than ten bytes"),
            false => self.error("a number is cut off"),
        })
    }

    pub fn double(&mut self, tag: Tag) -> Result<f64, Error> {
        self.expect(tag, Wire::Fixed64)?;
        self.raw_double()
    }

    pub fn raw_double(&mut self) -> Result<f64, Error> {
        let Some((bytes, rest)) = self.rest.split_first_chunk() else {
            return Err(self.error("a number is cut off"));
        };
        self.rest = rest;
        Ok(f64::from_le_bytes(*bytes))
    }

    pub fn bytes(&mut self, tag: Tag) -> Result<&'a [u8], Error> {
        self.expect(tag, Wire::Bytes)?;
        let length = self.raw_varint()?;
        self.take(length)
    }

    pub fn text(&mut self, tag: Tag) -> Result<&'a str, Error> {
        let bytes = self.bytes(tag)?;
        std::str::from_utf8(bytes)
            .map_err(|_| self.error(format_args!("field {} is not UTF-8", tag.number)))
    }

    /// Passes over a value that nobody asked for, with all of a group.
    pub fn skip(&mut self, tag: Tag) -> Result<(), Error> {
        let mut tag = tag;
        let mut groups_open = 0_usize;
        loop {
            match tag.wire {
                Wire::Varint => drop(self.raw_varint()?),
                Wire::Fixed64 => drop(self.take(8)?),
                Wire::Fixed32 => drop(self.take(4)?),
                Wire::Bytes => drop(self.bytes(tag)?),
                Wire::GroupStart => groups_open += 1,
                Wire::GroupEnd if groups_open == 0 => {
                    return Err(self.error("a group ends that did not begin"));
                }
                Wire::GroupEnd => groups_open -= 1,
            }
            if groups_open == 0 {
                return Ok(());
            }
            tag = match self.tag()? {
                Some(tag) => tag,
                None => return Err(self.error("a group does not end")),
            };
        }
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Error> {
        let split = usize::try_from(length).ok().and_then(|at| self.rest.split_at_checked(at));
        let Some((bytes, rest)) = split else {
            let left = self.rest.len();
            return Err(self.error(format_args!("a field of {length} bytes has only {left}")));
        };
        self.rest = rest;
        Ok(bytes)
    }

    fn expect(&self, tag: Tag, wire: Wire) -> Result<(), Error> {
        if tag.wire == wire {
            return Ok(());
        }
        let Tag { number, wire: found } = tag;
        Err(self.error(format_args!("field {number} has wire type {found:?}, not {wire:?}")))
    }
}
