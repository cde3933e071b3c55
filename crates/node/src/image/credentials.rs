//! Who we are to a registry: what the pull secrets of a pod say.
//!
//! Upstream: pkg/credentialprovider/keyring.go

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::ImageName;

/// The keys of a Secret that hold credentials; the second is of old.
const KEYS: [&str; 2] = [".dockerconfigjson", ".dockercfg"];

/// For one registry.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub user: String,
    pub password: String,
    /// A token in place of the two.
    pub identity_token: String,
    /// As the secret names it.
    pub server: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Credentials").field("server", &self.server).finish_non_exhaustive()
    }
}

/// All that a pod may use.
#[derive(Clone, Debug, Default)]
pub struct Keyring(Vec<Credentials>);

impl Keyring {
    /// Adds those of a Secret, given by its decoded data. What cannot be read adds nothing.
    pub fn add(&mut self, data: &BTreeMap<String, Vec<u8>>) {
        for key in KEYS {
            let Some(Ok(read)) = data.get(key).map(|data| serde_json::from_slice::<Value>(data))
            else {
                continue;
            };
            let entries = if key == KEYS[0] { &read["auths"] } else { &read };
            for (server, entry) in entries.as_object().into_iter().flatten() {
                self.0.extend(one(server, entry));
            }
        }
    }

    /// Those that are for an image, the most particular first.
    pub fn of(&self, image: &ImageName) -> Vec<&Credentials> {
        let mut found: Vec<(usize, &Credentials)> = Vec::new();
        for credentials in &self.0 {
            found.extend(fits(&credentials.server, image).map(|length| (length, credentials)));
        }
        found.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
        found.into_iter().map(|(_, credentials)| credentials).collect()
    }
}

fn one(server: &str, entry: &Value) -> Option<Credentials> {
    let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    let (mut user, mut password) = (text("username"), text("password"));
    if let Some(joined) = entry["auth"].as_str().filter(|joined| !joined.is_empty()) {
        let joined = String::from_utf8(BASE64_STANDARD.decode(joined.trim()).ok()?).ok()?;
        let (one, other) = joined.split_once(':')?;
        (user, password) = (one.to_owned(), other.trim_end_matches('\0').to_owned());
    }
    let identity_token = text("identitytoken");
    let is_empty = user.is_empty() && identity_token.is_empty();
    (!is_empty).then(|| Credentials { user, password, identity_token, server: server.to_owned() })
}

/// Whether credentials of a server are for an image; how particular they are.
fn fits(server: &str, image: &ImageName) -> Option<usize> {
    let plain = server.trim_start_matches("https://").trim_start_matches("http://");
    let (host, path) = plain.split_once('/').unwrap_or((plain, ""));
    let path = path.trim_end_matches('/');
    // The registry that is meant when none is named has other names too.
    if matches!(host, "index.docker.io" | "docker.io" | "registry-1.docker.io") {
        return (image.domain == "docker.io").then_some(host.len());
    }
    let is_below = path.is_empty()
        || matches!(path, "v1" | "v2")
        || image.path.strip_prefix(path).is_some_and(|it| it.is_empty() || it.starts_with('/'));
    let (own, asked): (Vec<&str>, Vec<&str>) =
        (host.split('.').collect(), image.domain.split('.').collect());
    let is_host = own.len() == asked.len()
        && own.iter().zip(&asked).all(|(own, asked)| *own == "*" || own == asked);
    (is_host && is_below).then_some(plain.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_most_particular_secret_is_tried_first() {
        let auth = BASE64_STANDARD.encode("joined:secret:with:colons");
        let config = json!({"auths": {
            "https://index.docker.io/v1/": {"username": "hub", "password": "p"},
            "registry.example": {"auth": auth},
            "registry.example/team": {"username": "team", "password": "p"},
            "*.example": {"username": "any", "password": "p"},
            "empty.example": {},
        }});
        let mut keyring = Keyring::default();
        let data = [(KEYS[0].to_owned(), serde_json::to_vec(&config).unwrap())];
        keyring.add(&data.into());
        let old = json!({"old.host:5000": {"username": "old", "password": "p"}});
        keyring.add(&[(KEYS[1].to_owned(), serde_json::to_vec(&old).unwrap())].into());
        keyring.add(&[(KEYS[0].to_owned(), b"not json".to_vec())].into());
        let users = |image: &str| {
            let name = ImageName::parse(image).unwrap();
            keyring.of(&name).iter().map(|it| it.user.clone()).collect::<Vec<_>>()
        };
        assert_eq!(users("busybox"), ["hub"]);
        assert_eq!(users("registry.example/team/a"), ["team", "joined", "any"]);
        assert_eq!(users("registry.example/teams/a"), ["joined", "any"]);
        assert_eq!(users("old.host:5000/a"), ["old"]);
        assert!(users("empty.example.org/a").is_empty());
        let name = ImageName::parse("registry.example/a").unwrap();
        assert_eq!(keyring.of(&name)[0].password, "secret:with:colons");
        assert!(!format!("{keyring:?}").contains("secret"));
    }
}
