//! Webhooks that give no answer, or one that is none, and what then becomes of the write.

use serde_json::{Value, json};

use crate::setting::{MAPS, Setting, map};

/// What clients are told when a call fails.
async fn failure(setting: &Setting, kind: &str, webhook: Value) -> (u16, String) {
    setting.register(kind, "c", json!([webhook])).await;
    let refused = setting.refused(&format!("POST {MAPS}"), &map("x")).await;
    setting.unregister(kind, "c").await;
    refused
}

#[tokio::test]
async fn a_failed_call_is_told_exactly() {
    let setting = Setting::start().await;
    let port = setting.webhook.port;
    let url = |path: &str| format!("Post \"https://localhost:{port}{path}?timeout=10s\"");
    let called = |why: &str| format!("failed to call webhook: {why}");
    let cases = [
        (
            "/fail",
            called(
                "an error on the server (\"out of order\") has prevented the request from \
                    succeeding",
            ),
        ),
        ("/nowhere", called("the server could not find the requested resource")),
        (
            "/redirect",
            called("the webhook answered 307 Temporary Redirect, and redirects are not followed"),
        ),
        (
            "/too-long",
            called(&format!("{}: the answer is larger than 16777216 bytes", url("/too-long"))),
        ),
        ("/no-response", "webhook response was absent".to_owned()),
        (
            "/wrong-kind",
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got \
             admission.k8s.io/v1, Kind=Other"
                .to_owned(),
        ),
        ("/no-patch-type", "webhook returned response.patch but not response.patchType".to_owned()),
    ];
    for (path, why) in cases {
        let webhook = setting.webhook.of("f", path, json!({}));
        let (code, message) = failure(&setting, "mutating", webhook).await;
        let expected =
            format!("Internal error occurred: failed calling webhook \"f.example.com\": {why}");
        assert_eq!((code, message), (500, expected));
    }
    assert!(!setting.webhook.paths().contains(&"/allow".to_owned()), "a redirect was followed");
    for (path, why) in [
        ("/not-json", "failed to call webhook: couldn't get version/kind; json parse error: "),
        ("/wrong-uid", "expected response.uid="),
    ] {
        let webhook = setting.webhook.of("f", path, json!({}));
        let (code, message) = failure(&setting, "validating", webhook).await;
        let expected =
            format!("Internal error occurred: failed calling webhook \"f.example.com\": {why}");
        assert_eq!(code, 500);
        assert!(message.starts_with(&expected), "{message}");
    }
}

#[tokio::test]
async fn a_bad_patch_is_an_error_whatever_the_policy() {
    let setting = Setting::start().await;
    for (path, code, text) in [
        ("/bad-patch", 500, "Internal error occurred: "),
        ("/bad-type", 500, "Internal error occurred: "),
        (
            "/rename",
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ] {
        let webhook = setting.webhook.of("f", path, json!({"failurePolicy": "Ignore"}));
        let (found, message) = failure(&setting, "mutating", webhook).await;
        assert_eq!(found, code, "{message}");
        assert!(message.starts_with(text), "{message}");
    }
}

#[tokio::test]
async fn a_slow_webhook_is_not_waited_for() {
    let setting = Setting::start().await;
    let webhook = setting.webhook.of("s", "/slow", json!({"timeoutSeconds": 1}));
    let (code, message) = failure(&setting, "validating", webhook).await;
    let expected = format!(
        "Internal error occurred: failed calling webhook \"s.example.com\": failed to call \
         webhook: Post \"https://localhost:{}/slow?timeout=1s\": context deadline exceeded",
        setting.webhook.port
    );
    assert_eq!((code, message), (500, expected));
}

#[tokio::test]
async fn a_certificate_must_hold() {
    let setting = Setting::start().await;
    let port = setting.webhook.port;
    // Believed by the system at most, which does not know it.
    let mut stranger = setting.webhook.of("t", "/allow", json!({}));
    stranger["clientConfig"]["caBundle"] = Value::Null;
    let mut misnamed = setting.webhook.of("t", "/allow", json!({}));
    misnamed["clientConfig"]["url"] = json!(format!("https://127.0.0.1:{port}/allow"));
    for (webhook, why) in [
        (stranger, "certificate signed by unknown authority"),
        (misnamed, "certificate is valid for localhost, hook.default.svc, not 127.0.0.1"),
    ] {
        let (code, message) = failure(&setting, "validating", webhook).await;
        assert_eq!(code, 500);
        let end = format!(": tls: failed to verify certificate: x509: {why}");
        assert!(message.ends_with(&end), "{message}");
    }
    assert_eq!(setting.webhook.notes().len(), 0);
}

#[tokio::test]
async fn failures_may_be_ignored() {
    let setting = Setting::start().await;
    let ignore = |path: &str| setting.webhook.of("i", path, json!({"failurePolicy": "Ignore"}));
    let mut nobody = ignore("/allow");
    // A port of the machine where nobody listens.
    nobody["clientConfig"]["url"] = json!("https://localhost:1/allow");
    let cases = [ignore("/fail"), ignore("/not-json"), ignore("/wrong-uid"), nobody.clone()];
    for (index, webhook) in cases.into_iter().enumerate() {
        for kind in ["mutating", "validating"] {
            setting.register(kind, "c", json!([webhook])).await;
            setting.done(&format!("POST {MAPS}"), &map(&format!("{kind}-{index}"))).await;
            setting.unregister(kind, "c").await;
        }
    }
    nobody["failurePolicy"] = json!("Fail");
    let (code, message) = failure(&setting, "validating", nobody).await;
    assert_eq!(code, 500);
    assert!(message.contains("dial tcp ") && message.ends_with(": connect: connection refused"));
}

#[tokio::test]
async fn a_dry_run_is_shown_only_to_webhooks_without_side_effects() {
    let setting = Setting::start().await;
    let line = format!("POST {MAPS}?dryRun=All");
    let webhook = setting.webhook.of("d", "/allow", json!({"sideEffects": "NoneOnDryRun"}));
    setting.register("validating", "c", json!([webhook])).await;
    setting.done(&line, &map("x")).await;
    let request = &setting.webhook.notes()[0]["review"]["request"];
    assert_eq!(request["dryRun"], true);
    assert_eq!(request["options"]["dryRun"], json!(["All"]));
    // Others cannot be registered today; one from before is refused without being asked.
    let webhook = setting.webhook.of("d", "/allow", json!({"sideEffects": "Some"}));
    let body = json!({"metadata": {"name": "o"}, "webhooks": [webhook]});
    let path = crate::setting::configurations("validating");
    let (code, message) = setting.refused(&format!("POST {path}"), &body).await;
    assert_eq!(code, 422);
    assert!(message.contains("webhooks[0].sideEffects: Unsupported value: \"Some\""), "{message}");
}

#[tokio::test]
async fn configurations_are_never_shown_to_webhooks() {
    let setting = Setting::start().await;
    let rules = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"],
        "resources": ["*/*"]}]);
    let webhook = setting.webhook.of("d", "/deny", json!({"rules": rules}));
    setting.register("validating", "c", json!([webhook])).await;
    setting.refused(&format!("POST {MAPS}"), &map("x")).await;
    setting.refused("POST /api/v1/namespaces", &json!({"metadata": {"name": "n"}})).await;
    setting.unregister("validating", "c").await;
    setting.done(&format!("POST {MAPS}"), &map("x")).await;
}
