//! What the program says of itself on its socket: its health, `/statusz`, and `/logz`.
//!
//! Health is answered by the API server's own code, so that both listeners say the same.

use std::sync::Arc;

use apiserver::answer::{Answer, Body};
use apiserver::beside::Beside;
use apiserver::health::{self, Checked};
use hyper::{Method, Request, Response};
use reconcile::Caches;
use serde::{Deserialize, Serialize};
use store::Store;

use crate::census::Census;
use crate::kept_lines::{KEPT, Wanted};
use crate::shutdown::Stop;

/// What the answers are made from.
pub struct Health {
    pub store: Arc<dyn Store>,
    pub stop: Stop,
    pub beside: Beside,
    /// Of the components, if any run.
    pub caches: Option<Arc<Caches>>,
}

/// What `/statusz` tells.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// `ok`, or why commits are not possible.
    pub health: String,
    pub revision: u64,
    /// The oldest revision that can be read.
    pub compacted: u64,
    /// Where something looks at nodes and pods.
    pub census: Option<Census>,
    /// The components that are not well, and how they are.
    pub unwell: Vec<(String, String)>,
}

impl Health {
    pub fn answer<B>(&self, request: &Request<B>) -> Response<Body> {
        let answer = match *request.method() {
            Method::GET | Method::HEAD => self.read(request),
            _ => Answer::text(405, "405 method not allowed\n"),
        };
        answer.into_response()
    }

    fn read<B>(&self, request: &Request<B>) -> Answer {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        if path == "/statusz" {
            return match serde_json::to_string(&self.status()) {
                Ok(json) => Answer::json(200, json),
                Err(error) => Answer::text(500, error.to_string()),
            };
        }
        if path == "/logz" {
            return lines(query);
        }
        let is_stopping = self.stop.is_requested() || self.beside.is_leaving();
        let checked = Checked { store: &*self.store, is_stopping, beside: &self.beside };
        health::answer(&checked, path, query)
            .unwrap_or_else(|| Answer::text(404, "404 page not found\n"))
    }

    /// How everything is.
    pub fn status(&self) -> Status {
        let health = match self.store.health() {
            Ok(()) => "ok".to_owned(),
            Err(error) => error.to_string(),
        };
        let (revision, compacted) = (self.store.revision(), self.store.compacted());
        let is_well = |state: &str| matches!(state, "running" | "another process leads");
        let states = self.beside.states().into_iter();
        Status {
            health,
            revision: revision.0,
            compacted: compacted.0,
            census: self.caches.as_deref().and_then(Census::of),
            unwell: states.filter(|(_, state)| !is_well(state)).collect(),
        }
    }
}

/// Lines of an operator: `operator=NAME&after=NUMBER&tail=COUNT`.
fn lines(query: &str) -> Answer {
    let said = |name: &str| {
        let mut options = query.split('&').filter_map(|option| option.split_once('='));
        options.find(|(key, _)| *key == name).map(|(_, value)| value)
    };
    let wanted = Wanted {
        operator: said("operator").unwrap_or_default().to_owned(),
        after: said("after").and_then(|text| text.parse().ok()).unwrap_or(0),
        tail: said("tail").and_then(|text| text.parse().ok()),
    };
    match serde_json::to_string(&KEPT.page(&wanted)) {
        Ok(json) => Answer::json(200, json),
        Err(error) => Answer::text(500, error.to_string()),
    }
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
        let (store, beside) = (store.expect("memory must open"), Beside::default());
        (Health { store, stop, beside, caches: None }, tasks)
    }

    #[tokio::test]
    async fn what_is_not_there_is_not_found_and_writing_is_refused() {
        let (health, _tasks) = healthy().await;
        for path in ["/", "/healthy", "/healthz/none", "/statusz/a", "/api"] {
            assert_eq!(ask(&health, "GET", path).await.0, 404, "{path}");
        }
        assert_eq!(ask(&health, "GET", "/healthz").await, (200, "ok".to_owned()));
        assert_eq!(ask(&health, "POST", "/healthz").await.0, 405);
    }

    #[tokio::test]
    async fn a_stopping_program_lives_but_is_not_ready() {
        let (health, tasks) = healthy().await;
        tasks.stop(Duration::from_secs(1)).await;
        assert_eq!(ask(&health, "GET", "/livez").await.0, 200);
        assert_eq!(ask(&health, "GET", "/readyz").await.0, 500);
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
