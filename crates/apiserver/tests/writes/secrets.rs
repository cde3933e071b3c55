//! Secrets: readable through the server, and nowhere else.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use apiserver::start;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use store::{
    Commit, Environment, Key, Mutation, Operation, Precondition, Provenance, Retention, Store,
    System, backends,
};

use crate::api::{Api, Scratch};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
/// Twelve bytes, and what they are in base64.
const PLAIN: &str = "hunter2-x9Qz";
const ENCODED: &str = "aHVudGVyMi14OVF6";

async fn open(directory: &Path) -> Arc<dyn Store> {
    let settings = backends::embedded::Settings { directory: directory.to_owned() };
    let settings = backends::Settings::Embedded(settings);
    backends::open(&settings, Retention::default(), Arc::new(System)).await.unwrap()
}

fn files_with(directory: &Path, needle: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, needle));
        } else if std::fs::read(&path).unwrap().windows(needle.len()).any(|it| it == needle) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[tokio::test]
async fn no_file_shows_a_secret_and_every_reader_sees_it() {
    let scratch = Scratch::new();
    let (data, keys) = (scratch.0.join("data"), scratch.0.join("pki"));
    let store = open(&data).await;
    let api = Api::over(store.clone(), &keys).await.unwrap();
    let mut watch = api.stream(crate::api::ADMIN, &format!("{SECRETS}?watch=true")).await;
    let secret = json!({"metadata": {"name": "s", "labels": {"color": "mauve-label"}},
        "stringData": {"password": PLAIN}});
    let made = api.admin(&format!("POST {SECRETS}"), secret).await;
    assert_eq!(made["data"]["password"], ENCODED);
    api.admin(
        "POST /api/v1/namespaces/default/configmaps",
        json!({"metadata": {"name": "c"}, "data": {"k": "a-plain-marker"}}),
    )
    .await;
    for needle in [PLAIN, ENCODED, "mauve-label", "password"] {
        assert_eq!(files_with(&scratch.0, needle.as_bytes()), [""; 0], "{needle}");
    }
    assert!(!files_with(&scratch.0, b"a-plain-marker").is_empty(), "files can be searched");

    assert_eq!(api.admin(&format!("GET {SECRETS}/s"), Value::Null).await, made);
    for selector in ["labelSelector=color=mauve-label", "fieldSelector=type=Opaque"] {
        let list = api.admin(&format!("GET {SECRETS}?{selector}"), Value::Null).await;
        assert_eq!(list["items"][0]["data"]["password"], ENCODED, "{selector}");
    }
    let none = api.admin(&format!("GET {SECRETS}?labelSelector=color=red"), Value::Null).await;
    assert_eq!(none["items"], json!([]));
    let frame = tokio::time::timeout(Duration::from_secs(10), watch.frame()).await;
    let bytes = frame.unwrap().unwrap().unwrap().into_data().unwrap();
    let event: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(event["object"], made);
    let changed = json!({"data": {"other": ENCODED}});
    let changed = api.admin(&format!("PATCH {SECRETS}/s"), changed).await;
    assert_eq!(changed["data"], json!({"password": ENCODED, "other": ENCODED}));

    drop(watch);
    drop(api);
    store.close().await;
    let store = open(&data).await;
    let api = Api::over(store.clone(), &keys).await.unwrap();
    assert_eq!(api.admin(&format!("GET {SECRETS}/s"), Value::Null).await, changed);
    drop(api);
    refuses_other_keys(store, &keys).await;
}

/// Without the key, or with another one, the server says what to do and makes nothing.
async fn refuses_other_keys(store: Arc<dyn Store>, keys: &Path) {
    let file = keys.join("secrets.keys");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let right = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let error = Api::over(store.clone(), keys).await.err().unwrap();
    assert!(matches!(error, start::Error::KeysMissing { .. }), "{error}");
    assert!(!file.exists(), "no key is made where another one is missing");
    std::fs::write(&file, b"QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=\n").unwrap();
    let error = Api::over(store.clone(), keys).await.err().unwrap().to_string();
    assert!(error.contains("put the secrets.keys back"), "{error}");
    std::fs::write(&file, right).unwrap();
    assert!(Api::over(store, keys).await.is_ok());
}

