//! Messages to the kernel: how they are written, sent and answered. Knows no particular message.

use std::fs::File;
use std::io::{self, Read, Write};

use super::system;

pub const REQUEST: u16 = 0x1;
pub const ACKNOWLEDGE: u16 = 0x4;
pub const CREATE: u16 = 0x400;
pub const EXCLUSIVE: u16 = 0x200;
pub const REPLACE: u16 = 0x100;
pub const APPEND: u16 = 0x800;
/// Asks for everything of a kind.
pub const LIST: u16 = 0x300;

const HEADER_BYTES: usize = 16;
const NESTED: u16 = 0x8000;
/// Bits of the kind of an attribute that say how it is written.
const KIND_FLAGS: u16 = 0xc000;
/// The message that says how another went.
const ERROR: u16 = 2;
/// The message after the last of a list.
const DONE: u16 = 3;
/// The most that one answer has.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// One message, as it is being written.
pub struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// `header` is what follows the general header for this kind.
    pub fn new(kind: u16, flags: u16, header: &[u8]) -> Message {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | REQUEST).to_ne_bytes());
        bytes.extend_from_slice(header);
        pad(&mut bytes);
        Message { bytes }
    }

    pub fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Message {
        let length = u16::try_from(value.len() + 4).expect("an attribute is small");
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        pad(&mut self.bytes);
        self
    }

    pub fn text(&mut self, kind: u16, value: &str) -> &mut Message {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attribute(kind, &bytes)
    }

    /// A number in the order of this machine.
    pub fn native(&mut self, kind: u16, value: u32) -> &mut Message {
        self.attribute(kind, &value.to_ne_bytes())
    }

    /// A number in the order of the network.
    pub fn number(&mut self, kind: u16, value: u32) -> &mut Message {
        self.attribute(kind, &value.to_be_bytes())
    }

    /// An attribute of attributes.
    pub fn nest(&mut self, kind: u16, inner: impl FnOnce(&mut Message)) -> &mut Message {
        self.nest_after(kind, &[], inner)
    }

    /// An attribute that begins with a header and goes on with attributes.
    pub fn nest_after(
        &mut self,
        kind: u16,
        header: &[u8],
        inner: impl FnOnce(&mut Message),
    ) -> &mut Message {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&(kind | NESTED).to_ne_bytes());
        self.bytes.extend_from_slice(header);
        pad(&mut self.bytes);
        inner(self);
        let length = u16::try_from(self.bytes.len() - at).expect("whoever nests bounds the parts");
        self.bytes[at..at + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }

    /// An attribute of attributes that are written already.
    pub fn nested(&mut self, kind: u16, inner: &[u8]) -> &mut Message {
        self.attribute(kind | NESTED, inner)
    }

    fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        self.bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }

    fn ask_for_answer(&mut self) {
        self.bytes[6] |= ACKNOWLEDGE.to_le_bytes()[0];
    }
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// A way to a part of the kernel, in the network of the thread that opened it.
pub struct Socket(File);

impl Socket {
    pub fn open(protocol: i32) -> io::Result<Socket> {
        system::netlink(protocol).map(Socket)
    }

    /// Does one thing.
    pub fn request(&mut self, mut message: Message) -> io::Result<()> {
        message.ask_for_answer();
        self.0.write_all(&message.finish(1))?;
        self.answer(1)
    }

    /// Does all, or nothing. The last is the one whose answer says so.
    pub fn batch(&mut self, messages: Vec<Message>) -> io::Result<()> {
        let mut bytes = Vec::new();
        let last = messages.len().saturating_sub(2);
        for (index, mut message) in messages.into_iter().enumerate() {
            // The one before the end: the end itself is never answered.
            if index == last {
                message.ask_for_answer();
            }
            bytes.extend(message.finish(u32::try_from(index).unwrap_or(u32::MAX)));
        }
        let sent = self.0.write(&bytes)?;
        if sent != bytes.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.answer(u32::try_from(last).unwrap_or(u32::MAX))
    }

    /// What a question is answered with: of each message what follows the general header.
    pub fn list(&mut self, message: Message) -> io::Result<Vec<Vec<u8>>> {
        let mut all = Vec::new();
        self.dump(message, |body| all.push(body.to_vec()))?;
        Ok(all)
    }

