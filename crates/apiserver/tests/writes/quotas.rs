//! Quotas under many writers, and in the words users know.

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::api::{ADMIN, Api, pod};

const NAMESPACE: &str = "/api/v1/namespaces/default";
const PODS: &str = "/api/v1/namespaces/default/pods";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

async fn quota(api: &Api, name: &str, spec: Value) {
    let quota = json!({"metadata": {"name": name}, "spec": spec});
    api.admin(&format!("POST {QUOTAS}"), quota).await;
}

async fn used(api: &Api, name: &str) -> Value {
    api.admin(&format!("GET {QUOTAS}/{name}"), Value::Null).await["status"]["used"].clone()
}

#[tokio::test]
async fn many_writers_never_use_more_than_a_quota_allows() {
    let (api, _scratch) = Api::start().await;
    let api = std::sync::Arc::new(api);
    api.admin(&format!("POST {PODS}"), pod("before", json!({}))).await;
    quota(&api, "q", json!({"hard": {"pods": "10", "count/pods": "100"}})).await;
    let mut writers = JoinSet::new();
    for number in 0..40 {
        let api = api.clone();
        writers.spawn(async move {
            let body = pod(&format!("p{number}"), json!({}));
            api.ask(ADMIN, &format!("POST {PODS}"), &body).await
        });
    }
    let answers = writers.join_all().await;
    let made = answers.iter().filter(|(code, _)| *code == 201).count();
    assert_eq!(made, 9, "the one before counts");
    for (code, answer) in answers.iter().filter(|(code, _)| *code != 201) {
        assert_eq!(*code, 403);
        let message = answer["message"].as_str().unwrap();
        let why = "exceeded quota: q, requested: pods=1, used: pods=10, limited: pods=10";
        assert!(message.ends_with(why), "{message}");
    }
    assert_eq!(used(&api, "q").await, json!({"pods": "10", "count/pods": "10"}));

    api.admin(&format!("DELETE {PODS}/before"), Value::Null).await;
    assert_eq!(used(&api, "q").await["pods"], "9");
    let line = format!("POST {PODS}?dryRun=All");
    api.admin(&line, pod("dry", json!({}))).await;
    assert_eq!(used(&api, "q").await["pods"], "9", "a dry run uses nothing");
    // One that is over uses nothing of the machine, but it is still there.
    let (_, list) = api.ask(ADMIN, &format!("GET {PODS}"), &Value::Null).await;
    let name = list["items"][0]["metadata"]["name"].as_str().unwrap();
    let line = format!("PATCH {PODS}/{name}/status");
    api.admin(&line, json!({"status": {"phase": "Succeeded"}})).await;
    assert_eq!(used(&api, "q").await, json!({"pods": "8", "count/pods": "9"}));
    api.admin(&format!("DELETE {PODS}"), Value::Null).await;
    assert_eq!(used(&api, "q").await, json!({"pods": "0", "count/pods": "0"}));
}

