//! Earlier specifications, written again.

use serde_json::{Value, json};

use crate::api::{ADMIN, Api, pod};
use crate::{PODS, ROOT, SETS, deployment, revision};

#[tokio::test]
async fn a_bad_edit_is_undone_as_a_new_revision() {
    let (api, _scratch) = Api::start().await;
    let made = api.admin(&format!("POST {SETS}"), deployment("web", 2, "good")).await;
    let bad = json!({"metadata": {"labels": {"app": "web", "x": "y"}},
        "spec": {"replicas": 0,
            "template": {"spec": {"containers": [{"name": "web", "image": "bad"}]}}}});
    let edited = api.admin(&format!("PATCH {SETS}/web"), bad).await;
    // What controllers report meanwhile is not what somebody wanted.
    let status = json!({"status": {"observedGeneration": 2}});
    api.admin(&format!("PATCH {SETS}/web/status"), status).await;
    let undo = format!("POST {ROOT}/undo{SETS}/web");
    let would = api.admin(&format!("{undo}?dryRun=All"), Value::Null).await;
    let paths: Vec<&str> = would["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| change["path"].as_str().unwrap())
        .collect();
    assert_eq!(
        paths,
        ["metadata.labels.x", "spec.replicas", "spec.template.spec.containers[web].image"]
    );
    let still = api.admin(&format!("GET {SETS}/web"), Value::Null).await;
    assert_eq!(still["spec"], edited["spec"]);
    let undone = api.admin(&undo, Value::Null).await;
    assert!(revision(&undone) > revision(&edited));
    assert_eq!(undone["spec"], made["spec"]);
    assert_eq!(undone["metadata"]["labels"], made["metadata"]["labels"]);
    assert_eq!(undone["status"]["observedGeneration"], 2);
    let told = api.admin(&format!("GET {ROOT}/revisions{SETS}/web"), Value::Null).await;
    assert_eq!(told["items"][0]["manager"], "setpoint-undo");
    assert_eq!(told["items"].as_array().unwrap().len(), 4);
    let to = revision(&edited);
    let again = api.admin(&format!("{undo}?to={to}"), Value::Null).await;
    assert_eq!(again["spec"]["replicas"], 0);
}

#[tokio::test]
async fn what_cannot_be_undone_says_why_and_changes_nothing() {
    let (api, _scratch) = Api::start().await;
    let undo = |path: &str| format!("POST {ROOT}/undo{path}");
    let path = format!("{PODS}/p");
    let (code, _) = api.refused(&undo(&path), Value::Null).await;
    assert_eq!(code, 404);
    api.admin(&format!("POST {PODS}"), pod("p", json!({}))).await;
    let (code, why) = api.refused(&undo(&path), Value::Null).await;
    assert!(code == 400 && why.contains("no earlier form"), "{code} {why}");
    // Another object of the same name: what it was cannot be changed in place.
    let first = api.admin(&format!("GET {path}"), Value::Null).await;
    api.admin(&format!("DELETE {path}"), json!({"gracePeriodSeconds": 0})).await;
    let (code, why) = api.refused(&undo(&path), Value::Null).await;
    assert!(code == 404 && why.contains("deleted at revision") && why.contains("--at"), "{why}");
    let other = json!({"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]});
    let now = api.admin(&format!("POST {PODS}"), pod("p", other)).await;
    let to = revision(&first);
    let (code, why) = api.refused(&format!("{}?to={to}", undo(&path)), Value::Null).await;
    assert!(code == 422 && why.contains("could not be written back"), "{code} {why}");
    assert!(why.contains("delete this one"), "{why}");
    assert_eq!(api.admin(&format!("GET {path}"), Value::Null).await, now);
    let (code, why) = api.refused(&format!("{}?to=1", undo(&path)), Value::Null).await;
    assert!(code == 404 && why.contains("at revision 1"), "{code} {why}");
    assert_eq!(api.refused(&format!("{}?to=x", undo(&path)), Value::Null).await.0, 400);
    let (code, _) = api.ask(ADMIN, &format!("GET {ROOT}/undo{path}"), &Value::Null).await;
    assert_eq!(code, 405);
}
