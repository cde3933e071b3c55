//! The frames of SPDY/3.1, read and written.

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::headers::{self, Headers};
use super::inflate::Inflate;
use crate::streams::PIECE_BYTES_MAX;

const VERSION: u16 = 3;
const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;
const WINDOW_UPDATE: u16 = 9;
const FLAG_FIN: u8 = 1;
/// The longest frame of control; frames of data are read in pieces.
const CONTROL_BYTES_MAX: u32 = 32 << 10;
/// The longest block of headers, when it is not compressed.
const HEADERS_BYTES_MAX: usize = 32 << 10;
pub const PROTOCOL_ERROR: u32 = 1;

/// What the client said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    Open {
        stream: u32,
        headers: Headers,
        is_last: bool,
    },
    /// A piece of a stream; `is_last` if nothing follows.
    Data {
        stream: u32,
        bytes: Bytes,
        is_last: bool,
    },
    Reset {
        stream: u32,
    },
    Ping(u32),
    GoAway,
    /// Of no meaning to us.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection ended.
    Gone,
    /// The client does not keep to the protocol.
    Protocol,
}

pub struct Reader<R> {
    stream: R,
    inflate: Inflate,
    /// The frame of data that is being read.
    data: Option<Data>,
}

#[derive(Clone, Copy)]
struct Data {
    stream: u32,
    left: u32,
    is_last: bool,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub fn new(stream: R) -> Reader<R> {
        Reader { stream, inflate: Inflate::default(), data: None }
    }

    /// The next thing that the client says. To be dropped half-way only with the reader.
    pub async fn next(&mut self) -> Result<Frame, Fault> {
        if let Some(data) = self.data.take() {
            return self.piece(data).await;
        }
        let gone = |_| Fault::Gone;
        let first = self.stream.read_u32().await.map_err(gone)?;
        let second = self.stream.read_u32().await.map_err(gone)?;
        let (flags, length) = ((second >> 24) as u8, second & 0x00ff_ffff);
        let is_last = flags & FLAG_FIN != 0;
        if first >> 31 == 0 {
            return self.piece(Data { stream: first, left: length, is_last }).await;
        }
        let (version, kind) = ((first >> 16) as u16 & 0x7fff, (first & 0xffff) as u16);
        if version != VERSION || length > CONTROL_BYTES_MAX {
            return Err(Fault::Protocol);
        }
        let mut body = vec![0; length as usize];
        self.stream.read_exact(&mut body).await.map_err(gone)?;
        self.control(kind, is_last, &body)
    }

    async fn piece(&mut self, data: Data) -> Result<Frame, Fault> {
        let Data { stream, left, is_last } = data;
        if left == 0 {
            return Ok(Frame::Data { stream, bytes: Bytes::new(), is_last });
        }
        let size = (left as usize).min(PIECE_BYTES_MAX);
        let mut bytes = BytesMut::with_capacity(size);
        let read = (&mut self.stream).take(size as u64).read_buf(&mut bytes).await;
        let count = read.ok().filter(|count| *count > 0).ok_or(Fault::Gone)?;
        let left = left - u32::try_from(count).unwrap_or(left);
        if left > 0 {
            self.data = Some(Data { left, ..data });
        }
        Ok(Frame::Data { stream, bytes: bytes.freeze(), is_last: is_last && left == 0 })
    }

    fn control(&mut self, kind: u16, is_last: bool, body: &[u8]) -> Result<Frame, Fault> {
        let number = |at: usize| {
            let bytes = body.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u32::from_be_bytes).ok_or(Fault::Protocol)
        };
        let stream = || number(0).map(|number| number & 0x7fff_ffff);
        Ok(match kind {
            SYN_STREAM => {
                let block = body.get(10..).ok_or(Fault::Protocol)?;
                Frame::Open { stream: stream()?, headers: self.headers(block)?, is_last }
            }
            // Their headers must be read: all headers are one compressed stream.
            SYN_REPLY | HEADERS => {
                self.headers(body.get(4..).ok_or(Fault::Protocol)?)?;
                Frame::Other
            }
            RST_STREAM => Frame::Reset { stream: stream()? },
            PING => Frame::Ping(number(0)?),
            GOAWAY => Frame::GoAway,
            _ => Frame::Other,
        })
    }

    fn headers(&mut self, block: &[u8]) -> Result<Headers, Fault> {
        let block = self.inflate.block(block, HEADERS_BYTES_MAX).ok_or(Fault::Protocol)?;
        headers::parse(&block).ok_or(Fault::Protocol)
    }
}

fn control(kind: u16, body: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(8 + body.len());
    frame.put_u16(0x8000 | VERSION);
    frame.put_u16(kind);
    frame.put_u32(u32::try_from(body.len()).expect("our frames of control are short"));
    frame.put_slice(body);
    frame.freeze()
}

fn pair(first: u32, second: u32) -> [u8; 8] {
    (u64::from(first) << 32 | u64::from(second)).to_be_bytes()
}

