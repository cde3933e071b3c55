//! Which protocol a connection changes to, and the answer that says so.
//!
//! The client names what it speaks, the best first; the first that we speak too is taken.

use aws_lc_rs::digest;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::{
    CONNECTION, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use hyper::upgrade::OnUpgrade;

use crate::answer::Answer;
use crate::status::Error;

/// With RFC 6455: proves that the answer is to this handshake.
const WEBSOCKET_MAGIC: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const SPDY: &str = "SPDY/3.1";
const RAW: &str = "tcp";
const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");

/// A request to leave HTTP.
#[derive(Clone)]
pub struct Upgrade {
    pub connection: OnUpgrade,
    headers: HeaderMap,
}

/// What is spoken from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// SPDY streams, with the version of what is said in them.
    Spdy(u8),
    /// SPDY in the messages of a WebSocket.
    Tunnel,
    Channels(Channels),
    /// Bytes, as they are.
    Raw,
}

/// Messages of a WebSocket whose first byte says which stream they belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels {
    pub version: u8,
    /// Text: the first character is the channel, the rest is encoded.
    pub is_base64: bool,
}

const fn channels(version: u8, is_base64: bool) -> Protocol {
    Protocol::Channels(Channels { version, is_base64 })
}

/// Names and what they mean; the one without a name is for who names none.
pub type Known = [(Kind, &'static str, Protocol)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    WebSocket,
    Spdy,
    /// `tcp`, as clients of Docker call it.
    Raw,
}

pub const FOR_PROGRAMS: [(Kind, &str, Protocol); 12] = [
    (Kind::WebSocket, "v5.channel.k8s.io", channels(5, false)),
    (Kind::WebSocket, "v4.channel.k8s.io", channels(4, false)),
    (Kind::WebSocket, "v4.base64.channel.k8s.io", channels(4, true)),
    (Kind::WebSocket, "channel.k8s.io", channels(1, false)),
    (Kind::WebSocket, "base64.channel.k8s.io", channels(1, true)),
    (Kind::WebSocket, "", channels(1, false)),
    (Kind::Spdy, "v5.channel.k8s.io", Protocol::Spdy(4)),
    (Kind::Spdy, "v4.channel.k8s.io", Protocol::Spdy(4)),
    (Kind::Spdy, "v3.channel.k8s.io", Protocol::Spdy(3)),
    (Kind::Spdy, "v2.channel.k8s.io", Protocol::Spdy(2)),
    (Kind::Spdy, "channel.k8s.io", Protocol::Spdy(1)),
    (Kind::Spdy, "", Protocol::Spdy(1)),
];

pub const FOR_PORTS: [(Kind, &str, Protocol); 6] = [
    (Kind::WebSocket, "SPDY/3.1+portforward.k8s.io", Protocol::Tunnel),
    (Kind::WebSocket, "v4.channel.k8s.io", channels(4, false)),
    (Kind::WebSocket, "v4.base64.channel.k8s.io", channels(4, true)),
    (Kind::WebSocket, "", channels(4, false)),
    (Kind::Spdy, "portforward.k8s.io", Protocol::Spdy(1)),
    (Kind::Spdy, "", Protocol::Spdy(1)),
];

/// A connection whose bytes are the messages of a WebSocket. Upstream: kubevirt.io/client-go.
pub const FOR_CONNECTIONS: [(Kind, &str, Protocol); 3] = [
    (Kind::WebSocket, "plain.kubevirt.io", Protocol::Tunnel),
    (Kind::WebSocket, "", Protocol::Tunnel),
    (Kind::Raw, "", Protocol::Raw),
];

impl Upgrade {
    /// What a request says of leaving HTTP, if it does.
    pub fn of(parts: &Parts) -> Option<Upgrade> {
        let is_asked = values(&parts.headers, &CONNECTION)
            .any(|token| token.eq_ignore_ascii_case(UPGRADE.as_str()));
        let connection = parts.extensions.get::<OnUpgrade>().filter(|_| is_asked)?;
        Some(Upgrade { connection: connection.clone(), headers: parts.headers.clone() })
    }

    fn kind(&self) -> Option<Kind> {
        values(&self.headers, &UPGRADE).find_map(|name| match name {
            name if name.eq_ignore_ascii_case("websocket") => Some(Kind::WebSocket),
            name if name.eq_ignore_ascii_case(SPDY) => Some(Kind::Spdy),
            name if name.eq_ignore_ascii_case(RAW) => Some(Kind::Raw),
            _ => None,
        })
    }

    /// Whether the client asks for a WebSocket, which it does with a GET.
    pub fn is_websocket(&self) -> bool {
        self.kind() == Some(Kind::WebSocket)
    }
}

/// The protocol that both sides speak, and the answer that begins it.
pub fn choose(upgrade: &Upgrade, known: &Known) -> Result<(Protocol, Answer), Error> {
    let kind = upgrade.kind();
    let kind = kind.ok_or_else(|| {
        Error::bad_request("the connection can change to a WebSocket or to SPDY/3.1 only")
    })?;
    let header = match kind {
        Kind::WebSocket => SEC_WEBSOCKET_PROTOCOL,
        Kind::Spdy | Kind::Raw => STREAM_PROTOCOL,
    };
    let of_kind = || known.iter().filter(|(of, ..)| *of == kind);
    let mut wanted: Vec<&str> = values(&upgrade.headers, &header).collect();
    if wanted.is_empty() {
        wanted.push("");
    }
    let found = wanted.iter().find_map(|name| of_kind().find(|(_, known, _)| known == name));
    let Some((_, name, protocol)) = found else {
        let names: Vec<&str> = of_kind().map(|(_, name, _)| *name).collect();
        let names = names.into_iter().filter(|name| !name.is_empty());
        let names = names.collect::<Vec<_>>().join(", ");
        return Err(Error::unknown_protocol(&wanted.join(", "), &names));
    };
    let mut answer = Answer::text(101, "").with(CONNECTION, "Upgrade");
    answer = match kind {
        Kind::WebSocket => {
            let key = upgrade.headers.get(SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes);
            let key = key.ok_or_else(|| Error::bad_request("there is no Sec-WebSocket-Key"))?;
            answer.with(UPGRADE, "websocket").with(SEC_WEBSOCKET_ACCEPT, accept(key))
        }
        Kind::Spdy => answer.with(UPGRADE, SPDY),
        Kind::Raw => answer.with(UPGRADE, RAW),
    };
    if !name.is_empty() {
        answer = answer.with(header, *name);
    }
    Ok((*protocol, answer))
}

fn accept(key: &[u8]) -> String {
    let text = [key, WEBSOCKET_MAGIC.as_bytes()].concat();
    BASE64_STANDARD.encode(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &text))
}

