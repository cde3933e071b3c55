//! The console: pages for people, which anybody may load, and how somebody signs in. What the pages
//! show and do goes through the API, with the rights of whoever signed in.
//!
//! `POST /console/code` gives somebody who is known a code; `POST /console/session` exchanges it
//! for the token of a session; `DELETE /console/session` ends that session.

pub mod sessions;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, Method, header};
use http_body_util::{BodyExt, Limited};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::answer::Answer;
use crate::authenticate::{Identified, authenticate, bearer_token};
use crate::identity::User;
use crate::server::Server;
use crate::status::Error;
use sessions::{CODE_SECONDS, Holder, SESSION_SECONDS, is_session};

const ROOT: &str = "/console";
const CODE: &str = "/console/code";
const SESSION: &str = "/console/session";
/// The largest body of a sign-in.
const BODY_BYTES_MAX: usize = 4 << 10;
/// How long it may take to come; whoever sends it is not known yet.
const BODY_MAX: Duration = Duration::from_secs(10);

/// Nothing of another place is loaded, nothing is run that is not a file of ours, and nobody may
/// put the console into a frame. Canvases become pictures by way of `blob:` and `data:`.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; \
    img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// Has the files of the console.
pub trait Pages: Send + Sync {
    /// The answer for a path below `/console/`, given without that beginning.
    fn page(&self, path: &str, accepts_gzip: bool) -> Answer;
}

/// Whether a request is for the console.
pub fn is_for(server: &Server, path: &str) -> bool {
    let below = path.strip_prefix(ROOT);
    below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        && server.beside.pages().is_some()
}

/// Answers; whoever is not signed in may load pages and bring a code.
pub async fn answer<B>(
    server: &Arc<Server>,
    parts: &Parts,
    body: B,
    user: Option<Arc<User>>,
) -> Answer
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let path = parts.uri.path();
    let answered = match (&parts.method, path) {
        (&Method::POST, CODE) => code(server, parts, user),
        (&Method::POST, SESSION) => exchange(server, body).await,
        (&Method::DELETE, SESSION) => end(server, parts),
        (&Method::GET | &Method::HEAD, ROOT) => {
            Ok(Answer::text(308, "").with(header::LOCATION, "/console/"))
        }
        (&Method::GET | &Method::HEAD, _) => Ok(page(server, parts, path)),
        _ => Ok(Answer::text(405, "405 method not allowed\n")),
    };
    guarded(answered.unwrap_or_else(|error| Answer::failure(&error)))
}

fn page(server: &Server, parts: &Parts, path: &str) -> Answer {
    let encodings = parts.headers.get(header::ACCEPT_ENCODING);
    let encodings = encodings.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let accepts_gzip = encodings.split(',').any(|one| one.trim().starts_with("gzip"));
    let below = path.strip_prefix("/console/").unwrap_or_default();
    match server.beside.pages() {
        Some(pages) => pages.page(below, accepts_gzip),
        None => Answer::text(404, "404 page not found\n"),
    }
}

fn code(server: &Server, parts: &Parts, user: Option<Arc<User>>) -> Result<Answer, Error> {
    let token = bearer_token(&parts.headers).map(|token| token.into_owned());
    if token.as_deref().is_some_and(is_session) {
        return Err(Error::bad_request("a session of the console cannot begin another one"));
    }
    let Identified { holder, user } = authenticate(server, &parts.headers, user)?;
    if user.is_anonymous() {
        return Err(Error::unauthorized());
    }
    let name = user.name.clone();
    let impersonator = (!Arc::ptr_eq(&holder, &user)).then_some(holder);
    let code = server.sessions.new_code(Holder { user, impersonator, token }, server.now())?;
    Ok(Answer::value(201, &json!({"code": code, "seconds": CODE_SECONDS, "user": &*name})))
}

async fn exchange<B>(server: &Server, body: B) -> Result<Answer, Error>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let body = timeout(BODY_MAX, Limited::new(body, BODY_BYTES_MAX).collect()).await;
    let body = body.ok().and_then(Result::ok).map(|body| body.to_bytes());
    let asked: Option<Value> = body.and_then(|body| serde_json::from_slice(&body).ok());
    let code = asked.as_ref().and_then(|asked| asked["code"].as_str());
    let code = code.ok_or_else(|| Error::bad_request("the body must be {\"code\": \"...\"}"))?;
    let Some((token, holder)) = server.sessions.exchange(code, server.now())? else {
        return Err(Error::unauthorized());
    };
    let name = &*holder.user.name;
    Ok(Answer::value(201, &json!({"token": token, "seconds": SESSION_SECONDS, "user": name})))
}

fn end(server: &Server, parts: &Parts) -> Result<Answer, Error> {
    match bearer_token(&parts.headers) {
        Some(token) if server.sessions.end(&token)? => Ok(Answer::value(200, &json!({}))),
        _ => Err(Error::unauthorized()),
    }
}

/// What browsers are told of every answer below `/console`, and of other pages for people.
pub(crate) fn guarded(answer: Answer) -> Answer {
    let policy = HeaderName::from_static("cross-origin-opener-policy");
    answer
        .with(header::CONTENT_SECURITY_POLICY, POLICY)
        .with(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
        .with(header::X_FRAME_OPTIONS, "DENY")
        .with(header::REFERRER_POLICY, "no-referrer")
        .with(policy, "same-origin")
}
