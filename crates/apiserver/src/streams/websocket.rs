//! The frames of a WebSocket, as a server reads and writes them.
//!
//! A message is handed on in pieces as it comes, so that its length costs no memory.
//!
//! RFC 6455.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::PIECE_BYTES_MAX;
use super::handshake::Channels;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
/// The most that a frame of control may carry.
const CONTROL_BYTES_MAX: u64 = 125;
/// The longest message in base64, which is read as a whole.
pub const TEXT_BYTES_MAX: usize = 1 << 20;

/// What the client said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A piece of a message; empty only if the message is.
    Data {
        bytes: Bytes,
        /// Whether it begins a message, and whether it ends one.
        is_first: bool,
        is_last: bool,
    },
    Ping(Bytes),
    Pong,
    Close,
}

/// Why a connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It ended.
    Gone,
    /// The client does not keep to the protocol.
    Protocol,
}

/// Reads frames.
pub struct Reader<R> {
    stream: R,
    /// What is left of the frame of data that is being read.
    left: u64,
    mask: [u8; 4],
    /// How far into its mask.
    at: usize,
    /// Whether the frame is the last of its message.
    is_final: bool,
    /// Whether a message has begun and not ended, and whether a piece of it was handed on.
    is_open: bool,
    was_begun: bool,
}

struct Head {
    opcode: u8,
    is_final: bool,
    length: u64,
    mask: [u8; 4],
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub fn new(stream: R) -> Reader<R> {
        Reader {
            stream,
            left: 0,
            mask: [0; 4],
            at: 0,
            is_final: true,
            is_open: false,
            was_begun: false,
        }
    }

    /// The next thing that the client says. To be dropped half-way only with the reader.
    pub async fn next(&mut self) -> Result<Event, Fault> {
        while self.left == 0 {
            let head = self.head().await?;
            match head.opcode {
                CLOSE | PING | PONG => return self.control(head).await,
                CONTINUATION if !self.is_open => return Err(Fault::Protocol),
                TEXT | BINARY if self.is_open => return Err(Fault::Protocol),
                CONTINUATION | TEXT | BINARY => {}
                _ => return Err(Fault::Protocol),
            }
            (self.left, self.mask, self.at) = (head.length, head.mask, 0);
            (self.is_final, self.is_open) = (head.is_final, true);
            if self.left == 0 && self.is_final {
                return Ok(self.piece(Bytes::new()));
            }
        }
        let size = usize::try_from(self.left).unwrap_or(usize::MAX).min(PIECE_BYTES_MAX);
        let mut bytes = BytesMut::with_capacity(size);
        let read = (&mut self.stream).take(size as u64).read_buf(&mut bytes).await;
        match read {
            Ok(0) | Err(_) => return Err(Fault::Gone),
            Ok(count) => self.left -= count as u64,
        }
        self.at = unmask(&mut bytes, self.mask, self.at);
        Ok(self.piece(bytes.freeze()))
    }

    fn piece(&mut self, bytes: Bytes) -> Event {
        let is_last = self.left == 0 && self.is_final;
        let is_first = !self.was_begun;
        (self.is_open, self.was_begun) = (!is_last, !is_last);
        Event::Data { bytes, is_first, is_last }
    }

    async fn control(&mut self, head: Head) -> Result<Event, Fault> {
        if head.length > CONTROL_BYTES_MAX || !head.is_final {
            return Err(Fault::Protocol);
        }
        let mut bytes = vec![0; usize::try_from(head.length).unwrap_or(0)];
        self.stream.read_exact(&mut bytes).await.map_err(|_| Fault::Gone)?;
        unmask(&mut bytes, head.mask, 0);
        Ok(match head.opcode {
            CLOSE => Event::Close,
            PING => Event::Ping(bytes.into()),
            _ => Event::Pong,
        })
    }

    async fn head(&mut self) -> Result<Head, Fault> {
        let mut first = [0; 2];
        self.stream.read_exact(&mut first).await.map_err(|_| Fault::Gone)?;
        // Clients mask; bits that no extension gave a meaning are zero.
        if first[1] & 0x80 == 0 || first[0] & 0x70 != 0 {
            return Err(Fault::Protocol);
        }
        let length = match first[1] & 0x7f {
            126 => self.stream.read_u16().await.map(u64::from),
            127 => self.stream.read_u64().await,
            short => Ok(u64::from(short)),
        };
        let length = length.map_err(|_| Fault::Gone)?;
        if length > u64::MAX >> 1 {
            return Err(Fault::Protocol);
        }
        let mut mask = [0; 4];
        self.stream.read_exact(&mut mask).await.map_err(|_| Fault::Gone)?;
        Ok(Head { opcode: first[0] & 0x0f, is_final: first[0] & 0x80 != 0, length, mask })
    }
}

fn unmask(bytes: &mut [u8], mask: [u8; 4], at: usize) -> usize {
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte ^= mask[(at + index) % 4];
    }
    (at + bytes.len()) % 4
}

