//! `pods/proxy`, `services/proxy` and `nodes/proxy`: HTTP to a port of something in the cluster, by
//! way of this server, who has decided that the client may.
//!
//! Upstream: pkg/registry/core/{pod,service,node}/strategy.go (ResourceLocation),
//! apimachinery/pkg/util/proxy/upgradeaware.go

mod secure;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName,
    HeaderValue, LOCATION, SEC_WEBSOCKET_PROTOCOL, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{Method, Uri};
use http_body_util::{BodyExt, BodyStream};
use hyper_util::rt::TokioIo;
use link::destination::{forbidden, is_loopback_pod};
use link::{DialRequest, Duplex, Node};
use serde_json::Value;
use store::PageRequest;
use tokio::io::AsyncWriteExt;

use crate::admission::lookup;
use crate::answer::{Answer, Content};
use crate::authenticate::WEBSOCKET_TOKEN;
use crate::object;
use crate::persist::stored;
use crate::registry::edit::{list, text};
use crate::request::path::Target;
use crate::server::{Server, store_failure};
use crate::status::Error;

/// How long it may take to be connected.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// What a connection has for itself, in both directions.
const HOP_HEADERS: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Headers by which clients speak as others.
const IMPERSONATION: &str = "impersonate-";

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Passes the request on, and the answer back.
pub async fn answer<B>(
    server: &Server,
    parts: Parts,
    body: B,
    target: &Target,
) -> Result<Answer, Error>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Failure>,
{
    let named = Named::parse(&target.name)?;
    let to = match target.resource.as_str() {
        "pods" => pod(server, target, &named).await?,
        "services" => service(server, target, &named).await?,
        _ => node(server, target, &named).await?,
    };
    let prefix = prefix(parts.uri.path());
    // Links of a page without a slash at its end would lead elsewhere.
    if prefix.len() == parts.uri.path().len() && [Method::GET, Method::HEAD].contains(&parts.method)
    {
        let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        return Ok(Answer::text(301, "").with(LOCATION, format!("{prefix}/{query}")));
    }
    let prefix = prefix.to_owned();
    let place = Place { is_secure: named.is_secure, ..to };
    send(parts, body, place, &prefix).await
}

/// Whom the request is passed on to.
#[derive(Clone)]
struct Place {
    to: SocketAddr,
    /// The node of another process that has the pod: its network may not be reached from here.
    by: Option<Arc<dyn Node>>,
    /// The pod's UID.
    pod: String,
    is_secure: bool,
}

/// `name`, `name:port` or `scheme:name:port`.
struct Named<'a> {
    is_secure: bool,
    name: &'a str,
    port: &'a str,
}

impl Named<'_> {
    fn parse(text: &str) -> Result<Named<'_>, Error> {
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            [name] => Ok(Named { is_secure: false, name, port: "" }),
            [name, port] => Ok(Named { is_secure: false, name, port }),
            [scheme @ ("" | "http" | "https"), name, port] => {
                Ok(Named { is_secure: scheme == "https", name, port })
            }
            _ => Err(Error::bad_request(format!("invalid proxy request {text:?}"))),
        }
    }
}

/// The path up to and with `/proxy`.
fn prefix(path: &str) -> &str {
    let segments = if path.starts_with("/api/v1/namespaces/") { 7 } else { 5 };
    let slashes = path.match_indices('/').map(|(at, _)| at);
    slashes.clone().nth(segments).map_or(path, |at| &path[..at])
}

