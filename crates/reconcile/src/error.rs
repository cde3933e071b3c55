//! What can go wrong in a reconcile.

use std::time::Duration;

use crate::object::Name;

/// Why a reconcile ended early. The queue tries again, unless it is terminal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not read {object}: {reason}")]
    Decode { object: String, reason: String },

    #[error("could not {what}")]
    Request {
        what: String,
        #[source]
        source: Box<kube::Error>,
    },

    /// Only a change of the object can help; it is tried again when it changes.
    #[error("{reason}")]
    Terminal { reason: String },

    #[error("the cache of {kind} has not caught up with what was written for {name}")]
    Stale { kind: String, name: Name },

    #[error("the reconcile panicked: {reason}")]
    Panic { reason: String },

    #[error("{reason}")]
    Other { reason: String },
}

impl Error {
    pub fn request(what: impl Into<String>, source: kube::Error) -> Error {
        Error::Request { what: what.into(), source: Box::new(source) }
    }

    pub fn terminal(reason: impl Into<String>) -> Error {
        Error::Terminal { reason: reason.into() }
    }

    /// Whether trying again can help only after the object has changed.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Error::Terminal { .. } | Error::Decode { .. })
    }

    /// The HTTP status code of the answer, if there was one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Error::Request { source, .. } => match &**source {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether the server understood and would not: a user may want to know why.
    pub fn is_refusal(&self) -> bool {
        matches!(self.code(), Some(400..=499)) && !matches!(self.code(), Some(404 | 409 | 429))
    }

    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// How long the server asked us to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        let Error::Request { source, .. } = self else { return None };
        let kube::Error::Api(status) = &**source else { return None };
        let seconds = status.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)))
    }

    /// For metrics: one of a closed set.
    pub fn class(&self) -> &'static str {
        match (self, self.code()) {
            (Error::Decode { .. }, _) => "decode",
            (Error::Terminal { .. }, _) => "terminal",
            (Error::Stale { .. }, _) => "stale",
            (Error::Panic { .. }, _) => "panic",
            (Error::Other { .. }, _) => "other",
            (Error::Request { .. }, Some(409)) => "conflict",
            (Error::Request { .. }, Some(404)) => "not_found",
            (Error::Request { .. }, Some(429)) => "too_many_requests",
            (Error::Request { .. }, Some(400..=499)) => "refused",
            (Error::Request { .. }, Some(_)) => "server",
            (Error::Request { .. }, None) => "connection",
        }
    }

    /// What an API calls it, for metrics that its users know.
    pub fn type_name(&self) -> &'static str {
        if let Error::Request { source, .. } = self
            && let kube::Error::Api(status) = &**source
            && status.reason == "AlreadyExists"
        {
            return "already_exists";
        }
        match self.code() {
            Some(400) => "bad_request",
            Some(401) => "unauthorized",
            Some(403) => "forbidden",
            Some(404) => "not_found",
            Some(408) => "timeout",
            Some(409) => "conflict",
            Some(422) => "validation",
            Some(429) => "rate_limited",
            Some(503) => "unavailable",
            Some(504) => "server_timeout",
            _ => "internal",
        }
    }

    /// What the server said, where it did: for users, who are not told of requests.
    pub fn said(&self) -> String {
        if let Error::Request { source, .. } = self
            && let kube::Error::Api(status) = &**source
        {
            return status.message.clone();
        }
        self.chain()
    }

    /// The error and its causes on one line.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(source) = cause {
            text = format!("{text}: {source}");
            cause = source.source();
        }
        text
    }
}
