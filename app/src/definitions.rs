//! Installs what components of ours need to find: definitions of their kinds, roles, and more.

use std::sync::Arc;
use std::time::Duration;

use apiserver::endpoints::discovery::fingerprint;
use apiserver::identity::{GROUP_MASTERS, User};
use apiserver::planted::{self, Planter};
use apiserver::server::Server;
use reconcile::plan::Target;
use reconcile::requests::Requests;
use reconcile::{Context, Kind, Name};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// Who applies.
pub const MANAGER: &str = "setpoint";
const INSTALLER: &str = "system:setpoint";
const RETRY: Duration = Duration::from_secs(1);
/// More than this machine works at anyhow, so that one sync of the disk does for several.
const AT_ONCE: usize = 8;

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

const KINDS: [Kind; 11] = [
    Kind::cluster("", "v1", "Namespace", "namespaces"),
    Kind::namespaced("", "v1", "ServiceAccount", "serviceaccounts"),
    Kind::namespaced("", "v1", "ConfigMap", "configmaps"),
    Kind::cluster(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    ),
    Kind::cluster(RBAC, "v1", "ClusterRole", "clusterroles"),
    Kind::cluster(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings"),
    Kind::namespaced(RBAC, "v1", "Role", "roles"),
    Kind::namespaced(RBAC, "v1", "RoleBinding", "rolebindings"),
    Kind::cluster(ADMISSION, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    Kind::cluster(
        ADMISSION,
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    ),
    training::kinds::CLUSTER_TRAINING_RUNTIME,
];

/// Who installs what operators need: a part of this program, so that what it writes may call
/// others.
pub fn installer() -> User {
    let mut user = User::component(INSTALLER);
    user.groups.push(GROUP_MASTERS.into());
    user
}

/// The kind of a manifest, of those that are installed.
pub fn kind_of(manifest: &Value) -> Option<Kind> {
    KINDS.iter().find(|kind| manifest["kind"] == kind.kind).copied()
}

/// Says what was applied last, so that a start that brings nothing new writes nothing.
const INSTALLED: &str = "setpoint.dev/installed";

/// Applies every manifest, several at once; tries again until all are there or everything is to
/// stop. What lies in a namespace or is of a kind of ours comes after the rest.
pub async fn install(context: &Context, manifests: Vec<Value>) {
    for these in in_order(manifests) {
        apply_all(context, these).await;
    }
}

/// The same beside our own server, which can write what is not there yet all at once.
pub async fn install_within(server: &Arc<Server>, context: &Context, manifests: Vec<Value>) {
    let planter = Planter { user: Arc::new(installer()), manager: MANAGER };
    for mut these in in_order(manifests) {
        if let Err(error) = planted::plant(server, &planter, &mut these).await {
            tracing::warn!(error = error.message, "not written at once; applied one by one");
        }
        apply_all(context, these).await;
    }
}

/// All but what has to wait, and that; each says what it is.
fn in_order(mut manifests: Vec<Value>) -> [Vec<Arc<Value>>; 2] {
    for manifest in &mut manifests {
        let digest = format!("{:016x}", fingerprint(manifest.to_string().as_bytes()));
        manifest["metadata"]["annotations"][INSTALLED] = digest.into();
    }
    let is_first = |manifest: &Value| {
        let group = kind_of(manifest).map_or("", |kind| kind.group);
        manifest["metadata"]["namespace"].is_null() && group != api::training::GROUP
    };
    let (first, then): (Vec<Value>, Vec<Value>) = manifests.into_iter().partition(is_first);
    [first, then].map(|these| these.into_iter().map(Arc::new).collect())
}

async fn apply_all(context: &Context, manifests: Vec<Arc<Value>>) {
    let mut running = JoinSet::new();
    for manifest in manifests {
        if running.len() == AT_ONCE {
            running.join_next().await;
        }
        let context = context.clone();
        running.spawn(async move { install_until_there(&context, &manifest).await });
    }
    while running.join_next().await.is_some() {}
}

async fn install_until_there(context: &Context, manifest: &Value) {
    let Some(kind) = kind_of(manifest) else {
        return tracing::error!(kind = %manifest["kind"], "nobody installs this kind");
    };
    let requests = context.requests(MANAGER, Default::default());
    while let Err(error) = install_one(&requests, kind, manifest).await {
        if *context.stop.borrow() {
            return;
        }
        let name = &manifest["metadata"]["name"];
        tracing::warn!(%kind, %name, error = %error.chain(), "not installed; trying again");
        tokio::select! {
            () = tokio::time::sleep(RETRY) => {}
            () = context.stopping() => return,
        }
    }
}

/// Applies a manifest, unless just this one was applied before and still holds: to apply a large
/// definition takes much longer than to look at it.
async fn install_one(
    requests: &Requests,
    kind: Kind,
    manifest: &Value,
) -> Result<(), reconcile::Error> {
    let text = |field: &str| manifest["metadata"][field].as_str().unwrap_or_default();
    let name = Name::new(text("namespace"), text("name"));
    let digest = manifest["metadata"]["annotations"][INSTALLED].as_str();
    // Who may not look applies.
    if let Ok(Some(there)) = requests.get(kind, &name).await {
        if there.annotation(INSTALLED) == digest && holds(&there.value, manifest) {
            return Ok(());
        }
        if let Some(patch) = replace_client(&there.value, manifest) {
            requests.patch(&Target::of(kind, &there), &patch).await?;
        }
    }
    requests.apply(kind, manifest).await.map(drop)
}

/// Returns the patch that points the conversion webhook of a definition to a URL in place of a
/// service, or the reverse. An apply alone would leave both, which is invalid, where another field
/// manager owns the other one.
fn replace_client(object: &Value, manifest: &Value) -> Option<Value> {
    const CLIENT: &str = "/spec/conversion/webhook/clientConfig";
    let (there, wanted) = (object.pointer(CLIENT)?, manifest.pointer(CLIENT)?);
    let other = ["service", "url"]
        .into_iter()
        .find(|field| !there[field].is_null() && wanted[field].is_null())?;
    let mut client = wanted.clone();
    client[other] = Value::Null;
    Some(json!({"spec": {"conversion": {"webhook": {"clientConfig": client}}}}))
}

/// Whether everything that a manifest says is so in an object, which may say more.
fn holds(object: &Value, manifest: &Value) -> bool {
    match (object, manifest) {
        (Value::Object(there), Value::Object(wanted)) => wanted
            .iter()
            .all(|(name, wanted)| there.get(name).is_some_and(|there| holds(there, wanted))),
        (Value::Array(there), Value::Array(wanted)) => {
            there.len() == wanted.len()
                && there.iter().zip(wanted).all(|(there, wanted)| holds(there, wanted))
        }
        _ => object == manifest,
    }
}

#[cfg(test)]
mod tests {
    use apiserver::local::local_client;
    use apiserver::start;
    use reconcile::leader::Term;
    use reconcile::{Caches, Environment, environment};
    use serde_json::json;
    use tokio::sync::watch;

    use super::*;
    use crate::operators::{self, Nodes, embedded};

    #[test]
    fn a_webhook_at_a_url_replaces_one_at_a_service() {
        let definition =
            |client: Value| json!({"spec": {"conversion": {"webhook": {"clientConfig": client}}}});
        let service = definition(json!({"service": {"name": "a"}, "caBundle": "x"}));
        let url = definition(json!({"url": "https://b"}));
        let patch = definition(json!({"url": "https://b", "service": null}));
        assert_eq!(replace_client(&service, &url), Some(patch));
        assert_eq!(replace_client(&url, &url), None);
        assert_eq!(replace_client(&json!({}), &url), None);
    }

    #[test]
    fn an_object_may_say_more_than_its_manifest_and_nothing_else() {
        let object = json!({"a": {"b": [{"c": 1, "defaulted": true}], "more": 2}});
        for (manifest, expected) in [
            (json!({"a": {"b": [{"c": 1}]}}), true),
            (json!({}), true),
            (json!({"a": {"b": []}}), false),
            (json!({"a": {"b": [{"c": 2}]}}), false),
            (json!({"a": {"absent": null}}), false),
        ] {
            assert_eq!(holds(&object, &manifest), expected, "{manifest}");
        }
    }

    /// A server without a socket, and somebody who may do everything.
    async fn server(directory: &std::path::Path) -> (Arc<Server>, Context, watch::Sender<bool>) {
        let stop = watch::Sender::new(false);
        let options = start::Options {
            directory: directory.to_owned(),
            listen: "127.0.0.1:6443".parse().unwrap(),
            host: String::new(),
            stop: stop.subscribe(),
        };
        let store = store::backends::memory::open(Default::default(), Arc::new(store::System));
        let server = start::start(options, store, Arc::new(store::System)).await.unwrap().server;
        let client = local_client(&server, installer());
        let environment: Arc<dyn Environment> = Arc::new(environment::System);
        let context = Context {
            caches: Arc::new(Caches::in_process(client.clone(), environment.clone())),
            client,
            environment,
            metrics: Arc::default(),
            health: Arc::default(),
            recorder: Arc::default(),
            tuning: Default::default(),
            elsewhere: Default::default(),
            term: watch::channel(Term::Alone).1,
            stop: stop.subscribe(),
        };
        (server, context, stop)
    }

    #[tokio::test]
    async fn what_is_planted_is_what_an_apply_makes() {
        let name = format!("setpoint-planted-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let (server, context, _stop) = server(&directory).await;
        let mut all = scheduler::manifests();
        for family in operators::ALL {
            embedded::connect(&server, *family, context.clone());
            let names: Vec<&str> = family.operators().iter().map(|one| one.name).collect();
            all.extend(family.manifests(&names));
            all.extend(family.first_objects(&names, Nodes::Processes));
        }
        let planter = Planter { user: Arc::new(installer()), manager: MANAGER };
        let requests = context.requests(MANAGER, Default::default());
        let mut count = 0;
        for these in in_order(all) {
            let mut left = these.clone();
            planted::plant(&server, &planter, &mut left).await.unwrap();
            assert!(left.is_empty(), "{}", left[0]);
            for manifest in these {
                let kind = kind_of(&manifest).expect("it is installed");
                let text = |field: &str| manifest["metadata"][field].as_str().unwrap_or_default();
                let name = Name::new(text("namespace"), text("name"));
                let there = requests.get(kind, &name).await.unwrap().expect("it is planted");
                let applied = requests.apply(kind, &manifest).await.unwrap();
                // Neither what it says nor whose its fields are.
                let (before, after) = (there.revision, applied.revision);
                assert_eq!(before, after, "{kind} {name} changes: {:?}", there.value["metadata"]);
                count += 1;
            }
        }
        assert!(count > 60, "{count}");
        let _ = std::fs::remove_dir_all(&directory);
    }
}
