//! The last step of an answer: YAML, indented JSON and compression, for those who ask.
//!
//! What most clients ask for, compact JSON, passes untouched. A watch is never changed.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::{StreamExt, stream};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, HeaderName, USER_AGENT, VARY};
use http::request::Parts;
use serde_json::Value;

use crate::answer::{Answer, Content, JSON, Pieces};
use crate::decode::json;
use crate::identity::yaml_text;
use crate::request::negotiate::{Encoding, Offer, negotiate};

/// Shorter bodies are not worth compressing.
pub const GZIP_BYTES_MIN: usize = 128 << 10;
/// Fast rather than small: the network is seldom the narrow place.
const GZIP_LEVEL: u32 = 1;
/// People read what these fetch.
const READ_BY_PEOPLE: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];

/// How a client wants its answer written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wishes {
    encoding: Encoding,
    is_pretty: bool,
    is_gzip: bool,
}

impl Wishes {
    pub fn of(parts: &Parts) -> Wishes {
        let header = |name: HeaderName| {
            parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
        };
        // What cannot be had is refused in JSON.
        let representation = negotiate(header(ACCEPT), Offer::Full);
        let encoding = representation.map_or(Encoding::Json, |wanted| wanted.encoding());
        let mut pairs = parts.uri.query().unwrap_or_default().split('&');
        let pretty = pairs.find_map(|pair| pair.strip_prefix("pretty="));
        let is_pretty = match pretty {
            Some(value) => matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
            None => READ_BY_PEOPLE.iter().any(|agent| header(USER_AGENT).starts_with(agent)),
        };
        let is_gzip = header(ACCEPT_ENCODING).split(',').any(is_gzip);
        Wishes { encoding, is_pretty, is_gzip }
    }
}

fn is_gzip(coding: &str) -> bool {
    let mut parts = coding.split(';').map(str::trim);
    let is_named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
    is_named && !parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
}

/// Writes an answer as it was wished for.
pub async fn finish(mut answer: Answer, wishes: Wishes) -> Answer {
    let is_rewritten = wishes.encoding == Encoding::Yaml || wishes.is_pretty;
    if answer.content_type == JSON && is_rewritten {
        answer = rewrite(answer, wishes).await;
    }
    if wishes.is_gzip {
        answer = compress(answer);
    }
    answer
}

async fn rewrite(mut answer: Answer, wishes: Wishes) -> Answer {
    let whole = match answer.body {
        Content::Watch(_) => return answer,
        Content::Whole(bytes) => bytes,
        Content::Pieces(pieces) => collect(pieces).await,
    };
    let value: Value = match json::parse(&whole).map(|parsed| parsed.value) {
        Ok(value) => value,
        // Nothing, as with a 304, is sent as it is.
        Err(_) => {
            answer.body = Content::Whole(whole);
            return answer;
        }
    };
    let text = match wishes.encoding {
        Encoding::Yaml => {
            answer.content_type = "application/yaml";
            yaml_text::write(&value)
        }
        Encoding::Json => format!("{value:#}\n"),
    };
    answer.body = Content::Whole(text.into());
    answer
}

async fn collect(pieces: Pieces) -> Bytes {
    let mut whole = Vec::new();
    let mut pieces = pieces;
    while let Some(piece) = pieces.next().await {
        whole.extend_from_slice(&piece);
    }
    whole.into()
}

fn compress(mut answer: Answer) -> Answer {
    let pieces: Pieces = match answer.body {
        Content::Whole(bytes) if bytes.len() >= GZIP_BYTES_MIN => {
            Box::pin(stream::iter(std::iter::once(bytes)))
        }
        // Lists come in pieces when they are long enough.
        Content::Pieces(pieces) => pieces,
        short_or_watch => {
            answer.body = short_or_watch;
            return answer;
        }
    };
    answer.body = Content::Pieces(Box::pin(gzip(pieces)));
    answer.with(CONTENT_ENCODING, "gzip").with(VARY, "Accept-Encoding")
}

