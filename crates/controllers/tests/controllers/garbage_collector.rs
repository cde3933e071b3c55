//! Owners go, and those they own with them, or not.

use std::sync::Arc;
use std::time::Duration;

use controllers::garbage_collector;
use controllers::kinds::DEFINITION;
use reconcile::plan::{Deletion, Propagation, Target};
use reconcile::{Context, Kind, Object};
use serde_json::{Value, json};
use testkit::Cluster;
use testkit::cluster::until;
use testkit::simulation::{self, Trial};

const MAP: Kind = Kind::namespaced("", "v1", "ConfigMap", "configmaps");
const ROLE: Kind = Kind::cluster("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles");
const WIDGET: Kind = Kind::namespaced("example.com", "v1", "Widget", "widgets");
const GADGET: Kind = Kind::namespaced("example.org", "v1", "Gadget", "gadgets");
const EVENT: Kind = Kind::namespaced("", "v1", "Event", "events");

fn owner(kind: Kind, of: &Object) -> Value {
    json!({"apiVersion": kind.api_version(), "kind": kind.kind, "name": &*of.name.name,
        "uid": of.uid, "blockOwnerDeletion": true})
}

fn map(name: &str, owners: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default",
        "name": name, "ownerReferences": owners}})
}

async fn delete(context: &Context, kind: Kind, object: &Object, propagation: Propagation) {
    let requests = context.requests("test", Default::default());
    let options = Deletion { propagation: Some(propagation), grace_seconds: None };
    requests.delete(&Target::of(kind, object), &options).await.expect("deleted");
}

async fn gone(context: &Context, kind: Kind, names: &[&str]) {
    until(context, kind, |all| all.iter().all(|one| !names.contains(&&*one.name.name))).await;
}

async fn patch(context: &Context, kind: Kind, object: &Object, patch: Value) {
    let requests = context.requests("test", Default::default());
    requests.patch(&Target::of(kind, object), &patch).await.expect("patched");
}

#[tokio::test]
async fn those_without_owners_go_also_when_they_own_each_other() {
    let mut cluster = Cluster::start().await;
    let context = cluster.context();
    cluster.run(garbage_collector::run(context.clone()));
    let root = cluster.create(MAP, map("root", &[])).await;
    let child = cluster.create(MAP, map("child", &[owner(MAP, &root)])).await;
    cluster.create(MAP, map("grandchild", &[owner(MAP, &child)])).await;
    delete(&context, MAP, &root, Propagation::Background).await;
    gone(&context, MAP, &["root", "child", "grandchild"]).await;

    // A circle that is deleted in the foreground.
    let first = cluster.create(MAP, map("first", &[])).await;
    let second = cluster.create(MAP, map("second", &[owner(MAP, &first)])).await;
    let third = cluster.create(MAP, map("third", &[owner(MAP, &second)])).await;
    let back = json!({"metadata": {"ownerReferences": [owner(MAP, &third)]}});
    patch(&context, MAP, &first, back).await;
    delete(&context, MAP, &first, Propagation::Foreground).await;
    gone(&context, MAP, &["first", "second", "third"]).await;
}

#[tokio::test]
async fn a_child_of_two_owners_stays_with_the_one_that_stays() {
    let mut cluster = Cluster::start().await;
    let context = cluster.context();
    cluster.run(garbage_collector::run(context.clone()));
    let going = cluster.create(MAP, map("going", &[])).await;
    let staying = cluster.create(MAP, map("staying", &[])).await;
    cluster.create(MAP, map("child", &[owner(MAP, &going), owner(MAP, &staying)])).await;
    delete(&context, MAP, &going, Propagation::Foreground).await;
    gone(&context, MAP, &["going"]).await;
    until(&context, MAP, |all| {
        let child = all.iter().find(|one| &*one.name.name == "child").expect("the child stays");
        child.value["metadata"]["ownerReferences"].as_array().is_some_and(|list| list.len() == 1)
    })
    .await;
    delete(&context, MAP, &staying, Propagation::Orphan).await;
    gone(&context, MAP, &["staying"]).await;
    until(&context, MAP, |all| {
        let child = all.iter().find(|one| &*one.name.name == "child").expect("the child stays");
        child.value["metadata"].get("ownerReferences").is_none()
    })
    .await;
}

#[tokio::test]
async fn an_owner_in_another_namespace_does_not_own() {
    let mut cluster = Cluster::start().await;
    let context = cluster.context();
    cluster.run(garbage_collector::run(context.clone()));
    let mut away = map("away", &[]);
    away["metadata"]["namespace"] = json!("kube-system");
    let away = cluster.create(MAP, away).await;
    cluster.create(MAP, map("child", &[owner(MAP, &away)])).await;
    gone(&context, MAP, &["child"]).await;
    let expected = format!(
        "ownerRef [v1/ConfigMap, namespace: default, name: away, uid: {}] does not exist in \
         namespace \"default\"",
        away.uid
    );
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "wide", "ownerReferences": [owner(MAP, &away)]}});
    cluster.create(ROLE, role).await;
    until(&context, EVENT, |events| {
        let says = |event: &Value| event["reason"] == "OwnerRefInvalidNamespace";
        let about: Vec<_> = events.iter().filter(|one| says(&one.value)).collect();
        about.iter().any(|one| one.value["message"] == expected.as_str())
            && about.iter().any(|one| one.value["involvedObject"]["name"] == "wide")
    })
    .await;
    until(&context, ROLE, |roles| roles.iter().any(|one| &*one.name.name == "wide")).await;
}

