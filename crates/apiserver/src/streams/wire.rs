//! What WebSockets and SPDY have in common: one queue of frames to the client, and streams in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::handshake::Channels;
use super::{IDLE_MAX, PIECES_MAX, spdy, websocket};

/// Frames that wait to be sent.
const FRAMES_MAX: usize = 16;
/// How long one frame may take; who takes nothing for so long is gone.
const FRAME_MAX: Duration = Duration::from_secs(15 * 60);

/// Nobody takes what is sent any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// The way to the client. Frames of many streams are sent whole and in order.
#[derive(Clone)]
pub struct Frames {
    queue: mpsc::Sender<Bytes>,
    /// Whether anything was sent since somebody last looked.
    moved: Arc<AtomicBool>,
}

impl Frames {
    /// The queue, and what writes it to the connection until `end` was said. It must be run.
    pub fn new<W>(mut stream: W) -> (Frames, impl Future<Output = ()> + Send)
    where
        W: AsyncWrite + Unpin + Send,
    {
        let (queue, mut waiting) = mpsc::channel::<Bytes>(FRAMES_MAX);
        let writing = async move {
            while let Some(frame) = waiting.recv().await.filter(|frame| !frame.is_empty()) {
                let is_last = waiting.is_empty();
                let write = async {
                    stream.write_all(&frame).await?;
                    if is_last { stream.flush().await } else { Ok(()) }
                };
                match tokio::time::timeout(FRAME_MAX, write).await {
                    Ok(Ok(())) => {}
                    _ => return,
                }
            }
            let _ = stream.shutdown().await;
        };
        (Frames { queue, moved: Arc::default() }, writing)
    }

    pub async fn send(&self, frame: Bytes) -> Result<(), Gone> {
        self.moved.store(true, Ordering::Relaxed);
        self.queue.send(frame).await.map_err(|_| Gone)
    }

    /// Nothing follows what was sent so far.
    pub async fn end(&self) {
        let _ = self.queue.send(Bytes::new()).await;
    }

    /// Waits for what the client says, for as long as anything moves in either direction.
    pub async fn unless_idle<T>(&self, heard: impl Future<Output = T>) -> Option<T> {
        let mut heard = std::pin::pin!(heard);
        loop {
            match tokio::time::timeout(IDLE_MAX, heard.as_mut()).await {
                Ok(heard) => return Some(heard),
                Err(_) if self.moved.swap(false, Ordering::Relaxed) => {}
                Err(_) => return None,
            }
        }
    }
}

/// One stream to the client.
#[derive(Clone)]
pub struct Sink {
    pub frames: Frames,
    pub form: Form,
}

/// How a stream's bytes become frames.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    Channel { number: u8, channels: Channels },
    Spdy { stream: u32 },
}

impl Sink {
    pub async fn send(&self, bytes: &[u8]) -> Result<(), Gone> {
        let frame = match self.form {
            Form::Channel { number, channels } => websocket::channel(channels, number, bytes),
            Form::Spdy { stream } => spdy::frame::data(stream, bytes, false),
        };
        self.frames.send(frame).await
    }

    /// Says that nothing follows, where the protocol has words for it.
    pub async fn finish(&self) {
        if let Form::Spdy { stream } = self.form {
            let _ = self.frames.send(spdy::frame::data(stream, &[], true)).await;
        }
    }
}

/// One stream from the client, in pieces; the end of it is the end of the queue.
pub type Source = mpsc::Receiver<Bytes>;

pub fn source() -> (mpsc::Sender<Bytes>, Source) {
    mpsc::channel(PIECES_MAX)
}
