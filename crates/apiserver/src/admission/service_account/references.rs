//! Accounts that say which secrets their pods may use.
//!
//! An account with the annotation lets its pods use the secrets that it lists itself, and no other.

use serde_json::Value;

use super::super::Refusal;
use crate::registry::edit::{self, text};

const ENFORCED: &str = "kubernetes.io/enforce-mountable-secrets";

/// Refuses a pod that uses a secret which its account does not list.
pub fn check(pod: &Value, account: &Value) -> Result<(), Refusal> {
    if text(account, &["metadata", "annotations", ENFORCED]) != "true" {
        return Ok(());
    }
    let account_name = text(account, &["metadata", "name"]);
    let lists = |list: &str, name: &str| {
        edit::list(account, &[list]).iter().any(|it| text(it, &["name"]) == name)
    };
    for volume in edit::list(pod, &["spec", "volumes"]) {
        let name = text(volume, &["secret", "secretName"]);
        if !name.is_empty() && !lists("secrets", name) {
            return Err(format!(
                "volume with secret.secretName={name:?} is not allowed because service account \
                 {account_name} does not reference that secret"
            ));
        }
    }
    for (kind, word) in [
        ("initContainers", "init container"),
        ("containers", "container"),
        ("ephemeralContainers", "ephemeral container"),
    ] {
        for container in edit::list(pod, &["spec", kind]) {
            check_environment(container, word, account_name, &|name| lists("secrets", name))?;
        }
    }
    for (index, secret) in edit::list(pod, &["spec", "imagePullSecrets"]).iter().enumerate() {
        let name = text(secret, &["name"]);
        if !lists("imagePullSecrets", name) {
            return Err(format!(
                "imagePullSecrets[{index}].name={name:?} is not allowed because service account \
                 {account_name} does not reference that imagePullSecret"
            ));
        }
    }
    Ok(())
}

fn check_environment(
    container: &Value,
    word: &str,
    account_name: &str,
    is_listed: &dyn Fn(&str) -> bool,
) -> Result<(), Refusal> {
    let container_name = text(container, &["name"]);
    for variable in edit::list(container, &["env"]) {
        let name = text(variable, &["valueFrom", "secretKeyRef", "name"]);
        if !name.is_empty() && !is_listed(name) {
            return Err(format!(
                "{word} {container_name} with envVar {} referencing secret.secretName={name:?} is \
                 not allowed because service account {account_name} does not reference that secret",
                text(variable, &["name"])
            ));
        }
    }
    for source in edit::list(container, &["envFrom"]) {
        let name = text(source, &["secretRef", "name"]);
        if !name.is_empty() && !is_listed(name) {
            return Err(format!(
                "{word} {container_name} with envFrom referencing secret.secretName={name:?} is \
                 not allowed because service account {account_name} does not reference that secret"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_account_that_lists_its_secrets_lets_pods_use_no_other() {
        let account = json!({
            "metadata": {"name": "a", "annotations": {ENFORCED: "true"}},
            "secrets": [{"name": "ours"}], "imagePullSecrets": [{"name": "pull"}],
        });
        let tail = "is not allowed because service account a does not reference that";
        let env = |name: &str| {
            json!({"containers": [{"name": "c", "env": [
                {"name": "E", "valueFrom": {"secretKeyRef": {"name": name}}}]}]})
        };
        let cases = [
            (json!({"volumes": [{"secret": {"secretName": "ours"}}]}), None),
            (
                json!({"volumes": [{"secret": {"secretName": "x"}}]}),
                Some(format!("volume with secret.secretName=\"x\" {tail} secret")),
            ),
            (env("ours"), None),
            (
                env("x"),
                Some(format!(
                    "container c with envVar E referencing secret.secretName=\"x\" {tail} secret"
                )),
            ),
            (
                json!({"initContainers": [
                    {"name": "i", "envFrom": [{"secretRef": {"name": "x"}}]}]}),
                Some(format!(
                    "init container i with envFrom referencing secret.secretName=\"x\" {tail} \
                     secret"
                )),
            ),
            (
                json!({"imagePullSecrets": [{"name": "pull"}, {"name": "x"}]}),
                Some(format!("imagePullSecrets[1].name=\"x\" {tail} imagePullSecret")),
            ),
        ];
        for (spec, expected) in cases {
            let pod = json!({"spec": spec});
            assert_eq!(check(&pod, &account).err(), expected, "{pod}");
            assert_eq!(check(&pod, &json!({"metadata": {"name": "a"}})), Ok(()));
        }
    }
}
