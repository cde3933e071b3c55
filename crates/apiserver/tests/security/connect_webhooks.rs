//! Webhooks judge connections to pods, services and nodes, as they judge writes.

use serde_json::{Value, json};

use crate::setting::Setting;

const POD: &str = "/api/v1/namespaces/default/pods/p";

async fn with_pod() -> Setting {
    let setting = Setting::start().await;
    let pod = json!({"metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    setting.done("POST /api/v1/namespaces/default/pods", &pod).await;
    setting
}

fn rule(resources: Value) -> Value {
    json!([{"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"],
        "resources": resources}])
}

#[tokio::test]
async fn a_webhook_sees_and_denies_every_kind_of_connection() {
    let setting = with_pod().await;
    let resources = json!([
        "pods/exec",
        "pods/attach",
        "pods/portforward",
        "pods/proxy",
        "services/proxy",
        "nodes/proxy"
    ]);
    let webhook = setting.webhook.of("c", "/deny", json!({"rules": rule(resources)}));
    setting.register("validating", "c", json!([webhook])).await;
    let options = |kind: &str, fields: Value| {
        let mut object = json!({"kind": kind, "apiVersion": "v1"});
        for (name, value) in fields.as_object().unwrap() {
            object[name] = value.clone();
        }
        object
    };
    let cases = [
        (
            format!("POST {POD}/exec?command=sh&command=-c&container=c&stdin=true&stdout=true"),
            ("pods", "p", "exec"),
            options(
                "PodExecOptions",
                json!({"stdin": true, "stdout": true, "container": "c", "command": ["sh", "-c"]}),
            ),
        ),
        (
            format!("POST {POD}/attach?stdout=1&tty=true"),
            ("pods", "p", "attach"),
            options("PodAttachOptions", json!({"stdout": true, "tty": true})),
        ),
        (
            format!("POST {POD}/portforward?ports=80,81"),
            ("pods", "p", "portforward"),
            options("PodPortForwardOptions", json!({"ports": [80, 81]})),
        ),
        (
            format!("GET {POD}:80/proxy/a/b?q=1"),
            ("pods", "p:80", "proxy"),
            options("PodProxyOptions", json!({"path": "a/b"})),
        ),
        (
            "GET /api/v1/namespaces/default/services/kubernetes/proxy/x".to_owned(),
            ("services", "kubernetes", "proxy"),
            options("ServiceProxyOptions", json!({"path": "x"})),
        ),
        (
            "POST /api/v1/nodes/n:10250/proxy/run".to_owned(),
            ("nodes", "n:10250", "proxy"),
            options("NodeProxyOptions", json!({"path": "run"})),
        ),
    ];
    for (line, (resource, name, subresource), expected) in cases {
        setting.webhook.forget();
        let (code, message) = setting.refused(&line, &Value::Null).await;
        assert_eq!(code, 400, "{line}: {message}");
        assert!(message.contains("denied the request"), "{line}: {message}");
        let notes = setting.webhook.notes();
        let [note] = &notes[..] else { panic!("{line}: {notes:?}") };
        let request = &note["review"]["request"];
        assert_eq!(request["operation"], "CONNECT", "{line}");
        assert_eq!(request["object"], expected, "{line}");
        assert_eq!(request["kind"]["kind"], expected["kind"], "{line}");
        assert_eq!(request["resource"]["resource"], resource, "{line}");
        assert_eq!(
            (&request["name"], &request["subResource"]),
            (&json!(name), &json!(subresource))
        );
        assert_eq!(request["oldObject"], Value::Null, "{line}");
    }
    // Reading the log is no connection.
    setting.webhook.forget();
    let log = setting.ask(&format!("GET {POD}/log"), &Value::Null).await;
    assert!(!log.message().contains("denied"), "{}", log.body);
    assert!(setting.webhook.notes().is_empty());
}

#[tokio::test]
async fn a_policy_denies_a_command_and_lets_others_pass() {
    let setting = with_pod().await;
    let group = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({"metadata": {"name": "no-shells"}, "spec": {
        "matchConstraints": {"resourceRules": rule(json!(["pods/exec"]))},
        "validations": [{"expression": "!object.command.exists(word, word == 'sh')",
            "message": "no shells"}]}});
    setting.done(&format!("POST {group}/validatingadmissionpolicies"), &policy).await;
    let binding = json!({"metadata": {"name": "b"},
        "spec": {"policyName": "no-shells", "validationActions": ["Deny"]}});
    setting.done(&format!("POST {group}/validatingadmissionpolicybindings"), &binding).await;
    let policies = &setting.server.policies;
    crate::setting::eventually("the policy is known", || {
        policies.all.current().is_some() && policies.bindings.current().is_some()
    })
    .await;
    let exec = |command: &str| format!("POST {POD}/exec?command={command}&stdout=1");
    let (code, message) = setting.refused(&exec("sh"), &Value::Null).await;
    assert_eq!(code, 422, "{message}");
    assert!(message.contains("no shells"), "{message}");
    // The pod has no node, which is found out after admission.
    let (_, message) = setting.refused(&exec("ls"), &Value::Null).await;
    assert!(message.contains("does not have a host assigned"), "{message}");
}