fn widgets() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget",
                "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object",
                    "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

#[tokio::test]
async fn custom_kinds_own_and_are_owned_while_they_exist() {
    let mut cluster = Cluster::start().await;
    let context = cluster.context();
    cluster.run(garbage_collector::run(context.clone()));
    let definition = cluster.create(DEFINITION, widgets()).await;
    until(&context, DEFINITION, |all| {
        all.iter().any(|one| reconcile::conditions::is_true(&one.value["status"], "Established"))
    })
    .await;
    let widget = |name: &str, owners: &[Value]| {
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name,
            "namespace": "default", "ownerReferences": owners}})
    };
    let parent = cluster.create(WIDGET, widget("parent", &[])).await;
    cluster.create(WIDGET, widget("child", &[owner(WIDGET, &parent)])).await;
    cluster.create(MAP, map("of-parent", &[owner(WIDGET, &parent)])).await;
    let second = cluster.create(WIDGET, widget("second", &[])).await;
    cluster.create(MAP, map("of-second", &[owner(WIDGET, &second)])).await;
    delete(&context, WIDGET, &parent, Propagation::Foreground).await;
    gone(&context, WIDGET, &["parent", "child"]).await;
    gone(&context, MAP, &["of-parent"]).await;
    until(&context, MAP, |all| all.iter().any(|one| &*one.name.name == "of-second")).await;
    // The kind goes, its objects with it, and what those owned.
    delete(&context, DEFINITION, &definition, Propagation::Background).await;
    gone(&context, MAP, &["of-second"]).await;
}

#[tokio::test]
async fn a_kind_that_cannot_be_listed_holds_up_no_other() {
    let mut cluster = Cluster::start().await;
    let context = cluster.context();
    cluster.run(garbage_collector::run(context.clone()));
    let mut broken = widgets();
    broken["metadata"]["name"] = json!("gadgets.example.org");
    broken["spec"]["group"] = json!("example.org");
    broken["spec"]["names"] = json!({"plural": "gadgets", "singular": "gadget", "kind": "Gadget",
        "listKind": "GadgetList"});
    let broken = cluster.create(DEFINITION, broken).await;
    until(&context, DEFINITION, |all| {
        all.iter().any(|one| reconcile::conditions::is_true(&one.value["status"], "Established"))
    })
    .await;
    let gadget = json!({"apiVersion": "example.org/v1", "kind": "Gadget",
        "metadata": {"name": "g", "namespace": "default"}});
    cluster.create(GADGET, gadget).await;
    // Whoever converts what is there to the new version does not answer.
    let version = |name: &str, is_stored: bool| {
        json!({"name": name, "served": true, "storage": is_stored, "schema": {"openAPIV3Schema":
            {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
    };
    let conversion = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://nobody.invalid/convert"}}});
    let spec = json!({"versions": [version("v2", false), version("v1", true)],
        "conversion": conversion});
    patch(&context, DEFINITION, &broken, json!({"spec": spec})).await;
    tokio::time::sleep(Duration::from_millis(300)).await;

    cluster.create(DEFINITION, widgets()).await;
    until(&context, DEFINITION, |all| {
        let is_there = |one: &&Arc<Object>| {
            reconcile::conditions::is_true(&one.value["status"], "Established")
        };
        all.iter().filter(is_there).count() == 2
    })
    .await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "parent", "namespace": "default"}});
    let parent = cluster.create(WIDGET, widget).await;
    cluster.create(MAP, map("of-parent", &[owner(WIDGET, &parent)])).await;
    delete(&context, WIDGET, &parent, Propagation::Background).await;
    gone(&context, MAP, &["of-parent"]).await;
}

/// A tree that goes in the foreground, one that goes in the background, one that lets go.
const TREES: Trial = Trial {
    name: garbage_collector::NAME,
    seed: 1,
    component: |context| Box::pin(garbage_collector::run(context)),
    workload: |cluster, context| {
        Box::pin(async move {
            let mut roots = Vec::new();
            for (name, propagation) in [
                ("front", Propagation::Foreground),
                ("back", Propagation::Background),
                ("free", Propagation::Orphan),
            ] {
                let root = cluster.create(MAP, map(name, &[])).await;
                let child = map(&format!("{name}-child"), &[owner(MAP, &root)]);
                let child = cluster.create(MAP, child).await;
                let last = map(&format!("{name}-child-child"), &[owner(MAP, &child)]);
                cluster.create(MAP, last).await;
                roots.push((root, propagation));
            }
            tokio::time::sleep(Duration::from_secs(60)).await;
            for (root, propagation) in &roots {
                delete(&context, MAP, root, *propagation).await;
            }
        })
    },
    play: |_| Box::pin(std::future::pending()),
};

#[test]
fn no_fault_of_a_request_changes_where_it_ends() {
    let plans = simulation::try_everything(TREES);
    println!("{plans} plans");
    assert!(plans > 50, "{plans}");
}
