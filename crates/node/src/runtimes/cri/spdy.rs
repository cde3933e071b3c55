//! SPDY/3.1 as a client of a runtime needs it: it opens streams and carries bytes on them.
//!
//! Headers are sent in blocks that are not compressed, which every reader of zlib takes; those that
//! come back say nothing that is needed, and are skipped. Windows are not kept: the servers that
//! runtimes are made with do not keep them either, so that the connection alone bounds what waits.
//!
//! https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const SYN_STREAM: u16 = 1;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const CONTROL: u32 = 0x8003_0000;
const FLAG_FIN: u8 = 1;
/// The longest frame of control.
const CONTROL_BYTES_MAX: usize = 32 << 10;
/// The largest piece of a stream that is sent or taken at once.
pub const PIECE_BYTES_MAX: usize = 32 << 10;

/// What the runtime says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A piece of a stream; `is_last` if nothing follows.
    Data {
        stream: u32,
        bytes: Vec<u8>,
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

/// Opens a stream; `is_first` of the connection.
pub fn open(stream: u32, headers: &[(&str, &str)], is_first: bool) -> Vec<u8> {
    let mut block = Vec::new();
    put_number(&mut block, headers.len());
    for (name, value) in headers {
        for text in [name, value] {
            put_number(&mut block, text.len());
            block.extend_from_slice(text.as_bytes());
        }
    }
    let mut body = stream.to_be_bytes().to_vec();
    // No stream that it belongs to, and no priority.
    body.extend_from_slice(&[0; 6]);
    if is_first {
        body.extend_from_slice(&[0x78, 0x01]);
    }
    let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
    body.push(0);
    body.extend_from_slice(&length.to_le_bytes());
    body.extend_from_slice(&(!length).to_le_bytes());
    body.extend_from_slice(&block);
    // Without an empty block behind it readers hold back what came before.
    body.extend_from_slice(&[0, 0, 0, 0xff, 0xff]);
    control(SYN_STREAM, &body)
}

/// A piece of a stream.
pub fn data(stream: u32, bytes: &[u8], is_last: bool) -> Vec<u8> {
    let mut frame = stream.to_be_bytes().to_vec();
    let length = u32::try_from(bytes.len()).unwrap_or(0);
    let flags = if is_last { FLAG_FIN } else { 0 };
    frame.extend_from_slice(&(u32::from(flags) << 24 | length).to_be_bytes());
    frame.extend_from_slice(bytes);
    frame
}

pub fn ping(number: u32) -> Vec<u8> {
    control(PING, &number.to_be_bytes())
}

fn control(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut frame = (CONTROL | u32::from(kind)).to_be_bytes().to_vec();
    put_number(&mut frame, body.len());
    frame.extend_from_slice(body);
    frame
}

fn put_number(bytes: &mut Vec<u8>, number: usize) {
    bytes.extend_from_slice(&u32::try_from(number).unwrap_or(0).to_be_bytes());
}

/// Takes frames from a connection.
pub struct Reader<R> {
    stream: R,
    /// Of the frame of data that is being read: its stream, what is left, whether it is the last.
    data: Option<(u32, usize, bool)>,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub fn new(stream: R) -> Reader<R> {
        Reader { stream, data: None }
    }

    /// The next frame. To be dropped half-way only with the reader.
    pub async fn next(&mut self) -> io::Result<Frame> {
        if let Some(data) = self.data.take() {
            return self.piece(data).await;
        }
        let first = self.stream.read_u32().await?;
        let second = self.stream.read_u32().await?;
        let length = usize::try_from(second & 0x00ff_ffff).unwrap_or(0);
        let is_last = (second >> 24) & u32::from(FLAG_FIN) != 0;
        if first >> 31 == 0 {
            return self.piece((first, length, is_last)).await;
        }
        if length > CONTROL_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await?;
        let number = body.get(..4).and_then(|bytes| bytes.try_into().ok());
        let number = number.map_or(0, u32::from_be_bytes);
        Ok(match (first & 0xffff) as u16 {
            RST_STREAM => Frame::Reset { stream: number },
            PING => Frame::Ping(number),
            GOAWAY => Frame::GoAway,
            _ => Frame::Other,
        })
    }

    async fn piece(&mut self, (stream, left, is_last): (u32, usize, bool)) -> io::Result<Frame> {
        let size = left.min(PIECE_BYTES_MAX);
        let mut bytes = vec![0; size];
        self.stream.read_exact(&mut bytes).await?;
        let left = left - size;
        if left > 0 {
            self.data = Some((stream, left, is_last));
        }
        Ok(Frame::Data { stream, bytes, is_last: is_last && left == 0 })
    }
}

/// Writes a frame.
pub async fn send(stream: &mut (impl AsyncWrite + Unpin), frame: &[u8]) -> io::Result<()> {
    stream.write_all(frame).await?;
    stream.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_say_what_they_were_made_of() {
        let long = vec![7; PIECE_BYTES_MAX + 1];
        let bytes = [
            data(1, b"hi", false),
            data(3, &long, true),
            ping(9),
            open(5, &[("streamtype", "stdin")], true),
            control(GOAWAY, &[0; 8]),
        ]
        .concat();
        let mut reader = Reader::new(&bytes[..]);
        let piece =
            |stream, bytes: &[u8], is_last| Frame::Data { stream, bytes: bytes.to_vec(), is_last };
        for expected in [
            piece(1, b"hi", false),
            piece(3, &long[1..], false),
            piece(3, &[7], true),
            Frame::Ping(9),
            Frame::Other,
            Frame::GoAway,
        ] {
            assert_eq!(reader.next().await.unwrap(), expected);
        }
        assert!(reader.next().await.is_err());
    }
}
