//! Conversion by another program.

use apiserver::webhooks::convert::{ConversionWebhook, convert};
use serde_json::{Value, json};

use crate::setting::Setting;

const WANTED: &str = "example.com/v2";

fn webhook(setting: &Setting, path: &str) -> ConversionWebhook {
    let definition = json!({
        "metadata": {"annotations": {"setpoint.io/written-by-component": "true"}},
        "spec": {"conversion": {"strategy": "Webhook", "webhook": {
            "clientConfig": setting.webhook.client(path),
            "conversionReviewVersions": ["v1"],
        }}},
    });
    ConversionWebhook::of(&definition).unwrap()
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "spec": {"size": 1},
        "metadata": {"name": name, "uid": "u", "namespace": "n", "generation": 2}})
}

async fn failure(setting: &Setting, path: &str) -> (u16, String) {
    let objects = vec![widget("a"), widget("b")];
    let error = convert(&setting.server, &webhook(setting, path), objects, WANTED).await;
    let error = error.unwrap_err();
    (error.code, error.message)
}

#[tokio::test]
async fn objects_come_back_in_order_in_the_other_version() {
    let setting = Setting::start().await;
    let many: Vec<Value> = (0..1_201).map(|index| widget(&format!("w{index}"))).collect();
    let made =
        convert(&setting.server, &webhook(&setting, "/convert"), many, WANTED).await.unwrap();
    assert_eq!(made.len(), 1_201);
    for (index, object) in made.iter().enumerate() {
        assert_eq!(object["metadata"]["name"], format!("w{index}"));
        assert_eq!(object["apiVersion"], WANTED);
        assert_eq!(object["spec"], json!({"converted": {"size": 1}}));
    }
    let notes = setting.webhook.notes();
    assert_eq!(notes.len(), 3, "no review is too long");
    assert_eq!(notes[0]["review"]["apiVersion"], "apiextensions.k8s.io/v1");
    assert_eq!(notes[0]["review"]["request"]["desiredAPIVersion"], WANTED);
    assert_eq!(notes[0]["query"], "timeout=30s");
    let none = convert(&setting.server, &webhook(&setting, "/convert"), Vec::new(), WANTED).await;
    assert_eq!(none.unwrap(), [] as [Value; 0]);
}

#[tokio::test]
async fn only_labels_and_annotations_of_the_metadata_change() {
    let setting = Setting::start().await;
    let webhook = webhook(&setting, "/convert-labels");
    let made = convert(&setting.server, &webhook, vec![widget("a")], WANTED).await.unwrap();
    let metadata = json!({"name": "a", "uid": "u", "namespace": "n", "generation": 2,
        "labels": {"by": "webhook"}});
    assert_eq!(made[0]["metadata"], metadata);
}

#[tokio::test]
async fn an_answer_that_is_none_is_told_exactly() {
    let setting = Setting::start().await;
    let of = "conversion webhook for example.com/v1, Kind=Widget";
    let cases = [
        ("/convert-failed", format!("{of} failed: not today")),
        ("/convert-none", format!("{of} returned 0 objects, expected 2")),
        (
            "/convert-renamed",
            format!(
                "{of} returned invalid converted object at index 0: must have the same name: \
                 other != a"
            ),
        ),
        ("/no-response", format!("{of} failed: no response provided")),
        (
            "/fail",
            format!(
                "{of} failed: an error on the server (\"out of order\") has prevented the \
                 request from succeeding"
            ),
        ),
        ("/allow", format!("{of} failed: response.result.status was '', not 'Success'")),
    ];
    for (path, message) in cases {
        assert_eq!(failure(&setting, path).await, (500, message));
    }
    let (_, message) = failure(&setting, "/wrong-uid").await;
    assert!(message.starts_with(&format!("{of} failed: expected response.uid=")), "{message}");
}

#[tokio::test]
async fn a_conversion_is_not_waited_for_longer_than_it_may_take() {
    // Half a minute is what it may take, so that only the long suite waits.
    if std::env::var_os("SETPOINT_TEST_FULL").is_none() {
        return;
    }
    let setting = Setting::start().await;
    let (code, message) = failure(&setting, "/slow").await;
    assert_eq!(code, 500);
    assert!(message.ends_with("/slow?timeout=30s\": context deadline exceeded"), "{message}");
}

#[tokio::test]
async fn a_definition_of_a_user_does_not_reach_the_machine_itself() {
    let setting = Setting::start().await;
    let definition = json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": {
        "clientConfig": setting.webhook.client("/convert"),
        "conversionReviewVersions": ["v1"],
    }}}});
    let webhook = ConversionWebhook::of(&definition).unwrap();
    let refused = convert(&setting.server, &webhook, vec![widget("a")], WANTED).await;
    assert!(refused.unwrap_err().message.contains("addresses of this machine"));
    assert!(ConversionWebhook::of(&json!({"spec": {}})).is_none());
}
