//! Answers API servers of other processes that ask this process's node.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use apiserver::identity::peers::{Answering, Peers};
use link::Node;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Where nodes usually answer. Of several on one machine the others take a free port.
const USUAL_PORT: u16 = 10_250;
/// Questions that are answered at the same time; the next one waits.
const QUESTIONS_MAX: usize = 1_024;
/// Before connections are taken again when none could be.
const PAUSE: Duration = Duration::from_millis(100);

/// Where servers ask, and how they are known.
pub struct Listener {
    listener: TcpListener,
    answering: Answering,
}

impl Listener {
    /// Listens at an address of this machine.
    pub async fn bind(peers: &Peers, node: &str, address: IpAddr) -> Result<Listener> {
        let answering = peers.answer(node, address)?;
        let listener = match TcpListener::bind((address, USUAL_PORT)).await {
            Ok(listener) => listener,
            Err(_) => TcpListener::bind((address, 0)).await.with_context(|| {
                format!("could not listen on {address} for servers of other processes")
            })?,
        };
        Ok(Listener { listener, answering })
    }

    pub fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().context("could not tell where the node answers")
    }

    /// Answers until it is dropped.
    pub async fn serve(self, node: Arc<dyn Node>) {
        let mut questions = JoinSet::new();
        loop {
            while questions.len() >= QUESTIONS_MAX {
                questions.join_next().await;
            }
            while questions.try_join_next().is_some() {}
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection to the node was not taken");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let (node, answering) = (node.clone(), self.answering.clone());
            questions.spawn(async move {
                let _ = stream.set_nodelay(true);
                let answered = match answering.accept(stream).await {
                    Ok(connection) => link::answer::answer(&*node, connection).await,
                    Err(error) => return tracing::warn!(%error, "a question was refused"),
                };
                if let Err(error) = answered {
                    tracing::debug!(%error, "a question was not answered to its end");
                }
            });
        }
    }
}
