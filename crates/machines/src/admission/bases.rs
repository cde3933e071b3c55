//! Disks that others are linked to do not go before those: neither themselves, nor with what they
//! belong to.

use reconcile::Context;
use serde_json::Value;

use crate::kinds::{CLAIM, WUKONG};
use crate::value::{list, text};

/// The claim that a claim holds the differences to.
const LINKED_TO: &str = "setpoint.dev/linked-to";

/// Why something may not be deleted, if it may not.
pub async fn refusal(context: &Context, request: &Value) -> Option<String> {
    let namespace = text(&request["namespace"]);
    let requests = context.requests("wukong-webhook", Default::default());
    match requests.read(&CLAIM.collection(namespace)).await {
        Ok(claims) => judge(request, list(&claims["items"])),
        Err(error) => Some(format!("could not ask which disks are linked to it: {}", error.said())),
    }
}

/// What is said of a deletion, with the claims of its namespace.
pub fn judge(request: &Value, claims: &[Value]) -> Option<String> {
    let name = text(&request["name"]);
    let own: Vec<String> = match text(&request["kind"]["kind"]) == WUKONG.kind {
        true => {
            let disks = list(&request["oldObject"]["spec"]["disks"]).iter();
            disks.map(|disk| format!("{name}-{}", text(&disk["name"]))).collect()
        }
        // The claim of a DataVolume has its name.
        false => vec![name.to_owned()],
    };
    let links = claims.iter().filter(|claim| {
        let base = text(&claim["metadata"]["annotations"][LINKED_TO]);
        own.iter().any(|own| own == base)
    });
    let links: Vec<&str> = links.map(|claim| text(&claim["metadata"]["name"])).collect();
    (!links.is_empty()).then(|| {
        format!(
            "its disk is the base of linked clones: delete what uses {} first",
            links.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_base_does_not_go_before_what_is_linked_to_it() {
        let claims = [
            json!({"metadata": {"name": "copy-root", "annotations": {LINKED_TO: "w-root"}}}),
            json!({"metadata": {"name": "w-root"}}),
        ];
        let asked = |kind: &str, name: &str| {
            let old = json!({"spec": {"disks": [{"name": "root"}]}});
            let request = json!({"kind": {"kind": kind}, "name": name, "oldObject": old});
            judge(&request, &claims)
        };
        for (kind, name) in
            [("PersistentVolumeClaim", "w-root"), ("DataVolume", "w-root"), ("Wukong", "w")]
        {
            let said = asked(kind, name).unwrap();
            assert!(said.ends_with("delete what uses copy-root first"), "{said}");
        }
        for (kind, name) in [("PersistentVolumeClaim", "copy-root"), ("Wukong", "copy")] {
            assert_eq!(asked(kind, name), None);
        }
    }
}
