//! Objects that are stored in a version that is not stored any more are written again, so that the
//! version can be let go of: whoever takes over an older installation finds such objects.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/internal/crdmigrator

use std::time::Duration;

use reconcile::health::State;
use reconcile::leader::Term;
use reconcile::plan::Target;
use reconcile::requests::Requests;
use reconcile::{Context, Error, Kind, Name, Object};
use serde_json::{Value, json};

use crate::kinds::{ADAPTER, COMPONENT, GRAPH, REQUEST};
use crate::value::{list, text};

pub const NAME: &str = "crdmigrator";
const DEFINITION: Kind = Kind::cluster(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
);
/// On a definition: up to which generation its objects were looked at.
pub const OBSERVED: &str = "crd-migration.nvidia.com/observed-generation";
/// The kinds that have two versions.
const KINDS: [Kind; 4] = [GRAPH, COMPONENT, ADAPTER, REQUEST];
/// How soon is looked again after something went wrong.
const RETRY: Duration = Duration::from_secs(30);
/// An installation says what may be done a moment after what there is.
const FIRST: Duration = Duration::from_secs(1);
/// Objects that are read at once.
const PAGE: usize = 100;

/// Looks once, and runs until everything is to stop: only who installs another version of this
/// program makes another version the one that is stored.
pub async fn run(context: Context) {
    context.health.set(NAME, State::Running);
    tokio::select! {
        () = work(&context) => context.stopping().await,
        () = context.stopping() => {}
    }
}

async fn work(context: &Context) {
    // From then on the kinds are known, and soon what may be done with them.
    context.cache(GRAPH).reaches(1).await;
    tokio::time::sleep(FIRST).await;
    while let Err(error) = migrate_all(context).await {
        tracing::warn!(error = %error.chain(), "objects were not all written again");
        tokio::time::sleep(RETRY).await;
    }
}

async fn migrate_all(context: &Context) -> Result<(), Error> {
    let mut term = context.term.clone();
    // Of several processes the one that leads does it.
    let _ = term.wait_for(|term| !matches!(term, Term::Follower(_))).await;
    for kind in KINDS {
        migrate(&context.requests(NAME, Default::default()), kind).await?;
    }
    Ok(())
}

async fn migrate(requests: &Requests, kind: Kind) -> Result<(), Error> {
    let name = Name::new("", format!("{}.{}", kind.plural, kind.group));
    let Some(definition) = requests.get(DEFINITION, &name).await? else { return Ok(()) };
    let Some(stored) = outdated(&definition.value) else { return Ok(()) };
    let mut next = String::new();
    loop {
        let page = format!("{}?limit={PAGE}&continue={next}", kind.collection(""));
        let found = requests.read(&page).await?;
        for item in list(&found["items"]) {
            let mut item = item.clone();
            item["apiVersion"] = json!(kind.api_version());
            item["kind"] = json!(kind.kind);
            rewrite(requests, kind, &Object::new(item)).await?;
        }
        match text(&found["metadata"]["continue"]) {
            "" => break,
            more => next = more.to_owned(),
        }
    }
    let target = Target::of(DEFINITION, &definition);
    let status = json!({"status": {"storedVersions": [stored]}});
    requests.patch(&target.clone().part("status"), &status).await?;
    let noted = definition.generation().to_string();
    requests.patch(&target, &json!({"metadata": {"annotations": {OBSERVED: noted}}})).await?;
    tracing::info!(kind = kind.kind, version = stored, "all objects are stored in this version");
    Ok(())
}

/// The version that is stored, if objects may be stored in others.
fn outdated(definition: &Value) -> Option<&str> {
    let versions = list(&definition["spec"]["versions"]);
    let stored = versions.iter().find(|version| version["storage"] == true)?;
    let stored = text(&stored["name"]);
    let found = list(&definition["status"]["storedVersions"]);
    found.iter().any(|version| text(version) != stored).then_some(stored)
}

/// Says of an object what it says. One that was changed or deleted meanwhile was written anyway.
async fn rewrite(requests: &Requests, kind: Kind, object: &Object) -> Result<(), Error> {
    match requests.replace(&Target::unchanged(kind, object), &object.value).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_conflict() || error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_be_stored_otherwise_is_written_again() {
        let of = |stored: Value| {
            json!({"spec": {"versions": [{"name": "v1alpha1", "storage": false},
                {"name": "v1beta1", "storage": true}]}, "status": {"storedVersions": stored}})
        };
        assert_eq!(outdated(&of(json!(["v1alpha1", "v1beta1"]))), Some("v1beta1"));
        assert_eq!(outdated(&of(json!(["v1beta1"]))), None);
        assert_eq!(outdated(&json!({})), None);
    }
}
