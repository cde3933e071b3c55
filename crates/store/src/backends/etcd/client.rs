//! A client of etcd: calls, logging in, and going on to the next endpoint when one fails.
//!
//! A call is tried once here, apart from a token that has run out: only the caller knows whether
//! it may be sent again. What a failure means is in `failure.rs`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::{self, StreamExt};
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::Error;

use super::Settings;
use super::connect;
use super::failure;
use super::messages::*;

/// How long an answer may take. etcd gives up after seven seconds; a lost answer is resolved
/// sooner.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// The largest answer of a call; pages are made smaller when they do not fit.
const ANSWER_BYTES_MAX: usize = 512 << 20;
/// Between two tries of a read.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// A client of one etcd cluster.
pub struct Client {
    endpoints: Vec<(String, Channel)>,
    /// Which endpoint is used; the next one after a failure.
    current: AtomicUsize,
    user: Option<User>,
}

struct User {
    name: String,
    password: String,
    token: Mutex<Option<AsciiMetadataValue>>,
    /// One login at a time; the others use what it brings.
    login: tokio::sync::Mutex<()>,
}

impl Client {
    /// A client that has not connected yet. Processes begin at different endpoints.
    pub fn new(settings: &Settings, random: u64) -> Result<Client, Error> {
        let endpoints = connect::channels(settings)?;
        let current = AtomicUsize::new((random % endpoints.len() as u64) as usize);
        let user = (!settings.username.is_empty()).then(|| User {
            name: settings.username.clone(),
            password: settings.password.clone(),
            token: Mutex::default(),
            login: tokio::sync::Mutex::default(),
        });
        Ok(Client { endpoints, current, user })
    }

    pub fn endpoints(&self) -> usize {
        self.endpoints.len()
    }

    /// The endpoint in use, for messages.
    pub fn server(&self) -> &str {
        &self.endpoint().1.0
    }

    pub fn user(&self) -> &str {
        self.user.as_ref().map_or("", |user| &user.name)
    }

    pub async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Status> {
        self.call("/etcdserverpb.KV/Range", request).await
    }

    pub async fn put(&self, request: PutRequest) -> Result<PutResponse, Status> {
        self.call("/etcdserverpb.KV/Put", request).await
    }

    pub async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Status> {
        self.call("/etcdserverpb.KV/Txn", request).await
    }

    pub async fn compact(&self, request: CompactionRequest) -> Result<CompactionResponse, Status> {
        self.call("/etcdserverpb.KV/Compact", request).await
    }

    /// Reads, again and again until it works or the time is over.
    pub async fn range_until(
        &self,
        deadline: Instant,
        request: RangeRequest,
    ) -> Result<RangeResponse, Status> {
        self.until(deadline, || self.range(request.clone())).await
    }

    /// Performs a transaction that may be performed twice.
    pub async fn txn_until(
        &self,
        deadline: Instant,
        request: TxnRequest,
    ) -> Result<TxnResponse, Status> {
        self.until(deadline, || self.txn(request.clone())).await
    }

