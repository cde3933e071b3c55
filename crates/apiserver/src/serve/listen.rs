//! Where connections come from.

use std::future::Future;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::places::Source;

/// Something that connections arrive at.
pub trait Listen: Send + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, Source)>> + Send;
}

impl Listen for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Source)> {
        let (stream, peer) = TcpListener::accept(self).await?;
        Ok((stream, Source::from_address(peer.ip())))
    }
}

impl Listen for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, Source)> {
        UnixListener::accept(self).await.map(|(stream, _)| (stream, Source::Unix))
    }
}
