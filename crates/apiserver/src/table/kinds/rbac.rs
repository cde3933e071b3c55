//! Who may do what: bindings, and requests for certificates. Roles have no columns of their own.
//!
//! Upstream: pkg/printers/internalversion/printers.go, pkg/apis/rbac/helpers.go (SubjectsStrings)

use serde_json::Value;

use super::super::read::{age, at, list, name, text, text_or};
use super::super::{Column, Printer, cells};
use crate::age::human;

const GROUP: &str = "rbac.authorization.k8s.io";

pub static PRINTERS: &[Printer] = &[
    Printer::new(GROUP, "RoleBinding", BINDING, binding),
    Printer::new(GROUP, "ClusterRoleBinding", BINDING, binding),
    Printer::new(
        "certificates.k8s.io",
        "CertificateSigningRequest",
        SIGNING_REQUEST,
        signing_request,
    ),
];

const BINDING: &[Column] = &[
    Column::NAME,
    Column::text("Role", "The role that is given."),
    Column::AGE,
    Column::text("Users", "The users it is given to.").wide(),
    Column::text("Groups", "The groups it is given to.").wide(),
    Column::text("ServiceAccounts", "The service accounts it is given to.").wide(),
];

const SIGNING_REQUEST: &[Column] = &[
    Column::NAME,
    Column::AGE,
    Column::text("SignerName", "Who is asked to sign."),
    Column::text("Requestor", "Who asks."),
    Column::text("RequestedDuration", "For how long the certificate is asked for."),
    Column::text("Condition", "What has become of the request."),
];

fn binding(object: &Value, now: i64) -> Vec<Value> {
    let role = at(object, &["roleRef"]);
    let subjects = |kind: &str| -> String {
        let of_kind = list(object, &["subjects"]).iter().filter(|one| text(one, &["kind"]) == kind);
        let names = of_kind.map(|one| match kind {
            "ServiceAccount" => format!("{}/{}", text(one, &["namespace"]), text(one, &["name"])),
            _ => text(one, &["name"]).to_owned(),
        });
        names.collect::<Vec<_>>().join(", ")
    };
    cells![
        name(object),
        format!("{}/{}", text(role, &["kind"]), text(role, &["name"])),
        age(object, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

fn signing_request(object: &Value, now: i64) -> Vec<Value> {
    let duration = match at(object, &["spec", "expirationSeconds"]).as_i64() {
        Some(seconds) => human(seconds),
        None => "<none>".to_owned(),
    };
    cells![
        name(object),
        age(object, now),
        text_or(object, &["spec", "signerName"], "<none>"),
        text(object, &["spec", "username"]),
        duration,
        signing_state(object),
    ]
}

fn signing_state(request: &Value) -> String {
    let conditions = list(request, &["status", "conditions"]);
    let has = |type_: &str| conditions.iter().any(|one| text(one, &["type"]) == type_);
    let mut state = if has("Denied") {
        "Denied".to_owned()
    } else if has("Approved") {
        "Approved".to_owned()
    } else {
        "Pending".to_owned()
    };
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !text(request, &["status", "certificate"]).is_empty() {
        state.push_str(",Issued");
    }
    state
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::check;
    use super::GROUP;

    #[test]
    fn bindings_list_their_subjects() {
        let object = json!({
            "roleRef": {"kind": "ClusterRole", "name": "edit"},
            "subjects": [
                {"kind": "User", "name": "ann"}, {"kind": "User", "name": "bob"},
                {"kind": "Group", "name": "devs"},
                {"kind": "ServiceAccount", "namespace": "default", "name": "sa"},
            ],
        });
        for kind in ["RoleBinding", "ClusterRoleBinding"] {
            check(
                GROUP,
                kind,
                object.clone(),
                json!(["x", "ClusterRole/edit", "5m", "ann, bob", "devs", "default/sa"]),
            );
        }
    }

    #[test]
    fn requests_for_certificates() {
        let kind = "CertificateSigningRequest";
        check(
            "certificates.k8s.io",
            kind,
            json!({
                "spec": {"signerName": "kubernetes.io/kube-apiserver-client", "username": "ann",
                    "expirationSeconds": 86_400},
                "status": {"conditions": [{"type": "Approved"}], "certificate": "AA=="},
            }),
            json!([
                "x",
                "5m",
                "kubernetes.io/kube-apiserver-client",
                "ann",
                "24h",
                "Approved,Issued"
            ]),
        );
        let states = [
            (json!([]), "Pending"),
            (json!([{"type": "Approved"}, {"type": "Failed"}]), "Approved,Failed"),
            (json!([{"type": "Approved"}, {"type": "Denied"}]), "Denied"),
        ];
        for (conditions, state) in states {
            check(
                "certificates.k8s.io",
                kind,
                json!({"status": {"conditions": conditions}}),
                json!(["x", "5m", "<none>", "", "<none>", state]),
            );
        }
    }
}
