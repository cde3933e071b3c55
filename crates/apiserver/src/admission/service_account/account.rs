//! Who a pod runs as, and what it gets from its account.

use serde_json::{Value, json};

use super::super::Refusal;
use crate::registry::edit::{self, each_mut, object, set_default, text};

const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TOKEN_SECONDS: i64 = 3607;
const VOLUME_PREFIX: &str = "kube-api-access-";
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Who the pod runs as: the account to look up. None for mirrors of static pods.
pub fn account_of(pod: &mut Value) -> Result<Option<String>, Refusal> {
    if edit::has(pod, &["metadata", "annotations", MIRROR]) {
        return refuse_mirror(pod).map(|()| None);
    }
    let Some(spec) = object(pod, "spec") else { return Ok(None) };
    if text(spec, &["serviceAccountName"]).is_empty() {
        edit::set(spec, "serviceAccountName", "default");
    }
    let name = text(spec, &["serviceAccountName"]).to_owned();
    edit::set(spec, "serviceAccount", name.clone());
    Ok(Some(name))
}

fn refuse_mirror(pod: &Value) -> Result<(), Refusal> {
    let spec = edit::at(pod, &["spec"]);
    if !text(spec, &["serviceAccountName"]).is_empty() {
        return Err("a mirror pod may not reference service accounts".to_owned());
    }
    let volumes = edit::list(spec, &["volumes"]);
    let is_token = |source: &Value| edit::has(source, &["serviceAccountToken"]);
    let has_token = |it: &Value| edit::list(it, &["projected", "sources"]).iter().any(is_token);
    if volumes.iter().any(has_token) {
        return Err("a mirror pod may not use ServiceAccountToken volume projections".to_owned());
    }
    Ok(())
}

/// The refusal of a pod whose account does not exist.
pub fn missing(namespace: &str, name: &str) -> Refusal {
    format!(
        "error looking up service account {namespace}/{name}: serviceaccount {name:?} not found"
    )
}

/// Gives the pod what its account has: pull secrets and a token. `suffix` is five random
/// characters.
pub fn apply(pod: &mut Value, account: &Value, suffix: &str) {
    let pull_secrets = edit::at(account, &["imagePullSecrets"]).clone();
    let Some(spec) = object(pod, "spec") else { return };
    if edit::is_empty(edit::at(spec, &["imagePullSecrets"])) && !edit::is_empty(&pull_secrets) {
        edit::set(spec, "imagePullSecrets", pull_secrets);
    }
    let own = edit::at(spec, &["automountServiceAccountToken"]).as_bool();
    let theirs = edit::at(account, &["automountServiceAccountToken"]).as_bool();
    if own.or(theirs).unwrap_or(true) {
        mount_token(spec, suffix);
    }
}

fn mount_token(spec: &mut Value, suffix: &str) {
    let is_ours = |it: &&Value| {
        text(it, &["name"]).starts_with(VOLUME_PREFIX) && edit::has(it, &["projected"])
    };
    let given = edit::list(spec, &["volumes"]).iter().find(is_ours);
    let existing = given.map(|it| text(it, &["name"]).to_owned());
    let name = existing.clone().unwrap_or_else(|| format!("{VOLUME_PREFIX}{suffix}"));
    let mut mounted = false;
    for kind in ["initContainers", "containers"] {
        for container in each_mut(spec, &[kind]) {
            let has = |it: &Value| text(it, &["mountPath"]) == TOKEN_PATH;
            if edit::list(container, &["volumeMounts"]).iter().any(has) {
                continue;
            }
            set_default(container, "volumeMounts", json!([]));
            let mounts = container.get_mut("volumeMounts").and_then(Value::as_array_mut);
            if let Some(mounts) = mounts {
                mounts.push(json!({"name": name, "readOnly": true, "mountPath": TOKEN_PATH}));
                mounted = true;
            }
        }
    }
    if !mounted || existing.is_some() {
        return;
    }
    set_default(spec, "volumes", json!([]));
    if let Some(volumes) = spec.get_mut("volumes").and_then(Value::as_array_mut) {
        volumes.push(token_volume(&name));
    }
}

fn token_volume(name: &str) -> Value {
    let token = json!({"expirationSeconds": TOKEN_SECONDS, "path": "token"});
    let authority = json!({
        "name": "kube-root-ca.crt",
        "items": [{"key": "ca.crt", "path": "ca.crt"}],
    });
    let field = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    let namespace = json!({"items": [{"path": "namespace", "fieldRef": field}]});
    json!({
        "name": name,
        "projected": {
            "sources": [
                {"serviceAccountToken": token},
                {"configMap": authority},
                {"downwardAPI": namespace},
            ],
            "defaultMode": 420,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Value {
        json!({"spec": {"containers": [{"name": "c"}]}})
    }

    #[test]
    fn a_pod_runs_as_default_and_gets_a_token() {
        let mut pod = pod();
        assert_eq!(account_of(&mut pod), Ok(Some("default".to_owned())));
        let account = json!({"imagePullSecrets": [{"name": "s"}]});
        apply(&mut pod, &account, "abcde");
        let spec = &pod["spec"];
        assert_eq!(spec["serviceAccount"], "default");
        assert_eq!(spec["imagePullSecrets"], account["imagePullSecrets"]);
        assert_eq!(spec["volumes"][0]["name"], "kube-api-access-abcde");
        let mount = &spec["containers"][0]["volumeMounts"][0];
        assert_eq!(mount["mountPath"], TOKEN_PATH);
        let before = pod.clone();
        apply(&mut pod, &account, "fghij");
        assert_eq!(pod, before);
    }

    #[test]
    fn who_wants_no_token_gets_none_and_the_pod_decides() {
        for (own, theirs, expected) in
            [(None, Some(false), 0), (Some(true), Some(false), 1), (Some(false), None, 0)]
        {
            let mut pod = pod();
            pod["spec"]["automountServiceAccountToken"] = json!(own);
            apply(&mut pod, &json!({"automountServiceAccountToken": theirs}), "abcde");
            assert_eq!(edit::list(&pod, &["spec", "volumes"]).len(), expected);
        }
    }
}
