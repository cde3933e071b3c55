//! As much of DER as certificates of ours need: a writer, and a reader that trusts nothing.

use crate::calendar::{SECONDS_PER_DAY, civil, days_since_1970};

pub const BOOLEAN: u8 = 0x01;
pub const INTEGER: u8 = 0x02;
pub const BIT_STRING: u8 = 0x03;
pub const OCTET_STRING: u8 = 0x04;
pub const OBJECT_IDENTIFIER: u8 = 0x06;
pub const UTF8_STRING: u8 = 0x0c;
pub const PRINTABLE_STRING: u8 = 0x13;
pub const IA5_STRING: u8 = 0x16;
pub const UTC_TIME: u8 = 0x17;
pub const GENERALIZED_TIME: u8 = 0x18;
pub const SEQUENCE: u8 = 0x30;
pub const SET: u8 = 0x31;

/// The tag of `[number]` around other elements.
pub const fn context_constructed(number: u8) -> u8 {
    0xa0 | number
}

/// The tag of `[number]` instead of another tag.
pub const fn context(number: u8) -> u8 {
    0x80 | number
}

/// One element.
pub fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    let length = content.len().to_be_bytes();
    match content.len() {
        0..=0x7f => bytes.push(content.len() as u8),
        _ => {
            let first = length.iter().position(|byte| *byte != 0).unwrap_or(0);
            bytes.push(0x80 | (length.len() - first) as u8);
            bytes.extend_from_slice(&length[first..]);
        }
    }
    bytes.extend_from_slice(content);
    bytes
}

pub fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    element(SEQUENCE, &parts.concat())
}

/// Bits that fill whole octets.
pub fn bit_string(bytes: &[u8]) -> Vec<u8> {
    element(BIT_STRING, &[&[0], bytes].concat())
}

/// A moment, in the form its year asks for.
pub fn time(unix_seconds: i64) -> Vec<u8> {
    let days = unix_seconds.div_euclid(SECONDS_PER_DAY);
    let seconds = unix_seconds.rem_euclid(SECONDS_PER_DAY);
    let (year, month, day) = civil(days);
    let rest = format!(
        "{month:02}{day:02}{:02}{:02}{:02}Z",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    );
    match year {
        1950..2050 => element(UTC_TIME, format!("{:02}{rest}", year % 100).as_bytes()),
        _ => element(GENERALIZED_TIME, format!("{year:04}{rest}").as_bytes()),
    }
}

/// An element as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element<'a> {
    pub tag: u8,
    pub content: &'a [u8],
}

impl<'a> Element<'a> {
    /// The elements inside.
    pub fn reader(&self) -> Reader<'a> {
        Reader { rest: self.content }
    }

    /// A text in one of the encodings that names have in practice.
    pub fn text(&self) -> Option<&'a str> {
        match self.tag {
            UTF8_STRING => std::str::from_utf8(self.content).ok(),
            PRINTABLE_STRING | IA5_STRING if self.content.is_ascii() => {
                std::str::from_utf8(self.content).ok()
            }
            _ => None,
        }
    }

    /// Seconds since 1970.
    pub fn unix_seconds(&self) -> Option<i64> {
        let text = std::str::from_utf8(self.content).ok()?.strip_suffix('Z')?;
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let (year, rest) = match (self.tag, text.len()) {
            (UTC_TIME, 12) => {
                let year: i64 = text[..2].parse().ok()?;
                (if year < 50 { 2000 + year } else { 1900 + year }, &text[2..])
            }
            (GENERALIZED_TIME, 14) => (text[..4].parse().ok()?, &text[4..]),
            _ => return None,
        };
        let part = |at: usize| rest[at..at + 2].parse::<i64>().ok();
        let days = days_since_1970(year, part(0)?, part(2)?)?;
        let (hours, minutes, seconds) = (part(4)?, part(6)?, part(8)?);
        let real = hours < 24 && minutes < 60 && seconds < 60;
        real.then_some(days * SECONDS_PER_DAY + hours * 3600 + minutes * 60 + seconds)
    }
}

/// Reads elements one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    pub rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// The next element, if it has this tag.
    pub fn expect(&mut self, tag: u8) -> Option<Element<'a>> {
        let mut ahead = *self;
        let element = ahead.next().filter(|element| element.tag == tag)?;
        *self = ahead;
        Some(element)
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        let (&[tag, first], rest) = self.rest.split_first_chunk::<2>()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81..=0x84 => {
                let (octets, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let join = |length: usize, octet: &u8| length << 8 | usize::from(*octet);
                (octets.iter().fold(0, join), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.rest = rest;
        Some(Element { tag, content })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lengths_take_as_many_octets_as_they_need() {
        for length in [0, 1, 127, 128, 255, 256, 65_535, 65_536] {
            let written = element(OCTET_STRING, &vec![7; length]);
            let mut reader = Reader::new(&written);
            assert_eq!(reader.next().map(|element| element.content.len()), Some(length));
            assert!(reader.rest.is_empty());
        }
    }

    #[test]
    fn moments_are_written_as_the_standard_asks() {
        let cases: [(i64, u8, &str); 4] = [
            (0, UTC_TIME, "700101000000Z"),
            (951_827_696, UTC_TIME, "000229123456Z"),
            (2_524_607_999, UTC_TIME, "491231235959Z"),
            (2_524_608_000, GENERALIZED_TIME, "20500101000000Z"),
        ];
        for (seconds, tag, text) in cases {
            assert_eq!(time(seconds), element(tag, text.as_bytes()));
        }
        let bad =
            ["000230123456Z", "001301000000Z", "000101240000Z", "0001010000Z", "x00101000000Z"];
        for text in bad {
            let element = Element { tag: UTC_TIME, content: text.as_bytes() };
            assert_eq!(element.unix_seconds(), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn moments_come_back(seconds in 0..253_402_300_799_i64) {
            let written = time(seconds);
            let element = Reader::new(&written).next().unwrap();
            prop_assert_eq!(element.unix_seconds(), Some(seconds));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            for element in Reader::new(&bytes) {
                let _ = (element.text(), element.unix_seconds());
                for inner in element.reader() {
                    prop_assert!(inner.content.len() <= bytes.len());
                }
            }
        }
    }
}
