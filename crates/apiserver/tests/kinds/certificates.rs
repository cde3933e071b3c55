//! Requests for certificates: who asks is who is known to ask, and decisions stay.

use apiserver::identity::User;
use serde_json::{Value, json};

use super::cluster::Cluster;

const PATH: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn request() -> Value {
    // "-----BEGIN CERTIFICATE REQUEST-----" and an end.
    let pem = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTU\
               lJQgotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "a"},
        "spec": {
            "request": pem, "signerName": "example.com/signer", "usages": ["client auth"],
            "username": "somebody-else", "groups": ["system:masters"],
        },
        "status": {"conditions": [{"type": "Approved", "status": "True"}]},
    })
}

#[tokio::test]
async fn a_request_says_who_asked_and_is_decided_elsewhere() {
    let cluster = Cluster::start().await;
    let user = User::authenticated("alice", ["system:masters", "staff"]);
    let made = cluster.ask_as(user, &format!("POST {PATH}"), request()).await;
    assert_eq!(made.code, 201, "{made:?}");
    assert_eq!(made.body["spec"]["username"], "alice");
    let groups = json!(["system:masters", "staff", "system:authenticated"]);
    assert_eq!(made.body["spec"]["groups"], groups);
    assert_eq!(made.body["status"], json!({}), "nobody is born approved");
    let patch = json!({"spec": {"username": "bob", "signerName": "example.com/other"}});
    let same = cluster.done(&format!("PATCH {PATH}/a"), patch).await;
    assert_eq!(same["spec"], made.body["spec"]);

    let approve = json!({"status": {"conditions": [
        {"type": "Approved", "status": "True", "reason": "Fine", "message": "m"},
    ]}});
    let approved = cluster.done(&format!("PATCH {PATH}/a/approval"), approve.clone()).await;
    let condition = &approved["status"]["conditions"][0];
    assert_eq!(condition["type"], "Approved");
    assert!(condition["lastUpdateTime"].is_string());
    assert!(condition["lastTransitionTime"].is_string());
    let main =
        cluster.done(&format!("PATCH {PATH}/a"), json!({"status": {"conditions": []}})).await;
    assert_eq!(main["status"], approved["status"], "the object itself has no say in its status");

    let undone = json!({"status": {"conditions": null}});
    let (code, message) = cluster.refused(&format!("PATCH {PATH}/a/approval"), undone).await;
    assert_eq!(code, 422);
    let expected = "status.conditions: Forbidden: updates may not remove a condition of type \
                    \"Approved\"";
    assert!(message.ends_with(expected), "{message}");
    let signed = json!({"status": {"certificate": "Y2VydA=="}});
    let signed = cluster.done(&format!("PATCH {PATH}/a/status"), signed).await;
    assert_eq!(signed["status"]["certificate"], "Y2VydA==");
    assert_eq!(signed["status"]["conditions"][0]["type"], "Approved");
    let kept = cluster.done(&format!("PATCH {PATH}/a/approval"), approve).await;
    assert_eq!(kept["status"]["certificate"], "Y2VydA==");
}
