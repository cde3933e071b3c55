//! A client of CRI over a Unix socket. A call is tried once: only the caller knows whether it may
//! be sent again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::client::Grpc;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::messages::*;

/// How long an answer may take where nothing else is said.
pub const CALL_MAX: Duration = Duration::from_secs(30);
/// How long a connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// The largest answer: the output of a program, or a long list.
const ANSWER_BYTES_MAX: usize = 32 << 20;
const RUNTIME: &str = "/runtime.v1.RuntimeService/";
const IMAGES: &str = "/runtime.v1.ImageService/";
/// Where containerd keeps what CRI made.
const NAMESPACE: &str = "k8s.io";

/// Speaks to one runtime.
#[derive(Clone)]
pub struct Client {
    channel: Channel,
    pub socket: PathBuf,
}

/// Connects to the socket, whatever address is asked for.
#[derive(Clone)]
struct Socket(PathBuf);

impl Service<Uri> for Socket {
    type Response = TokioIo<UnixStream>;
    type Error = std::io::Error;
    type Future = futures::future::BoxFuture<'static, std::io::Result<TokioIo<UnixStream>>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let path = self.0.clone();
        Box::pin(async move { UnixStream::connect(path).await.map(TokioIo::new) })
    }
}

impl Client {
    /// A client that connects when it is first used, and again when that is needed.
    pub fn new(socket: &Path) -> Client {
        // The address is needed by the protocol and means nothing.
        let endpoint = Endpoint::from_static("http://localhost").connect_timeout(CONNECT_MAX);
        let channel = endpoint.connect_with_connector_lazy(Socket(socket.to_owned()));
        Client { channel, socket: socket.to_owned() }
    }

    /// Asks the service that runs containers.
    pub async fn runtime<Q, A>(&self, method: &str, request: Q) -> Result<A, Status>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        self.runtime_within(method, request, CALL_MAX).await
    }

    pub async fn runtime_within<Q, A>(
        &self,
        method: &str,
        request: Q,
        limit: Duration,
    ) -> Result<A, Status>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        within((method, limit), self.call(&format!("{RUNTIME}{method}"), request)).await
    }

    /// Asks the service that keeps images.
    pub async fn images<Q, A>(&self, method: &str, request: Q) -> Result<A, Status>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        within((method, CALL_MAX), self.call(&format!("{IMAGES}{method}"), request)).await
    }

    /// Has an image pulled, for as long as it takes.
    pub async fn pull(&self, request: PullImageRequest) -> Result<PullImageResponse, Status> {
        self.call(&format!("{IMAGES}PullImage"), request).await
    }

    async fn call<Q, A>(&self, path: &str, request: Q) -> Result<A, Status>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let mut grpc = self.ready().await?;
        let path = path_of(path)?;
        let answer = grpc.unary(Request::new(request), path, ProstCodec::default()).await?;
        Ok(answer.into_inner())
    }

    /// What happens to containers, as containerd tells it.
    pub async fn containerd_events(&self) -> Result<Streaming<Envelope>, Status> {
        let filters = vec![format!("namespace=={NAMESPACE},topic~=^/tasks/")];
        let mut request = Request::new(SubscribeRequest { filters });
        let namespace = MetadataValue::from_static(NAMESPACE);
        request.metadata_mut().insert("containerd-namespace", namespace);
        let path = path_of("/containerd.services.events.v1.Events/Subscribe")?;
        let mut grpc = self.ready().await?;
        let answer = grpc.server_streaming(request, path, ProstCodec::default()).await?;
        Ok(answer.into_inner())
    }

    /// The same as CRI tells it.
    pub async fn events(&self) -> Result<Streaming<ContainerEventResponse>, Status> {
        let path = path_of(&format!("{RUNTIME}GetContainerEvents"))?;
        let mut grpc = self.ready().await?;
        let request = Request::new(Empty {});
        let answer = grpc.server_streaming(request, path, ProstCodec::default()).await?;
        Ok(answer.into_inner())
    }

    async fn ready(&self) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX);
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(grpc)
    }
}

async fn within<A>(
    (method, limit): (&str, Duration),
    call: impl Future<Output = Result<A, Status>>,
) -> Result<A, Status> {
    let late = || {
        let what = format!("{method} did not answer within {} s", limit.as_secs());
        Status::deadline_exceeded(what)
    };
    tokio::time::timeout(limit, call).await.unwrap_or_else(|_| Err(late()))
}

fn path_of(text: &str) -> Result<PathAndQuery, Status> {
    PathAndQuery::try_from(text).map_err(|error| Status::internal(error.to_string()))
}

/// Whether something is not there, which for who removes it is well.
pub fn is_missing(status: &Status) -> bool {
    // Some say it in words only.
    status.code() == Code::NotFound || status.message().contains("not found")
}