/// A whole frame, as servers write it: not masked.
fn frame(opcode: u8, parts: [&[u8]; 2]) -> Bytes {
    let length = parts[0].len() + parts[1].len();
    let mut frame = BytesMut::with_capacity(length + 10);
    frame.put_u8(0x80 | opcode);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < 126 => frame.put_u8(short),
        (_, Ok(medium)) => {
            frame.put_u8(126);
            frame.put_u16(medium);
        }
        _ => {
            frame.put_u8(127);
            frame.put_u64(length as u64);
        }
    }
    parts.into_iter().for_each(|part| frame.put_slice(part));
    frame.freeze()
}

pub fn message(bytes: &[u8]) -> Bytes {
    frame(BINARY, [bytes, &[]])
}

/// A message of a channel.
pub fn channel(channels: Channels, number: u8, bytes: &[u8]) -> Bytes {
    if channels.is_base64 {
        let text = BASE64_STANDARD.encode(bytes);
        return frame(TEXT, [&[b'0'.wrapping_add(number)], text.as_bytes()]);
    }
    frame(BINARY, [&[number], bytes])
}

pub fn pong(bytes: &[u8]) -> Bytes {
    frame(PONG, [bytes, &[]])
}

/// All is well, or the client broke the protocol.
pub fn close(fault: Option<Fault>) -> Bytes {
    let code: u16 = if fault == Some(Fault::Protocol) { 1002 } else { 1000 };
    frame(CLOSE, [&code.to_be_bytes(), &[]])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    async fn read(bytes: &[u8]) -> (Vec<Event>, Fault) {
        let mut reader = Reader::new(bytes);
        let mut events = Vec::new();
        loop {
            match reader.next().await {
                Ok(event) => events.push(event),
                Err(fault) => return (events, fault),
            }
        }
    }

    /// A frame as a client sends it.
    fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = frame(0, [payload, &[]]).to_vec();
        let head = bytes.len() - payload.len();
        bytes[0] = first;
        bytes[1] |= 0x80;
        let mask = [1, 2, 3, 4];
        let mut body = bytes.split_off(head);
        unmask(&mut body, mask, 0);
        [bytes, mask.to_vec(), body].concat()
    }

    fn data(bytes: &'static [u8], is_first: bool, is_last: bool) -> Event {
        Event::Data { bytes: Bytes::from_static(bytes), is_first, is_last }
    }

    #[tokio::test]
    async fn messages_come_in_pieces_with_control_between_them() {
        let bytes = [
            masked(BINARY, b"one "),
            masked(0x80 | PING, b"here?"),
            masked(0x80 | CONTINUATION, b"two"),
            masked(0x80 | TEXT, b""),
            masked(0x80 | CLOSE, &[3, 232]),
        ]
        .concat();
        let (events, fault) = read(&bytes).await;
        let expected = [
            data(b"one ", true, false),
            Event::Ping(Bytes::from_static(b"here?")),
            data(b"two", false, true),
            data(b"", true, true),
            Event::Close,
        ];
        assert_eq!((events.as_slice(), fault), (&expected[..], Fault::Gone));
    }

    #[tokio::test]
    async fn a_long_message_is_never_held_as_a_whole() {
        let payload = vec![7; 3 * PIECE_BYTES_MAX + 5];
        let bytes = masked(0x80 | BINARY, &payload);
        let (events, _) = read(&bytes).await;
        let mut whole = Vec::new();
        for event in &events {
            let Event::Data { bytes, is_last, .. } = event else { panic!("{event:?}") };
            assert!(bytes.len() <= PIECE_BYTES_MAX);
            whole.extend_from_slice(bytes);
            assert_eq!(*is_last, whole.len() == payload.len());
        }
        assert_eq!(whole, payload);
    }

    #[tokio::test]
    async fn who_breaks_the_protocol_is_told() {
        let unmasked = frame(BINARY, [b"x", &[]]).to_vec();
        let mut endless = vec![0x82, 0xff];
        endless.extend_from_slice(&[0xff; 12]);
        for bytes in [
            unmasked,
            endless,
            masked(0x80 | CONTINUATION, b"x"),
            [masked(BINARY, b"x"), masked(0x80 | TEXT, b"x")].concat(),
            masked(PING, b"in parts"),
            masked(0x80 | PING, &[0; 126]),
            masked(0x83, b"reserved"),
            masked(0xc2, b"extended"),
        ] {
            assert_eq!(read(&bytes).await.1, Fault::Protocol, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_without_a_panic(bytes: Vec<u8>) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let (events, _) = runtime.block_on(read(&bytes));
            prop_assert!(events.len() <= bytes.len());
        }

        #[test]
        fn what_is_sent_is_read(payloads: Vec<Vec<u8>>) {
            let bytes: Vec<u8> =
                payloads.iter().flat_map(|payload| masked(0x80 | BINARY, payload)).collect();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let (events, fault) = runtime.block_on(read(&bytes));
            prop_assert_eq!(fault, Fault::Gone);
            let read: Vec<Vec<u8>> = events
                .into_iter()
                .map(|event| match event {
                    Event::Data { bytes, is_first: true, is_last: true } => bytes.to_vec(),
                    other => panic!("{other:?}"),
                })
                .collect();
            prop_assert_eq!(read, payloads);
        }
    }
}
