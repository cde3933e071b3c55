//! The side of SPDY/3.1 that a server of streams needs: it takes streams that the client opens.
//!
//! The client is told as soon as what it sent was taken (WINDOW_UPDATE). Its own window is not
//! waited for: spdystream, which all clients of Kubernetes are made with, never widens it, so
//! whoever waited would wait for ever. What bounds us there is the connection itself.
//!
//! https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/

pub mod frame;
mod headers;
mod inflate;

use std::collections::BTreeMap;

use bytes::Bytes;
use tokio::io::{AsyncRead, BufReader};
use tokio::sync::{mpsc, watch};

use super::wire::{Form, Frames, Gone, Sink, Source, source};
use frame::{Fault, Frame, Reader};
pub use headers::Headers;

/// Streams of one connection at once.
const STREAMS_MAX: usize = 2_048;
const REFUSED: u32 = 3;

/// A stream that the client opened.
pub struct Stream {
    pub id: u32,
    pub headers: Headers,
    pub source: Source,
    pub sink: Sink,
    /// True when the client wants no more of it.
    pub reset: watch::Receiver<bool>,
}

/// What is known of a stream while somebody has it.
struct Open {
    /// Gone when the client has said everything.
    input: Option<mpsc::Sender<Bytes>>,
    reset: watch::Sender<bool>,
}

impl Open {
    /// Whether anybody still has a part of it.
    fn has_user(&self) -> bool {
        let is_read = self.input.as_ref().is_some_and(|input| !input.is_closed());
        is_read || self.reset.receiver_count() > 0
    }
}

/// Hands on what the client says, until it goes away or breaks the protocol.
pub async fn read<R>(stream: R, frames: &Frames, opened: mpsc::Sender<Stream>)
where
    R: AsyncRead + Unpin,
{
    let mut reader = Reader::new(BufReader::new(stream));
    let mut session =
        Session { frames, opened, open: BTreeMap::new(), last: 0, has_replied: false };
    loop {
        let frame = match frames.unless_idle(reader.next()).await {
            Some(Ok(frame)) => frame,
            Some(Err(Fault::Protocol)) => {
                let _ = frames.send(frame::go_away(session.last, frame::PROTOCOL_ERROR)).await;
                return;
            }
            Some(Err(Fault::Gone)) | None => return,
        };
        if session.take(frame).await.is_err() {
            return;
        }
    }
}

struct Session<'a> {
    frames: &'a Frames,
    opened: mpsc::Sender<Stream>,
    open: BTreeMap<u32, Open>,
    /// The stream that was opened last.
    last: u32,
    /// Whether the stream of compressed headers has begun.
    has_replied: bool,
}

impl Session<'_> {
    async fn take(&mut self, frame: Frame) -> Result<(), Gone> {
        match frame {
            Frame::Open { stream, headers, is_last } => self.begin(stream, headers, is_last).await,
            Frame::Data { stream, bytes, is_last } => self.data(stream, bytes, is_last).await,
            Frame::Reset { stream } => {
                if let Some(open) = self.open.remove(&stream) {
                    open.reset.send_replace(true);
                }
                Ok(())
            }
            Frame::Ping(number) => self.frames.send(frame::ping(number)).await,
            Frame::GoAway => Err(Gone),
            Frame::Other => Ok(()),
        }
    }

    async fn begin(&mut self, id: u32, headers: Headers, is_last: bool) -> Result<(), Gone> {
        // Streams of clients have odd numbers that grow.
        if id.is_multiple_of(2) || id <= self.last {
            return self.frames.send(frame::reset(id, frame::PROTOCOL_ERROR)).await;
        }
        self.last = id;
        self.open.retain(|_, open| open.has_user());
        if self.open.len() >= STREAMS_MAX {
            return self.frames.send(frame::reset(id, REFUSED)).await;
        }
        let (input, source) = source();
        let (tell, reset) = watch::channel(false);
        self.open.insert(id, Open { input: Some(input).filter(|_| !is_last), reset: tell });
        self.frames.send(frame::reply(id, !self.has_replied)).await?;
        self.has_replied = true;
        let sink = Sink { frames: self.frames.clone(), form: Form::Spdy { stream: id } };
        let stream = Stream { id, headers, source, sink, reset };
        self.opened.send(stream).await.map_err(|_| Gone)
    }

    async fn data(&mut self, id: u32, bytes: Bytes, is_last: bool) -> Result<(), Gone> {
        let size = u32::try_from(bytes.len()).unwrap_or(0);
        let Some(open) = self.open.get_mut(&id) else { return Ok(()) };
        if size > 0
            && let Some(input) = &open.input
            // Nobody has it any more: it is read and dropped.
            && input.send(bytes).await.is_err()
        {
            open.input = None;
        }
        if is_last {
            open.input = None;
        }
        if size > 0 {
            self.frames.send(frame::window_update(id, size)).await?;
            self.frames.send(frame::window_update(0, size)).await?;
        }
        Ok(())
    }
}
