//! Where a webhook is, as the `clientConfig` of a configuration says.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use rustls::ClientConfig;
use serde_json::Value;

use super::trust;
use super::writer::Reach;

/// The port of HTTPS, where none is named.
const PORT: u16 = 443;

/// A webhook that can be called.
#[derive(Clone)]
pub struct Target {
    pub place: Place,
    pub path: String,
    pub reach: Reach,
    pub tls: Arc<ClientConfig>,
    /// Whose certificates are believed, to tell connections apart; empty for the system's.
    pub bundle: Arc<[u8]>,
}

/// The configuration says one of two things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Url { host: String, port: u16, has_port: bool },
    Service { namespace: String, name: String, port: u16 },
}

impl Place {
    /// The name that the certificate must be for.
    pub fn host(&self) -> String {
        match self {
            Place::Url { host, .. } => host.clone(),
            Place::Service { namespace, name, .. } => format!("{name}.{namespace}.svc"),
        }
    }
}

/// The host and, where it is known, the port, as in a URL.
impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = match self {
            Place::Url { host, .. } if host.contains(':') => format!("[{host}]"),
            place => place.host(),
        };
        match self {
            Place::Url { has_port: false, .. } => formatter.write_str(&host),
            Place::Url { port, .. } | Place::Service { port, .. } => {
                write!(formatter, "{host}:{port}")
            }
        }
    }
}

impl Target {
    /// Reads a `clientConfig`.
    pub fn of(client: &Value, reach: Reach) -> Result<Target, String> {
        let (place, path) = match (&client["url"], &client["service"]) {
            (Value::String(url), _) => of_url(url)?,
            (_, service @ Value::Object(_)) => of_service(service)?,
            _ => return Err("neither a URL nor a service is named".to_owned()),
        };
        let bundle = match client["caBundle"].as_str().unwrap_or_default() {
            "" => Vec::new(),
            text => STANDARD.decode(text).map_err(|_| "the caBundle is not base64".to_owned())?,
        };
        let tls = trust::client_config(&bundle)?;
        Ok(Target { place, path, reach, tls, bundle: bundle.into() })
    }

    /// The path and the query of a call.
    pub fn path_and_query(&self, timeout_seconds: u64) -> String {
        format!("{}?timeout={timeout_seconds}s", self.path)
    }

    /// The URL of a call, as errors show it.
    pub fn url(&self, timeout_seconds: u64) -> String {
        format!("https://{}{}", self.place, self.path_and_query(timeout_seconds))
    }
}

fn of_url(url: &str) -> Result<(Place, String), String> {
    let cannot = || format!("the URL {url:?} is not one");
    let uri: Uri = url.parse().map_err(|_| cannot())?;
    if uri.scheme_str() != Some("https") {
        return Err(format!("the URL {url:?} is not one of https"));
    }
    let authority = uri.authority().ok_or_else(cannot)?;
    if authority.as_str().contains('@') {
        return Err(format!("the URL {url:?} names a user"));
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = authority.port_u16();
    let place = Place::Url { host, port: port.unwrap_or(PORT), has_port: port.is_some() };
    Ok((place, uri.path().to_owned()))
}

fn of_service(service: &Value) -> Result<(Place, String), String> {
    let text = |name: &str| service[name].as_str().unwrap_or_default().to_owned();
    let port = service["port"].as_u64().unwrap_or(u64::from(PORT));
    let port = u16::try_from(port).map_err(|_| format!("{port} is not a port"))?;
    let place = Place::Service { namespace: text("namespace"), name: text("name"), port };
    let path = text("path");
    // What was written before paths were checked must not become another request.
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#' && byte != b'?');
    match path.as_str() {
        "" => Ok((place, "/".to_owned())),
        _ if path.starts_with('/') && is_plain => Ok((place, path)),
        _ => Err(format!("{path:?} is not the path of a URL")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_target_is_shown_as_the_url_that_is_called() {
        let cases = [
            (json!({"url": "https://a.example"}), "https://a.example/?timeout=7s"),
            (json!({"url": "https://a.example:8443/x/y"}), "https://a.example:8443/x/y?timeout=7s"),
            (json!({"url": "https://[::1]:9/x"}), "https://[::1]:9/x?timeout=7s"),
            (
                json!({"service": {"name": "s", "namespace": "n", "path": "/p"}}),
                "https://s.n.svc:443/p?timeout=7s",
            ),
            (
                json!({"service": {"name": "s", "namespace": "n", "port": 8443}}),
                "https://s.n.svc:8443/?timeout=7s",
            ),
        ];
        for (client, url) in cases {
            assert_eq!(Target::of(&client, Reach::Others).ok().unwrap().url(7), url);
        }
    }

    #[test]
    fn what_is_not_a_target_is_refused() {
        for client in [
            json!({}),
            json!({"url": "http://a.example"}),
            json!({"url": "https://user@a.example/"}),
            json!({"url": "https:///x"}),
            json!({"url": "https://a.example", "caBundle": "!"}),
            json!({"url": "https://a.example", "caBundle": "AAAA"}),
            json!({"service": {"name": "s", "namespace": "n", "path": "/a b"}}),
            json!({"service": {"name": "s", "namespace": "n", "port": 70_000}}),
        ] {
            assert!(Target::of(&client, Reach::Others).is_err(), "{client}");
        }
    }
}
