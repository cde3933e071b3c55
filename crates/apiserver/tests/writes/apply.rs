//! Server-side apply through the whole server.

use serde_json::{Value, json};

use crate::api::{ADMIN, Api, eventually};
use crate::owners::{owned, owners};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// Applies as the administrator: the code and the answer.
async fn ask(api: &Api, path: &str, config: &Value) -> (u16, Value) {
    let body = ("application/apply-patch+yaml", config.to_string());
    api.ask_with(ADMIN, &format!("PATCH {path}"), body).await
}

async fn apply(api: &Api, path: &str, config: &Value) -> Value {
    let (code, answer) = ask(api, path, config).await;
    assert!((200..300).contains(&code), "{path}: {answer}");
    answer
}

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data})
}

fn deployment(more: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"template": {"spec": more}}})
}

fn whole_deployment(pod: Value) -> Value {
    let mut config = deployment(pod);
    config["spec"]["selector"] = json!({"matchLabels": {"a": "b"}});
    config["spec"]["template"]["metadata"] = json!({"labels": {"a": "b"}});
    config
}

#[tokio::test]
async fn an_apply_creates_changes_and_removes() {
    let (api, _scratch) = Api::start().await;
    let path = format!("{MAPS}/c?fieldManager=a");
    let (code, dry) = ask(&api, &format!("{path}&dryRun=All"), &map(json!({"x": "1"}))).await;
    assert_eq!((code, &dry["data"]), (201, &json!({"x": "1"})));
    assert_eq!(api.refused(&format!("GET {MAPS}/c"), Value::Null).await.0, 404);
    let (code, made) = ask(&api, &path, &map(json!({"x": "1", "y": "1"}))).await;
    assert_eq!(code, 201);
    assert_eq!(owners(&made), "a Apply: .data.x .data.y");

    let (code, same) = ask(&api, &path, &map(json!({"x": "1", "y": "1"}))).await;
    assert_eq!((code, same), (200, made));
    let fewer = apply(&api, &path, &map(json!({"x": "2"}))).await;
    assert_eq!(fewer["data"], json!({"x": "2"}));
    assert_eq!(owners(&fewer), "a Apply: .data.x");

    // The body may be YAML, and its name is the path's.
    let text = "apiVersion: v1\nkind: ConfigMap\ndata:\n  x: '3'\n";
    let body = ("application/apply-patch+yaml", text.to_owned());
    let (code, yaml) = api.ask_with(ADMIN, &format!("PATCH {path}"), body).await;
    assert_eq!((code, &yaml["data"]), (200, &json!({"x": "3"})));
}

#[tokio::test]
async fn others_are_not_overridden_unless_by_force() {
    let (api, _scratch) = Api::start().await;
    let path = |manager: &str| format!("{MAPS}/c?fieldManager={manager}");
    apply(&api, &path("a"), &map(json!({"x": "1", "y": "1"}))).await;
    let (code, refused) = ask(&api, &path("b"), &map(json!({"x": "2"}))).await;
    assert_eq!(code, 409);
    assert_eq!(refused["message"], "Apply failed with 1 conflict: conflict with \"a\": .data.x");
    let causes = json!([{
        "reason": "FieldManagerConflict", "message": "conflict with \"a\"", "field": ".data.x",
    }]);
    assert_eq!((&refused["reason"], &refused["details"]["causes"]), (&json!("Conflict"), &causes));

    let shared = apply(&api, &path("b"), &map(json!({"x": "1"}))).await;
    assert_eq!(owners(&shared), "a Apply: .data.x .data.y\nb Apply: .data.x");
    let kept = apply(&api, &path("a"), &map(json!({"y": "1"}))).await;
    assert_eq!(kept["data"], json!({"x": "1", "y": "1"}));
    let forced = format!("{}&force=true", path("c"));
    let taken = apply(&api, &forced, &map(json!({"x": "9", "y": "1"}))).await;
    assert_eq!(taken["data"], json!({"x": "9", "y": "1"}));
    assert_eq!(owners(&taken), "a Apply: .data.y\nc Apply: .data.x .data.y");

    api.admin(&format!("PATCH {MAPS}/c?fieldManager=u"), json!({"data": {"y": "2", "x": "8"}}))
        .await;
    let (_, refused) = ask(&api, &path("c"), &map(json!({"x": "9", "y": "1"}))).await;
    let text =
        "Apply failed with 2 conflicts: conflicts with \"u\" using v1:\n- .data.x\n- .data.y";
    assert_eq!(refused["message"], text);
}

