//! Changes with their causes, traces of them, and plans.

use serde_json::{Value, json};

use crate::api::{ADMIN, Api, pod};
use crate::{PODS, ROOT, SETS, deployment, revision};

/// A deployment whose pod was made, placed and started, as the components would.
async fn seeded(api: &Api) -> u64 {
    let set = api.admin(&format!("POST {SETS}"), deployment("web", 1, "i")).await;
    let cause = revision(&set).to_string();
    let mut child = pod("web-1", json!({}));
    child["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment",
        "name": "web", "uid": set["metadata"]["uid"], "controller": true}]);
    let line = format!("POST {PODS}");
    let says = [("x-setpoint-cause", cause.as_str()), ("user-agent", "deployment-controller/1")];
    let (code, made) = api.ask_saying(&line, &says, &child).await;
    assert_eq!(code, 201, "{made}");
    let binding = json!({"metadata": {"name": "web-1"}, "target": {"kind": "Node", "name": "n1"}});
    api.admin(&format!("POST {PODS}/web-1/binding"), binding).await;
    let event = json!({"metadata": {"name": "web-1.1"}, "type": "Normal", "reason": "Started",
        "message": "Started container c", "source": {"component": "kubelet"}, "count": 1,
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "default",
            "name": "web-1", "uid": made["metadata"]["uid"]}});
    api.admin("POST /api/v1/namespaces/default/events", event).await;
    let status = json!({"status": {"phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "c", "image": "i", "imageID": "i", "ready": true,
            "restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]}});
    api.admin(&format!("PATCH {PODS}/web-1/status"), status).await;
    revision(&set)
}

fn sentences(trace: &Value) -> Vec<String> {
    let step = |step: &Value| {
        let object = &step["object"];
        let depth = step["depth"].as_u64().unwrap();
        format!(
            "{depth} {}: {}",
            object["kind"].as_str().unwrap(),
            step["sentence"].as_str().unwrap()
        )
    };
    trace["steps"].as_array().unwrap().iter().map(step).collect()
}

#[tokio::test]
async fn a_trace_leads_from_the_wish_to_what_runs() {
    let (api, _scratch) = Api::start().await;
    let cause = seeded(&api).await;
    let trace = api.admin(&format!("GET {ROOT}/why{PODS}/web-1"), Value::Null).await;
    assert_eq!(trace["state"], "Running", "{trace}");
    assert_eq!(trace["sentence"], "Pod web-1 runs on n1");
    assert_eq!(
        sentences(&trace),
        [
            "0 Deployment: root created Deployment web",
            "1 Pod: root (deployment-controller) created Pod web-1",
            "1 Pod: root placed it on node n1; PodScheduled became True",
            "1 Pod: Started: Started container c",
            "1 Pod: its phase became Running; Ready became True; container c runs",
        ]
    );
    assert_eq!(trace["steps"][1]["cause"], cause);
    let above = api.admin(&format!("GET {ROOT}/why{SETS}/web"), Value::Null).await;
    assert_eq!(sentences(&above).len(), 5);
    assert_eq!(above["state"], "Waiting", "no controller reports its status");
    let told = api.admin(&format!("GET {ROOT}/revisions{PODS}/web-1"), Value::Null).await;
    let first = told["items"].as_array().unwrap().last().unwrap();
    assert_eq!(first["cause"]["revision"], cause);
    assert_eq!(first["cause"]["object"]["kind"], "Deployment");
    assert_eq!(first["manager"], "deployment-controller");
    let events = api.admin(&format!("GET {ROOT}/events{PODS}/web-1"), Value::Null).await;
    assert_eq!(events["items"][0]["reason"], "Started");
}

#[tokio::test]
async fn events_and_traces_outlive_their_objects() {
    let (api, _scratch) = Api::start().await;
    seeded(&api).await;
    api.admin("DELETE /api/v1/namespaces/default/events/web-1.1", Value::Null).await;
    api.admin(&format!("DELETE {PODS}/web-1"), json!({"gracePeriodSeconds": 0})).await;
    let events = api.admin(&format!("GET {ROOT}/events{PODS}/web-1"), Value::Null).await;
    assert_eq!(events["items"].as_array().unwrap().len(), 1);
    let trace = api.admin(&format!("GET {ROOT}/why{PODS}/web-1"), Value::Null).await;
    assert_eq!(trace["state"], "Finished");
    assert!(trace["sentence"].as_str().unwrap().contains("is deleted by root"), "{trace}");
    let (code, _) = api.ask(ADMIN, &format!("GET {ROOT}/why{PODS}/none"), &Value::Null).await;
    assert_eq!(code, 404);
}

#[tokio::test]
async fn revisions_are_told_in_pages_newest_first() {
    let (api, _scratch) = Api::start().await;
    api.admin(&format!("POST {SETS}"), deployment("web", 1, "i")).await;
    for replicas in 2..=6 {
        let change = json!({"spec": {"replicas": replicas}});
        api.admin(&format!("PATCH {SETS}/web"), change).await;
    }
    let mut told = Vec::new();
    let mut go_on = String::new();
    loop {
        let line = format!("GET {ROOT}/revisions{SETS}/web?limit=4&continue={go_on}");
        let page = api.admin(&line, Value::Null).await;
        for item in page["items"].as_array().unwrap() {
            told.push(match item["changes"][0]["to"].as_u64() {
                Some(to) => to.to_string(),
                None => item["type"].as_str().unwrap().to_owned(),
            });
        }
        go_on = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        if go_on.is_empty() {
            break;
        }
    }
    assert_eq!(told, ["6", "5", "4", "3", "2", "Created"]);
}

#[tokio::test]
async fn revisions_that_somebody_wanted_are_found_behind_those_of_the_status() {
    let (api, _scratch) = Api::start().await;
    api.admin(&format!("POST {SETS}"), deployment("web", 1, "i")).await;
    api.admin(&format!("PATCH {SETS}/web"), json!({"spec": {"replicas": 2}})).await;
    for replicas in 1..=5 {
        let status = json!({"status": {"observedGeneration": replicas}});
        api.admin(&format!("PATCH {SETS}/web/status"), status).await;
    }
    let line = format!("GET {ROOT}/revisions{SETS}/web?limit=1&only=wanted");
    let page = api.admin(&line, Value::Null).await;
    assert_eq!(page["items"][0]["changes"][0]["path"], "spec.replicas", "{page}");
    let go_on = page["metadata"]["continue"].as_str().unwrap();
    let rest = api.admin(&format!("{line}&continue={go_on}"), Value::Null).await;
    assert_eq!(rest["items"][0]["type"], "Created");
    assert!(rest["metadata"]["continue"].is_null());
    let line = format!("GET {ROOT}/revisions{SETS}/web?only=some");
    assert_eq!(api.ask(ADMIN, &line, &Value::Null).await.0, 400);
}

#[tokio::test]
async fn questions_about_a_moment_know_nothing_of_what_came_after_it() {
    let (api, _scratch) = Api::start().await;
    seeded(&api).await;
    let ask = async |what: &str, at: u64| {
        let line = format!("GET {ROOT}/{what}{PODS}/web-1?at={at}");
        api.ask(ADMIN, &line, &Value::Null).await
    };
    let all = api.admin(&format!("GET {ROOT}/revisions{PODS}/web-1"), Value::Null).await;
    let numbers = all["items"].as_array().unwrap().iter();
    let numbers: Vec<u64> = numbers.map(|one| one["revision"].as_u64().unwrap()).collect();
    let [.., placed, made] = numbers[..] else { panic!("{all}") };
    api.admin(&format!("DELETE {PODS}/web-1"), json!({"gracePeriodSeconds": 0})).await;
    let (_, told) = ask("revisions", placed).await;
    assert_eq!(told["items"].as_array().unwrap().len(), 2, "{told}");
    let (_, trace) = ask("why", made).await;
    assert_eq!(trace["sentence"], "Pod web-1 is Pending and not ready", "{trace}");
    assert_eq!(
        sentences(&trace),
        [
            "0 Deployment: root created Deployment web",
            "1 Pod: root (deployment-controller) created Pod web-1",
        ]
    );
    assert_eq!(ask("events", placed).await.1["items"].as_array().unwrap().len(), 0);
    let newest = api.server.store.revision().0;
    assert_eq!(ask("events", newest).await.1["items"].as_array().unwrap().len(), 1);
    for what in ["why", "revisions"] {
        assert_eq!(ask(what, made - 1).await.0, 404, "{what}");
    }
    assert_eq!(ask("why", newest + 100).await.0, 400);
}

#[tokio::test]
async fn a_plan_tells_what_would_change_and_changes_nothing() {
    let (api, _scratch) = Api::start().await;
    let typed = |mut object: Value, version: &str, kind: &str| {
        object["apiVersion"] = json!(version);
        object["kind"] = json!(kind);
        object
    };
    let set = typed(deployment("web", 1, "i"), "apps/v1", "Deployment");
    let plan = format!("POST {ROOT}/plan");
    let apply = format!("PATCH {SETS}/web?fieldManager=setpoint");
    let applied =
        api.ask_with(ADMIN, &apply, ("application/apply-patch+yaml", set.to_string())).await;
    assert_eq!(applied.0, 201);
    let before = api.server.store.revision();
    let mut changed = set.clone();
    changed["spec"]["replicas"] = json!(4);
    let new = typed(pod("p", json!({})), "v1", "Pod");
    let bad = typed(pod("Bad_Name", json!({})), "v1", "Pod");
    let unknown = json!({"apiVersion": "x/v1", "kind": "Y", "metadata": {"name": "z"}});
    let list = json!({"kind": "List", "items": [set, changed, new, bad, unknown]});
    let (code, told) = api.ask(ADMIN, &plan, &list).await;
    assert_eq!(code, 200, "{told}");
    let actions = told["objects"].as_array().unwrap().iter();
    let actions: Vec<&str> = actions.map(|one| one["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["unchanged", "update", "create", "invalid", "invalid"]);
    let changes = &told["objects"][1]["changes"];
    assert_eq!(*changes, json!([{"path": "spec.replicas", "from": 1, "to": 4}]));
    assert_eq!(api.server.store.revision(), before);
    assert!(told["message"].as_str().unwrap().contains("no scheduler"));
    for body in ["", "a: [", "- 5"] {
        let refused = api.ask_with(ADMIN, &plan, ("application/yaml", body.to_owned())).await;
        assert_eq!(refused.0, 400, "{body}");
    }
}
