//! The trace that a request belongs to: begun by its caller and named in the header `traceparent`
//! (W3C Trace Context), or begun here where spans are collected.
//!
//! What the log says while the request is answered carries the id of the trace, the span of the
//! request is a child of the caller's, and the answer names that span. A request without the header
//! costs a look for it where no spans are collected.

use std::fmt;

use http::request::Parts;
use http::{HeaderMap, HeaderName};
use tracing::Span;

use crate::asked::Asked;
use crate::beside::Beside;

const HEADER: HeaderName = HeaderName::from_static("traceparent");
/// The version that is written; later ones begin in the same way.
const VERSION: &str = "00";

/// A span of a trace, as the header has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    pub trace: u128,
    pub span: u64,
    /// The lowest bit says that the trace is kept.
    pub flags: u8,
}

/// Makes spans known to a collector part of the traces of others.
pub trait JoinTraces: Send + Sync {
    /// Makes a span that has not begun a child of the caller's; says what it is called, unless
    /// nobody collects it.
    fn join(&self, span: &Span, caller: Option<TraceParent>) -> Option<TraceParent>;
}

/// What a request is answered within.
pub(crate) struct Trace {
    /// For collectors of traces; costs nothing where there is none.
    pub span: Span,
    /// Puts the id of the trace into lines of the log; nothing where there is no trace.
    pub log: Span,
    ours: Option<TraceParent>,
}

impl Trace {
    pub fn begin(beside: &Beside, parts: &Parts, asked: &Asked) -> Trace {
        let span = tracing::info_span!(
            target: "setpoint::spans",
            "request",
            otel.kind = "server",
            http.request.method = parts.method.as_str(),
            url.path = parts.uri.path(),
            enduser.id = &*asked.user.name,
            request.id = &*asked.id,
        );
        let caller = TraceParent::read(&parts.headers);
        if caller.is_none() && span.is_disabled() {
            return Trace { span, log: Span::none(), ours: None };
        }
        let collected = beside.traces().and_then(|traces| traces.join(&span, caller));
        let ours = collected.or_else(|| Some(caller?.child(&asked.id)));
        let log = ours.map_or_else(Span::none, |ours| {
            // At the highest level, so that no line is without it.
            tracing::error_span!("trace", trace_id = format!("{:032x}", ours.trace))
        });
        Trace { span, log, ours }
    }

    /// The header of the answer.
    pub fn header(&self) -> Option<(HeaderName, String)> {
        self.ours.map(|ours| (HEADER, ours.to_string()))
    }
}

impl TraceParent {
    /// A header that is malformed is as good as none.
    fn read(headers: &HeaderMap) -> Option<TraceParent> {
        TraceParent::parse(headers.get(HEADER)?.to_str().ok()?)
    }

    fn parse(text: &str) -> Option<TraceParent> {
        let mut parts = text.split('-');
        let mut part = |length: usize| {
            let part = parts.next().filter(|part| part.len() == length)?;
            let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            part.bytes().all(is_hex).then_some(part)
        };
        let version = part(2)?;
        let trace = u128::from_str_radix(part(32)?, 16).ok()?;
        let span = u64::from_str_radix(part(16)?, 16).ok()?;
        let flags = u8::from_str_radix(part(2)?, 16).ok()?;
        // Only later versions may have more.
        let is_whole = version != VERSION || parts.next().is_none();
        let is_valid = version != "ff" && trace != 0 && span != 0 && is_whole;
        is_valid.then_some(TraceParent { trace, span, flags })
    }

    /// Our part of the trace where nobody collects spans: the request's id ends with its id.
    fn child(self, request: &str) -> TraceParent {
        let digits = request.bytes().rev().filter_map(|byte| char::from(byte).to_digit(16));
        let digits = digits.take(16).enumerate();
        let span = digits.fold(0, |span, (at, digit)| span | u64::from(digit) << (4 * at));
        TraceParent { span, ..self }
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TraceParent { trace, span, flags } = self;
        write!(formatter, "{VERSION}-{trace:032x}-{span:016x}-{flags:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_header_is_read_and_written_as_it_was() {
        let read = TraceParent::parse(HEADER).expect("it must be read");
        assert_eq!(read.to_string(), HEADER);
        let later = HEADER.replacen("00", "cc", 1) + "-what-will-be";
        assert_eq!(TraceParent::parse(&later), Some(read));
    }

    #[test]
    fn what_is_malformed_is_as_good_as_nothing() {
        let bad = [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ];
        for text in bad {
            assert_eq!(TraceParent::parse(text), None, "{text}");
        }
    }

    #[test]
    fn our_part_is_named_after_the_request() {
        let read = TraceParent::parse(HEADER).expect("it must be read");
        let ours = read.child("5b6f8a52-0c1f-4a37-9d6e-0123456789ab");
        assert_eq!(ours.to_string(), "00-4bf92f3577b34da6a3ce929d0e0e4736-9d6e0123456789ab-01");
    }
}
