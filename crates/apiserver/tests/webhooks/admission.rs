//! What webhooks do to writes: change, refuse, warn, in order and again.

use serde_json::{Value, json};

use crate::setting::{MAPS, Setting, map};

#[tokio::test]
async fn a_webhook_changes_what_is_written() {
    let setting = Setting::start().await;
    let webhook = setting.webhook.of("a", "/label-a", json!({}));
    setting.register("mutating", "m", json!([webhook])).await;
    let made = setting.done(&format!("POST {MAPS}"), &map("x")).await;
    assert_eq!(made["metadata"]["labels"], json!({"a": "1"}));
    let stored = setting.done(&format!("GET {MAPS}/x"), &Value::Null).await;
    assert_eq!(stored["metadata"]["labels"], json!({"a": "1"}));
    let note = &setting.webhook.notes()[0];
    assert_eq!(note["query"], "timeout=10s");
    let request = &note["review"]["request"];
    let own = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    assert_eq!(request["kind"], own);
    assert_eq!(request["requestKind"], own);
    let own = json!({"group": "", "version": "v1", "resource": "configmaps"});
    assert_eq!(request["resource"], own);
    assert_eq!(request["requestResource"], own);
    assert_eq!(request["name"], "x");
    assert_eq!(request["namespace"], "default");
    assert_eq!(request["operation"], "CREATE");
    assert_eq!(request["dryRun"], false);
    assert_eq!(request["userInfo"]["username"], "root");
    assert_eq!(request["object"]["data"], json!({"a": "1"}));
    assert_eq!(request["oldObject"], Value::Null);
    assert_eq!(request["options"]["kind"], "CreateOptions");
    assert!(request.get("subResource").is_none());

    // What a patch leaves out has its default again.
    setting.unregister("mutating", "m").await;
    let mut webhook = setting.webhook.of("a", "/no-container-policy", json!({}));
    webhook["rules"][0]["resources"] = json!(["pods"]);
    setting.register("mutating", "m", json!([webhook])).await;
    let pod = json!({"metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}});
    let made = setting.done("POST /api/v1/namespaces/default/pods", &pod).await;
    assert_eq!(made["spec"]["restartPolicy"], "Always");
}

#[tokio::test]
async fn a_webhook_refuses_with_its_own_words() {
    let setting = Setting::start().await;
    let cases = [
        (
            "/deny",
            400,
            "",
            "admission webhook \"v.example.com\" denied the request without explanation",
        ),
        (
            "/deny-with-code",
            418,
            "Invalid",
            "admission webhook \"v.example.com\" denied the request: no coffee",
        ),
        (
            "/deny-with-reason",
            400,
            "Forbidden",
            "admission webhook \"v.example.com\" denied the request: Forbidden",
        ),
        (
            "/deny-in-own-words",
            422,
            "TooPurple",
            "admission webhook \"v.example.com\" denied the request: m",
        ),
    ];
    for kind in ["validating", "mutating"] {
        for (path, code, reason, message) in cases {
            // A refusal is an answer; nobody may ignore it.
            let policy = json!({"failurePolicy": "Ignore"});
            let webhook = setting.webhook.of("v", path, policy);
            setting.register(kind, "c", json!([webhook])).await;
            let answer = setting.ask(&format!("POST {MAPS}"), &map("x")).await;
            assert_eq!((answer.code, answer.message()), (code, message));
            assert_eq!(answer.body["reason"].as_str().unwrap_or_default(), reason);
            setting.unregister(kind, "c").await;
        }
    }
    let left = setting.ask(&format!("GET {MAPS}/x"), &Value::Null).await;
    assert_eq!(left.code, 404);
}

#[tokio::test]
async fn warnings_reach_the_client_once() {
    let setting = Setting::start().await;
    let webhook = setting.webhook.of("w", "/warn", json!({}));
    setting.register("validating", "c", json!([webhook])).await;
    let answer = setting.ask(&format!("POST {MAPS}"), &map("x")).await;
    assert_eq!(answer.warnings, ["299 - \"be careful\"", "299 - \"twice\""]);
}

#[tokio::test]
async fn mutating_webhooks_follow_each_other_and_are_asked_again_if_need_be() {
    let setting = Setting::start().await;
    let of = |name: &str, path: &str, again: &str| {
        setting.webhook.of(name, path, json!({"reinvocationPolicy": again}))
    };
    // By the name of the configuration, then by place; not by when they were registered.
    let late = json!([of("b", "/label-b", "IfNeeded")]);
    setting.register("mutating", "second", late).await;
    let early = json!([of("x", "/allow", "Never"), of("a", "/count-a", "IfNeeded")]);
    setting.register("mutating", "first", early).await;
    let made = setting.done(&format!("POST {MAPS}"), &map("x")).await;
    // The first is asked once more since the second changed the object, and the second since the
    // first changed it once more. There is no third round.
    let asked = ["/allow", "/count-a", "/label-b", "/count-a", "/label-b"];
    assert_eq!(setting.webhook.paths(), asked);
    assert_eq!(made["metadata"]["labels"], json!({"a": "2", "b": "1"}));
}

#[tokio::test]
async fn the_first_of_several_refusals_is_answered_and_all_are_asked() {
    let setting = Setting::start().await;
    let all = json!([
        setting.webhook.of("a", "/allow", json!({})),
        setting.webhook.of("b", "/deny", json!({})),
        setting.webhook.of("c", "/deny-with-code", json!({})),
    ]);
    setting.register("validating", "v", all).await;
    for _ in 0..3 {
        let (code, message) = setting.refused(&format!("POST {MAPS}"), &map("x")).await;
        assert_eq!(code, 400);
        assert!(message.contains("b.example.com"), "{message}");
    }
    assert_eq!(setting.webhook.notes().len(), 9);
}

#[tokio::test]
async fn updates_and_deletions_show_what_was_there_before() {
    let setting = Setting::start().await;
    setting.done(&format!("POST {MAPS}"), &map("x")).await;
    let allow = setting.webhook.of("a", "/allow", json!({}));
    setting.register("validating", "v", json!([allow])).await;
    let change = json!({"data": {"a": "2"}});
    setting.done(&format!("PATCH {MAPS}/x?fieldManager=me"), &change).await;
    setting.done(&format!("DELETE {MAPS}/x"), &json!({"gracePeriodSeconds": 0})).await;
    let notes = setting.webhook.notes();
    let [update, delete] = [&notes[0]["review"]["request"], &notes[1]["review"]["request"]];
    assert_eq!(update["operation"], "UPDATE");
    assert_eq!(update["object"]["data"]["a"], "2");
    assert_eq!(update["oldObject"]["data"]["a"], "1");
    let options = json!({"kind": "PatchOptions", "apiVersion": "meta.k8s.io/v1",
        "fieldManager": "me"});
    assert_eq!(update["options"], options);
    assert_eq!(delete["operation"], "DELETE");
    assert_eq!(delete["object"], Value::Null);
    assert_eq!(delete["oldObject"]["data"]["a"], "2");
    assert_eq!(delete["options"]["kind"], "DeleteOptions");
    assert_eq!(delete["options"]["gracePeriodSeconds"], 0);
    setting.unregister("validating", "v").await;

    setting.done(&format!("POST {MAPS}"), &map("y")).await;
    let patch = setting.webhook.of("p", "/patch-of-nothing", json!({}));
    setting.register("mutating", "m", json!([patch])).await;
    let (code, message) = setting.refused(&format!("DELETE {MAPS}/y"), &Value::Null).await;
    assert_eq!(code, 500);
    assert_eq!(
        message,
        "Internal error occurred: admission webhook \"p.example.com\" attempted to modify the \
         object, which is not supported for this operation"
    );
}

#[tokio::test]
async fn selectors_and_conditions_say_who_is_asked() {
    let setting = Setting::start().await;
    let namespace = json!({"metadata": {"name": "watched", "labels": {"watch": "yes"}}});
    setting.done("POST /api/v1/namespaces", &namespace).await;
    let selects = |value: &str| json!({"matchLabels": {"watch": value}});
    let condition = |text: &str| json!([{"name": "c", "expression": text}]);
    let all = json!([
        setting.webhook.of("a", "/allow", json!({"namespaceSelector": selects("yes")})),
        setting.webhook.of("b", "/deny", json!({"objectSelector": selects("object")})),
        setting.webhook.of(
            "c",
            "/deny-with-code",
            json!({"matchConditions":
            condition("object != null && object.data.a == 'refused' && \
                request.userInfo.username == 'root' && \
                authorizer.requestResource.check('update').allowed()")})
        ),
    ]);
    setting.register("validating", "v", all).await;
    setting.done(&format!("POST {MAPS}"), &map("x")).await;
    assert_eq!(setting.webhook.paths(), [] as [&str; 0]);
    setting.done("POST /api/v1/namespaces/watched/configmaps", &map("x")).await;
    assert_eq!(setting.webhook.paths(), ["/allow"]);
    setting.webhook.forget();
    let mut selected = map("y");
    selected["metadata"]["labels"] = json!({"watch": "object"});
    setting.refused(&format!("POST {MAPS}"), &selected).await;
    assert_eq!(setting.webhook.paths(), ["/deny"]);
    setting.webhook.forget();
    let mut refused = map("y");
    refused["data"]["a"] = json!("refused");
    let (code, _) = setting.refused(&format!("POST {MAPS}"), &refused).await;
    assert_eq!((code, setting.webhook.paths()), (418, vec!["/deny-with-code".to_owned()]));
    // What has no such field cannot be decided.
    let (code, message) = setting
        .refused(
            &format!("PUT {MAPS}/x"),
            &json!({"metadata":
        {"name": "x"}, "binaryData": {}}),
        )
        .await;
    assert_eq!(code, 403);
    assert!(message.starts_with("configmaps \"x\" is forbidden: expression 'object"), "{message}");
}

#[tokio::test]
async fn subresources_are_shown_as_what_they_are() {
    let setting = Setting::start().await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = json!({"metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    setting.done(&format!("POST {deployments}"), &deployment).await;
    let rules = |resource: &str| {
        json!({"rules": [{"operations": ["*"], "apiGroups": ["apps"],
        "apiVersions": ["*"], "resources": [resource]}]})
    };
    let all = json!([
        setting.webhook.of("s", "/replicas", rules("deployments/scale")),
        setting.webhook.of("t", "/label-a", rules("deployments/status")),
    ]);
    setting.register("mutating", "m", all).await;
    let change = json!({"spec": {"replicas": 3}});
    let scaled = setting.done(&format!("PATCH {deployments}/d/scale"), &change).await;
    assert_eq!(scaled["spec"]["replicas"], 5);
    let request = &setting.webhook.notes()[0]["review"]["request"];
    let kind = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
    assert_eq!(request["kind"], kind);
    assert_eq!(request["subResource"], "scale");
    assert_eq!(request["object"]["spec"], json!({"replicas": 3}));
    assert_eq!(request["oldObject"]["spec"], json!({"replicas": 1}));
    let status = json!({"status": {"replicas": 5}});
    let changed = setting.done(&format!("PATCH {deployments}/d/status"), &status).await;
    assert_eq!(changed["status"]["replicas"], 5);
    let request = &setting.webhook.notes()[1]["review"]["request"];
    assert_eq!(request["kind"]["kind"], "Deployment");
    assert_eq!(request["requestSubResource"], "status");
    setting.done(&format!("PATCH {deployments}/d"), &json!({"spec": {"paused": true}})).await;
    assert_eq!(setting.webhook.notes().len(), 2);
}

#[tokio::test]
async fn an_equivalent_version_is_shown_in_the_version_that_the_rules_name() {
    let setting = Setting::start().await;
    let rules = json!([{"operations": ["CREATE"], "apiGroups": ["autoscaling"],
        "apiVersions": ["v2"], "resources": ["horizontalpodautoscalers"]}]);
    let all = json!([
        setting.webhook.of("e", "/label-a", json!({"rules": rules})),
        setting.webhook.of("x", "/deny", json!({"rules": rules, "matchPolicy": "Exact"})),
    ]);
    setting.register("mutating", "m", all).await;
    let autoscaler = json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 3,
        "targetCPUUtilizationPercentage": 70,
        "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}}});
    let path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    let made = setting.done(&format!("POST {path}"), &autoscaler).await;
    assert_eq!(made["apiVersion"], "autoscaling/v1");
    assert_eq!(made["spec"]["targetCPUUtilizationPercentage"], 70);
    assert_eq!(made["metadata"]["labels"], json!({"a": "1"}));
    let request = &setting.webhook.notes()[0]["review"]["request"];
    assert_eq!(request["kind"]["version"], "v2");
    assert_eq!(request["requestKind"]["version"], "v1");
    assert_eq!(request["object"]["apiVersion"], "autoscaling/v2");
    assert!(request["object"]["spec"]["metrics"].is_array());
}

#[tokio::test]
async fn owners_that_a_webhook_breaks_are_as_they_were() {
    let setting = Setting::start().await;
    let webhook = setting.webhook.of("a", "/break-owners", json!({}));
    setting.register("mutating", "m", json!([webhook])).await;
    let answer = setting.ask(&format!("POST {MAPS}?fieldManager=me"), &map("x")).await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    assert_eq!(answer.body["data"], json!({"a": "1", "hook": "was here"}));
    let owners = &answer.body["metadata"]["managedFields"];
    assert_eq!(owners[0]["manager"], "me");
    assert_eq!(owners[0]["fieldsV1"], json!({"f:data": {".": {}, "f:a": {}}}));
    let text = ".metadata.managedFields was in an invalid state after admission; this could be \
                caused by an outdated mutating admission controller; please fix your requests: ";
    let [warning] = answer.warnings.as_slice() else { panic!("{:?}", answer.warnings) };
    assert!(warning.contains(text), "{warning}");
}

/// Nothing is held while webhooks are asked: they may read and write what is being written about,
/// and are asked about that as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_may_ask_the_server_before_it_answers() {
    let mut setting = Setting::start().await;
    setting.serve().await;
    let hard = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "100"}}});
    setting.done("POST /api/v1/namespaces/default/resourcequotas", &hard).await;
    for kind in ["mutating", "validating"] {
        let webhook = setting.webhook.of("c", "/call-back", json!({"timeoutSeconds": 10}));
        setting.register(kind, "c", json!([webhook])).await;
        setting.done(&format!("POST {MAPS}"), &map(kind)).await;
        setting.done(&format!("GET {MAPS}/made-{kind}"), &Value::Null).await;
        let change = json!({"data": {"b": "2"}});
        setting.done(&format!("DELETE {MAPS}/made-{kind}"), &Value::Null).await;
        setting.done(&format!("PATCH {MAPS}/{kind}"), &change).await;
        setting.done(&format!("GET {MAPS}/made-{kind}"), &Value::Null).await;
        setting.unregister(kind, "c").await;
    }
}
