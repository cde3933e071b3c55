//! The pods of a budget, and how many there should be.

use std::collections::BTreeMap;
use std::sync::Arc;

use reconcile::{Context, Error, Name, Object, Selector};
use serde_json::Value;

use crate::discovery;
use crate::kinds::{DEPLOYMENT, POD, REPLICA_SET, STATEFUL_SET};

#[derive(Default)]
pub struct Observed {
    pub pods: Vec<Arc<Object>>,
    /// The replicas that the owners of the pods want, by the owner's UID; or why nobody can tell.
    pub scale: Scale,
    /// Pods without an owner, which count in no scale.
    pub unmanaged: usize,
}

#[derive(Debug, PartialEq)]
pub enum Scale {
    Known(usize),
    Unknown(String),
}

impl Default for Scale {
    fn default() -> Scale {
        Scale::Known(0)
    }
}

pub async fn observe(context: &Context, budget: &Object) -> Result<Observed, Error> {
    let selector = Selector::read(&budget.value["spec"]["selector"])?;
    let pods = context.cache(POD).selected(&budget.name.namespace, &selector);
    let mut observed = Observed { pods, ..Observed::default() };
    if !needs_scale(budget) {
        return Ok(observed);
    }
    let mut scales: BTreeMap<String, usize> = BTreeMap::new();
    for pod in &observed.pods {
        let Some(owner) = controller(pod) else {
            observed.unmanaged += 1;
            continue;
        };
        let uid = owner["uid"].as_str().unwrap_or_default();
        if scales.contains_key(uid) {
            continue;
        }
        match scale(context, pod, owner).await? {
            Some((uid, replicas)) => {
                scales.insert(uid, replicas);
            }
            None => {
                let name = &pod.name.name;
                let why = format!("found no controllers for pod {name:?}");
                observed.scale = Scale::Unknown(why);
                return Ok(observed);
            }
        }
    }
    observed.scale = Scale::Known(scales.values().sum());
    Ok(observed)
}

/// A number of pods needs no scale; a percentage and an allowance do.
fn needs_scale(budget: &Object) -> bool {
    let spec = &budget.value["spec"];
    !spec["maxUnavailable"].is_null() || spec["minAvailable"].is_string()
}

fn controller(object: &Object) -> Option<&Value> {
    let owners = object.value["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)
}

/// Who decides how many pods there are, and how many those are.
async fn scale(
    context: &Context,
    pod: &Object,
    owner: &Value,
) -> Result<Option<(String, usize)>, Error> {
    let namespace = &pod.name.namespace;
    let text = |owner: &Value, field: &str| owner[field].as_str().unwrap_or_default().to_owned();
    let found = |kind, owner: &Value| {
        let object = context.cache(kind).get(&Name::new(namespace.clone(), text(owner, "name")));
        object.filter(|object| owner["uid"] == object.uid.as_str())
    };
    let of = |object: &Object| (object.uid.clone(), replicas(&object.value));
    let group = text(owner, "apiVersion").rsplit_once('/').map(|(group, _)| group.to_owned());
    match (group.as_deref().unwrap_or_default(), owner["kind"].as_str().unwrap_or_default()) {
        ("apps", "ReplicaSet") => {
            let Some(set) = found(REPLICA_SET, owner) else { return Ok(None) };
            let above = controller(&set).filter(|above| above["kind"] == DEPLOYMENT.kind);
            let deployment = above.and_then(|above| found(DEPLOYMENT, above));
            Ok(Some(of(deployment.as_ref().unwrap_or(&set))))
        }
        ("apps", "StatefulSet") => Ok(found(STATEFUL_SET, owner).map(|set| of(&set))),
        (group, kind) => asked_scale(context, namespace, owner, (group, kind)).await,
    }
}

/// Kinds of others are asked for their scale.
async fn asked_scale(
    context: &Context,
    namespace: &str,
    owner: &Value,
    (group, kind): (&str, &str),
) -> Result<Option<(String, usize)>, Error> {
    let requests = context.requests(super::NAME, Default::default());
    let served = discovery::served(&requests).await?.served;
    let known = served.iter().find(|one| (one.kind.group, one.kind.kind) == (group, kind));
    let Some(known) = known else { return Ok(None) };
    let name = owner["name"].as_str().unwrap_or_default();
    let path = format!("{}/scale", known.kind.path(namespace, name));
    match requests.read(&path).await {
        Ok(scale) if scale["metadata"]["uid"] == owner["uid"] => {
            let uid = owner["uid"].as_str().unwrap_or_default();
            Ok(Some((uid.to_owned(), replicas(&scale))))
        }
        Ok(_) => Ok(None),
        Err(error) if matches!(error.code(), Some(404 | 405)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn replicas(object: &Value) -> usize {
    let replicas = object["spec"]["replicas"].as_u64();
    replicas.map_or(1, |replicas| usize::try_from(replicas).unwrap_or(usize::MAX))
}
