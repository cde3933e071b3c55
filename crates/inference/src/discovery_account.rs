//! The account with which pods of a graph find each other: it may read who is there, and write of
//! itself.

use std::sync::Arc;

use reconcile::Object;
use serde_json::{Value, json};

use crate::digest;
use crate::kinds::{ROLE, ROLE_BINDING, SERVICE_ACCOUNT};
use crate::names;
use crate::sync_resource::Sync;

const RBAC: &str = "rbac.authorization.k8s.io";
/// The longest value of a label, and what is left of a longer one.
const LABEL_LENGTH_MAX: usize = 63;
const LABEL_KEPT: usize = 54;

/// Those that there are.
#[derive(Default)]
pub struct Found {
    pub account: Option<Arc<Object>>,
    pub role: Option<Arc<Object>>,
    pub binding: Option<Arc<Object>>,
}

/// The names of the account, of its role and of what binds them.
pub fn names_of(parent: &str) -> [String; 3] {
    let account = names::discovery_account(parent);
    [account.clone(), format!("{account}-role"), format!("{account}-binding")]
}

/// Keeps the three as they are to be.
pub fn sync(sync: &mut Sync<'_>, namespace: &str, parent: &str, found: &Found) {
    let [account, role, binding] = names_of(parent);
    let label = label(&account);
    let meta = |name: &str| {
        json!({"namespace": namespace, "name": name, "labels": {
            "app.kubernetes.io/managed-by": names::OPERATOR,
            "app.kubernetes.io/component": "rbac",
            "app.kubernetes.io/name": label,
        }})
    };
    sync.keep(SERVICE_ACCOUNT, found.account.as_deref(), json!({"metadata": meta(&account)}));
    let wanted = json!({"metadata": meta(&role), "rules": rules()});
    sync.keep(ROLE, found.role.as_deref(), wanted);
    let wanted = json!({
        "metadata": meta(&binding),
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    });
    sync.keep(ROLE_BINDING, found.binding.as_deref(), wanted);
}

/// What pods may do to find each other.
pub fn rules() -> Value {
    let read = ["get", "list", "watch"];
    json!([
        {"apiGroups": [""], "resources": ["endpoints", "pods"], "verbs": read},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": read},
        {"apiGroups": ["nvidia.com"], "resources": ["dynamoworkermetadatas"],
            "verbs": ["create", "get", "list", "watch", "update", "patch", "delete"]},
    ])
}

fn label(name: &str) -> String {
    match name.len() > LABEL_LENGTH_MAX {
        true => format!("{}-{}", &name[..LABEL_KEPT], digest::short(name)),
        false => name.to_owned(),
    }
}
