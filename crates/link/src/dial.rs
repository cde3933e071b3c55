//! Connections to addresses of pods. The host may have no route to them: the network of an
//! unprivileged node is in namespaces of its own, and only the node can connect there.

use std::io;
use std::net::SocketAddr;
use std::sync::OnceLock;

use futures::future::BoxFuture;
use tokio::net::TcpStream;

/// Connects to an address of the host, or of a pod network that this process has.
pub type Connector = fn(SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>>;

static CONNECTOR: OnceLock<Connector> = OnceLock::new();

/// Sets the connector of this process. Later calls are ignored.
pub fn set_connector(connector: Connector) {
    let _ = CONNECTOR.set(connector);
}

pub async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    match CONNECTOR.get() {
        Some(connector) => connector(address).await,
        None => TcpStream::connect(address).await,
    }
}
