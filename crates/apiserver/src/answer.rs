//! Answers: bodies that are whole, and bodies that are streamed.

use std::convert::Infallible;
use std::pin::Pin;

use bytes::Bytes;
use futures::Stream;
use futures::StreamExt;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::Value;

use crate::status::Error;

pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// An answer to a request.
pub struct Answer {
    pub code: u16,
    pub content_type: &'static str,
    pub headers: Vec<(HeaderName, String)>,
    pub body: Content,
}

pub enum Content {
    Whole(Bytes),
    /// Too long to be in memory at once; every piece is at hand when it is asked for.
    Pieces(Pieces),
    /// Goes on until something ends it.
    Watch(Pieces),
}

pub type Pieces = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

pub const JSON: &str = "application/json";

impl Answer {
    pub fn json(code: u16, bytes: impl Into<Bytes>) -> Answer {
        Answer::of(code, JSON, bytes)
    }

    pub fn value(code: u16, value: &Value) -> Answer {
        let bytes = serde_json::to_vec(value);
        Answer::json(code, bytes.expect("JSON values always serialise into memory"))
    }

    pub fn text(code: u16, text: impl Into<Bytes>) -> Answer {
        Answer::of(code, "text/plain; charset=utf-8", text)
    }

    pub fn of(code: u16, content_type: &'static str, bytes: impl Into<Bytes>) -> Answer {
        Answer { code, content_type, headers: Vec::new(), body: Content::Whole(bytes.into()) }
    }

    pub fn stream(
        content_type: &'static str,
        stream: impl Stream<Item = Bytes> + Send + 'static,
    ) -> Answer {
        let body = Content::Pieces(Box::pin(stream));
        Answer { code: 200, content_type, headers: Vec::new(), body }
    }

    /// Events as they happen, one line each.
    pub fn watch(stream: impl Stream<Item = Bytes> + Send + 'static) -> Answer {
        let body = Content::Watch(Box::pin(stream));
        Answer { code: 200, content_type: JSON, headers: Vec::new(), body }
    }

    /// The failure as a Status on one line, which a watch client also understands.
    pub fn failure(error: &Error) -> Answer {
        let mut body = error.to_status().to_string();
        body.push('\n');
        let mut answer = Answer::json(error.code, body);
        let retry_after = error.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        if retry_after > 0 {
            answer.headers.push((http::header::RETRY_AFTER, retry_after.to_string()));
        }
        answer
    }

    pub fn with(mut self, name: HeaderName, value: impl Into<String>) -> Answer {
        self.headers.push((name, value.into()));
        self
    }

    pub fn into_response(self) -> Response<Body> {
        let body = match self.body {
            Content::Whole(bytes) => Full::new(bytes).boxed_unsync(),
            Content::Pieces(stream) | Content::Watch(stream) => {
                StreamBody::new(stream.map(|bytes| Ok(Frame::data(bytes)))).boxed_unsync()
            }
        };
        let mut response = Response::new(body);
        let code = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        *response.status_mut() = code;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        for (name, value) in self.headers {
            // A header that cannot be sent is left out rather than failing the answer.
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.append(name, value);
            }
        }
        // Only documents that name their own content may be kept by others.
        headers
            .entry(CACHE_CONTROL)
            .or_insert_with(|| HeaderValue::from_static("no-cache, private"));
        response
    }
}
