//! Published releases: downloads their small files and verifies them against the release key.
//!
//! `cargo xtask dist` signs the list of checksums (`SHA256SUMS`) with an ECDSA key on P-256 and
//! builds its public half into the program. Nothing that is not in the signed list is used.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use aws_lc_rs::digest;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::LOCATION;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::TokioExecutor;
use tokio::time::timeout;

use crate::reach;

/// Base URL of the releases that this build comes from.
const RELEASES: &str = env!("SETPOINT_BUILD_RELEASES");
/// Public half of the key that signs them: an uncompressed point in hexadecimal digits, or nothing
/// for builds that are not releases.
const RELEASE_KEY: &str = env!("SETPOINT_BUILD_RELEASE_KEY");
/// Length of an uncompressed point of P-256.
const POINT_BYTES: usize = 65;
const FILE_BYTES_MAX: usize = 1 << 20;
const REDIRECTS_MAX: usize = 5;
const RESPONSE_MAX: Duration = Duration::from_secs(30);

/// A public key that verifies releases.
#[derive(Debug, PartialEq, Eq)]
pub struct ReleaseKey(Vec<u8>);

impl ReleaseKey {
    /// Returns the key that was built into the program, if it is a release.
    pub fn built_in() -> Option<ReleaseKey> {
        parse_hexadecimal(RELEASE_KEY).map(ReleaseKey)
    }

    /// Reads a public key on P-256 from PEM text.
    pub fn from_pem(text: &str) -> Result<ReleaseKey> {
        let lines = text.lines().filter(|line| !line.starts_with("-----"));
        let encoded: String = lines.map(str::trim).collect();
        let der = STANDARD.decode(encoded).context("the public key is not PEM text")?;
        let point = der.len().checked_sub(POINT_BYTES).map(|start| &der[start..]);
        match point {
            Some(point) if point[0] == 4 => Ok(ReleaseKey(point.to_vec())),
            _ => bail!("the public key is not an ECDSA key on P-256"),
        }
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> Result<()> {
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &self.0);
        match key.verify(message, signature) {
            Ok(()) => Ok(()),
            Err(_) => bail!("the signature of SHA256SUMS is not valid"),
        }
    }
}

fn parse_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = digits.map(byte).collect();
    bytes.filter(|bytes| bytes.len() == POINT_BYTES)
}

/// Base URL of releases: the given one, that of the environment, or the built-in one.
pub fn base_url(given: Option<&str>) -> String {
    let from_environment = std::env::var("SETPOINT_RELEASES").ok().filter(|url| !url.is_empty());
    let url = given.map(str::to_owned).or(from_environment);
    url.unwrap_or_else(|| RELEASES.to_owned()).trim_end_matches('/').to_owned()
}

/// A release whose list of checksums has a valid signature.
pub struct SignedRelease {
    url: String,
    checksums: String,
}

impl SignedRelease {
    /// Downloads the signed list of a release; of the newest one without a version.
    pub async fn open(
        base: &str,
        version: Option<&str>,
        key: &ReleaseKey,
    ) -> Result<SignedRelease> {
        let url = match version {
            None => format!("{base}/latest/download"),
            Some(version) => format!("{base}/download/v{}", version.trim_start_matches('v')),
        };
        let checksums = download(&format!("{url}/SHA256SUMS")).await?;
        let signature = download(&format!("{url}/SHA256SUMS.sig")).await?;
        key.verify(&checksums, &signature).with_context(|| format!("{url} is not trusted"))?;
        let checksums = String::from_utf8(checksums.to_vec()).context("SHA256SUMS is not text")?;
        Ok(SignedRelease { url, checksums })
    }

    /// Downloads a small file of the release and verifies its checksum.
    pub async fn file(&self, name: &str) -> Result<String> {
        let Some(expected) = checksum_of(&self.checksums, name) else {
            bail!("{} has no {name}", self.url);
        };
        let content = download(&format!("{}/{name}", self.url)).await?;
        let digest = digest::digest(&digest::SHA256, &content);
        let actual: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        if actual != expected {
            bail!("{name} has checksum {actual}, the signed list says {expected}");
        }
        String::from_utf8(content.to_vec()).with_context(|| format!("{name} is not text"))
    }
}

