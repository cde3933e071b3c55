//! Plugins on every path that writes.

use serde_json::{Value, json};

use crate::api::{Api, pod};

const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

#[tokio::test]
async fn a_pod_is_completed_and_runs_as_an_account_that_exists() {
    let (api, _scratch) = Api::start().await;
    let made = api.admin(&format!("POST {PODS}"), pod("a", json!({}))).await;
    let spec = &made["spec"];
    assert_eq!(spec["serviceAccountName"], "default");
    assert_eq!(spec["priority"], 0);
    let volume = spec["volumes"][0]["name"].as_str().unwrap();
    assert!(volume.starts_with("kube-api-access-"), "{volume}");
    assert_eq!(spec["containers"][0]["volumeMounts"][0]["name"], volume);
    assert_eq!(spec["tolerations"].as_array().unwrap().len(), 2);
    // A changed pod that leaves out what was filled in keeps it.
    let change = json!({"spec": {"priority": null, "preemptionPolicy": null}});
    let line = format!("PATCH {PODS}/a");
    let changed = api.admin(&line, change).await;
    assert_eq!(changed["spec"], made["spec"]);
    assert_eq!(changed["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);

    api.admin(
        "POST /apis/node.k8s.io/v1/runtimeclasses",
        json!({"metadata": {"name": "slow"}, "handler": "h",
            "overhead": {"podFixed": {"cpu": "1"}}}),
    )
    .await;
    let made =
        api.admin(&format!("POST {PODS}"), pod("b", json!({"runtimeClassName": "slow"}))).await;
    assert_eq!(made["spec"]["overhead"], json!({"cpu": "1"}));
}

#[tokio::test]
async fn refusals_have_the_words_users_know() {
    let (api, _scratch) = Api::start().await;
    let cases = [
        (
            json!({"serviceAccountName": "x"}),
            "error looking up service account default/x: serviceaccount \"x\" not found",
        ),
        (json!({"priorityClassName": "x"}), "no PriorityClass with name x was found"),
        (json!({"runtimeClassName": "x"}), "pod rejected: RuntimeClass \"x\" not found"),
        (
            json!({"overhead": {"cpu": "1"}}),
            "pod rejected: Pod Overhead set without corresponding RuntimeClass Overhead",
        ),
    ];
    for (spec, why) in cases {
        for options in ["", "?dryRun=All"] {
            let line = format!("POST {PODS}{options}");
            let expected = format!("pods \"p\" is forbidden: {why}");
            assert_eq!(api.refused(&line, pod("p", spec.clone())).await, (403, expected));
        }
    }
}

#[tokio::test]
async fn a_limit_range_is_asked_however_a_claim_is_written() {
    let (api, _scratch) = Api::start().await;
    let item = json!({"type": "PersistentVolumeClaim", "max": {"storage": "2Gi"}});
    api.admin(
        "POST /api/v1/namespaces/default/limitranges",
        json!({"metadata": {"name": "l"}, "spec": {"limits": [item]}}),
    )
    .await;
    for (name, grows) in [("fixed", false), ("grows", true)] {
        let class = json!({"metadata": {"name": name}, "provisioner": "p",
            "allowVolumeExpansion": grows});
        api.admin("POST /apis/storage.k8s.io/v1/storageclasses", class).await;
    }
    let claim = |name: &str, size: &str| {
        json!({"metadata": {"name": name}, "spec": {"storageClassName": name,
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}})
    };
    let most = "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi";
    let (code, message) = api.refused(&format!("POST {CLAIMS}"), claim("x", "3Gi")).await;
    assert_eq!(
        (code, message),
        (403, format!("persistentvolumeclaims \"x\" is forbidden: {most}"))
    );
    for name in ["fixed", "grows"] {
        api.admin(&format!("POST {CLAIMS}"), claim(name, "1Gi")).await;
        let bound = json!({"status": {"phase": "Bound"}});
        api.admin(&format!("PATCH {CLAIMS}/{name}/status"), bound).await;
    }
    let size = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
    let (code, message) = api.refused(&format!("PATCH {CLAIMS}/fixed"), size("2Gi")).await;
    let why = "only dynamically provisioned pvc can be resized and the storageclass that \
               provisions the pvc must support resize";
    let expected = format!("persistentvolumeclaims \"fixed\" is forbidden: {why}");
    assert_eq!((code, message), (403, expected));
    let (_, message) = api.refused(&format!("PATCH {CLAIMS}/grows"), size("3Gi")).await;
    assert_eq!(message, format!("persistentvolumeclaims \"grows\" is forbidden: {most}"));
    let grown = api.admin(&format!("PATCH {CLAIMS}/grows"), size("2Gi")).await;
    assert_eq!(grown["spec"]["resources"]["requests"]["storage"], "2Gi");
}

#[tokio::test]
async fn nothing_is_created_where_nothing_may_be() {
    let (api, _scratch) = Api::start().await;
    let (code, message) = api.refused("POST /api/v1/namespaces/no/pods", pod("p", json!({}))).await;
    assert_eq!((code, message.as_str()), (404, "namespaces \"no\" not found"));
    let (code, message) = api.refused("DELETE /api/v1/namespaces/default", Value::Null).await;
    let expected = "namespaces \"default\" is forbidden: this namespace may not be deleted";
    assert_eq!((code, message.as_str()), (403, expected));
    api.admin("POST /api/v1/namespaces", json!({"metadata": {"name": "going"}})).await;
    api.admin("DELETE /api/v1/namespaces/going", Value::Null).await;
    let service = json!({"metadata": {"name": "s", "namespace": "going"},
        "spec": {"ports": [{"port": 1}]}});
    // A PUT that would create is a creation.
    for line in
        ["POST /api/v1/namespaces/going/services", "PUT /api/v1/namespaces/going/services/s"]
    {
        let (code, message) = api.refused(line, service.clone()).await;
        assert_eq!(code, 403, "{line}: {message}");
        let why = "unable to create new content in namespace going because it is being terminated";
        assert!(message.ends_with(why), "{message}");
    }
}

#[tokio::test]
async fn who_signs_a_request_must_be_trusted_with_its_signer() {
    let (api, _scratch) = Api::start().await;
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({"metadata": {"name": "signer"}, "rules": [
        {"apiGroups": ["certificates.k8s.io"], "verbs": ["*"],
            "resources": ["certificatesigningrequests", "certificatesigningrequests/status"]},
        {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": ["sign"],
            "resourceNames": ["example.com/*", "other.com/b"]}]});
    api.admin(&format!("POST {rbac}/clusterroles"), role).await;
    let binding = json!({"metadata": {"name": "signer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "signer"},
        "subjects": [{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}]});
    api.admin(&format!("POST {rbac}/clusterrolebindings"), binding).await;
    crate::api::eventually("ann may read requests", || async {
        api.ask("ann", &format!("GET {requests}"), &Value::Null).await.0 == 200
    })
    .await;
    let signed = json!({"status": {"certificate": PEM_CERTIFICATE}});
    let refusal = "certificatesigningrequests.certificates.k8s.io \"c\" is forbidden: user not \
                   permitted to sign requests with signerName \"other.com/c\"";
    for (name, signer, expected) in
        [("a", "example.com/a", 200), ("b", "other.com/b", 200), ("c", "other.com/c", 403)]
    {
        let request = json!({"metadata": {"name": name}, "spec": {"signerName": signer,
            "request": PEM_REQUEST, "usages": ["client auth"]}});
        let (code, made) = api.ask("ann", &format!("POST {requests}"), &request).await;
        assert_eq!(code, 201, "{made}");
        let line = format!("PATCH {requests}/{name}/status");
        let (code, answer) = api.ask("ann", &line, &signed).await;
        assert_eq!(code, expected, "{answer}");
        if code == 403 {
            assert_eq!(answer["message"], refusal);
        }
    }
}

/// The PEM of a request and of a certificate of four bytes, in base64.
const PEM_REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUFBPQotLS0tLUVORCBDRVJ\
                           USUZJQ0FURSBSRVFVRVNULS0tLS0K";
const PEM_CERTIFICATE: &str =
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BQT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";

#[tokio::test]
async fn the_labels_of_a_namespace_say_what_its_pods_may_be() {
    let (api, _scratch) = Api::start().await;
    let namespace = |name: &str, labels: Value| {
        let spaces = "pod-security.kubernetes.io/";
        let labels: serde_json::Map<String, Value> = labels
            .as_object()
            .unwrap()
            .iter()
            .map(|(mode, level)| (format!("{spaces}{mode}"), level.clone()))
            .collect();
        json!({"metadata": {"name": name, "labels": labels}})
    };
    let made = "POST /api/v1/namespaces";
    let (code, why) = api.refused(made, namespace("odd", json!({"enforce": "strict"}))).await;
    assert_eq!(code, 422);
    assert_eq!(
        why,
        "Namespace \"odd\" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: \
         Invalid value: \"strict\": must be one of privileged, baseline, restricted"
    );
    let labels = json!({"enforce": "baseline", "warn": "restricted", "warn-version": "v1.30"});
    api.admin(made, namespace("strict", labels)).await;
    api.admin(
        "POST /api/v1/namespaces/strict/serviceaccounts",
        json!({"metadata":
        {"name": "default"}}),
    )
    .await;
    let pods = "POST /api/v1/namespaces/strict/pods";
    assert_eq!(
        api.refused(pods, pod("p", json!({"hostNetwork": true}))).await,
        (
            403,
            "pods \"p\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces \
             (hostNetwork=true)"
                .to_owned()
        )
    );
    let warned = api.warned(pods, &pod("p", json!({}))).await;
    let expected = "would violate PodSecurity \\\"restricted:v1.30\\\": \
         allowPrivilegeEscalation != false";
    assert!(warned.iter().any(|it| it.contains(expected)), "{warned:?}");
    // What makes pods is warned of, and may be written.
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod("x", json!({}))["spec"]});
    let set = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": template}});
    let warned = api.warned("POST /apis/apps/v1/namespaces/strict/deployments", &set).await;
    assert!(warned.iter().any(|it| it.contains(expected)), "{warned:?}");
    api.admin("GET /apis/apps/v1/namespaces/strict/deployments/d", Value::Null).await;
}
