//! What a component has.

use std::sync::Arc;

use reconcile::{Context, Error, Kind, Name, Object, Selector};
use serde_json::json;

use super::facts::Facts;
use crate::backends::Framework;
use crate::discovery_account;
use crate::kinds::{
    DEPLOYMENT, INGRESS, LEADER_WORKER_SET, ROLE, ROLE_BINDING, SECRET, SERVICE, SERVICE_ACCOUNT,
    VIRTUAL_SERVICE,
};
use crate::multinode::{self, Keys};
use crate::names;
use crate::pods::PullSecrets;
use crate::settings::Settings;

/// Says of an account that pods of components may have it.
const POD_ACCOUNT: &str = "nvidia.com/dynamo-component-pod";

#[derive(Default)]
pub struct Observed {
    pub deployment: Option<Arc<Object>>,
    pub set: Option<Arc<Object>>,
    pub service: Option<Arc<Object>>,
    pub model_service: Option<Arc<Object>>,
    pub ingress: Option<Arc<Object>>,
    /// How a mesh reaches it.
    pub route: Option<Arc<Object>>,
    /// What lets the pods of a component of its own find each other: account, role, binding.
    pub discovery: discovery_account::Found,
    /// What replicas of many pods need, of a component of its own.
    pub multinode: multinode::Found,
    pub secrets: PullSecrets,
    /// The account of pods that need none in particular.
    pub account: String,
}

pub fn observe(
    context: &Context,
    object: &Arc<Object>,
    settings: &Settings,
) -> Result<Observed, Error> {
    let facts = Facts::of(object);
    let find = |kind: Kind, name: &str| {
        context.cache(kind).get(&Name::new(object.name.namespace.clone(), name))
    };
    let own = facts.own_name();
    let account = discovery_account::names_of(own);
    let for_pods = Selector::of_labels(&json!({POD_ACCOUNT: "true"}));
    let accounts = context.cache(SERVICE_ACCOUNT).selected(facts.namespace(), &for_pods);
    let gate = settings.gates.leader_worker_set;
    let multinode = match is_alone_of_many(&facts, settings) {
        true => {
            let needs_keys = matches!(facts.framework(), Ok(Some(Framework::Trtllm)));
            let keys = if needs_keys { Keys::Wanted } else { Keys::Unneeded };
            multinode::Found::observe(context, settings, &object.name, keys)?
        }
        false => multinode::Found::default(),
    };
    Ok(Observed {
        deployment: find(DEPLOYMENT, own),
        set: gate.then(|| find(LEADER_WORKER_SET, &set_name(own))).flatten(),
        service: find(SERVICE, &names::service(own)),
        model_service: facts.model().and_then(|model| find(SERVICE, &names::model_service(model))),
        ingress: find(INGRESS, &names::service(own)),
        route: match settings.ingress.gateway.is_empty() {
            true => None,
            false => find(VIRTUAL_SERVICE, &names::service(own)),
        },
        discovery: discovery_account::Found {
            account: find(SERVICE_ACCOUNT, &account[0]),
            role: find(ROLE, &account[1]),
            binding: find(ROLE_BINDING, &account[2]),
        },
        secrets: PullSecrets::of(&context.cache(SECRET).in_namespace(facts.namespace())),
        account: accounts.first().map_or("default".to_owned(), |one| one.name.name.to_string()),
        multinode,
    })
}

/// Whether a component has no graph that brings what the many pods of its replicas need.
pub fn is_alone_of_many(facts: &Facts<'_>, settings: &Settings) -> bool {
    facts.graph().is_none() && settings.gates.leader_worker_set && facts.nodes() > 1
}

/// The set of a component whose replicas are many pods.
pub fn set_name(own: &str) -> String {
    format!("{own}-0")
}
