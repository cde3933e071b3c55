//! Answers: bodies that are whole, and bodies that are streamed.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use futures::StreamExt;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body::{Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::Value;

use crate::handover::Handed;
use crate::status::Error;
use crate::traffic::Permit;

pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// An answer to a request.
pub struct Answer {
    pub code: u16,
    pub content_type: &'static str,
    pub headers: Vec<(HeaderName, String)>,
    pub body: Content,
    /// Its place among those under way: kept until all of it is sent, or nobody wants it.
    pub place: Option<Permit>,
    /// In place of a body, for a part of this program.
    pub handed: Option<Handed>,
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
        Answer::with_body(code, content_type, Content::Whole(bytes.into()))
    }

    pub fn stream(
        content_type: &'static str,
        stream: impl Stream<Item = Bytes> + Send + 'static,
    ) -> Answer {
        Answer::with_body(200, content_type, Content::Pieces(Box::pin(stream)))
    }

    /// An object for a part of this program.
    pub fn handed(code: u16, handed: Handed) -> Answer {
        Answer { handed: Some(handed), ..Answer::json(code, Bytes::new()) }
    }

    /// Events as they happen, one line each.
    pub fn watch(stream: impl Stream<Item = Bytes> + Send + 'static) -> Answer {
        Answer::with_body(200, JSON, Content::Watch(Box::pin(stream)))
    }

    fn with_body(code: u16, content_type: &'static str, body: Content) -> Answer {
        Answer { code, content_type, headers: Vec::new(), body, place: None, handed: None }
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
        let body = match self.place {
            Some(place) => Placed { body, _place: place }.boxed_unsync(),
            None => body,
        };
        let mut response = Response::new(body);
        if let Some(handed) = self.handed {
            response.extensions_mut().insert(handed);
        }
        let code = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        *response.status_mut() = code;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        for (name, value) in self.headers {
            // A header that cannot be sent is left out rather than failing the answer.
            match HeaderValue::from_str(&value) {
                Ok(value) if name == CONTENT_TYPE && value.is_empty() => {
                    headers.remove(name);
                }
                // Of two kinds of content the one that was said last counts.
                Ok(value) if name == CONTENT_TYPE => {
                    headers.insert(name, value);
                }
                Ok(value) => {
                    headers.append(name, value);
                }
                Err(_) => {}
            }
        }
        // Only documents that name their own content may be kept by others.
        headers
            .entry(CACHE_CONTROL)
            .or_insert_with(|| HeaderValue::from_static("no-cache, private"));
        response
    }
}

/// A body that keeps a place for as long as it is there.
struct Placed {
    body: Body,
    _place: Permit,
}

impl http_body::Body for Placed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