/// A piece of a stream, no longer than what is read at once.
pub fn data(stream: u32, bytes: &[u8], is_last: bool) -> Bytes {
    let mut frame = BytesMut::with_capacity(8 + bytes.len());
    frame.put_u32(stream);
    frame.put_u8(u8::from(is_last));
    frame.put_uint(bytes.len() as u64, 3);
    frame.put_slice(bytes);
    frame.freeze()
}

/// Accepts a stream, without headers of our own; `is_first` of the connection.
pub fn reply(stream: u32, is_first: bool) -> Bytes {
    // No headers, as a block of zlib that is stored as it is; the first begins the stream of it. An
    // empty block follows, without which readers hold back what came before.
    const NONE: [u8; 14] = [0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
    const ZLIB: [u8; 2] = [0x78, 0x01];
    let begin: &[u8] = if is_first { &ZLIB } else { &[] };
    control(SYN_REPLY, &[&stream.to_be_bytes(), begin, &NONE].concat())
}

pub fn reset(stream: u32, status: u32) -> Bytes {
    control(RST_STREAM, &pair(stream, status))
}

pub fn ping(number: u32) -> Bytes {
    control(PING, &number.to_be_bytes())
}

pub fn go_away(last: u32, status: u32) -> Bytes {
    control(GOAWAY, &pair(last, status))
}

pub fn window_update(stream: u32, size: u32) -> Bytes {
    control(WINDOW_UPDATE, &pair(stream, size))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    async fn read(bytes: &[u8]) -> (Vec<Frame>, Fault) {
        let mut reader = Reader::new(bytes);
        let mut frames = Vec::new();
        loop {
            match reader.next().await {
                Ok(frame) => frames.push(frame),
                Err(fault) => return (frames, fault),
            }
        }
    }

    /// A stream as spdystream opens it: the headers of a port, compressed with the dictionary.
    const OPENED: &[u8] = include_bytes!("opened.bin");

    #[tokio::test]
    async fn what_a_real_client_opens_is_understood() {
        let (frames, fault) = read(OPENED).await;
        assert_eq!(fault, Fault::Gone);
        let named = |frame: &Frame| match frame {
            Frame::Open { stream, headers, .. } => {
                let of = |name: &str| headers.get(name).cloned().unwrap_or_default();
                (*stream, of("streamtype"), of("port"), of("requestid"))
            }
            other => panic!("{other:?}"),
        };
        let expected = |stream, kind: &str, request: &str| {
            (stream, kind.to_owned(), "8080".to_owned(), request.to_owned())
        };
        let found: Vec<_> = frames.iter().map(named).collect();
        assert_eq!(found, [expected(1, "error", "0"), expected(3, "data", "0")]);
    }

    #[tokio::test]
    async fn frames_say_what_they_were_made_of() {
        let long = vec![1; PIECE_BYTES_MAX + 1];
        let bytes = [
            data(5, b"hi", false),
            data(5, b"", true),
            data(7, &long, true),
            ping(9),
            reset(3, 1),
            reply(1, true),
            reply(3, false),
            window_update(1, 2),
            go_away(1, 0),
        ]
        .concat();
        let (frames, fault) = read(&bytes).await;
        let piece = |stream, bytes: &[u8], is_last| Frame::Data {
            stream,
            bytes: Bytes::copy_from_slice(bytes),
            is_last,
        };
        let expected = [
            piece(5, b"hi", false),
            piece(5, b"", true),
            piece(7, &long[..PIECE_BYTES_MAX], false),
            piece(7, &[1], true),
            Frame::Ping(9),
            Frame::Reset { stream: 3 },
            Frame::Other,
            Frame::Other,
            Frame::Other,
            Frame::GoAway,
        ];
        assert_eq!((frames.as_slice(), fault), (&expected[..], Fault::Gone));
    }

    #[tokio::test]
    async fn who_breaks_the_protocol_is_found_out() {
        let syn = |block: &[u8]| control(SYN_STREAM, &[&[0; 10], block].concat()).to_vec();
        for bytes in [
            vec![0x80, 2, 0, 1, 0, 0, 0, 0],
            vec![0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff],
            control(SYN_STREAM, &[0; 9]).to_vec(),
            control(PING, &[0; 3]).to_vec(),
            syn(b""),
            syn(&[0x78, 0xbb, 1, 2, 3, 4]),
            syn(&[0x78, 0x01, 0, 4, 0, 0xfb, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ] {
            assert_eq!(read(&bytes).await.1, Fault::Protocol, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_without_a_panic(
            kind in 0_u16..12, bytes: Vec<u8>, rest: Vec<u8>,
        ) {
            let mut all = control(kind, &bytes).to_vec();
            all.extend_from_slice(&rest);
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(read(&all));
            runtime.block_on(read(&bytes));
        }

        #[test]
        fn a_damaged_stream_of_headers_is_read_without_a_panic(
            at in 0..OPENED.len(), byte: u8,
        ) {
            let mut damaged = OPENED.to_vec();
            damaged[at] = byte;
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(read(&damaged));
        }
    }
}
