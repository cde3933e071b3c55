//! Who asks: by certificate or token; and as whom, if they may.
//!
//! A credential that is not believed is an error, never anonymous.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use futures::FutureExt;
use http::HeaderMap;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};

use crate::console::sessions::is_session;
use crate::identity::User;
use crate::identity::impersonation::{self, Impersonation};
use crate::identity::token_requests::Bearer;
use crate::identity::tokens::{Live, Verified};
use crate::object;
use crate::persist::stored;
use crate::server::Server;
use crate::status::Error;
use crate::timestamp;

/// How long a token outlives the moment at which what it is bound to should have been gone.
const GONE_SECONDS: i64 = 60;

/// Before the token in the name of a protocol; what follows is in the alphabet of URLs.
pub const WEBSOCKET_TOKEN: &str = "base64url.bearer.authorization.k8s.io.";

/// Who asks.
#[derive(Clone, Debug)]
pub struct Identified {
    /// Whose credential it is.
    pub holder: Arc<User>,
    /// For whom they act: for themselves, unless they say otherwise and may.
    pub user: Arc<User>,
}

/// The user of a request: named by its token, else by the connection's certificate, else nobody.
pub fn authenticate(
    server: &Server,
    headers: &HeaderMap,
    certificate: Option<Arc<User>>,
) -> Result<Identified, Error> {
    let holder = match bearer_token(headers) {
        Some(token) => {
            let live = Names(server);
            let bearer = Bearer {
                known: &server.known_tokens,
                tokens: &server.tokens,
                live: &live,
                now: server.now(),
            };
            let verify = |token: &str| {
                bearer.authenticate(token, &[]).map_err(|why| {
                    tracing::debug!(why, "a token was refused");
                    Error::unauthorized()
                })
            };
            match is_session(&token) {
                true => of_session(server, &token, verify)?,
                false => Arc::new(verify(&token)?.user),
            }
        }
        // A scheme that is not known is a credential that is not believed.
        None if headers.contains_key(AUTHORIZATION) => return Err(Error::unauthorized()),
        None => certificate.unwrap_or_else(|| Arc::new(User::anonymous())),
    };
    let user = impersonate(server, headers, holder.clone())?;
    Ok(Identified { holder, user })
}

/// Whose session of the console it is, while the credential that began it still holds, and the
/// right to impersonate its user.
fn of_session(
    server: &Server,
    token: &str,
    verify: impl Fn(&str) -> Result<Verified, Error>,
) -> Result<Arc<User>, Error> {
    let holder = server.sessions.find(token, server.now()).ok_or_else(Error::unauthorized)?;
    if let Some(token) = &holder.token {
        verify(token)?;
    }
    if let Some(impersonator) = &holder.impersonator {
        for needed in Impersonation::of_user(&holder.user).needs() {
            server.decide(impersonator, &needed).map_err(|_| Error::unauthorized())?;
        }
    }
    Ok(holder.user)
}

/// The token of a request, if it has one. Browsers cannot say it of a WebSocket but by the name of
/// a protocol.
pub fn bearer_token(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    let Some(value) = headers.get(AUTHORIZATION) else { return websocket_token(headers) };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().into())
}

/// Upstream: apiserver/pkg/authentication/request/websocket/protocol.go
fn websocket_token(headers: &HeaderMap) -> Option<Cow<'static, str>> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    let mut protocols = values.flat_map(|value| value.split(',')).map(str::trim);
    let encoded = protocols.find_map(|name| name.strip_prefix(WEBSOCKET_TOKEN))?;
    let token = BASE64_URL_SAFE_NO_PAD.decode(encoded).unwrap_or_default();
    // What cannot be read is a token that is not believed, not none.
    Some(Cow::Owned(String::from_utf8(token).unwrap_or_default()))
}

/// The user that is impersonated, once everything it takes is allowed.
fn impersonate(server: &Server, headers: &HeaderMap, user: Arc<User>) -> Result<Arc<User>, Error> {
    let pairs =
        headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let Some(wanted) = impersonation::requested(pairs)? else { return Ok(user) };
    for needed in wanted.needs() {
        server.decide(&user, &needed)?;
    }
    Ok(Arc::new(wanted.into_user()))
}

/// What exists, as this process knows it.
pub struct Names<'a>(pub &'a Server);

impl Names<'_> {
    fn uid(&self, plural: &str, namespace: &str, name: &str) -> Option<String> {
        let server = self.0;
        let key = server.registry.find("", plural)?.key(namespace, name).ok()?;
        // The newest state this process has is in memory, and answers at once.
        let found = server.store.get(&key, Some(server.store.revision())).now_or_never()?;
        let entry = found.ok()??;
        let found = stored(&entry).object(entry.modified);
        let gone = timestamp::parse(object::meta(&found, "deletionTimestamp"));
        if gone.is_some_and(|at| at + GONE_SECONDS < server.now()) {
            return None;
        }
        Some(object::uid(&found).to_owned())
    }
}

impl Live for Names<'_> {
    fn service_account_uid(&self, namespace: &str, name: &str) -> Option<String> {
        self.uid("serviceaccounts", namespace, name)
    }

    fn pod_uid(&self, namespace: &str, name: &str) -> Option<String> {
        self.uid("pods", namespace, name)
    }

    fn secret_uid(&self, namespace: &str, name: &str) -> Option<String> {
        self.uid("secrets", namespace, name)
    }

    fn node_uid(&self, name: &str) -> Option<String> {
        self.uid("nodes", "", name)
    }
}