    /// Repeats what may be repeated while it fails for want of a server.
    pub async fn until<T, F>(
        &self,
        deadline: Instant,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, Status>
    where
        F: Future<Output = Result<T, Status>>,
    {
        loop {
            let status = match attempt().await {
                Ok(answer) => return Ok(answer),
                Err(status) => status,
            };
            if !failure::is_passing(&status) || Instant::now() + RETRY_AFTER > deadline {
                return Err(status);
            }
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }

    /// Opens a watch. It ends when the server loses its leader, so that it is not silent for ever.
    pub async fn watch(
        &self,
        create: WatchCreateRequest,
    ) -> Result<Streaming<WatchResponse>, Status> {
        let order = WatchRequest { order: Some(WatchOrder::Create(create)) };
        // The watch lives as long as the requests' side stays open.
        let orders = tokio_stream::once(order).chain(tokio_stream::pending());
        let (index, (_, channel)) = self.endpoint();
        let mut request = self.with_token(orders);
        request.metadata_mut().insert("hasleader", AsciiMetadataValue::from_static("true"));
        let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
        let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
        let open = async {
            let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(usize::MAX);
            grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
            grpc.streaming(request, path, codec).await
        };
        match within(CALL_TIMEOUT, open).await {
            Ok(response) => Ok(response.into_inner()),
            Err(status) => {
                self.leave(index);
                if failure::is_token_refused(&status) {
                    self.log_in(None).await?;
                }
                Err(status)
            }
        }
    }

    /// Goes on to the next endpoint: this one does not answer as it should.
    pub fn leave_current(&self) {
        self.leave(self.endpoint().0);
    }

    /// Gets a token, unless somebody got another than the refused one meanwhile.
    pub async fn log_in(&self, refused: Option<AsciiMetadataValue>) -> Result<(), Status> {
        let Some(user) = &self.user else { return Ok(()) };
        let _one = user.login.lock().await;
        if refused.is_some() && user.token() != refused {
            return Ok(());
        }
        let request =
            AuthenticateRequest { name: user.name.clone(), password: user.password.clone() };
        let path = "/etcdserverpb.Auth/Authenticate";
        let (index, _) = self.endpoint();
        // Without the old token: etcd would refuse that first.
        let request = Request::new(request);
        let answer: Result<AuthenticateResponse, Status> = self.send(index, path, request).await;
        let token = match answer {
            Ok(answer) => Some(
                AsciiMetadataValue::try_from(answer.token)
                    .map_err(|_| Status::new(Code::Internal, "the token is not printable"))?,
            ),
            Err(status) if failure::is_login_not_needed(&status) => None,
            Err(status) => return Err(status),
        };
        *user.token.lock().unwrap_or_else(PoisonError::into_inner) = token;
        Ok(())
    }

    /// One call; once more with a new token when the old one was refused, which etcd says before
    /// it does anything.
    async fn call<Q, A>(&self, path: &'static str, message: Q) -> Result<A, Status>
    where
        Q: prost::Message + Clone + 'static,
        A: prost::Message + Default + 'static,
    {
        let (index, _) = self.endpoint();
        let token = self.user.as_ref().and_then(User::token);
        let status = match self.send(index, path, self.with_token(message.clone())).await {
            Err(status) if failure::is_token_refused(&status) && self.user.is_some() => status,
            answer => return answer,
        };
        match self.log_in(token).await {
            Ok(()) => self.send(index, path, self.with_token(message)).await,
            Err(login) if failure::is_login_refused(&login) => Err(login),
            Err(_) => Err(status),
        }
    }

    async fn send<Q, A>(
        &self,
        index: usize,
        path: &'static str,
        request: Request<Q>,
    ) -> Result<A, Status>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let channel = self.endpoints[index].1.clone();
        let path = PathAndQuery::from_static(path);
        let codec = ProstCodec::<Q, A>::default();
        let call = async {
            let mut grpc = Grpc::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
            grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
            grpc.unary(request, path, codec).await
        };
        let answer = within(CALL_TIMEOUT, call).await;
        if answer.as_ref().is_err_and(failure::is_passing) {
            self.leave(index);
        }
        answer.map(tonic::Response::into_inner)
    }

    fn endpoint(&self) -> (usize, &(String, Channel)) {
        let index = self.current.load(Ordering::Relaxed);
        (index, &self.endpoints[index])
    }

    fn leave(&self, index: usize) {
        let next = (index + 1) % self.endpoints.len();
        // Whoever comes second finds that it has been left.
        let _ = self.current.compare_exchange(index, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn with_token<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        if let Some(token) = self.user.as_ref().and_then(User::token) {
            request.metadata_mut().insert("token", token);
        }
        request
    }
}

impl User {
    fn token(&self) -> Option<AsciiMetadataValue> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    match timeout(limit, call).await {
        Ok(answer) => answer,
        Err(_) => Err(Status::deadline_exceeded(format!("no answer within {limit:?}"))),
    }
}
