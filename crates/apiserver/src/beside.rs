//! What else runs in the process, as far as health and metrics tell of it.
//!
//! The server knows nothing of controllers; whoever starts them says here how they are.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use async_trait::async_trait;
use bytes::Bytes;
use http::Method;
use http::header::AUTHORIZATION;
use http::request::Parts;
use serde_json::Value;

use crate::answer::Answer;
use crate::console::Pages;
use crate::extension::Extend;
use crate::history::foresight::Foresee;
use crate::request::trace::JoinTraces;
use crate::status::Error;
use crate::tasks::Task;

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

/// Has a component answer a request.
pub async fn ask(responder: &dyn Respond, parts: &Parts, body: Result<Bytes, Error>) -> Answer {
    let body = match body {
        Ok(body) => body,
        Err(error) => return Answer::failure(&error),
    };
    let authorization = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let (code, value) = responder.answer(parts.uri.path(), authorization, body).await;
    Answer::value(code, &value)
}
