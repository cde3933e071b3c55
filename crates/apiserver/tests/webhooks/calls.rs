//! Where calls go: who may name the machine itself, Services, and connections that are used again.

use std::net::TcpListener;

use apiserver::identity::User;
use apiserver::persist;
use serde_json::{Value, json};
use store::{Commit, Environment, Key, Mutation, Operation, Precondition, Provenance, System};

use crate::setting::{MAPS, Setting, admin, configurations, map};

#[tokio::test]
async fn only_a_component_may_send_the_server_to_the_machine_itself() {
    let setting = Setting::start().await;
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    port.set_nonblocking(true).unwrap();
    let number = port.local_addr().unwrap().port();
    for host in ["localhost", "127.0.0.1", "2130706433", "0.0.0.0", "[::ffff:127.0.0.1]"] {
        let mut webhook = setting.webhook.of("u", "/allow", json!({}));
        webhook["clientConfig"]["url"] = json!(format!("https://{host}:{number}/allow"));
        // Whoever claims to be a component in the object or by impersonation is not believed.
        setting.register_as(admin(), "validating", "c", json!([webhook])).await;
        let (code, message) = setting.refused(&format!("POST {MAPS}"), &map("x")).await;
        assert_eq!(code, 500);
        let why = "addresses of this machine and its link are only for webhooks that a component \
                   of the cluster registered";
        assert!(message.contains(why), "{message}");
        setting.unregister("validating", "c").await;
    }
    assert!(port.accept().is_err(), "somebody called");
}

#[tokio::test]
async fn a_mark_that_somebody_writes_is_taken_off() {
    let setting = Setting::start().await;
    let path = configurations("validating");
    let mark = json!({"setpoint.io/written-by-component": "true"});
    let webhook = setting.webhook.of("u", "/allow", json!({}));
    let body = json!({"metadata": {"name": "c", "annotations": mark}, "webhooks": [webhook]});
    let made = setting.done(&format!("POST {path}"), &body).await;
    assert!(made["metadata"].get("annotations").is_none());
    let change = json!({"metadata": {"annotations": mark}});
    let changed = setting.done(&format!("PATCH {path}/c"), &change).await;
    assert!(changed["metadata"].get("annotations").is_none());
    setting.unregister("validating", "c").await;

    setting.register("validating", "c", json!([webhook])).await;
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let kept = setting.done(&format!("PATCH {path}/c"), &label).await;
    assert_eq!(kept["metadata"]["annotations"], mark);
    let mut other = webhook.clone();
    other["timeoutSeconds"] = json!(5);
    let lost = setting.done(&format!("PATCH {path}/c"), &json!({"webhooks": [other]})).await;
    assert!(lost["metadata"].get("annotations").is_none());
}

#[tokio::test]
async fn impersonation_makes_no_component() {
    let setting = Setting::start().await;
    let request = http::Request::post(configurations("validating"))
        .header("content-type", "application/json")
        .header("impersonate-user", "system:setpoint")
        .header("impersonate-group", "system:masters")
        .header("impersonate-extra-setpoint.io%2fcomponent", "true");
    let webhook = setting.webhook.of("u", "/allow", json!({}));
    let body = json!({"metadata": {"name": "c"}, "webhooks": [webhook]}).to_string();
    let request = request.body(http_body_util::Full::new(bytes::Bytes::from(body))).unwrap();
    let user = std::sync::Arc::new(User::authenticated("root", ["system:masters"]));
    let answer = setting.server.handle(request, Some(user)).await;
    assert_eq!(answer.status(), 201);
    let made = setting.done(&format!("GET {}/c", configurations("validating")), &Value::Null).await;
    assert!(made["metadata"].get("annotations").is_none());
}

/// Writes what no client may: an endpoint on the machine itself.
async fn put_slice(setting: &Setting, ready: bool) {
    let store = &setting.server.store;
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "hook-1", "namespace": "default",
            "labels": {"kubernetes.io/service-name": "hook"}},
        "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": ready}}],
        "ports": [{"name": "https", "port": setting.webhook.port, "protocol": "TCP"}],
    });
    let key = Key::new("endpointslices/default/hook-1".to_owned()).unwrap();
    let mutation = Mutation::Put(persist::encode(&slice, &[]));
    let when = match store.get(&key, None).await.unwrap() {
        Some(entry) => Precondition::At(entry.modified),
        None => Precondition::Absent,
    };
    let operations = vec![Operation { key, mutation, when }];
    let provenance = Provenance::of(System.now(), "test");
    store.commit(Commit { operations, epoch: None, provenance }).await.unwrap();
}

