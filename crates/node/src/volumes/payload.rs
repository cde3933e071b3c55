//! The files of volumes that come from objects: configMap, secret, downwardAPI, projected.

use std::collections::BTreeMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use reconcile::Object;
use serde_json::{Value, json};

use super::files::{Content, Payload};
use super::owner::Owner;
use super::{Materials, list, text};
use crate::pod::environment::{Sources, field};
use crate::pod::resources::amount;
use crate::pod::spec;
use crate::pod::worker::Shared;
use crate::register::MANAGER;

const MODE: u32 = 0o644;
const TOKEN_MODE: u32 = 0o600;
const TOKEN_SECONDS: i64 = 3600;
/// A token is replaced after this long, however long it would last, or a little before.
const TOKEN_AGE_SECONDS_MAX: i64 = 24 * 3600;
const TOKEN_JITTER_SECONDS_MAX: u64 = 10;

/// Tokens by volume and path.
pub type Tokens = BTreeMap<(String, String), Token>;

/// A token that was asked for.
#[derive(Clone)]
pub struct Token {
    text: String,
    /// When another is asked for: after four fifths of its life, or a day.
    pub due: Timestamp,
}

pub async fn payload(
    shared: &Shared,
    (pod, volume): (&Object, &Value),
    materials: &mut Materials<'_>,
) -> Result<Payload, String> {
    let mut payload = Payload::new();
    let name = text(&volume["name"]);
    for kind in ["configMap", "secret", "downwardAPI"] {
        let source = &volume[kind];
        if source.is_object() {
            let mode = mode_of(&source["defaultMode"], MODE);
            add(pod, (kind, source), materials, (mode, &mut payload))?;
        }
    }
    let projected = &volume["projected"];
    let mode = mode_of(&projected["defaultMode"], MODE);
    for source in list(&projected["sources"]) {
        for kind in ["configMap", "secret", "downwardAPI"] {
            if source[kind].is_object() {
                add(pod, (kind, &source[kind]), materials, (mode, &mut payload))?;
            }
        }
        let wanted = &source["serviceAccountToken"];
        if wanted.is_object() {
            let key = (name.to_owned(), text(&wanted["path"]).to_owned());
            let token = token(shared, pod, wanted, (&key, &mut *materials.tokens)).await?;
            // A secret that only those may read who run with it, if it is known who they are.
            let Owner { group, user, .. } = Owner::of(pod);
            let mode = if group.or(user).is_some() { TOKEN_MODE } else { mode };
            payload.insert(key.1, Content { bytes: token.into_bytes(), mode, user });
        }
        if source["clusterTrustBundle"].is_object()
            && source["clusterTrustBundle"]["optional"] != true
        {
            return Err("this node has no cluster trust bundles".to_owned());
        }
    }
    Ok(payload)
}

fn add(
    pod: &Object,
    (kind, source): (&str, &Value),
    materials: &Materials<'_>,
    (mode, payload): (u32, &mut Payload),
) -> Result<(), String> {
    if kind == "downwardAPI" {
        return add_fields(pod, source, materials.sources, (mode, payload));
    }
    let is_optional = source["optional"] == true;
    let (name, found) = match kind {
        "configMap" => {
            let name = text(&source["name"]);
            (name, materials.sources.config_maps.get(name).map(|map| contents(map)))
        }
        _ => {
            let name = source["secretName"].as_str().unwrap_or(text(&source["name"]));
            (name, materials.sources.secrets.get(name).cloned())
        }
    };
    let kind = kind.to_lowercase();
    let Some(found) = found else {
        return if is_optional { Ok(()) } else { Err(format!("{kind} {name:?} not found")) };
    };
    let items: Vec<&Value> = list(&source["items"]).collect();
    if items.is_empty() {
        let all = found.into_iter().map(|(key, bytes)| (key, Content::new(bytes, mode)));
        payload.extend(all);
        return Ok(());
    }
    for item in items {
        let key = text(&item["key"]);
        match found.get(key) {
            Some(bytes) => {
                let mode = mode_of(&item["mode"], mode);
                let content = Content::new(bytes.clone(), mode);
                payload.insert(text(&item["path"]).to_owned(), content);
            }
            None if is_optional => {}
            None => return Err(format!("{kind} references non-existent config key: {key}")),
        }
    }
    Ok(())
}

