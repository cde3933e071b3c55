//! URLs: absolute ones, and absolute paths.
//!
//! Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/urls.go

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::cost::Cost;
use crate::evaluate::{Failure, Fuel};
use crate::library::Function;
use crate::value::{Key, Map, Opaque, Text, Value};

type Outcome<'a> = Result<Value<'a>, Failure>;

/// The parts of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub(crate) source: String,
    scheme: String,
    host: String,
    escaped_path: String,
    query: String,
}

macro_rules! accessor {
    ($name:literal, $part:expr) => {
        Function {
            name: $name,
            overloads: &[concat!("kubernetes.URL.", $name, "() string")],
            cost: Cost::One,
            call: |_, values| Ok(Value::text(($part)(url_of(values)?))),
        }
    };
}

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "url",
        overloads: &["url(string) kubernetes.URL"],
        cost: Cost::Scan(0),
        call: url,
    },
    Function { name: "isURL", overloads: &["isURL(string) bool"], cost: Cost::One, call: is_url },
    accessor!("getScheme", |url: &Url| url.scheme.clone()),
    accessor!("getHost", |url: &Url| url.host.clone()),
    accessor!("getHostname", hostname),
    accessor!("getPort", port),
    accessor!("getEscapedPath", |url: &Url| url.escaped_path.clone()),
    Function {
        name: "getQuery",
        overloads: &["kubernetes.URL.getQuery() map(string, list(string))"],
        cost: Cost::One,
        call: query,
    },
];

fn url_of<'v>(values: &'v [Value<'_>]) -> Result<&'v Url, Failure> {
    match values {
        [Value::Opaque(opaque)] => match opaque.as_ref() {
            Opaque::Url(url) => Ok(url),
            _ => Err(Failure::no_such_overload()),
        },
        _ => Err(Failure::no_such_overload()),
    }
}

fn text_of<'v>(values: &'v [Value<'_>]) -> Result<&'v str, Failure> {
    values[0].as_str().ok_or_else(Failure::no_such_overload)
}

fn url<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let text = text_of(values)?;
    fuel.burn(text.len() as u64 * 4)?;
    match parse(text) {
        Some(url) => Ok(Value::opaque(Opaque::Url(url))),
        None => Err(Failure::evaluation(format!(
            "URL parse error during conversion from string: parse \"{text}\": invalid URI for \
             request"
        ))),
    }
}

fn is_url<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let text = text_of(values)?;
    fuel.burn(text.len() as u64 * 4)?;
    Ok(Value::Bool(parse(text).is_some()))
}

fn hostname(url: &Url) -> String {
    match url.host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inside, _)) => inside.to_owned(),
        None => url.host.split(':').next().unwrap_or_default().to_owned(),
    }
}

fn port(url: &Url) -> String {
    let after = url.host.rsplit_once(']').map_or(url.host.as_str(), |(_, after)| after);
    after.rsplit_once(':').map(|(_, port)| port.to_owned()).unwrap_or_default()
}

fn query<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let url = url_of(values)?;
    fuel.burn(url.query.len() as u64 * 4)?;
    let mut found: BTreeMap<String, Vec<Value<'a>>> = BTreeMap::new();
    for pair in url.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let plus = |text: &str| decode(&text.replace('+', " "));
        if let (Some(name), Some(value)) = (plus(name), plus(value)) {
            found.entry(name).or_default().push(Value::text(value));
        }
    }
    let entries = found
        .into_iter()
        .map(|(name, values)| (Key::String(Text::Shared(name.into())), Value::list(values)))
        .collect();
    Ok(Value::Map(Map::Made(Rc::new(entries))))
}

/// Whether a text is a URL.
pub(crate) fn is_absolute(text: &str) -> bool {
    parse(text).is_some()
}

/// A URL with a scheme, or a path that begins with a slash.
fn parse(text: &str) -> Option<Url> {
    if text.is_empty() || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return None;
    }
    let (scheme, rest) = match text.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
        _ if text.starts_with('/') => (String::new(), text),
        _ => return None,
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !rest.starts_with('/') && scheme.is_empty() {
        return None;
    }
    let (authority, path) = match rest.strip_prefix("//") {
        Some(after) if !scheme.is_empty() || !rest.starts_with("///") => {
            let end = after.find('/').unwrap_or(after.len());
            (&after[..end], &after[end..])
        }
        _ => ("", rest),
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if !is_host(host) {
        return None;
    }
    decode(path)?;
    Some(Url {
        source: text.to_owned(),
        scheme,
        host: decode(host)?,
        escaped_path: escape_path(path),
        query: query.to_owned(),
    })
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|next| next.is_ascii_alphanumeric() || "+-.".contains(next))
}

fn is_host(host: &str) -> bool {
    let port = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((inside, port)) if inside.parse::<std::net::Ipv6Addr>().is_ok() => port,
            _ => return false,
        },
        None => host.find(':').map_or("", |at| &host[at..]),
    };
    let port_fits = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    port_fits && !host.contains([' ', '<', '>', '"', '\\', '^', '`', '{', '|', '}'])
}

/// Percent signs resolved; none if one is malformed.
fn decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| (byte? as char).to_digit(16);
        let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
        out.push((high * 16 + low) as u8);
    }
    String::from_utf8(out).ok()
}

/// What a path may hold stays, everything else is escaped.
fn escape_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"$&+,/:;=@-_.~%!*'()[]".contains(&byte);
        if plain {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