async fn find(
    server: &Server,
    target: &Target,
    (plural, name): (&'static str, &str),
) -> Result<Value, Error> {
    let registry = server.registry.now();
    let resource = registry.find("", plural).ok_or_else(Error::no_such_resource)?;
    let key = resource.key(&target.namespace, name)?;
    let entry = server.store.get(&key, None).await.map_err(store_failure)?;
    let entry = entry.ok_or_else(|| Error::not_found(resource.about(), name))?;
    Ok(stored(&entry).object(entry.modified))
}

async fn pod(server: &Server, target: &Target, named: &Named<'_>) -> Result<Place, Error> {
    let pod = find(server, target, ("pods", named.name)).await?;
    let first = || {
        let containers = list(&pod, &["spec", "containers"]).iter();
        let mut ports = containers.flat_map(|container| list(container, &["ports"]));
        ports.find_map(|port| port["containerPort"].as_u64())
    };
    let port = match named.port {
        "" => first().unwrap_or(80).to_string(),
        port => port.to_owned(),
    };
    let address = text(&pod, &["status", "podIP"]);
    if address.is_empty() {
        let name = object::name(&pod);
        return Err(Error::bad_request(format!("address not allowed: pod {name:?} has none")));
    }
    let by = server.node_elsewhere(text(&pod, &["spec", "nodeName"])).await;
    let place = place(server, target, (address, &port)).await?;
    Ok(Place { by, pod: object::uid(&pod).to_owned(), ..place })
}

async fn service(server: &Server, target: &Target, named: &Named<'_>) -> Result<Place, Error> {
    let service = find(server, target, ("services", named.name)).await?;
    let ports = list(&service, &["spec", "ports"]);
    let is_it = |port: &&Value| {
        let number = named.port.parse::<u64>().ok();
        text(port, &["name"]) == named.port || (number.is_some() && port["port"].as_u64() == number)
    };
    let port = match named.port {
        "" if ports.len() == 1 => ports.first(),
        _ => ports.iter().find(is_it),
    };
    let port = port.ok_or_else(|| {
        let (port, name) = (named.port, named.name);
        Error::unavailable(format!("no service port {port:?} found for service {name:?}"))
    })?;
    let registry = server.registry.now();
    let slices = registry.find("discovery.k8s.io", "endpointslices");
    let slices = slices.ok_or_else(Error::no_such_resource)?;
    let page = server.store.list(&slices.range(&target.namespace), PageRequest::all(), None).await;
    let mut places = Vec::new();
    for entry in &page.map_err(store_failure)?.entries {
        let held = stored(entry);
        if held.label("kubernetes.io/service-name") == Some(named.name) {
            places.extend(ready(&held.object(entry.modified), text(port, &["name"])));
        }
    }
    let count = u64::try_from(places.len()).unwrap_or(0);
    let chosen = server.environment.random().checked_rem(count);
    let chosen = chosen.and_then(|index| places.get(usize::try_from(index).ok()?));
    let chosen = chosen.ok_or_else(|| {
        Error::unavailable(format!("no endpoints available for service {:?}", named.name))
    })?;
    let by = match chosen.pod.is_empty() {
        true => None,
        false => server.node_elsewhere(&chosen.node).await,
    };
    let place = place(server, target, (&chosen.address, &chosen.port)).await?;
    Ok(Place { by, pod: chosen.pod.clone(), ..place })
}

/// One who answers for a service.
struct Endpoint {
    address: String,
    port: String,
    node: String,
    /// The UID of the pod, if it is one.
    pod: String,
}

/// Those in a slice that are ready.
fn ready(slice: &Value, name: &str) -> Vec<Endpoint> {
    let ports = list(slice, &["ports"]).iter();
    let port =
        ports.filter(|port| text(port, &["name"]) == name).find_map(|it| it["port"].as_u64());
    let Some(port) = port else { return Vec::new() };
    let endpoints = list(slice, &["endpoints"]).iter();
    let endpoints = endpoints.filter(|one| one["conditions"]["ready"] != false);
    let found = endpoints.filter_map(|one| {
        let pod = match text(one, &["targetRef", "kind"]) {
            "Pod" => text(one, &["targetRef", "uid"]).to_owned(),
            _ => String::new(),
        };
        Some(Endpoint {
            address: one["addresses"][0].as_str()?.to_owned(),
            port: port.to_string(),
            node: text(one, &["nodeName"]).to_owned(),
            pod,
        })
    });
    found.collect()
}

async fn node(server: &Server, target: &Target, named: &Named<'_>) -> Result<Place, Error> {
    let node = find(server, target, ("nodes", named.name)).await?;
    let addresses = list(&node, &["status", "addresses"]).iter();
    let mut internal = addresses.filter(|address| address["type"] == "InternalIP");
    let address = internal.find_map(|address| address["address"].as_str()).unwrap_or_default();
    if named.port.is_empty() {
        let message = format!("node {:?} has no endpoint of its own; name a port", named.name);
        return Err(Error::unavailable(message));
    }
    place(server, target, (address, named.port)).await
}

/// Returns the place at an address that clients may reach.
async fn place(
    server: &Server,
    target: &Target,
    (address, port): (&str, &str),
) -> Result<Place, Error> {
    let port: u16 = port
        .parse()
        .map_err(|_| Error::bad_request(format!("invalid port {port:?}: it must be a number")))?;
    let address: IpAddr = address.parse().map_err(|_| Error::bad_request("address not allowed"))?;
    if forbidden(address).is_some() && !is_pod(server, &target.namespace, address).await {
        return Err(Error::bad_request("address not allowed"));
    }
    let to = SocketAddr::new(address, port);
    Ok(Place { to, by: None, pod: String::new(), is_secure: false })
}

/// Reports whether a loopback address is that of a pod of an unprivileged node, which shares the
/// network of the host. Only nodes write the addresses of pods.
pub(crate) async fn is_pod(server: &Server, namespace: &str, address: IpAddr) -> bool {
    if !is_loopback_pod(address) {
        return false;
    }
    let pods = lookup::all(server, "", "pods", namespace).await.unwrap_or_default();
    let address = address.to_string();
    pods.iter().any(|pod| text(pod, &["status", "podIP"]) == address)
}

/// A connection, with TLS where that is asked for.
async fn connect(place: Place) -> Result<Box<dyn Duplex>, Error> {
    let Place { to, by, pod, is_secure } = place;
    let connecting = async {
        let stream: Box<dyn Duplex> = match by {
            Some(node) => {
                let address = to.ip().to_string();
                node.dial(DialRequest { pod, address, port: to.port() }).await?
            }
            None => {
                let stream = link::dial::connect(to).await;
                Box::new(stream.map_err(|error| format!("connect: {error}"))?)
            }
        };
        if !is_secure {
            return Ok(stream);
        }
        let secured = secure::connect(stream, to).await;
        secured.map(|stream| Box::new(stream) as Box<dyn Duplex>).map_err(|error| error.to_string())
    };
    let connected = tokio::time::timeout(CONNECT_MAX, connecting).await;
    let connected = connected.unwrap_or_else(|_| Err("i/o timeout".to_owned()));
    connected.map_err(|why| failed(&format!("dial tcp {to}: {why}")))
}

fn failed(error: &dyn std::fmt::Display) -> Error {
    Error::unavailable(format!("error trying to reach service: {error}"))
}

async fn send<B>(parts: Parts, body: B, place: Place, prefix: &str) -> Result<Answer, Error>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Failure>,
{
    let to = place.to;
    let stream = connect(place).await?;
    let body = body.map_err(Into::into).boxed_unsync();
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| failed(&error))?;
    #[expect(clippy::disallowed_methods, reason = "it ends with its connection")]
    tokio::spawn(connection.with_upgrades());
    let client = parts.extensions.get::<hyper::upgrade::OnUpgrade>().cloned();
    let mut request = http::Request::new(body);
    *request.method_mut() = parts.method.clone();
    let rest = parts.uri.path_and_query().map_or("/", |all| &all.as_str()[prefix.len()..]);
    let rest = if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
    *request.uri_mut() = rest.parse::<Uri>().map_err(|error| failed(&error))?;
    *request.headers_mut() = forwarded(&parts, to);
    let mut answer = sender.send_request(request).await.map_err(|error| failed(&error))?;
    if answer.status() == 101 {
        let other = hyper::upgrade::on(&mut answer);
        #[expect(clippy::disallowed_methods, reason = "it ends with its connections")]
        tokio::spawn(async move {
            let Some(client) = client else { return };
            if let (Ok(client), Ok(other)) = (client.await, other.await) {
                carry(TokioIo::new(client), TokioIo::new(other)).await;
            }
        });
    }
    Ok(back(answer, prefix))
}

