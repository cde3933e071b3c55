//! The account that profilers run as, in every namespace with a request.

use reconcile::{Object, Plan};
use serde_json::json;

use super::observe::Observed;
use super::{ACCOUNT, BINDING};
use crate::kinds::{ROLE_BINDING, SERVICE_ACCOUNT};
use crate::names::OPERATOR;
use crate::settings::Settings;

/// Makes what there is not; it serves every request of the namespace, so nobody owns it.
pub fn make(plan: &mut Plan, settings: &Settings, request: &Object, observed: &Observed) {
    if !settings.manages_roles {
        return;
    }
    let group = "rbac.authorization.k8s.io";
    let meta = |name: &str| {
        json!({"namespace": &*request.name.namespace, "name": name, "labels": {
            "app.kubernetes.io/managed-by": OPERATOR, "app.kubernetes.io/component": "rbac",
            "app.kubernetes.io/name": ACCOUNT}})
    };
    if !observed.has_account {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": meta(ACCOUNT)});
        plan.create(SERVICE_ACCOUNT, account);
    }
    if !observed.has_binding {
        let binding = json!({
            "apiVersion": format!("{group}/v1"),
            "kind": "RoleBinding",
            "metadata": meta(BINDING),
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": settings.roles.profiler},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT,
                "namespace": &*request.name.namespace}],
        });
        plan.create(ROLE_BINDING, binding);
    }
}