#[tokio::test]
async fn a_service_is_called_at_its_endpoints() {
    let setting = Setting::start().await;
    let mut webhook = setting.webhook.of("s", "/allow", json!({}));
    let bundle = &setting.webhook.bundle;
    let service = json!({"name": "hook", "namespace": "default", "path": "/allow", "port": 8443});
    webhook["clientConfig"] = json!({"service": service, "caBundle": bundle});
    setting.register("validating", "c", json!([webhook])).await;
    let line = format!("POST {MAPS}");
    let refused = |why: &str| {
        let url = "https://hook.default.svc:8443/allow?timeout=10s";
        let text = format!(
            "Internal error occurred: failed calling webhook \"s.example.com\": failed to call \
             webhook: Post \"{url}\": {why}"
        );
        (500, text)
    };
    assert_eq!(setting.refused(&line, &map("x")).await, refused("service \"hook\" not found"));
    let mut service = json!({"metadata": {"name": "hook"},
        "spec": {"ports": [{"name": "https", "port": 443}]}});
    let services = "/api/v1/namespaces/default/services";
    setting.done(&format!("POST {services}"), &service).await;
    let why = "no service port 8443 found for service \"hook\"";
    assert_eq!(setting.refused(&line, &map("x")).await, refused(why));
    service["spec"]["ports"][0]["port"] = json!(8443);
    setting.done(&format!("PATCH {services}/hook"), &service).await;
    let why = "no endpoints available for service \"hook\"";
    assert_eq!(setting.refused(&line, &map("x")).await, refused(why));
    put_slice(&setting, false).await;
    assert_eq!(setting.refused(&line, &map("x")).await, refused(why));
    put_slice(&setting, true).await;
    setting.done(&line, &map("x")).await;
    assert_eq!(setting.webhook.paths(), ["/allow"]);
    // The rule about the machine itself holds for Services too.
    setting.unregister("validating", "c").await;
    setting.register_as(admin(), "validating", "c", json!([webhook])).await;
    let (code, message) = setting.refused(&line, &map("y")).await;
    assert_eq!(code, 500);
    assert!(message.contains("addresses of this machine"), "{message}");
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let setting = Setting::start().await;
    let webhook = setting.webhook.of("r", "/allow", json!({}));
    setting.register("validating", "c", json!([webhook])).await;
    for index in 0..5 {
        setting.done(&format!("POST {MAPS}"), &map(&format!("m{index}"))).await;
    }
    let mut peers: Vec<_> = setting.webhook.notes().iter().map(|it| it["peer"].as_u64()).collect();
    assert_eq!(peers.len(), 5);
    peers.dedup();
    assert_eq!(peers.len(), 1, "each call had a connection of its own");
}

#[tokio::test]
async fn the_older_review_is_spoken_too() {
    let setting = Setting::start().await;
    let versions = json!({"admissionReviewVersions": ["v9", "v1beta1", "v1"]});
    // The older version never had to repeat the uid.
    let webhook = setting.webhook.of("b", "/wrong-uid", versions);
    setting.register("validating", "c", json!([webhook])).await;
    setting.done(&format!("POST {MAPS}"), &map("x")).await;
    let review = &setting.webhook.notes()[0]["review"];
    assert_eq!(review["apiVersion"], "admission.k8s.io/v1beta1");
}

#[tokio::test]
async fn configurations_that_cannot_work_are_refused() {
    let setting = Setting::start().await;
    let path = configurations("mutating");
    let cases = [
        ("timeoutSeconds", json!(31), "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout"),
        ("sideEffects", Value::Null, "webhooks[0].sideEffects: Required value: must specify one"),
        ("admissionReviewVersions", json!([]), "webhooks[0].admissionReviewVersions: Required"),
        (
            "clientConfig",
            json!({"url": "http://a.example"}),
            "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed \
             URL scheme; desired format: https://host[/path]",
        ),
        (
            "clientConfig",
            json!({"url": "https://a.example?x=y"}),
            "webhooks[0].clientConfig.url: Invalid value: \"x=y\": query parameters are not \
             permitted in the URL",
        ),
        (
            "clientConfig",
            json!({"url": "https://a.example", "caBundle": "AAAA"}),
            "unable to load root certificates: unable to parse bytes as PEM block",
        ),
        ("clientConfig", json!({}), "exactly one of url or service is required"),
        (
            "clientConfig",
            json!({"service": {"name": "s", "namespace": "n", "path": "/a//b"}}),
            "webhooks[0].clientConfig.service.path: Invalid value: \"/a//b\": segment[1] may not \
             be empty",
        ),
        (
            "matchConditions",
            json!([{"name": "c", "expression": "object.x +"}]),
            "webhooks[0].matchConditions[0].expression: Invalid value: \"object.x +\": \
             compilation failed: ERROR: <input>:1:",
        ),
        (
            "matchConditions",
            json!([{"name": "c", "expression": "'a'"}]),
            "webhooks[0].matchConditions[0].expression: Invalid value: \"'a'\": must evaluate to \
             bool",
        ),
        (
            "matchConditions",
            json!(vec![json!({"name": "c", "expression": "true"}); 65]),
            "webhooks[0].matchConditions: Too many: must have at most 64 items",
        ),
        (
            "matchConditions",
            json!(vec![json!({"name": "c", "expression": "true"}); 2]),
            "webhooks[0].matchConditions[1].name: Duplicate value: \"c\"",
        ),
        (
            "reinvocationPolicy",
            json!("Often"),
            "webhooks[0].reinvocationPolicy: Unsupported value: \"Often\": supported values: \
             \"IfNeeded\", \"Never\"",
        ),
    ];
    for (field, value, text) in cases {
        let webhook = setting.webhook.of("v", "/allow", json!({field: value}));
        let body = json!({"metadata": {"name": "c"}, "webhooks": [webhook]});
        let (code, message) = setting.refused(&format!("POST {path}"), &body).await;
        assert_eq!(code, 422, "{message}");
        assert!(message.contains(text), "{message}");
    }
}
