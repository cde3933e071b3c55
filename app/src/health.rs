//! What the program says of itself: `/healthz`, `/livez`, `/readyz` and `/statusz`.
//!
//! The first three answer as those of the Kubernetes API server do: `?verbose` lists the checks,
//! `?exclude=NAME` leaves one out, and a check has a path of its own such as `/readyz/store`.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};
use hyper::{Method, Request, Response, StatusCode};
use serde::{Deserialize, Serialize};
use store::Store;
use tracing::debug;

use crate::shutdown::Stop;

/// What the answers are made from.
pub struct Health {
    pub store: Arc<dyn Store>,
    pub stop: Stop,
}

/// What `/statusz` tells.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// `ok`, or why commits are not possible.
    pub health: String,
    pub revision: u64,
    /// The oldest revision that can be read.
    pub compacted: u64,
}

/// One check and what it found.
struct Check {
    name: &'static str,
    failure: Option<String>,
}

impl Health {
    pub fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let uri = request.uri();
        let (kind, rest) = split(uri.path());
        let checks = match kind {
            "livez" => self.checks(&["ping"]),
            "healthz" => self.checks(&["ping", "store"]),
            "readyz" => self.checks(&["ping", "store", "shutdown"]),
            "statusz" if rest.is_none() => return self.guard(request, || self.status()),
            _ => return text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
        };
        self.guard(request, || report(kind, rest, uri.query().unwrap_or_default(), &checks))
    }

    /// Lets only reading requests through.
    fn guard<B>(
        &self,
        request: &Request<B>,
        answer: impl FnOnce() -> Response<Full<Bytes>>,
    ) -> Response<Full<Bytes>> {
        match *request.method() {
            Method::GET | Method::HEAD => answer(),
            _ => text(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed\n".to_owned()),
        }
    }

    fn checks(&self, names: &[&'static str]) -> Vec<Check> {
        let check = |name: &&'static str| {
            let failure = match *name {
                "store" => self.store.health().err().map(|error| error.to_string()),
                "shutdown" if self.stop.is_requested() => Some("it is stopping".to_owned()),
                _ => None,
            };
            Check { name, failure }
        };
        names.iter().map(check).collect()
    }

    fn status(&self) -> Response<Full<Bytes>> {
        let health = match self.store.health() {
            Ok(()) => "ok".to_owned(),
            Err(error) => error.to_string(),
        };
        let (revision, compacted) = (self.store.revision(), self.store.compacted());
        let status = Status { health, revision: revision.0, compacted: compacted.0 };
        match serde_json::to_string(&status) {
            Ok(json) => respond(StatusCode::OK, "application/json", json),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }
}

/// The first part of a path, and what follows.
fn split(path: &str) -> (&str, Option<&str>) {
    let path = path.strip_prefix('/').unwrap_or(path);
    match path.split_once('/') {
        Some((kind, rest)) => (kind, Some(rest)),
        None => (path, None),
    }
}

fn report(kind: &str, only: Option<&str>, query: &str, checks: &[Check]) -> Response<Full<Bytes>> {
    let parameter = |pair: &'_ str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name.to_owned(), value.to_owned())
    };
    let parameters: Vec<_> = query.split('&').map(parameter).collect();
    let is_verbose = parameters.iter().any(|(name, _)| name == "verbose");
    let is_excluded = |check: &Check| {
        parameters.iter().any(|(name, value)| name == "exclude" && value == check.name)
    };
    let mut lines = String::new();
    let mut has_failed = false;
    let mut has_run = false;
    for check in checks.iter().filter(|check| only.is_none_or(|only| only == check.name)) {
        has_run = true;
        let line = match &check.failure {
            _ if is_excluded(check) => format!("[+]{} excluded: ok\n", check.name),
            None => format!("[+]{} ok\n", check.name),
            Some(failure) => {
                // Anyone may ask; the reason is for the log.
                debug!(check = check.name, failure, "a health check failed");
                has_failed = true;
                format!("[-]{} failed: reason withheld\n", check.name)
            }
        };
        lines.push_str(&line);
    }
    match (has_run, has_failed, is_verbose) {
        (false, _, _) => text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
        (true, true, _) => {
            text(StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{kind} check failed\n"))
        }
        (true, false, true) => text(StatusCode::OK, format!("{lines}{kind} check passed\n")),
        (true, false, false) => text(StatusCode::OK, "ok".to_owned()),
    }
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    respond(status, "text/plain; charset=utf-8", body)
}

fn respond(status: StatusCode, content: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(content));
    headers.insert(CACHE_CONTROL, hyper::header::HeaderValue::from_static("no-cache, private"));
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use std::time::Duration;
    use store::{Retention, System, backends};

    use super::*;
    use crate::shutdown::Tasks;

    async fn ask(health: &Health, method: &str, uri: &str) -> (u16, String) {
        let request = Request::builder().method(method).uri(uri).body(());
        let response = health.answer(&request.expect("the request must be valid"));
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.expect("a body in memory must be whole");
        (status, String::from_utf8_lossy(&body.to_bytes()).into_owned())
    }

    async fn healthy() -> (Health, Tasks) {
        let settings = backends::Settings::Memory;
        let store = backends::open(&settings, Retention::default(), Arc::new(System)).await;
        let tasks = Tasks::new();
        let stop = tasks.stop_handle();
        (Health { store: store.expect("memory must open"), stop }, tasks)
    }

    #[tokio::test]
    async fn a_healthy_program_says_ok() {
        let (health, _tasks) = healthy().await;
        for path in ["/healthz", "/livez", "/readyz", "/readyz/store", "/livez?exclude=ping"] {
            assert_eq!(ask(&health, "GET", path).await, (200, "ok".to_owned()), "{path}");
        }
        let verbose = "[+]ping ok\n[+]store ok\nhealthz check passed\n".to_owned();
        assert_eq!(ask(&health, "GET", "/healthz?verbose").await, (200, verbose));
    }

    #[tokio::test]
    async fn what_is_not_there_is_not_found_and_writing_is_refused() {
        let (health, _tasks) = healthy().await;
        for path in ["/", "/healthy", "/healthz/none", "/livez/store", "/statusz/a", "/api"] {
            assert_eq!(ask(&health, "GET", path).await.0, 404, "{path}");
        }
        assert_eq!(ask(&health, "POST", "/healthz").await.0, 405);
    }

    #[tokio::test]
    async fn a_stopping_program_lives_but_is_not_ready() {
        let (health, tasks) = healthy().await;
        tasks.stop(Duration::from_secs(1)).await;
        assert_eq!(ask(&health, "GET", "/livez").await.0, 200);
        let (status, body) = ask(&health, "GET", "/readyz").await;
        assert_eq!(status, 500);
        assert!(body.contains("[-]shutdown failed"), "{body}");
        assert_eq!(ask(&health, "GET", "/readyz?exclude=shutdown").await.0, 200);
    }

    #[tokio::test]
    async fn the_status_tells_the_revision() {
        let (health, _tasks) = healthy().await;
        let (status, body) = ask(&health, "GET", "/statusz").await;
        assert_eq!(status, 200);
        let told: Status = serde_json::from_str(&body).expect("it must be JSON");
        assert_eq!((told.revision, told.health.as_str()), (0, "ok"));
    }
}
