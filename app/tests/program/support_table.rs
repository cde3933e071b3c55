//! Nothing is silent: every kind and field that the API accepts has a row in the support table,
//! and what is accepted without effect is warned of.

use std::collections::BTreeSet;
use std::path::Path;

use apiserver::facts::{self, Shape, Type};
use apiserver::support::{self, Support};
use serde_json::{Value, json};

use crate::sandbox::{Sandbox, text};

/// Built-in kinds whose fields are walked.
const WALKED: [(&str, &str); 3] =
    [("v1", "Pod"), ("v1", "Service"), ("v1", "PersistentVolumeClaim")];
/// Custom kinds whose fields are walked.
const WALKED_CUSTOM: [&str; 4] = [
    "trainer.kubeflow.org/TrainJob",
    "nvidia.com/DynamoGraphDeployment",
    "vm.novasphere.dev/Wukong",
    "kubevirt.io/VirtualMachine",
];
/// Fields deeper than this are those of a row above them.
const DEPTH_MAX: usize = 8;

/// Adds the paths of all fields of a type.
fn walk(of: &'static Type, path: &str, depth: usize, found: &mut BTreeSet<String>) {
    for field in of.fields {
        let here = format!("{path}{}", field.name);
        below(&field.shape, &here, depth, found);
    }
}

fn below(shape: &Shape, here: &str, depth: usize, found: &mut BTreeSet<String>) {
    match shape {
        Shape::Object(of) if depth < DEPTH_MAX => {
            walk(of.get(), &format!("{here}."), depth + 1, found);
        }
        Shape::List(items) => below(items, &format!("{here}[]"), depth, found),
        _ => drop(found.insert(here.to_owned())),
    }
}

/// Adds the paths of all fields of a schema.
fn walk_schema(schema: &Value, path: &str, depth: usize, found: &mut BTreeSet<String>) {
    let fields = schema["properties"].as_object().filter(|_| depth < DEPTH_MAX);
    match (fields, schema.get("items")) {
        (Some(fields), _) => {
            for (name, field) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                walk_schema(field, &format!("{path}{dot}{name}"), depth + 1, found);
            }
        }
        (None, Some(items)) => walk_schema(items, &format!("{path}[]"), depth, found),
        _ => drop(found.insert(path.to_owned())),
    }
}

fn custom_definitions() -> Vec<Value> {
    let mut all = api::training::definitions().to_vec();
    all.extend(api::dynamo::definitions());
    all.extend(api::wukong::definitions());
    all.extend(api::add_ons::definitions());
    all
}

/// The rows of containers hold for init containers and ephemeral ones too.
fn as_container(path: &str) -> String {
    path.replace("spec.initContainers[]", "spec.containers[]")
}

#[test]
fn the_support_table_covers_every_kind_and_field() {
    let mut without = BTreeSet::new();
    for kind in facts::kinds() {
        let name = support::kind_name(kind.group, kind.kind);
        if support::of_kind(&name).is_none() {
            without.insert(name);
        }
    }
    for (version, kind) in WALKED {
        let of = facts::kind_of("", version, kind).expect("the kind is served");
        let mut paths = BTreeSet::new();
        walk(of.type_id.get(), "", 0, &mut paths);
        assert!(paths.len() > 20, "{kind} {paths:?}");
        let is_missing = |path: &&String| support::covering(kind, &as_container(path)).is_none();
        without.extend(paths.iter().filter(is_missing).map(|path| format!("{kind} {path}")));
    }
    let definitions = custom_definitions();
    for name in WALKED_CUSTOM {
        let is_it = |one: &&Value| {
            let of = |field: &str| one["spec"][field].as_str().unwrap_or_default();
            let kind = one["spec"]["names"]["kind"].as_str().unwrap_or_default();
            support::kind_name(of("group"), kind) == name
        };
        let definition = definitions.iter().find(is_it).expect("the kind is defined");
        let versions = definition["spec"]["versions"].as_array().expect("it has versions");
        let stored = versions.iter().find(|one| one["storage"] == true).expect("one is stored");
        let schema = &stored["schema"]["openAPIV3Schema"];
        let mut paths = BTreeSet::new();
        for field in ["spec", "status"] {
            walk_schema(&schema["properties"][field], field, 0, &mut paths);
        }
        assert!(paths.len() > 5, "{name} {paths:?}");
        let is_missing = |path: &&String| support::covering(name, path).is_none();
        without.extend(paths.iter().filter(is_missing).map(|path| format!("{name} {path}")));
    }
    assert!(without.is_empty(), "add rows to crates/apiserver/src/support/table.txt: {without:#?}");
}

/// Adds the names of all functions of the sources below a directory.
fn functions(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = std::fs::read_to_string(&path).unwrap_or_default();
            let names = source.split("fn ").skip(1).filter_map(|rest| rest.split('(').next());
            found.extend(names.map(str::to_owned));
        }
    }
}

#[test]
fn the_support_table_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut known = BTreeSet::new();
    for part in ["app", "crates"] {
        functions(&root.join(part), &mut known);
    }
    for row in support::rows().iter().filter(|row| row.support != Support::Warned) {
        let tests = row.note.rsplit(':').next().unwrap_or_default();
        for test in tests.split_whitespace() {
            assert!(known.contains(test), "{} {}: no test {test}", row.kind, row.path);
        }
    }
}

/// Objects that are accepted without effect, and how the warning begins.
fn silent_before() -> Vec<(Value, &'static str)> {
    let meta = json!({"name": "a"});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
        {"name": "a", "image": "x"}]}});
    vec![
        (
            json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
                "metadata": meta, "spec": {"maxReplicas": 3, "scaleTargetRef":
                    {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}}}),
            "Warning: autoscaling/HorizontalPodAutoscaler: this cluster runs no autoscaling",
        ),
        (
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
                "metadata": meta, "spec": {"podSelector": {}}}),
            "Warning: networking.k8s.io/NetworkPolicy: is not enforced",
        ),
        (
            json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": meta,
                "spec": {"selector": {"a": "b"}, "template": template}}),
            "Warning: ReplicationController: this cluster runs no controller for it",
        ),
        (
            json!({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec":
                {"type": "LoadBalancer", "ports": [{"port": 80}]}}),
            "Warning: spec.type: this cluster runs no load balancer",
        ),
        (
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": meta,
                "spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}}),
            "Warning: networking.k8s.io/Ingress: no ingress controller is installed",
        ),
    ]
}

#[test]
fn what_is_accepted_without_effect_is_warned_of_where_our_controllers_run() {
    let sandbox = Sandbox::new();
    for (components, warns) in [("api,controllers", true), ("api", false)] {
        let server = sandbox.start(&["--store", "memory", "--components", components]);
        let kubeconfig = text(&server.ready, "kubeconfig");
        for (object, warning) in silent_before() {
            let words = ["--kubeconfig", &kubeconfig, "create", "--dry-run=server", "-f", "-"];
            let ended = sandbox.kubectl(&words, &object.to_string());
            assert_eq!(ended.code, Some(0), "{ended:?}");
            assert_eq!(ended.stderr.starts_with(warning), warns, "{components} {ended:?}");
        }
        assert_eq!(server.stop().0, Some(0));
    }
}
