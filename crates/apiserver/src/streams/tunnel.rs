//! A connection inside the messages of a WebSocket: what is written to it is sent in messages.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream};

use super::websocket::{self, Event, Reader};
use super::wire::Frames;
use super::{FAREWELL_MAX, PIECE_BYTES_MAX};

/// What waits between the two.
const TUNNEL_BYTES_MAX: usize = 64 << 10;

/// The connection inside, and what carries it, which must be run.
pub fn open<S>(socket: S) -> (DuplexStream, impl Future<Output = ()> + Send)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let (inside, outside) = tokio::io::duplex(TUNNEL_BYTES_MAX);
    let carrying = async move {
        let (from_client, to_client) = tokio::io::split(socket);
        let (mut from_inside, mut to_inside) = tokio::io::split(outside);
        let (frames, writing) = Frames::new(to_client);
        let outwards = async {
            let mut piece = vec![0; PIECE_BYTES_MAX];
            while let Ok(count @ 1..) = from_inside.read(&mut piece).await {
                if frames.send(websocket::message(&piece[..count])).await.is_err() {
                    break;
                }
            }
            let _ = frames.send(websocket::close(None)).await;
            frames.end().await;
        };
        let inwards = async {
            let mut reader = Reader::new(BufReader::new(from_client));
            while let Some(Ok(event)) = frames.unless_idle(reader.next()).await {
                match event {
                    // Once nobody takes it, it is only read.
                    Event::Data { bytes, .. } => drop(to_inside.write_all(&bytes).await),
                    Event::Ping(bytes) => drop(frames.send(websocket::pong(&bytes)).await),
                    Event::Pong => {}
                    Event::Close => break,
                }
            }
            let _ = to_inside.shutdown().await;
        };
        let mut inwards = std::pin::pin!(inwards);
        let outwards = async { tokio::join!(writing, outwards) };
        let mut outwards = std::pin::pin!(outwards);
        tokio::select! {
            _ = outwards.as_mut() => {
                let _ = tokio::time::timeout(FAREWELL_MAX, inwards).await;
            }
            () = inwards.as_mut() => {
                let _ = tokio::time::timeout(FAREWELL_MAX, outwards).await;
            }
        }
    };
    (inside, carrying)
}
