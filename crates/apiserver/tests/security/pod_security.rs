//! Pod Security: namespaces that say nothing have the default of the cluster, whatever the path of
//! a write is.

use apiserver::admission;
use apiserver::admission::pod_security::{Defaults, Level};
use apiserver::audit;
use apiserver::start::Settings;
use serde_json::{Value, json};

use super::{ask, done, refused};
use crate::world::{Answer, World};

async fn world() -> World {
    let exempt = vec!["operators".to_owned()];
    let pod_security = Defaults { enforce: Some(Level::Baseline), exempt };
    let admission = admission::Settings { pod_security, ..Default::default() };
    World::with(Settings { admission, ..Settings::default() }).await
}

async fn namespace(world: &World, name: &str, labels: Value) {
    let space = json!({"metadata": {"name": name, "labels": labels}});
    ask(world, "POST /api/v1/namespaces", space).await;
    let account = json!({"metadata": {"name": "default"}});
    let accounts = format!("POST /api/v1/namespaces/{name}/serviceaccounts");
    ask(world, &accounts, account).await;
}

fn pod(spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    pod
}

async fn create(world: &World, namespace: &str, spec: Value) -> Answer {
    ask(world, &format!("POST /api/v1/namespaces/{namespace}/pods?dryRun=All"), pod(spec)).await
}

/// Attack: a plain tenant asks for the files, the network or the devices of the host.
#[tokio::test]
async fn a_namespace_without_labels_enforces_baseline_and_the_error_names_the_label() {
    let world = world().await;
    namespace(&world, "tenant", json!({})).await;
    let privileged = json!({"privileged": true});
    let container =
        |context: Value| json!([{"name": "c", "image": "i", "securityContext": context}]);
    let host_path = json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]});
    let port = json!([{"name": "c", "image": "i", "ports": [{"containerPort": 1, "hostPort": 1}]}]);
    for spec in [
        host_path.clone(),
        json!({"hostNetwork": true}),
        json!({"hostPID": true}),
        json!({"hostIPC": true}),
        json!({"containers": container(privileged.clone())}),
        json!({"initContainers": [{"name": "d", "image": "i", "securityContext": privileged}]}),
        json!({"containers": container(json!({"capabilities": {"add": ["SYS_ADMIN"]}}))}),
        json!({"containers": container(json!({"seccompProfile": {"type": "Unconfined"}}))}),
        json!({"containers": container(json!({"procMount": "Unmasked"})), "hostUsers": false}),
        json!({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}),
        json!({"containers": port}),
    ] {
        let answer = create(&world, "tenant", spec.clone()).await;
        assert_eq!(answer.status, 403, "{spec}: {}", answer.text());
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains("violates PodSecurity \"baseline:latest\""), "{message}");
        let remedy = "kubectl label namespace tenant pod-security.kubernetes.io/enforce=privileged";
        assert!(message.contains(remedy), "{message}");
        for exempt in ["kube-system", "operators", "labelled"] {
            let labels = json!({"pod-security.kubernetes.io/enforce": "privileged"});
            let labels = if exempt == "labelled" { labels } else { json!({}) };
            namespace(&world, exempt, labels).await;
            let answer = create(&world, exempt, spec.clone()).await;
            assert_eq!(answer.status, 201, "{exempt} {spec}: {}", answer.text());
        }
    }
    assert_eq!(create(&world, "tenant", json!({})).await.status, 201);
    // A label of the namespace itself decides, and has no remedy to tell.
    namespace(&world, "own", json!({"pod-security.kubernetes.io/enforce": "baseline"})).await;
    let line = "POST /api/v1/namespaces/own/pods";
    assert!(!refused(&world, line, pod(host_path)).await.contains("kubectl label"));
}

/// CVE-2023-2727 and CVE-2023-2728 are of this class: a rule that one path of a write passes by.
#[tokio::test]
async fn every_path_of_a_write_is_judged_alike() {
    let world = world().await;
    namespace(&world, "tenant", json!({})).await;
    let pods = "/api/v1/namespaces/tenant/pods";
    done(&world, &format!("POST {pods}"), pod(json!({}))).await;
    let ephemeral = json!({"spec": {"ephemeralContainers": [{"name": "e", "image": "i",
        "targetContainerName": "c", "securityContext": {"privileged": true}}]}});
    let line = format!("PATCH {pods}/p/ephemeralcontainers");
    assert!(refused(&world, &line, ephemeral).await.contains("violates PodSecurity"));
    let mut applied = pod(json!({"hostNetwork": true}));
    applied["apiVersion"] = json!("v1");
    applied["kind"] = json!("Pod");
    applied["metadata"]["name"] = json!("q");
    let request = http::Request::patch(format!("{pods}/q?fieldManager=a"))
        .header("content-type", "application/apply-patch+yaml")
        .body(http_body_util::Full::new(applied.to_string().into()))
        .unwrap();
    let answer = world.ask(&crate::world::admin(), request).await;
    assert_eq!(answer.status, 403, "{}", answer.text());
    // Workloads are warned of, and their pods refused later.
    let template = json!({"metadata": {"labels": {"a": "b"}},
        "spec": pod(json!({"hostNetwork": true}))["spec"]});
    let deployment = json!({"metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let line = "POST /apis/apps/v1/namespaces/tenant/deployments";
    let answer = ask(&world, line, deployment).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let warning = answer.headers["warning"].to_str().unwrap();
    assert!(warning.contains("would violate PodSecurity"), "{warning}");
}

#[tokio::test]
async fn label_versions_decide_and_audit_annotates_the_event() {
    let world = world().await;
    let path = world.directory.join("audit.log");
    let (log, writer) = audit::open(&path).unwrap();
    std::thread::spawn(|| writer.run());
    world.server.audit.set(audit::Policy::default(), log);
    let label = |mode: &str| format!("pod-security.kubernetes.io/{mode}");
    let labels = json!({label("enforce"): "baseline", label("enforce-version"): "v1.33",
        label("audit"): "restricted", label("audit-version"): "v1.22"});
    namespace(&world, "old", labels).await;
    let probe = json!({"containers": [{"name": "c", "image": "i",
        "livenessProbe": {"httpGet": {"port": 1, "host": "example.com"}}}]});
    let answer = create(&world, "old", probe.clone()).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    namespace(&world, "new", json!({label("enforce"): "baseline"})).await;
    assert_eq!(create(&world, "new", probe).await.status, 403);
    world.server.audit.flush();
    let text = std::fs::read_to_string(path).unwrap();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let created = events.into_iter().find(|event| {
        event["objectRef"]["resource"] == "pods" && event["objectRef"]["namespace"] == "old"
    });
    let annotations = created.unwrap()["annotations"].clone();
    assert_eq!(annotations[label("enforce-policy").as_str()], "baseline:v1.33");
    let violations = annotations[label("audit-violations").as_str()].as_str().unwrap();
    let expected = "would violate PodSecurity \"restricted:v1.22\": allowPrivilegeEscalation";
    assert!(violations.starts_with(expected), "{violations}");
}