#[tokio::test]
async fn what_is_not_a_configuration_is_refused() {
    let (api, _scratch) = Api::start().await;
    let good = map(json!({"x": "1"}));
    let with = |field: &str, value: Value| {
        let mut config = good.clone();
        *config.pointer_mut(field).unwrap() = value;
        config
    };
    let mut managed = good.clone();
    managed["metadata"]["managedFields"] = json!([]);
    let mut versioned = good.clone();
    versioned["metadata"]["resourceVersion"] = json!("1");
    let mut known = good.clone();
    known["metadata"]["uid"] = json!("u");
    let mut unknown = good.clone();
    unknown["foo"] = json!(1);
    let cases = [
        ("c", good.clone(), 422, "fieldManager: Required value: is required for apply patch"),
        (
            "c?fieldManager=a",
            with("/apiVersion", json!("v2")),
            400,
            "Incorrect version specified in apply patch. Specified patch version: v2, expected: v1",
        ),
        (
            "c?fieldManager=a",
            with("/kind", json!("Secret")),
            400,
            "invalid object type: /v1, Kind=Secret",
        ),
        ("c?fieldManager=a", managed, 400, "metadata.managedFields must be nil"),
        (
            "d?fieldManager=a",
            good.clone(),
            400,
            "the name of the object (c) does not match the name on the URL (d)",
        ),
        ("c?fieldManager=a", json!([]), 400, "error decoding YAML"),
        (
            "c?fieldManager=a",
            versioned,
            500,
            "resourceVersion should not be set on objects to be created",
        ),
        (
            "c?fieldManager=a",
            known,
            409,
            "uid mismatch: the provided object specified uid u, and no existing object was found",
        ),
        (
            "c?fieldManager=a",
            unknown,
            500,
            "failed to create typed patch object \
            (default/c; /v1, Kind=ConfigMap): .foo: field not declared in schema",
        ),
        ("c?fieldManager=a", with("/data", json!({"a b": "1"})), 422, "data[a b]: Invalid value"),
    ];
    for (path, config, code, text) in cases {
        let (given, answer) = ask(&api, &format!("{MAPS}/{path}"), &config).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert_eq!(given, code, "{message}");
        assert!(message.contains(text), "{message}");
    }
    let line = format!("PATCH {MAPS}/c?fieldManager=a");
    let twice = "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: '1'\n  a: '2'\n".to_owned();
    let strict = format!("{line}&fieldValidation=Strict");
    let body = ("application/apply-patch+yaml", twice);
    let (code, answer) = api.ask_with(ADMIN, &strict, body).await;
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(code == 400 && message.starts_with("error strict decoding YAML: "), "{message}");
    assert!(message.contains("line 5: key \"a\" already set in map"), "{message}");
    let body = ("application/apply-patch+cbor", String::new());
    assert_eq!(api.ask_with(ADMIN, &line, body).await.0, 415);
    let (code, message) = api.refused(&format!("{line}&force=true"), json!({})).await;
    assert_eq!(code, 422);
    assert!(message.contains("force: Forbidden: may not be specified for non-apply patch"));
}

