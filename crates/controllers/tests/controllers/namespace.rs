//! Namespaces go with everything in them.

use std::time::Duration;

use controllers::kinds::{DEFINITION, NAMESPACE, POD};
use controllers::namespace::Controller;
use reconcile::plan::{Deletion, Target};
use reconcile::{Context, Kind, Object, run};
use serde_json::{Value, json};
use testkit::cluster::until;
use testkit::simulation::{self, Trial};
use testkit::{Cluster, pods};

const MAP: Kind = Kind::namespaced("", "v1", "ConfigMap", "configmaps");
const WIDGET: Kind = Kind::namespaced("example.com", "v1", "Widget", "widgets");

fn in_namespace(kind: Kind, namespace: &str, name: &str) -> Value {
    let mut object = json!({"apiVersion": kind.api_version(), "kind": kind.kind,
        "metadata": {"namespace": namespace, "name": name}});
    if kind == POD {
        object["spec"] = json!({"nodeName": "n", "containers": [{"name": "c", "image": "i"}]});
    }
    object
}

async fn make(cluster: &Cluster, name: &str) -> Object {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    cluster.create(NAMESPACE, object).await
}

async fn delete(context: &Context, namespace: &Object) {
    let requests = context.requests("test", Default::default());
    let target = Target::of(NAMESPACE, namespace);
    requests.delete(&target, &Deletion::default()).await.expect("deleted");
}

async fn gone(context: &Context, name: &str) {
    until(context, NAMESPACE, |all| all.iter().all(|one| &*one.name.name != name)).await;
}

#[tokio::test]
async fn everything_goes_pods_first_and_a_finalizer_holds() {
    let mut cluster = Cluster::start().await;
    let context = cluster.context();
    cluster.run(run::run(context.clone(), Controller));
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget",
                "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    cluster.create(DEFINITION, definition).await;
    let namespace = make(&cluster, "a").await;
    let pod = cluster.create(POD, in_namespace(POD, "a", "pod")).await;
    cluster.create(WIDGET, in_namespace(WIDGET, "a", "widget")).await;
    let mut held = in_namespace(MAP, "a", "held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let held = cluster.create(MAP, held).await;
    delete(&context, &namespace).await;
    // The pod is on a node and has its grace period: the rest waits.
    let condition = |all: &[std::sync::Arc<Object>], kind: &str, text: &str| {
        let namespace = all.iter().find(|one| &*one.name.name == "a").expect("it waits");
        let found = reconcile::conditions::find(&namespace.value["status"], kind);
        found.is_some_and(|found| found["message"].as_str().is_some_and(|it| it.contains(text)))
    };
    until(&context, NAMESPACE, |all| {
        condition(all, "NamespaceContentRemaining", "pods. has 1 resource instances")
    })
    .await;
    let widgets = context.cache(WIDGET);
    widgets.reaches(1).await;
    assert_eq!(widgets.len(), 1);
    let now = Deletion { grace_seconds: Some(0), ..Deletion::default() };
    let requests = context.requests("test", Default::default());
    requests.delete(&Target::of(POD, &pod), &now).await.expect("deleted");
    until(&context, WIDGET, |all| all.is_empty()).await;
    until(&context, NAMESPACE, |all| {
        condition(all, "NamespaceFinalizersRemaining", "example.com/hold in 1 resource instances")
    })
    .await;
    let free = json!({"metadata": {"finalizers": []}});
    requests.patch(&Target::of(MAP, &held), &free).await.expect("freed");
    gone(&context, "a").await;
}

#[tokio::test]
async fn many_pods_go_with_their_namespace() {
    let mut cluster = Cluster::start().await;
    let context = cluster.context();
    cluster.run(run::run(context.clone(), Controller));
    let namespace = make(&cluster, "many").await;
    for number in 0..1_200 {
        let mut pod = in_namespace(POD, "many", &format!("p{number}"));
        pod["spec"]["nodeName"] = Value::Null;
        cluster.create(POD, pod).await;
    }
    delete(&context, &namespace).await;
    gone(&context, "many").await;
}

/// A namespace with pods that take their time, and more.
const EMPTIED: Trial = Trial {
    name: "namespace-controller",
    seed: 1,
    component: |context| Box::pin(run::run(context, Controller)),
    workload: |cluster, context| {
        Box::pin(async move {
            let namespace = make(&cluster, "a").await;
            for name in ["x", "y"] {
                cluster.create(POD, in_namespace(POD, "a", name)).await;
                cluster.create(MAP, in_namespace(MAP, "a", name)).await;
            }
            tokio::time::sleep(Duration::from_secs(1_800)).await;
            delete(&context, &namespace).await;
        })
    },
    play: |context| Box::pin(pods::play(context)),
};

#[test]
fn no_fault_of_a_request_changes_where_it_ends() {
    let plans = simulation::try_everything(EMPTIED);
    println!("{plans} plans");
    assert!(plans >= 20, "{plans}");
}