/// Carries what both say, until either has said everything: the other would have nobody to talk to.
async fn carry(client: impl Duplex, other: impl Duplex) {
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_other, mut to_other) = tokio::io::split(other);
    tokio::select! {
        _ = tokio::io::copy(&mut from_client, &mut to_other) => {}
        _ = tokio::io::copy(&mut from_other, &mut to_client) => {}
    }
    let _ = tokio::join!(to_client.shutdown(), to_other.shutdown());
}

/// A list of protocols without the one that is a token.
fn without_token(value: &HeaderValue) -> Option<HeaderValue> {
    let names = value.to_str().unwrap_or_default().split(',').map(str::trim);
    let names: Vec<&str> = names.filter(|name| !name.starts_with(WEBSOCKET_TOKEN)).collect();
    HeaderValue::from_str(&names.join(", ")).ok().filter(|value| !value.is_empty())
}

/// The headers that go on.
fn forwarded(parts: &Parts, to: SocketAddr) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in &parts.headers {
        let is_ours = name == AUTHORIZATION || name == HOST || name == CONTENT_LENGTH;
        let is_impersonation = name.as_str().starts_with(IMPERSONATION);
        let is_token = name == SEC_WEBSOCKET_PROTOCOL
            && value.to_str().is_ok_and(|value| value.contains(WEBSOCKET_TOKEN));
        if is_token {
            // The other names of the list are what the two speak; the token is for us.
            headers.extend(without_token(value).map(|value| (name.clone(), value)));
        } else if !is_ours && !is_impersonation && !HOP_HEADERS.contains(&name.as_str()) {
            headers.append(name, value.clone());
        }
    }
    // Its length is the body's own matter, except where nothing else tells it.
    if let Some(length) = parts.headers.get(CONTENT_LENGTH) {
        headers.insert(CONTENT_LENGTH, length.clone());
    } else if parts.headers.contains_key(TRANSFER_ENCODING) {
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    if let Some(protocol) = parts.headers.get(UPGRADE) {
        headers.insert(UPGRADE, protocol.clone());
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    }
    let mut set = |name: HeaderName, text: String| {
        if let Ok(value) = HeaderValue::from_str(&text) {
            headers.insert(name, value);
        }
    };
    set(HOST, to.to_string());
    set(HeaderName::from_static("x-forwarded-uri"), parts.uri.path().to_owned());
    if let Some(host) = parts.headers.get(HOST).and_then(|host| host.to_str().ok()) {
        set(HeaderName::from_static("x-forwarded-host"), host.to_owned());
    }
    headers
}

