//! From the definition to its end, with everything that is served in between.

use std::sync::Arc;

use serde_json::{Value, json};
use store::{Environment, KeyRange, PageRequest, Retention, System, backends};
use tokio::task::JoinSet;

use crate::cluster::{Cluster, DEFINITIONS, WIDGETS, v1, widget, widgets};

fn any() -> Value {
    json!([v1(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}))])
}

fn condition<'a>(definition: &'a Value, kind: &str) -> (&'a str, &'a str, &'a str) {
    let conditions = definition["status"]["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|one| one["type"] == kind).unwrap();
    let text = |name: &str| found[name].as_str().unwrap();
    (text("status"), text("reason"), text("message"))
}

#[tokio::test]
async fn what_is_defined_is_served_when_the_definition_is_answered() {
    let cluster = Cluster::start().await;
    let created = cluster.done(&format!("POST {DEFINITIONS}"), widgets(any())).await;
    assert_eq!(created["metadata"]["generation"], 1);
    assert_eq!(created["spec"]["names"]["singular"], "widget");
    assert_eq!(created["spec"]["names"]["listKind"], "WidgetList");
    assert_eq!(created["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(created["status"]["storedVersions"], json!(["v1"]));
    let made = cluster.done(&format!("POST {WIDGETS}"), widget("a", json!({"x": 1}))).await;
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(cluster.names(WIDGETS).await, ["a"]);
    assert_eq!(cluster.get(WIDGETS).await["kind"], "WidgetList");
    let definition = cluster.get(&format!("{DEFINITIONS}/widgets.example.com")).await;
    let accepted = ("True", "NoConflicts", "no conflicts found");
    assert_eq!(condition(&definition, "NamesAccepted"), accepted);
    let initial = ("True", "InitialNamesAccepted", "the initial names have been accepted");
    assert_eq!(condition(&definition, "Established"), initial);
    assert_eq!(definition["status"]["acceptedNames"], definition["spec"]["names"]);
}

#[tokio::test]
async fn discovery_and_documents_know_what_is_defined_and_forget_it() {
    let cluster = Cluster::with_widgets(any()).await;
    let group = cluster.get("/apis/example.com").await;
    assert_eq!(group["preferredVersion"]["groupVersion"], "example.com/v1");
    let listed = cluster.get("/apis/example.com/v1").await;
    assert_eq!(listed["resources"][0]["shortNames"], json!(["wd"]));
    assert_eq!(listed["resources"][0]["categories"], json!(["all"]));
    let document = cluster.get("/openapi/v3/apis/example.com/v1").await;
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for name in ["com.example.v1.Widget", "com.example.v1.WidgetList"] {
        assert!(schemas.contains_key(name), "{name}");
    }
    for part in document.to_string().split("#/components/schemas/").skip(1) {
        let (name, _) = part.split_once('"').unwrap();
        assert!(schemas.contains_key(name), "{name}");
    }
    let old = cluster.get("/openapi/v2").await;
    assert!(old["definitions"]["com.example.v1.Widget"].is_object());
    cluster.done(&format!("DELETE {DEFINITIONS}/widgets.example.com"), Value::Null).await;
    cluster.until_code(&format!("{DEFINITIONS}/widgets.example.com"), 404).await;
    cluster.until_code("/apis/example.com/v1", 404).await;
    let old = cluster.get("/openapi/v2").await;
    assert!(old["definitions"]["com.example.v1.Widget"].is_null());
}

#[tokio::test]
async fn deleting_a_definition_waits_for_the_finalizers_of_its_objects() {
    let cluster = Cluster::with_widgets(any()).await;
    let mut held = widget("held", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cluster.done(&format!("POST {WIDGETS}"), held).await;
    cluster.done(&format!("POST {WIDGETS}"), widget("free", json!({}))).await;
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let deleted = cluster.done(&format!("DELETE {path}"), Value::Null).await;
    assert!(deleted["metadata"]["deletionTimestamp"].is_string());
    let finalizer = "customresourcecleanup.apiextensions.k8s.io";
    assert_eq!(deleted["metadata"]["finalizers"], json!([finalizer]));
    assert_eq!(condition(&deleted, "Terminating").0, "True");
    let late = cluster.refused(&format!("POST {WIDGETS}"), widget("late", json!({}))).await;
    let text = "create not allowed while custom resource definition is terminating";
    assert_eq!(late, (403, text.to_owned()));
    cluster.until_code(&format!("{WIDGETS}/free"), 404).await;
    let held = cluster.get(&format!("{WIDGETS}/held")).await;
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    let release = json!({"metadata": {"finalizers": null}});
    cluster.done(&format!("PATCH {WIDGETS}/held"), release).await;
    cluster.until_code(&path, 404).await;
    cluster.until_code(WIDGETS, 404).await;
    // Nothing of the old ones comes back with the name.
    cluster.done(&format!("POST {DEFINITIONS}"), widgets(any())).await;
    assert!(cluster.names(WIDGETS).await.is_empty());
}

/// Others create objects for as long as they can while the definition goes, through another process
/// that hears of it later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_object_outlives_its_definition_whoever_creates_it_meanwhile() {
    let one = Cluster::start().await;
    let other = Arc::new(Cluster::start_on(one.store.clone()).await);
    one.done(&format!("POST {DEFINITIONS}"), widgets(any())).await;
    other.until_code(WIDGETS, 200).await;
    let mut creators = JoinSet::new();
    for which in 0..4 {
        creators.spawn(create_until_refused(other.clone(), which));
    }
    let first = format!("{WIDGETS}/w0-1");
    other.until_code(&first, 200).await;
    one.done(&format!("DELETE {DEFINITIONS}/widgets.example.com"), Value::Null).await;
    while let Some(refused) = creators.join_next().await {
        let (code, message) = refused.unwrap();
        assert!([403, 404].contains(&code), "{code} {message}");
    }
    one.until_code(&format!("{DEFINITIONS}/widgets.example.com"), 404).await;
    let left = KeyRange::prefix("example.com/widgets/");
    let page = one.store.list(&left, PageRequest::all(), None).await.unwrap();
    assert!(page.entries.is_empty(), "{} objects are left", page.entries.len());
}

async fn create_until_refused(cluster: Arc<Cluster>, which: usize) -> (u16, String) {
    for number in 0.. {
        let body = widget(&format!("w{which}-{number}"), json!({}));
        // An apply creates as well.
        let answer = match number % 2 {
            0 => cluster.ask(&format!("POST {WIDGETS}"), body).await,
            _ => {
                let line = format!("PATCH {WIDGETS}/w{which}-{number}?fieldManager=m");
                let content = [("content-type", "application/apply-patch+yaml")];
                cluster.ask_with(&line, &content, body.to_string()).await
            }
        };
        if answer.code >= 400 {
            return (answer.code, answer.message().to_owned());
        }
    }
    unreachable!("it goes on until it is refused")
}

#[tokio::test]
async fn a_bundle_nobody_can_believe_is_refused_once_the_kind_is_served() {
    let cluster = Cluster::start().await;
    let conversion = |bundle: &str| {
        let client = json!({"url": "https://a.example", "caBundle": bundle});
        let webhook = json!({"clientConfig": client, "conversionReviewVersions": ["v1"]});
        json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}})
    };
    let mut bad = widgets(any());
    bad["spec"]["conversion"] = conversion("AAAA")["spec"]["conversion"].clone();
    cluster.done(&format!("POST {DEFINITIONS}"), bad).await;
    let line = format!("PATCH {DEFINITIONS}/widgets.example.com");
    // What was there may stay, and be put right; it may not come back.
    cluster.done(&line, json!({"metadata": {"labels": {"a": "b"}}})).await;
    cluster.done(&line, conversion("BBBB")).await;
    cluster.done(&line, conversion("")).await;
    let (code, text) = cluster.refused(&line, conversion("AAAA")).await;
    let expected = "spec.conversion.webhookClientConfig.caBundle: Invalid value: \"AAAA\": unable \
                    to load root certificates: unable to parse bytes as PEM block";
    assert_eq!(code, 422);
    assert!(text.contains(expected), "{text}");
}