fn gzip(pieces: Pieces) -> impl futures::Stream<Item = Bytes> + Send {
    let encoder = GzEncoder::new(Vec::new(), Compression::new(GZIP_LEVEL));
    stream::unfold(Some((pieces, encoder)), |state| async move {
        let (mut pieces, mut encoder) = state?;
        loop {
            let Some(piece) = pieces.next().await else {
                let rest = encoder.finish().expect("compressing into memory cannot fail");
                return Some((Bytes::from(rest), None));
            };
            encoder.write_all(&piece).expect("compressing into memory cannot fail");
            if !encoder.get_ref().is_empty() {
                let ready = std::mem::take(encoder.get_mut());
                return Some((Bytes::from(ready), Some((pieces, encoder))));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use serde_json::json;

    use super::*;

    fn wishes(uri: &str, headers: &[(&str, &str)]) -> Wishes {
        let mut request = http::Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Wishes::of(&request.body(()).unwrap().into_parts().0)
    }

    async fn body(answer: Answer) -> Vec<u8> {
        match answer.body {
            Content::Whole(bytes) => bytes.to_vec(),
            Content::Pieces(pieces) | Content::Watch(pieces) => collect(pieces).await.to_vec(),
        }
    }

    #[test]
    fn wishes_are_read_from_the_request() {
        assert!(wishes("/?pretty=true", &[]).is_pretty);
        assert!(!wishes("/?pretty=false", &[("user-agent", "curl/8")]).is_pretty);
        assert!(wishes("/", &[("user-agent", "curl/8")]).is_pretty);
        assert!(!wishes("/", &[("user-agent", "kubectl/v1.36")]).is_pretty);
        assert!(wishes("/", &[("accept-encoding", "br, gzip;q=0.5")]).is_gzip);
        assert!(!wishes("/", &[("accept-encoding", "br, gzip;q=0")]).is_gzip);
        assert_eq!(wishes("/", &[("accept", "application/yaml")]).encoding, Encoding::Yaml);
        assert_eq!(wishes("/", &[("accept", "text/html")]).encoding, Encoding::Json);
    }

    #[tokio::test]
    async fn only_long_bodies_are_compressed_and_they_come_back_whole() {
        let wishes = wishes("/", &[("accept-encoding", "gzip")]);
        let long = json!({"a": "x".repeat(GZIP_BYTES_MIN)}).to_string();
        for (text, is_compressed) in [("{}".to_owned(), false), (long, true)] {
            let answer = finish(Answer::json(200, text.clone()), wishes).await;
            let says_so = answer.headers.iter().any(|(name, _)| name == CONTENT_ENCODING);
            assert_eq!(says_so, is_compressed);
            let mut bytes = body(answer).await;
            if is_compressed {
                assert!(bytes.len() < text.len() / 10);
                let mut plain = Vec::new();
                GzDecoder::new(&bytes[..]).read_to_end(&mut plain).unwrap();
                bytes = plain;
            }
            assert_eq!(bytes, text.as_bytes());
        }
    }

    #[tokio::test]
    async fn a_watch_is_left_alone() {
        let headers = [("accept-encoding", "gzip"), ("user-agent", "curl/8")];
        let line = Bytes::from_static(b"{\"type\":\"ADDED\",\"object\":{}}\n");
        let watch = Answer::watch(stream::iter([line.clone()]));
        let answer = finish(watch, wishes("/?pretty=true", &headers)).await;
        assert!(answer.headers.is_empty());
        assert_eq!(body(answer).await, line);
    }

    #[tokio::test]
    async fn people_and_yaml_readers_get_lines() {
        let object = json!({"kind": "Pod", "metadata": {"name": "a"}});
        let pretty = finish(Answer::value(200, &object), wishes("/?pretty=1", &[])).await;
        let expected = "{\n  \"kind\": \"Pod\",\n  \"metadata\": {\n    \"name\": \"a\"\n  }\n}\n";
        assert_eq!(body(pretty).await, expected.as_bytes());
        let accept = [("accept", "application/yaml")];
        let yaml = finish(Answer::value(200, &object), wishes("/", &accept)).await;
        assert_eq!(yaml.content_type, "application/yaml");
        assert_eq!(body(yaml).await, b"kind: Pod\nmetadata:\n  name: a\n");
    }
}
