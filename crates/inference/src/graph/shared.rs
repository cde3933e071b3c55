//! What all components of a graph need: accounts and their rights, claims, scripts, keys.

use reconcile::Plan;
use reconcile::plan::Target;
use serde_json::{Value, json};

use super::claims;
use super::facts::Graph;
use super::observe::Observed;
use super::picker;
use crate::component::Type;
use crate::discovery_account;
use crate::kinds::{GRAPH, PERSISTENT_VOLUME_CLAIM, ROLE_BINDING, SERVICE_ACCOUNT};
use crate::multinode;
use crate::names;
use crate::settings::{Discovery, Settings};
use crate::sync_resource::Sync;
use crate::value::{list, text};

const RBAC: &str = "rbac.authorization.k8s.io";

/// Adds what is missing; an error says what only others can give.
pub fn sync(
    plan: &mut Plan,
    settings: &Settings,
    graph: &Graph<'_>,
    observed: &Observed,
) -> Result<(), String> {
    if settings.manages_roles {
        account(plan, graph, observed, (names::PLANNER_ACCOUNT, &settings.roles.planner))?;
    }
    let has_picker = graph.components().any(|part| part.kind() == Type::Picker);
    if settings.manages_roles && has_picker {
        account(plan, graph, observed, (names::PICKER_ACCOUNT, &settings.roles.picker))?;
    }
    let mut sync = Sync::new(plan, Some((GRAPH, graph.object)));
    volumes(&mut sync, graph, observed)?;
    if discovery(settings, graph) == Discovery::Kubernetes {
        discovery_account::sync(&mut sync, graph.namespace(), graph.name(), &observed.discovery);
    }
    claims::sync(plan, settings, graph, observed)?;
    picker::sync(plan, settings, graph, observed)?;
    if graph.is_multinode() {
        multinode::sync(plan, settings, (GRAPH, graph.object), &observed.multinode);
    }
    Ok(())
}

/// How the components of a graph find each other.
fn discovery(settings: &Settings, graph: &Graph<'_>) -> Discovery {
    match graph.object.annotation(names::DISCOVERY_BACKEND) {
        Some("etcd") => Discovery::Etcd,
        Some("kubernetes") => Discovery::Kubernetes,
        _ => settings.discovery,
    }
}

/// An account that all graphs of a namespace share, bound to a role of everybody.
fn account(
    plan: &mut Plan,
    graph: &Graph<'_>,
    observed: &Observed,
    (name, role): (&str, &str),
) -> Result<(), String> {
    if !observed.roles.contains(role) {
        return Err(format!("cluster role {role:?} does not exist: it must be installed first"));
    }
    let namespace = graph.namespace();
    let meta = |object: &str| {
        json!({"namespace": namespace, "name": object, "labels": {
            "app.kubernetes.io/managed-by": names::OPERATOR,
            "app.kubernetes.io/component": "rbac",
            "app.kubernetes.io/name": name,
        }})
    };
    if !observed.accounts.contains_key(name) {
        plan.create(SERVICE_ACCOUNT, whole(SERVICE_ACCOUNT, json!({"metadata": meta(name)})));
    }
    let binding = format!("{name}-binding");
    let reference = json!({"apiGroup": RBAC, "kind": "ClusterRole", "name": role});
    let subjects = json!([{"kind": "ServiceAccount", "name": name, "namespace": namespace}]);
    let wanted = json!({"metadata": meta(&binding), "roleRef": reference, "subjects": subjects});
    match observed.bindings.get(&binding) {
        None => plan.create(ROLE_BINDING, whole(ROLE_BINDING, wanted)),
        // What a binding refers to cannot be changed: it is made anew.
        Some(live) if live.value["roleRef"] != reference => {
            plan.delete(Target::of(ROLE_BINDING, live));
            plan.create(ROLE_BINDING, whole(ROLE_BINDING, wanted));
        }
        Some(live) if live.value["subjects"] != subjects => {
            plan.update(ROLE_BINDING, live, "", json!({"subjects": subjects}));
        }
        Some(_) => {}
    }
    Ok(())
}

fn whole(kind: reconcile::Kind, mut object: Value) -> Value {
    object["apiVersion"] = json!(kind.api_version());
    object["kind"] = json!(kind.kind);
    object
}

/// Claims that the older version asks for beside its services.
fn volumes(sync: &mut Sync<'_>, graph: &Graph<'_>, observed: &Observed) -> Result<(), String> {
    for claim in list(&graph.preserved["pvcs"]) {
        let name = text(&claim["name"]);
        if observed.claims.contains(name) {
            continue;
        }
        if claim["create"] != true {
            return Err(format!(
                "legacy top-level PVC {name:?} does not exist and create is not enabled"
            ));
        }
        let wanted = json!({
            "metadata": {"namespace": graph.namespace(), "name": name},
            "spec": {
                "accessModes": [claim["volumeAccessMode"]],
                "resources": {"requests": {"storage": claim["size"]}},
                "storageClassName": claim["storageClass"],
            },
        });
        sync.keep(PERSISTENT_VOLUME_CLAIM, None, wanted);
    }
    Ok(())
}