#[tokio::test]
async fn a_watch_ends_with_its_kind() {
    let cluster = Cluster::with_widgets(any()).await;
    cluster.done(&format!("POST {WIDGETS}"), widget("a", json!({}))).await;
    let mut watch = cluster.watch(&format!("{WIDGETS}?watch=true")).await;
    assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
    cluster.done(&format!("DELETE {DEFINITIONS}/widgets.example.com"), Value::Null).await;
    let mut last = Value::Null;
    while let Some(event) = watch.next().await {
        last = event;
    }
    assert_eq!(last["type"], "DELETED");
}

#[tokio::test]
async fn names_that_are_taken_are_not_accepted_and_nothing_is_served() {
    let cluster = Cluster::with_widgets(any()).await;
    let mut other = widgets(any());
    other["metadata"]["name"] = json!("gadgets.example.com");
    other["spec"]["names"] = json!({"plural": "gadgets", "kind": "Widget", "shortNames": ["wd"]});
    cluster.done(&format!("POST {DEFINITIONS}"), other).await;
    let path = format!("{DEFINITIONS}/gadgets.example.com");
    let definition = cluster.get(&path).await;
    let (status, reason, _) = condition(&definition, "NamesAccepted");
    assert_eq!((status, reason), ("False", "ListKindConflict"));
    let refused = ("False", "NotAccepted", "not all names are accepted");
    assert_eq!(condition(&definition, "Established"), refused);
    let gadgets = "/apis/example.com/v1/namespaces/default/gadgets";
    assert_eq!(cluster.refused(&format!("GET {gadgets}"), Value::Null).await.0, 404);
    // The names become free with the definition that has them.
    cluster.done(&format!("DELETE {DEFINITIONS}/widgets.example.com"), Value::Null).await;
    cluster.until_code(gadgets, 200).await;
}