#[tokio::test]
async fn lists_are_merged_as_their_kinds_say() {
    let (api, _scratch) = Api::start().await;
    let path = |manager: &str| format!("{DEPLOYMENTS}/d?fieldManager={manager}");
    let mut config = whole_deployment(json!({
        "containers": [{"name": "main", "image": "i",
            "ports": [{"containerPort": 80}], "env": [{"name": "A", "value": "1"}]}],
        "tolerations": [{"key": "a", "operator": "Exists"}],
    }));
    config["metadata"]["finalizers"] = json!(["example.com/a"]);
    let owner = |uid: &str| json!([{"apiVersion": "v1", "kind": "Pod", "name": uid, "uid": uid}]);
    config["metadata"]["ownerReferences"] = owner("one");
    apply(&api, &path("a"), &config).await;
    let mut other = deployment(json!({"containers": [
        {"name": "main", "ports": [{"containerPort": 80, "protocol": "UDP"}],
            "env": [{"name": "B", "value": "2"}]},
        {"name": "side", "image": "s"},
    ]}));
    other["metadata"]["finalizers"] = json!(["example.com/b"]);
    other["metadata"]["ownerReferences"] = owner("two");
    let both = apply(&api, &path("b"), &other).await;
    let pod = &both["spec"]["template"]["spec"];
    let names = |list: &Value, name: &str| -> Vec<String> {
        let list = list.as_array().into_iter().flatten();
        list.map(|one| one[name].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(names(&pod["containers"], "name"), ["main", "side"]);
    assert_eq!(names(&pod["containers"][0]["env"], "name"), ["A", "B"]);
    assert_eq!(names(&pod["containers"][0]["ports"], "protocol"), ["TCP", "UDP"]);
    assert_eq!(both["metadata"]["finalizers"], json!(["example.com/a", "example.com/b"]));
    assert_eq!(names(&both["metadata"]["ownerReferences"], "uid"), ["one", "two"]);
    let text = owners(&both);
    let of_b = owned(&text, "b Apply");
    for path in [
        ".metadata.finalizers[=\"example.com/b\"]",
        ".metadata.ownerReferences[uid=\"two\"]",
        ".spec.template.spec.containers[name=\"main\"].env[name=\"B\"].value",
    ] {
        assert!(of_b.contains(&path), "{text}");
    }

    let mut atomic = other.clone();
    atomic["spec"]["template"]["spec"]["tolerations"] = json!([{"key": "b", "operator": "Exists"}]);
    let (code, refused) = ask(&api, &path("b"), &atomic).await;
    assert_eq!(code, 409);
    let conflict = "conflict with \"a\": .spec.template.spec.tolerations";
    assert!(refused["message"].as_str().unwrap().ends_with(conflict), "{refused}");

    // The port is the same whether or not its protocol is said.
    let port = deployment(json!({"containers": [
        {"name": "main", "ports": [{"containerPort": 80, "protocol": "TCP", "name": "http"}]}]}));
    let fewer = apply(&api, &path("b"), &port).await;
    let pod = &fewer["spec"]["template"]["spec"];
    assert_eq!(names(&pod["containers"], "name"), ["main"]);
    assert_eq!(names(&pod["containers"][0]["env"], "name"), ["A"]);
    let ports = json!([{"containerPort": 80, "name": "http", "protocol": "TCP"}]);
    assert_eq!(pod["containers"][0]["ports"], ports);
    assert_eq!(fewer["metadata"]["finalizers"], json!(["example.com/a"]));
    assert_eq!(names(&fewer["metadata"]["ownerReferences"], "uid"), ["one"]);
}

#[tokio::test]
async fn status_and_scale_are_applied_on_their_own() {
    let (api, _scratch) = Api::start().await;
    let containers = json!({"containers": [{"name": "main", "image": "i"}]});
    let mut config = whole_deployment(containers);
    config["spec"]["replicas"] = json!(1);
    apply(&api, &format!("{DEPLOYMENTS}/d?fieldManager=a"), &config).await;
    let status = |kind: &str| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
            "spec": {"replicas": 7},
            "status": {"conditions": [{"type": kind, "status": "True"}]}})
    };
    let path = format!("{DEPLOYMENTS}/d/status?fieldManager=");
    apply(&api, &format!("{path}k"), &status("Available")).await;
    let seen = apply(&api, &format!("{path}l"), &status("Progressing")).await;
    assert_eq!(seen["status"]["conditions"].as_array().unwrap().len(), 2);
    assert_eq!(seen["spec"]["replicas"], 1);
    let text = owners(&seen);
    let condition = ".status.conditions[type=\"Available\"]";
    // The condition, its type and its status.
    assert_eq!(owned(&text, "k Apply /status").len(), 3, "{text}");
    assert!(owned(&text, "k Apply /status").contains(&condition), "{text}");

    let scale = |replicas: i64| {
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"},
            "spec": {"replicas": replicas}})
    };
    let path = format!("{DEPLOYMENTS}/d/scale?fieldManager=s");
    let (code, refused) = ask(&api, &path, &scale(3)).await;
    assert_eq!(code, 409);
    let conflict = "Apply failed with 1 conflict: conflict with \"a\": .spec.replicas";
    assert_eq!(refused["message"], conflict);
    assert_eq!(ask(&api, &path, &scale(-1)).await.0, 422);
    let scaled = apply(&api, &format!("{path}&force=true"), &scale(3)).await;
    assert_eq!((&scaled["kind"], &scaled["spec"]["replicas"]), (&json!("Scale"), &json!(3)));
    let seen = api.admin(&format!("GET {DEPLOYMENTS}/d"), Value::Null).await;
    assert_eq!(owned(&owners(&seen), "s Apply /scale"), [".spec.replicas"]);
    assert!(!owned(&owners(&seen), "a Apply").contains(&".spec.replicas"));
    let missing = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}});
    let path = format!("{DEPLOYMENTS}/x/status?fieldManager=k");
    assert_eq!(ask(&api, &path, &missing).await.0, 404);
}

