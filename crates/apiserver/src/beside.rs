//! What else runs in the process, as far as health and metrics tell of it.
//!
//! The server knows nothing of controllers; whoever starts them says here how they are.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::Method;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;
use tokio::time::timeout;

use crate::answer::Answer;
use crate::authenticate::bearer_token;
use crate::console::Pages;
use crate::extension::Extend;
use crate::history::foresight::Foresee;
use crate::request::trace::JoinTraces;
use crate::server::Server;
use crate::status::Error;
use crate::tasks::Task;
use crate::traffic::REQUEST_MAX;

/// Largest body of a request to a component.
const BODY_BYTES_MAX: usize = 128 << 10;
/// Time in which such a body must arrive.
const BODY_MAX: Duration = Duration::from_secs(10);

/// Told by whoever runs the other components.
pub trait Report: Send + Sync {
    /// Each component and how it is, in few words.
    fn states(&self) -> Vec<(String, String)>;

    /// What they count, in the text form of metrics.
    fn metrics(&self) -> String;

    /// What runs for as long as the process does.
    fn tasks(&self) -> Vec<Task>;
}

/// A component that answers requests itself: its clients have credentials that are for it alone.
#[async_trait]
pub trait Respond: Send + Sync {
    /// Whether a request is for it.
    fn is_for(&self, method: &Method, path: &str) -> bool;

    /// Answers with a status code and JSON.
    async fn answer(&self, path: &str, authorization: Option<&str>, body: Bytes) -> (u16, Value);
}

/// The other components, if there are any.
#[derive(Clone, Default)]
pub struct Beside {
    report: Arc<OnceLock<Box<dyn Report>>>,
    responders: Arc<RwLock<Vec<Arc<dyn Respond>>>>,
    extensions: Arc<RwLock<Vec<Arc<dyn Extend>>>>,
    foresight: Arc<OnceLock<Arc<dyn Foresee>>>,
    pages: Arc<OnceLock<Box<dyn Pages>>>,
    documentation: Arc<OnceLock<Box<dyn Pages>>>,
    traces: Arc<OnceLock<Box<dyn JoinTraces>>>,
    is_leaving: Arc<AtomicBool>,
    running: Arc<OnceLock<Vec<&'static str>>>,
}

impl Beside {
    /// The process is about to stop, and answers for a while yet: whoever chooses between servers
    /// should choose another from now on.
    pub fn leave(&self) {
        self.is_leaving.store(true, Ordering::Relaxed);
    }

    pub fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed)
    }

    /// Sets the components that this process runs. Later calls are ignored.
    pub fn set_running_components(&self, components: Vec<&'static str>) {
        let _ = self.running.set(components);
    }

    /// The components that this process runs: `controllers`, `node`, `machines`.
    pub fn running_components(&self) -> &[&'static str] {
        self.running.get().map_or(&[], Vec::as_slice)
    }

    /// Adds one that answers for a group.
    pub fn add_extend(&self, extend: impl Extend + 'static) {
        self.extensions.write().unwrap_or_else(PoisonError::into_inner).push(Arc::new(extend));
    }

    /// Everybody who answers for a group.
    pub fn extensions(&self) -> Vec<Arc<dyn Extend>> {
        self.extensions.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Who answers for a group, if it is not the server itself.
    pub fn extension(&self, group: &str) -> Option<Arc<dyn Extend>> {
        let all = self.extensions.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|extend| extend.group() == group).cloned()
    }

    /// Says who knows where pods go; only the first counts.
    pub fn set_foresight(&self, foresight: impl Foresee + 'static) {
        let _ = self.foresight.set(Arc::new(foresight));
    }

    /// Who knows where pods go, if somebody does.
    pub fn foresight(&self) -> Option<Arc<dyn Foresee>> {
        self.foresight.get().cloned()
    }

    /// Adds one that answers requests of its own; of two for a request the first counts.
    pub fn add_respond(&self, respond: impl Respond + 'static) {
        self.responders.write().unwrap_or_else(PoisonError::into_inner).push(Arc::new(respond));
    }

    /// Who answers a request, if it is not the server itself.
    pub fn responder(&self, method: &Method, path: &str) -> Option<Arc<dyn Respond>> {
        let all = self.responders.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|respond| respond.is_for(method, path)).cloned()
    }

    /// Says who has the files of the console; only the first counts.
    pub fn set_pages(&self, pages: impl Pages + 'static) {
        let _ = self.pages.set(Box::new(pages));
    }

    pub fn pages(&self) -> Option<&dyn Pages> {
        self.pages.get().map(|pages| &**pages)
    }

    /// Says who has the documentation; only the first counts.
    pub fn set_documentation(&self, pages: impl Pages + 'static) {
        let _ = self.documentation.set(Box::new(pages));
    }

    pub fn documentation(&self) -> Option<&dyn Pages> {
        self.documentation.get().map(|pages| &**pages)
    }

    /// Says who collects spans; only the first counts.
    pub fn set_traces(&self, traces: impl JoinTraces + 'static) {
        let _ = self.traces.set(Box::new(traces));
    }

    pub fn traces(&self) -> Option<&dyn JoinTraces> {
        self.traces.get().map(|traces| &**traces)
    }

    /// Says who tells; only the first counts.
    pub fn set(&self, report: impl Report + 'static) {
        let _ = self.report.set(Box::new(report));
    }

    pub fn states(&self) -> Vec<(String, String)> {
        self.report.get().map(|report| report.states()).unwrap_or_default()
    }

    pub fn tasks(&self) -> Vec<Task> {
        self.report.get().map(|report| report.tasks()).unwrap_or_default()
    }

    pub fn metrics(&self) -> String {
        self.report.get().map(|report| report.metrics()).unwrap_or_default()
    }
}

/// Has a component answer a request. The body is read only if the request has a token that this
/// server signed; whether it is for this request, the component decides.
pub async fn ask<B>(server: &Server, responder: &dyn Respond, parts: &Parts, body: B) -> Answer
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let is_signed = bearer_token(&parts.headers).is_some_and(|it| server.tokens.has_signed(&it));
    if !is_signed {
        return Answer::failure(&Error::not_permitted());
    }
    let body = match timeout(BODY_MAX, Limited::new(body, BODY_BYTES_MAX).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return Answer::failure(&Error::too_large(BODY_BYTES_MAX));
        }
        Ok(Err(error)) => {
            let error = Error::bad_request(format!("could not read the body: {error}"));
            return Answer::failure(&error);
        }
        Err(_) => return Answer::failure(&Error::timeout("the body did not arrive in time", 0)),
    };
    let authorization = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let answer = responder.answer(parts.uri.path(), authorization, body);
    match timeout(REQUEST_MAX, answer).await {
        Ok((code, value)) => Answer::value(code, &value),
        Err(_) => Answer::failure(&Error::timeout("the component did not answer in time", 0)),
    }
}