fn checksum_of<'a>(checksums: &'a str, name: &str) -> Option<&'a str> {
    let pairs = checksums.lines().filter_map(|line| line.split_once(' '));
    let mut named = pairs.map(|(sum, rest)| (sum, rest.trim_start_matches([' ', '*'])));
    named.find(|(_, known)| *known == name).map(|(sum, _)| sum)
}

/// Reads a small file over HTTP, through the proxy of the environment.
async fn download(url: &str) -> Result<Bytes> {
    let mut next: Uri = url.parse().with_context(|| format!("{url:?} is not a URL"))?;
    for _ in 0..=REDIRECTS_MAX {
        let downloading = || format!("could not download {next}");
        let response = timeout(RESPONSE_MAX, get(&next)?).await.with_context(downloading)?;
        let response = response.with_context(downloading)?;
        if response.status().is_redirection() {
            next = redirect_target(&next, &response)?;
            continue;
        }
        if !response.status().is_success() {
            bail!("could not download {next}: the server answered {}", response.status());
        }
        let body = Limited::new(response.into_body(), FILE_BYTES_MAX);
        let body = timeout(RESPONSE_MAX, body.collect()).await.with_context(downloading)?;
        let body = body.map_err(|error| anyhow::anyhow!(error)).with_context(downloading)?;
        return Ok(body.to_bytes());
    }
    bail!("could not download {url}: more than {REDIRECTS_MAX} redirects")
}

fn get(url: &Uri) -> Result<ResponseFuture> {
    let request = Request::get(url)
        .header("user-agent", concat!("setpoint/", env!("CARGO_PKG_VERSION")))
        .body(Empty::<Bytes>::new())?;
    let roots = HttpsConnectorBuilder::new().with_native_roots();
    let roots = roots.context("could not read the certificates of this machine")?;
    let builder = roots.https_or_http().enable_http1();
    let clients = Client::builder(TokioExecutor::new());
    Ok(match reach::proxy_of_environment(url) {
        Some(proxy) => {
            let proxy = proxy.parse().with_context(|| format!("{proxy:?} is not a proxy URL"))?;
            let tunnel = Tunnel::new(proxy, HttpConnector::new());
            clients.build(builder.wrap_connector(tunnel)).request(request)
        }
        None => clients.build(builder.build()).request(request),
    })
}

/// Returns where a redirect leads. From HTTPS it never leads to HTTP.
fn redirect_target(from: &Uri, response: &Response<Incoming>) -> Result<Uri> {
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let location = location.with_context(|| format!("{from} redirects without a location"))?;
    let absolute = match location.starts_with('/') {
        true => {
            let (scheme, authority) = (from.scheme_str(), from.authority());
            let authority = authority.map_or("", |authority| authority.as_str());
            format!("{}://{authority}{location}", scheme.unwrap_or("https"))
        }
        false => location.to_owned(),
    };
    let next: Uri = absolute.parse().with_context(|| format!("{absolute:?} is not a URL"))?;
    match (from.scheme_str(), next.scheme_str()) {
        (_, Some("https")) | (Some("http"), Some("http")) => Ok(next),
        _ => bail!("{from} redirects to {next}, which is not secure"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_found_by_the_whole_name() {
        let sums = "aa  install.sh\nbb *setpoint.deb\n";
        assert_eq!(checksum_of(sums, "install.sh"), Some("aa"));
        assert_eq!(checksum_of(sums, "setpoint.deb"), Some("bb"));
        assert_eq!(checksum_of(sums, "install"), None);
    }

    #[test]
    fn only_points_of_the_right_length_are_keys() {
        assert_eq!(parse_hexadecimal(""), None);
        assert_eq!(parse_hexadecimal("04ff"), None);
        assert_eq!(parse_hexadecimal(&"04".repeat(POINT_BYTES)), Some(vec![4; POINT_BYTES]));
        assert!(ReleaseKey::from_pem("-----BEGIN PUBLIC KEY-----\nAAAA\n").is_err());
    }
}
