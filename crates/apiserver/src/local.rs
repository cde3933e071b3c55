//! A client of the server in its own process: no socket, no credential, the same rights.
//!
//! Who asks is an argument of this function and reaches the server beside the request, never in
//! it, so nobody on a socket can claim it. From there on a request is like any other: a token or
//! impersonation in its headers counts, and the authorizer decides.
//!
//! The handler runs on the caller's task. A caller that is dropped drops it, and with it either
//! no write or a whole one, because a commit is one message to the store.
//!
//! Requests that leave HTTP (exec, attach, port-forward) need a connection and do not work here.

use std::convert::Infallible;
use std::sync::Arc;

use http::HeaderValue;
use http::header::USER_AGENT;
use kube::client::Body;

use crate::identity::User;
use crate::server::Server;

/// Where objects go whose caller names no namespace.
const DEFAULT_NAMESPACE: &str = "default";
/// What a part of this program calls itself if it says nothing; it names the manager of fields.
const AGENT: HeaderValue = HeaderValue::from_static("setpoint");

/// On requests that came by no socket. Parts of this program bound themselves: what they have under
/// way takes no place from clients.
#[derive(Clone, Copy, Debug)]
pub struct Local;

/// A client that is `identity`. It must be made inside a tokio runtime, which drives it.
pub fn local_client(server: &Arc<Server>, identity: User) -> kube::Client {
    let (server, identity) = (server.clone(), Arc::new(identity));
    let service = tower::service_fn(move |mut request: http::Request<Body>| {
        let (server, identity) = (server.clone(), identity.clone());
        request.headers_mut().entry(USER_AGENT).or_insert(AGENT);
        request.extensions_mut().insert(Local);
        async move { Ok::<_, Infallible>(server.handle(request, Some(identity)).await) }
    });
    kube::Client::new(service, DEFAULT_NAMESPACE)
}