#[tokio::test]
async fn a_secret_from_before_is_read_and_one_that_is_damaged_says_so() {
    let scratch = Scratch::new();
    let store = backends::memory::open(Retention::default(), Arc::new(System));
    let api = Api::over(store.clone(), &scratch.0).await.unwrap();
    let put = async |name: &str, value: Vec<u8>| {
        let key = Key::new(format!("secrets/default/{name}")).unwrap();
        let mutation = Mutation::Put(value.into());
        let operations = vec![Operation { key, mutation, when: Precondition::Absent }];
        let provenance = Provenance::of(System.now(), "test");
        store.commit(Commit { operations, epoch: None, provenance }).await.unwrap();
    };
    let plain = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": "old", "namespace": "default", "uid": "u"},
        "data": {"password": ENCODED}});
    put("old", plain.to_string().into_bytes()).await;
    let read = api.admin(&format!("GET {SECRETS}/old"), Value::Null).await;
    assert_eq!(read["data"], plain["data"]);
    let raw = async || {
        let key = Key::new("secrets/default/old").unwrap();
        store.get(&key, None).await.unwrap().unwrap().value.clone()
    };
    assert!(raw().await.starts_with(b"{"));
    api.admin(&format!("PATCH {SECRETS}/old"), json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert!(raw().await.starts_with(b"\0setpoint-sealed"), "it is sealed when it is next written");

    put("torn", b"\0setpoint-sealed-1\0junk".to_vec()).await;
    for line in [format!("GET {SECRETS}/torn"), format!("GET {SECRETS}")] {
        let (code, message) = api.refused(&line, Value::Null).await;
        assert_eq!(code, 500);
        assert!(message.contains("secrets/default/torn cannot be read"), "{message}");
        assert!(message.contains("restore the data directory"), "{message}");
    }
}

const MACHINES: &str = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines";

/// Defines VirtualMachines, as far as this needs them.
fn machine_definition() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({"metadata": {"name": "virtualmachines.kubevirt.io"}, "spec": {
        "group": "kubevirt.io", "scope": "Namespaced",
        "names": {"kind": "VirtualMachine", "plural": "virtualmachines",
            "singular": "virtualmachine", "listKind": "VirtualMachineList"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": open}}]}})
}

fn machine(name: &str, user_data: &str) -> Value {
    let source = json!({"userData": user_data, "networkDataBase64": user_data});
    json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": name},
        "spec": {"template": {"spec": {"volumes": [
            {"name": "seed", "cloudInitNoCloud": source}]}}}})
}

async fn until_served(api: &Api) {
    for _ in 0..10_000 {
        if api.ask(crate::api::ADMIN, &format!("GET {MACHINES}"), &Value::Null).await.0 == 200 {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("VirtualMachines are not served");
}

#[tokio::test]
async fn inline_cloud_init_is_in_no_file_and_in_no_history() {
    let scratch = Scratch::new();
    let (data, keys) = (scratch.0.join("data"), scratch.0.join("pki"));
    let store = open(&data).await;
    let api = Api::over(store.clone(), &keys).await.unwrap();
    api.admin("POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions", machine_definition())
        .await;
    until_served(&api).await;
    let made = api.admin(&format!("POST {MACHINES}"), machine("vm", PLAIN)).await;
    let first = made["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    assert!(made.to_string().contains(PLAIN), "a reader sees it");
    let other = "another-x9Qz";
    let changed = json!({"spec": machine("vm", other)["spec"]});
    api.admin(&format!("PATCH {MACHINES}/vm"), changed).await;
    for needle in [PLAIN, other] {
        assert_eq!(files_with(&scratch.0, needle.as_bytes()), [""; 0], "{needle}");
    }
    const HISTORY: &str = "/apis/history.setpoint.dev/v1";
    for path in [
        format!("{HISTORY}/at/{first}{MACHINES}"),
        format!("{HISTORY}/at/{first}{MACHINES}/vm"),
        format!("{HISTORY}/revisions{MACHINES}/vm"),
        format!("{HISTORY}/changes?after=0"),
    ] {
        let told = api.admin(&format!("GET {path}"), Value::Null).await.to_string();
        assert!(!told.contains(PLAIN) && !told.contains(other), "{path}: {told}");
        assert!(told.contains("(hidden)"), "{path}: {told}");
    }

    // One that was written before its kind was encrypted is encrypted at the next start.
    let mut old = machine("old", PLAIN);
    old["metadata"] = json!({"name": "old", "namespace": "default", "uid": "u"});
    let key = Key::new("kubevirt.io/virtualmachines/default/old").unwrap();
    let mutation = Mutation::Put(old.to_string().into_bytes().into());
    let operations = vec![Operation { key: key.clone(), mutation, when: Precondition::Absent }];
    let provenance = Provenance::of(System.now(), "test");
    store.commit(Commit { operations, epoch: None, provenance }).await.unwrap();
    drop(api);
    store.close().await;
    let store = open(&data).await;
    let api = Api::over(store.clone(), &keys).await.unwrap();
    let raw = store.get(&key, None).await.unwrap().unwrap().value.clone();
    assert!(raw.starts_with(b"\0setpoint-sealed"), "it is encrypted at the start");
    until_served(&api).await;
    let read = api.admin(&format!("GET {MACHINES}/old"), Value::Null).await;
    assert_eq!(read["spec"], old["spec"]);
}