#[tokio::test]
async fn every_process_on_a_store_serves_what_one_was_told() {
    let one = Cluster::start().await;
    let other = Cluster::start_on(one.store.clone()).await;
    one.done(&format!("POST {DEFINITIONS}"), widgets(any())).await;
    other.until_code(WIDGETS, 200).await;
    other.done(&format!("POST {WIDGETS}"), widget("a", json!({}))).await;
    assert_eq!(one.names(WIDGETS).await, ["a"]);
    other.done(&format!("DELETE {DEFINITIONS}/widgets.example.com"), Value::Null).await;
    one.until_code(WIDGETS, 404).await;
}

#[tokio::test]
async fn definitions_outlive_the_process() {
    let name = format!("setpoint-custom-store-{:016x}", System.random());
    let directory = std::env::temp_dir().join(name);
    let settings = backends::embedded::Settings { directory: directory.clone() };
    let open = || backends::embedded::open(&settings, Retention::default(), Arc::new(System));
    let store = open().await.unwrap();
    let cluster = Cluster::start_on(store.clone()).await;
    cluster.done(&format!("POST {DEFINITIONS}"), widgets(any())).await;
    cluster.done(&format!("POST {WIDGETS}"), widget("a", json!({"x": 1}))).await;
    store.close().await;
    drop((cluster, store));
    let cluster = Cluster::start_on(open().await.unwrap()).await;
    assert_eq!(cluster.names(WIDGETS).await, ["a"]);
    assert_eq!(cluster.get(&format!("{WIDGETS}/a")).await["spec"]["x"], 1);
    cluster.store.close().await;
    std::fs::remove_dir_all(&directory).unwrap();
}

#[tokio::test]
async fn a_change_of_the_definition_raises_its_generation_and_its_status_does_not() {
    let cluster = Cluster::with_widgets(any()).await;
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let change = json!({"spec": {"names": {"shortNames": ["wg"]}}});
    let changed = cluster.done(&format!("PATCH {path}"), change).await;
    assert_eq!(changed["metadata"]["generation"], 2);
    let listed = cluster.get("/apis/example.com/v1").await;
    assert_eq!(listed["resources"][0]["shortNames"], json!(["wg"]));
    let kind = json!({"spec": {"names": {"kind": "Other"}}});
    let (code, message) = cluster.refused(&format!("PATCH {path}"), kind).await;
    assert_eq!(code, 422);
    assert!(message.contains("spec.names.kind: Invalid value: \"Other\": field is immutable"));
}
