//! A URL path as what it asks for: which resource, which object, which verb.
//!
//! Upstream: apiserver/pkg/endpoints/request/requestinfo.go

/// What a request is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    pub group: String,
    pub version: String,
    /// Empty for cluster-scoped requests and for lists over all namespaces.
    pub namespace: String,
    pub resource: String,
    pub name: String,
    pub subresource: String,
    /// What follows a subresource that takes a path of its own (`proxy`).
    pub rest: String,
}

impl Target {
    /// Whether the request is for somebody else, behind this server.
    pub fn is_proxied(&self) -> bool {
        let is_known = match self.resource.as_str() {
            "pods" | "services" => !self.namespace.is_empty(),
            "nodes" => self.namespace.is_empty(),
            _ => false,
        };
        is_known && self.subresource == PROXY && self.group.is_empty()
    }
}

const PROXY: &str = "proxy";

/// A parsed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Path {
    /// Something in an API group: `/api/v1/pods`.
    Resource(Target),
    /// A group, or one of its versions, for discovery: `/apis`, `/apis/apps`, `/apis/apps/v1`.
    Discovery { group: Option<String>, version: Option<String> },
    /// Anything else: `/version`, `/healthz`.
    Other,
}

/// Segments are percent-decoded; one that decodes to something with a slash, or to nothing, is no
/// path of ours.
pub fn parse(path: &str) -> Path {
    let (path, behind) = split_proxied(path);
    let parsed = parse_own(path);
    match (parsed, behind) {
        (Path::Resource(target), Some(rest)) => {
            Path::Resource(Target { rest: rest.to_owned(), ..target })
        }
        (parsed, _) => parsed,
    }
}

/// What follows `/proxy` is somebody else's path, with whatever rules that has.
fn split_proxied(path: &str) -> (&str, Option<&str>) {
    // Nearly every path is told by this.
    if !path.contains("/proxy/") && !path.contains('%') {
        return (path, None);
    }
    let ends: Vec<usize> = path.match_indices('/').map(|(at, _)| at).skip(1).take(7).collect();
    // `/api/v1/nodes/NAME/proxy`, `/api/v1/namespaces/NAMESPACE/pods/NAME/proxy`
    for segments in [5, 7] {
        let Some(end) = ends.get(segments - 1) else { break };
        let (own, rest) = path.split_at(*end);
        if matches!(parse_own(own), Path::Resource(target) if target.is_proxied()) {
            return (own, Some(&rest[1..]));
        }
    }
    (path, None)
}

fn parse_own(path: &str) -> Path {
    let Some(segments) = segments(path) else { return Path::Other };
    let mut parts = segments.iter().map(String::as_str);
    let group = match parts.next() {
        Some("api") => Some(""),
        Some("apis") => parts.next(),
        _ => return Path::Other,
    };
    let is_legacy = segments[0] == "api";
    let Some(group) = group else { return Path::Discovery { group: None, version: None } };
    let group = group.to_owned();
    let Some(version) = parts.next() else {
        // `/api` lists its versions, `/apis/apps` describes one group.
        return Path::Discovery { group: Some(group), version: None };
    };
    let rest: Vec<&str> = parts.collect();
    if rest.is_empty() {
        return Path::Discovery { group: Some(group), version: Some(version.to_owned()) };
    }
    debug_assert!(is_legacy == group.is_empty());
    // Namespaces are in no namespace, least of all in another than themselves.
    if is_legacy && matches!(&rest[..], ["namespaces", _, "namespaces", ..]) {
        return Path::Other;
    }
    Path::Resource(target(group, version.to_owned(), &rest))
}

fn target(group: String, version: String, rest: &[&str]) -> Target {
    let mut target = Target { group, version, ..Default::default() };
    let parts = match rest {
        // The sub-resources of namespaces themselves.
        ["namespaces", _, "status" | "finalize"] => rest,
        ["namespaces", namespace, _, ..] => {
            target.namespace = (*namespace).to_owned();
            &rest[2..]
        }
        _ => rest,
    };
    let text = |at: usize| parts.get(at).copied().unwrap_or_default().to_owned();
    target.resource = text(0);
    target.name = text(1);
    target.subresource = text(2);
    target.rest = parts.get(3..).unwrap_or_default().join("/");
    // A namespace is in itself, for whoever decides on access.
    if target.resource == "namespaces" && target.group.is_empty() {
        target.namespace = target.name.clone();
    }
    target
}