/// The answer as the client gets it.
fn back(answer: http::Response<hyper::body::Incoming>, prefix: &str) -> Answer {
    let (parts, body) = answer.into_parts();
    let is_upgrade = parts.status == 101;
    let frames = BodyStream::new(body)
        .filter_map(|frame| async { frame.ok().and_then(|frame| frame.into_data().ok()) });
    let mut back = Answer::text(parts.status.as_u16(), "");
    if !is_upgrade {
        // As it comes, and as it is: nobody is to compress or indent it.
        back.body = Content::Watch(Box::pin(frames));
    }
    for (name, value) in &parts.headers {
        let Ok(text) = value.to_str() else { continue };
        let is_kept = is_upgrade && (name == CONNECTION || name == UPGRADE);
        if HOP_HEADERS.contains(&name.as_str()) && !is_kept {
            continue;
        }
        let text = match name == LOCATION && text.starts_with('/') {
            true => format!("{prefix}{text}"),
            false => text.to_owned(),
        };
        back.headers.push((name.clone(), text));
    }
    if !parts.headers.contains_key(CONTENT_TYPE) {
        back.headers.push((CONTENT_TYPE, String::new()));
    }
    back
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_before_the_proxied_one_is_found() {
        for (path, expected) in [
            ("/api/v1/namespaces/a/pods/p:80/proxy/x//y/", "/api/v1/namespaces/a/pods/p:80/proxy"),
            ("/api/v1/namespaces/a/pods/p/proxy", "/api/v1/namespaces/a/pods/p/proxy"),
            ("/api/v1/nodes/n:1/proxy/namespaces/", "/api/v1/nodes/n:1/proxy"),
        ] {
            assert_eq!(prefix(path), expected);
        }
        for name in ["a", "a:b", "http:a:b", "https:a:b", ":a:b"] {
            assert_eq!(Named::parse(name).map(|named| named.name).ok(), Some("a"), "{name}");
        }
        assert!(Named::parse("ftp:a:b").is_err());
        assert!(Named::parse("a:b:c:d").is_err());
    }
}
