//! What the pods of one replica need of each other, where a replica is many pods: a script that
//! waits for their leader, and the keys with which the leader of MPI lets itself in.

use std::sync::Arc;

use reconcile::{Context, Error, Kind, Name, Object, Plan};
use serde_json::{Value, json};

use crate::graph::ssh_key;
use crate::kinds::{CONFIG_MAP, SECRET};
use crate::names;
use crate::settings::Settings;
use crate::sync_resource::Sync;

const WAIT_SCRIPT: &str = include_str!("graph/wait_for_leader.py");

/// What there is of it.
#[derive(Default)]
pub struct Found {
    pub script: Option<Arc<Object>>,
    /// The keys of MPI: where they come from, whether they are here, and new ones.
    pub ssh_source: Option<Arc<Object>>,
    pub has_ssh: bool,
    pub fresh_ssh: Option<Value>,
}

/// Whether keys of MPI are looked for, and made if there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    Wanted,
    Unneeded,
}

impl Found {
    /// What a graph, or a component of its own, has.
    pub fn observe(
        context: &Context,
        settings: &Settings,
        parent: &Name,
        keys: Keys,
    ) -> Result<Found, Error> {
        let find = |kind: Kind, name: &str| {
            context.cache(kind).get(&Name::new(parent.namespace.clone(), name))
        };
        let mut found = Found {
            script: find(CONFIG_MAP, &names::wait_script(&parent.name)),
            ..Found::default()
        };
        if keys == Keys::Wanted {
            let secret = settings.ssh_secret.as_str();
            let source = Name::new(settings.ssh_secret_namespace.as_str(), secret);
            found.ssh_source = context.cache(SECRET).get(&source);
            found.has_ssh = find(SECRET, secret).is_some();
            if found.ssh_source.is_none() {
                let fresh = ssh_key::make().map_err(|reason| Error::Other { reason })?;
                found.fresh_ssh = Some(fresh);
            }
        }
        Ok(found)
    }
}

/// Adds what is missing of it.
pub fn sync(plan: &mut Plan, settings: &Settings, (kind, owner): (Kind, &Object), found: &Found) {
    let (namespace, name) = (&*owner.name.namespace, &*owner.name.name);
    let wanted = json!({
        "metadata": {"namespace": namespace, "name": names::wait_script(name),
            "labels": {names::GRAPH: name}},
        "data": {"wait-for-leader.py": WAIT_SCRIPT},
    });
    Sync::new(plan, Some((kind, owner))).keep(CONFIG_MAP, found.script.as_deref(), wanted);
    keys(plan, settings, namespace, found);
}

/// The keys of MPI, made once and copied to where they are needed; never overwritten.
fn keys(plan: &mut Plan, settings: &Settings, namespace: &str, found: &Found) {
    let data = match (&found.ssh_source, &found.fresh_ssh) {
        (Some(source), _) => source.value["data"].clone(),
        (None, Some(fresh)) => fresh.clone(),
        (None, None) => return,
    };
    let name = settings.ssh_secret.as_str();
    let secret = |namespace: &str| {
        let labels = json!({"app.kubernetes.io/managed-by": names::OPERATOR});
        json!({"apiVersion": SECRET.api_version(), "kind": SECRET.kind,
            "metadata": {"namespace": namespace, "name": name, "labels": labels},
            "type": "Opaque", "data": data})
    };
    if found.ssh_source.is_none() {
        plan.create(SECRET, secret(&settings.ssh_secret_namespace));
    }
    let is_source = namespace == settings.ssh_secret_namespace;
    if !found.has_ssh && !is_source {
        plan.create(SECRET, secret(namespace));
    }
}