fn segments(path: &str) -> Option<Vec<String>> {
    let path = path.strip_prefix('/')?;
    // One slash at the end is tolerated, as clients send it for discovery.
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Some(Vec::new()).filter(|segments: &Vec<String>| !segments.is_empty());
    }
    path.split('/').map(decode).collect()
}

fn decode(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let high = (rest.next()? as char).to_digit(16)?;
        let low = (rest.next()? as char).to_digit(16)?;
        bytes.push((high * 16 + low) as u8);
    }
    let text = String::from_utf8(bytes).ok()?;
    let is_plain = !text.is_empty() && !text.contains('/') && text != "." && text != "..";
    is_plain.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_short(path: &str) -> String {
        match parse(path) {
            Path::Other => "other".to_owned(),
            Path::Discovery { group, version } => {
                format!(
                    "discovery {} {}",
                    group.unwrap_or("-".into()),
                    version.unwrap_or("-".into())
                )
            }
            Path::Resource(t) => {
                [&t.group, &t.version, &t.namespace, &t.resource, &t.name, &t.subresource, &t.rest]
                    .map(|text| if text.is_empty() { "-" } else { text.as_str() })
                    .join(" ")
            }
        }
    }

    #[test]
    fn paths_say_what_they_ask_for() {
        let cases = [
            ("/", "other"),
            ("/version", "other"),
            ("/api", "discovery  -"),
            ("/api/", "discovery  -"),
            ("/apis", "discovery - -"),
            ("/apis/apps", "discovery apps -"),
            ("/apis/apps/v1", "discovery apps v1"),
            ("/api/v1", "discovery  v1"),
            ("/api/v1/pods", "- v1 - pods - - -"),
            ("/api/v1/namespaces", "- v1 - namespaces - - -"),
            ("/api/v1/namespaces/a", "- v1 a namespaces a - -"),
            ("/api/v1/namespaces/a/status", "- v1 a namespaces a status -"),
            ("/api/v1/namespaces/a/finalize", "- v1 a namespaces a finalize -"),
            ("/api/v1/namespaces/a/pods", "- v1 a pods - - -"),
            ("/api/v1/namespaces/a/pods/p", "- v1 a pods p - -"),
            ("/api/v1/namespaces/a/pods/p/log", "- v1 a pods p log -"),
            ("/api/v1/namespaces/a/services/s:80/proxy/x/y", "- v1 a services s:80 proxy x/y"),
            ("/api/v1/namespaces/a/pods/p/proxy//x%2f/../", "- v1 a pods p proxy /x%2f/../"),
            ("/api/v1/namespaces/a/pods/p/proxy", "- v1 a pods p proxy -"),
            ("/api/v1/nodes/n:1/proxy/x//", "- v1 - nodes n:1 proxy x//"),
            ("/api/v1/namespaces/a/pods/p/log/proxy//", "other"),
            ("/apis/apps/v1/namespaces/a/deployments/d/scale", "apps v1 a deployments d scale -"),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
                "rbac.authorization.k8s.io v1 - clusterroles system:node - -",
            ),
            ("/api/v1/namespaces/a/pods/system%3Ax", "- v1 a pods system:x - -"),
            ("/api/v1/namespaces/a/pods/x%2fy", "other"),
            ("/api/v1/namespaces/a/pods/..", "other"),
            ("/api/v1/namespaces/a/pods/%2e%2e", "other"),
            ("/api/v1//pods", "other"),
            ("/api/v1/namespaces/a/namespaces/b", "other"),
            ("/api/v1/namespaces/a/pods/%zz", "other"),
        ];
        for (path, expected) in cases {
            assert_eq!(in_short(path), expected, "{path}");
        }
    }
}