#[tokio::test]
async fn what_kubectl_applied_the_old_way_is_its_own() {
    let (api, _scratch) = Api::start().await;
    let last = map(json!({"x": "1"})).to_string();
    let mut old = map(json!({"x": "1", "y": "1"}));
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    old["metadata"]["annotations"] = json!({annotation: last});
    let line = format!("POST {MAPS}?fieldManager=kubectl-client-side-apply");
    api.admin(&line, old).await;
    let path = format!("{MAPS}/c?fieldManager=");
    assert_eq!(ask(&api, &format!("{path}other"), &map(json!({"x": "2"}))).await.0, 409);
    // What the annotation does not have is not kubectl's.
    assert_eq!(ask(&api, &format!("{path}kubectl"), &map(json!({"y": "2"}))).await.0, 409);
    let taken = apply(&api, &format!("{path}kubectl"), &map(json!({"x": "2"}))).await;
    assert_eq!(taken["data"], json!({"x": "2", "y": "1"}));
    let text = taken["metadata"]["annotations"][annotation].as_str().unwrap();
    let kept: Value = serde_json::from_str(text).unwrap();
    assert_eq!(kept["data"], json!({"x": "2"}));
}

#[tokio::test]
async fn an_apply_may_name_the_revision_it_is_about() {
    let (api, _scratch) = Api::start().await;
    let path = format!("{MAPS}/c?fieldManager=a");
    let made = apply(&api, &path, &map(json!({"x": "1"}))).await;
    let mut config = map(json!({"x": "2"}));
    config["metadata"]["resourceVersion"] = json!("1");
    let (code, refused) = ask(&api, &path, &config).await;
    assert_eq!(code, 409);
    assert!(refused["message"].as_str().unwrap().contains("the object has been modified"));
    config["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
    config["metadata"]["uid"] = json!("another");
    assert_eq!(ask(&api, &path, &config).await.0, 409);
    config["metadata"]["uid"] = made["metadata"]["uid"].clone();
    assert_eq!(apply(&api, &path, &config).await["data"], json!({"x": "2"}));
}

#[tokio::test]
async fn who_may_patch_may_not_create_by_it() {
    let (api, _scratch) = Api::start().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]});
    let role = json!({"metadata": {"name": "patch"}, "rules": [rule]});
    api.admin(&format!("POST {roles}/roles"), role).await;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({"metadata": {"name": "patch"},
        "subjects": [{"kind": "User", "name": "patcher", "apiGroup": group}],
        "roleRef": {"kind": "Role", "name": "patch", "apiGroup": group}});
    api.admin(&format!("POST {roles}/rolebindings"), binding).await;
    let text = || async {
        let body = ("application/apply-patch+yaml", map(json!({"x": "1"})).to_string());
        let line = format!("PATCH {MAPS}/c?fieldManager=a");
        let (code, answer) = api.ask_with("patcher", &line, body).await;
        assert_eq!(code, 403);
        answer["message"].as_str().unwrap_or_default().to_owned()
    };
    let refused = "cannot create resource \"configmaps\"";
    eventually("the role is known", || async { text().await.contains(refused) }).await;
}