#[tokio::test]
async fn everything_that_is_counted_is_refused_when_it_is_too_much() {
    let (api, _scratch) = Api::start().await;
    quota(
        &api,
        "q",
        json!({"hard": {"requests.cpu": "1", "limits.memory": "1Gi", "services.nodeports": "1",
            "services.loadbalancers": "0", "requests.storage": "2Gi", "count/configmaps": "1",
            "count/deployments.apps": "0"}}),
    )
    .await;
    let resources = |cpu: &str, memory: &str| {
        json!({"containers": [{"name": "c", "image": "i", "resources": {
            "requests": {"cpu": cpu}, "limits": {"memory": memory}}}]})
    };
    let service = |kind: &str, ports: &[u16]| {
        let ports: Vec<Value> =
            ports.iter().map(|port| json!({"name": format!("p{port}"), "port": port})).collect();
        json!({"metadata": {"name": "s"}, "spec": {"type": kind, "ports": ports}})
    };
    let claim = |size: &str| {
        json!({"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}}}})
    };
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod("", json!({}))["spec"]});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let apps = "/apis/apps/v1/namespaces/default";
    let steps: Vec<(String, Value, &str)> = vec![
        (
            format!("POST {PODS}"),
            pod("p", json!({})),
            "failed quota: q: must specify limits.memory for: c; requests.cpu for: c",
        ),
        (format!("POST {PODS}"), pod("p", resources("600m", "512Mi")), ""),
        (
            format!("POST {PODS}"),
            pod("r", resources("500m", "1Gi")),
            "exceeded quota: q, requested: limits.memory=1Gi,requests.cpu=500m, used: \
             limits.memory=512Mi,requests.cpu=600m, limited: limits.memory=1Gi,requests.cpu=1",
        ),
        (format!("POST {NAMESPACE}/services"), service("ClusterIP", &[1, 2]), ""),
        (
            format!("PATCH {NAMESPACE}/services/s"),
            json!({"spec": {"type": "NodePort"}}),
            "exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=0, \
             limited: services.nodeports=1",
        ),
        (
            format!("PUT {NAMESPACE}/services/s"),
            service("LoadBalancer", &[1]),
            "exceeded quota: q, requested: services.loadbalancers=1, used: \
             services.loadbalancers=0, limited: services.loadbalancers=0",
        ),
        (format!("POST {NAMESPACE}/persistentvolumeclaims"), claim("1Gi"), ""),
        (format!("POST {NAMESPACE}/configmaps"), json!({"metadata": {"name": "one"}}), ""),
        (
            format!("POST {NAMESPACE}/configmaps"),
            json!({"metadata": {"name": "two"}}),
            "exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=1, limited: \
             count/configmaps=1",
        ),
        (format!("DELETE {NAMESPACE}/configmaps/one"), Value::Null, ""),
        (format!("POST {NAMESPACE}/configmaps"), json!({"metadata": {"name": "two"}}), ""),
        (
            format!("POST {apps}/deployments"),
            deployment,
            "exceeded quota: q, requested: count/deployments.apps=1, used: \
             count/deployments.apps=0, limited: count/deployments.apps=0",
        ),
    ];
    for (line, body, why) in steps {
        let (code, answer) = api.ask(ADMIN, &line, &body).await;
        match why {
            "" => assert!((200..300).contains(&code), "{line}: {answer}"),
            why => {
                let message = answer["message"].as_str().unwrap_or_default();
                assert!(code == 403 && message.ends_with(why), "{line}: {code} {message}");
            }
        }
    }
    let expected = json!({"requests.cpu": "600m", "limits.memory": "512Mi",
        "services.nodeports": "0", "services.loadbalancers": "0", "requests.storage": "1Gi",
        "count/configmaps": "1", "count/deployments.apps": "0"});
    assert_eq!(used(&api, "q").await, expected);
}

#[tokio::test]
async fn a_quota_with_a_scope_counts_its_pods_alone() {
    let (api, _scratch) = Api::start().await;
    quota(&api, "best", json!({"hard": {"pods": "1"}, "scopes": ["BestEffort"]})).await;
    quota(&api, "rest", json!({"hard": {"pods": "1"}, "scopes": ["NotBestEffort"]})).await;
    let busy = json!({"containers": [{"name": "c", "image": "i",
        "resources": {"requests": {"cpu": "1"}}}]});
    api.admin(&format!("POST {PODS}"), pod("a", json!({}))).await;
    api.admin(&format!("POST {PODS}"), pod("b", busy)).await;
    let (_, message) = api.refused(&format!("POST {PODS}"), pod("c", json!({}))).await;
    let why = "exceeded quota: best, requested: pods=1, used: pods=1, limited: pods=1";
    assert_eq!(message, format!("pods \"c\" is forbidden: {why}"));
    assert_eq!(used(&api, "rest").await, json!({"pods": "1"}));
}