    /// The same, told one by one: there may be very many.
    pub fn dump(&mut self, message: Message, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        self.0.write_all(&message.finish(1))?;
        let mut bytes = vec![0; ANSWER_BYTES_MAX];
        loop {
            // The next part of a list is there as soon as the one before was read.
            let count = self.0.read(&mut bytes)?;
            for (kind, body) in messages(&bytes[..count]) {
                match kind {
                    DONE => return Ok(()),
                    ERROR => {
                        let code = body.first_chunk().map(|code| -i32::from_ne_bytes(*code));
                        return Err(io::Error::from_raw_os_error(code.unwrap_or(libc::EIO)));
                    }
                    _ => each(body),
                }
            }
        }
    }

    /// The kernel has answered when it returns from the call that sent, so nothing is waited for.
    fn answer(&mut self, sequence: u32) -> io::Result<()> {
        let mut bytes = vec![0; ANSWER_BYTES_MAX];
        let mut is_done = false;
        let mut failed = None;
        loop {
            let count = match self.0.read(&mut bytes) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            for (kind, found, code) in answers(&bytes[..count]) {
                if kind != ERROR {
                    continue;
                }
                if code != 0 && failed.is_none() {
                    failed = Some(io::Error::from_raw_os_error(-code));
                }
                is_done |= found == sequence;
            }
        }
        match (failed, is_done) {
            (Some(error), _) => Err(error),
            (None, true) => Ok(()),
            (None, false) => Err(io::Error::other("the kernel did not answer")),
        }
    }
}

/// Kind, sequence and code of the messages in an answer.
fn answers(mut bytes: &[u8]) -> Vec<(u16, u32, i32)> {
    let mut all = Vec::new();
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_ne_bytes)
    };
    while let Some(length) = word(bytes, 0) {
        let kind = word(bytes, 4).map_or(0, |word| u16::try_from(word & 0xffff).unwrap_or(0));
        let code = word(bytes, HEADER_BYTES).map_or(0, u32::cast_signed);
        all.push((kind, word(bytes, 8).unwrap_or(0), code));
        let step = usize::try_from(length).unwrap_or(0).next_multiple_of(4).max(HEADER_BYTES);
        bytes = bytes.get(step..).unwrap_or_default();
    }
    all
}

/// Kind and body of the messages in an answer.
fn messages(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut all = Vec::new();
    while let (Some(length), Some(kind)) = (bytes.first_chunk::<4>(), bytes.get(4..6)) {
        let length = usize::try_from(u32::from_ne_bytes(*length)).unwrap_or(0);
        let Some(body) = bytes.get(HEADER_BYTES..length) else { break };
        all.push((u16::from_ne_bytes([kind[0], kind[1]]), body));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    all
}

/// Kind and value of attributes, one after another.
pub fn attributes(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut all = Vec::new();
    while let Some([length, more, kind, flags]) = bytes.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([*length, *more]));
        let Some(value) = bytes.get(4..length) else { break };
        all.push((u16::from_ne_bytes([*kind, *flags]) & !KIND_FLAGS, value));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_padded_and_say_how_long_they_are() {
        let mut message = Message::new(16, CREATE, &[7]);
        message.text(3, "ab").nest(18, |inner| {
            inner.native(1, 5);
        });
        let bytes = message.finish(9);
        assert_eq!(bytes.len(), 16 + 4 + 8 + 4 + 8);
        assert_eq!(bytes[0..4], 40_u32.to_ne_bytes());
        assert_eq!(bytes[20..28], [7, 0, 3, 0, b'a', b'b', 0, 0]);
        assert_eq!(bytes[28..32], [12, 0, 18, 0x80]);
    }

    #[test]
    fn an_answer_that_is_cut_is_read_as_far_as_it_goes() {
        assert_eq!(answers(&[]), []);
        assert_eq!(answers(&[1, 0, 0]), []);
        let mut bytes = 20_u32.to_ne_bytes().to_vec();
        bytes.extend(2_u32.to_ne_bytes());
        bytes.extend(7_u32.to_ne_bytes());
        assert_eq!(answers(&bytes), [(2, 7, 0)]);
    }

    #[test]
    fn what_was_written_is_read() {
        let mut message = Message::new(16, 0, &[7, 0, 0, 0]);
        message.attribute(3, &[1, 2, 3]).nest(18, |inner| {
            inner.number(1, 5);
        });
        let bytes = message.finish(1);
        let [(16, body)] = messages(&bytes)[..] else { panic!("one message") };
        let [(3, [1, 2, 3]), (18, inner)] = attributes(&body[4..])[..] else { panic!("two parts") };
        assert_eq!(attributes(inner), [(1, &[0, 0, 0, 5][..])]);
        for end in 0..bytes.len() {
            // Cut anywhere, it is no whole message.
            assert_eq!(messages(&bytes[..end]), []);
        }
        assert_eq!(attributes(&[3, 0, 1, 0]), []);
    }
}