fn contents(map: &Object) -> BTreeMap<String, Vec<u8>> {
    use base64::Engine;
    let mut all = BTreeMap::new();
    for (key, value) in map.value["data"].as_object().into_iter().flatten() {
        all.insert(key.clone(), text(value).as_bytes().to_vec());
    }
    for (key, value) in map.value["binaryData"].as_object().into_iter().flatten() {
        let bytes = base64::prelude::BASE64_STANDARD.decode(text(value)).unwrap_or_default();
        all.insert(key.clone(), bytes);
    }
    all
}

fn add_fields(
    pod: &Object,
    source: &Value,
    sources: &Sources,
    (mode, payload): (u32, &mut Payload),
) -> Result<(), String> {
    for item in list(&source["items"]) {
        let told = match item["fieldRef"]["fieldPath"].as_str() {
            Some(path) => Some(field(pod, path, &sources.node_address)),
            None => of_container(pod, &item["resourceFieldRef"], &sources.capacity),
        };
        let told = told.ok_or("it names neither a field nor a resource of a container")?;
        let mode = mode_of(&item["mode"], mode);
        let content = Content::new(told.into_bytes(), mode);
        payload.insert(text(&item["path"]).to_owned(), content);
    }
    Ok(())
}

fn of_container(pod: &Object, reference: &Value, capacity: &Value) -> Option<String> {
    let name = reference["containerName"].as_str()?;
    let specs = spec::containers(pod);
    let spec = specs.iter().find(|spec| spec.name == name)?;
    amount(reference, spec.value, capacity)
}

async fn token(
    shared: &Shared,
    pod: &Object,
    wanted: &Value,
    (key, tokens): (&(String, String), &mut Tokens),
) -> Result<String, String> {
    let now = shared.context.environment.now();
    if let Some(held) = tokens.get(key).filter(|held| held.due > now) {
        return Ok(held.text.clone());
    }
    let account = pod.value["spec"]["serviceAccountName"].as_str().unwrap_or("default");
    let namespace = &pod.name.namespace;
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let seconds = wanted["expirationSeconds"].as_i64().unwrap_or(TOKEN_SECONDS);
    let mut spec = json!({
        "expirationSeconds": seconds,
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": &*pod.name.name,
            "uid": pod.uid},
    });
    if let Some(audience) = wanted["audience"].as_str() {
        spec["audiences"] = json!([audience]);
    }
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": spec});
    let requests = shared.context.requests(MANAGER, Default::default());
    let answer = requests.post(&path, &body).await;
    let answer = answer.map_err(|error| format!("failed to fetch token: {}", error.said()))?;
    let text = text(&answer["status"]["token"]).to_owned();
    let jitter = shared.context.environment.random() % TOKEN_JITTER_SECONDS_MAX;
    let jitter = i64::try_from(jitter).unwrap_or(0);
    let life = due_after(lifetime(&answer, now).unwrap_or(seconds)) - jitter;
    let due = now.checked_add(SignedDuration::from_secs(life.max(1))).unwrap_or(now);
    tokens.insert(key.clone(), Token { text: text.clone(), due });
    Ok(text)
}

/// How long a token lasts, as the server says: it may be less than was asked for.
fn lifetime(answer: &Value, now: Timestamp) -> Option<i64> {
    let ends: Timestamp = answer["status"]["expirationTimestamp"].as_str()?.parse().ok()?;
    Some(ends.as_second() - now.as_second())
}

/// When a token that lasts so many seconds is replaced.
pub fn due_after(seconds: i64) -> i64 {
    (seconds * 4 / 5).min(TOKEN_AGE_SECONDS_MAX)
}

fn mode_of(value: &Value, usual: u32) -> u32 {
    value.as_u64().and_then(|mode| u32::try_from(mode).ok()).unwrap_or(usual)
}
