//! Which secrets let a node pull an image: those that are for the registry that it comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reconcile::Object;
use serde_json::{Value, json};

use crate::value::{list, list_mut, text};

pub const SECRET_TYPE: &str = "kubernetes.io/dockerconfigjson";
const FILE: &str = ".dockerconfigjson";

/// The secrets of one namespace by the registries that they are for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PullSecrets(BTreeMap<String, BTreeSet<String>>);

impl PullSecrets {
    /// One that cannot be read is passed over.
    pub fn of(secrets: &[Arc<Object>]) -> PullSecrets {
        let mut by_host: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for secret in secrets.iter().filter(|secret| secret.value["type"] == SECRET_TYPE) {
            let encoded = text(&secret.value["data"][FILE]);
            let file = STANDARD.decode(encoded).unwrap_or_default();
            let file: Value = serde_json::from_slice(&file).unwrap_or_default();
            for registry in file["auths"].as_object().into_iter().flat_map(|auths| auths.keys()) {
                if let Some(host) = host(registry) {
                    let name = secret.name.name.to_string();
                    by_host.entry(host).or_default().insert(name);
                }
            }
        }
        PullSecrets(by_host)
    }

    /// Gives a pod the secrets for its images, after those that it has.
    pub fn add_to(&self, pod: &mut Value) {
        let mut wanted: Vec<&String> = Vec::new();
        for containers in ["initContainers", "containers"] {
            for container in list(&pod[containers]) {
                let host = host(text(&container["image"]));
                wanted.extend(host.and_then(|host| self.0.get(&host)).into_iter().flatten());
            }
        }
        if wanted.is_empty() {
            return;
        }
        let has = list_mut(&mut pod["imagePullSecrets"]);
        for name in wanted {
            if !has.iter().any(|one| one["name"] == **name) {
                has.push(json!({"name": name}));
            }
        }
    }
}

/// The host of a registry or of an image that names one.
fn host(reference: &str) -> Option<String> {
    let rest = reference.split_once("://").map_or(reference, |(_, rest)| rest);
    let authority = rest.split('/').next()?;
    let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
    // `busybox:1.36` names an image, not a host with a port.
    let is_host = !host.is_empty() && port.chars().all(|digit| digit.is_ascii_digit());
    is_host.then(|| authority.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(name: &str, file: &str) -> Arc<Object> {
        Arc::new(Object::new(json!({"metadata": {"namespace": "ns", "name": name},
            "type": SECRET_TYPE, "data": {FILE: STANDARD.encode(file)}})))
    }

    #[test]
    fn images_get_the_secrets_of_their_registries_alone() {
        let secrets = PullSecrets::of(&[
            secret("b", "{\"auths\": {\"https://nvcr.io/v1/\": {}}}"),
            secret("a", "{\"auths\": {\"nvcr.io\": {}, \"ghcr.io\": {}}}"),
            secret("broken", "{"),
        ]);
        let of = |image: &str| {
            let mut pod = json!({"containers": [{"image": image}],
                "imagePullSecrets": [{"name": "own"}, {"name": "b"}]});
            secrets.add_to(&mut pod);
            let names = list(&pod["imagePullSecrets"]).iter().map(|one| text(&one["name"]));
            names.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(of("nvcr.io/x/y:1"), ["own", "b", "a"]);
        assert_eq!(of("ghcr.io/x"), ["own", "b", "a"]);
        assert_eq!(of("busybox:1.36"), ["own", "b"]);
    }
}