/// The values of a header that may be given several times, or as a list.
fn values<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let all = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(',')).map(str::trim).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upgrade(headers: &[(&str, &str)]) -> Upgrade {
        let mut request = http::Request::new(());
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap();
            request.headers_mut().append(name, HeaderValue::from_str(value).unwrap());
        }
        let connection = hyper::upgrade::on(&mut request);
        Upgrade { connection, headers: request.headers().clone() }
    }

    #[test]
    fn the_example_of_the_standard_is_answered_as_it_says() {
        assert_eq!(accept(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn the_first_protocol_of_the_client_that_is_known_is_taken() {
        let both = [
            ("upgrade", "websocket"),
            ("sec-websocket-key", "x"),
            ("sec-websocket-protocol", "v9, v5.channel.k8s.io,v4.channel.k8s.io"),
        ];
        let (protocol, answer) = choose(&upgrade(&both), &FOR_PROGRAMS).unwrap();
        assert_eq!(protocol, channels(5, false));
        assert!(answer.headers.contains(&(SEC_WEBSOCKET_PROTOCOL, "v5.channel.k8s.io".into())));
        let (protocol, _) = choose(&upgrade(&both), &FOR_PORTS).unwrap();
        assert_eq!(protocol, channels(4, false));
        let spdy = [
            ("upgrade", "SPDY/3.1"),
            ("x-stream-protocol-version", "v4.channel.k8s.io"),
            ("x-stream-protocol-version", "v3.channel.k8s.io"),
        ];
        assert_eq!(choose(&upgrade(&spdy), &FOR_PROGRAMS).unwrap().0, Protocol::Spdy(4));
        let none = [("upgrade", "SPDY/3.1"), ("x-stream-protocol-version", "v9")];
        assert_eq!(choose(&upgrade(&none), &FOR_PROGRAMS).err().unwrap().code, 403);
        let other = [("upgrade", "h2c")];
        assert_eq!(choose(&upgrade(&other), &FOR_PROGRAMS).err().unwrap().code, 400);
        let keyless = [("upgrade", "websocket")];
        assert_eq!(choose(&upgrade(&keyless), &FOR_PROGRAMS).err().unwrap().code, 400);
    }
}
