//! Traffic of other Services, of pods and of nodes cannot be redirected by a Service.

use apiserver::admission;
use apiserver::admission::external_ips::ExternalIps;
use apiserver::start::Settings;
use serde_json::{Value, json};

use super::{ask, done, refused};
use crate::world::World;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const DENIED: &str = "Use of external IPs is denied by admission control";

fn service(name: &str, addresses: &[&str]) -> Value {
    json!({"metadata": {"name": name},
        "spec": {"ports": [{"port": 443}], "selector": {"a": "b"}, "externalIPs": addresses}})
}

fn external(addresses: &[&str]) -> Value {
    json!({"spec": {"externalIPs": addresses}})
}

/// The store has a Service that was written while external addresses were allowed.
#[tokio::test]
async fn external_addresses_are_denied_unless_they_are_allowed_and_old_ones_may_stay() {
    let world = World::real().await;
    for addresses in [&["10.96.0.1"][..], &["198.51.100.7"]] {
        let create = format!("POST {SERVICES}");
        let message = refused(&world, &create, service("thief", addresses)).await;
        assert!(message.starts_with("services \"thief\" is forbidden: "), "{message}");
        assert!(message.contains(DENIED) && message.contains("network.external_ips"), "{message}");
    }
    done(&world, &format!("POST {SERVICES}"), service("web", &[])).await;
    let one = format!("{SERVICES}/web");
    let mut apply = service("web", &["198.51.100.7"]);
    apply["apiVersion"] = json!("v1");
    apply["kind"] = json!("Service");
    let request = http::Request::patch(format!("{one}?fieldManager=a&force=true"))
        .header("content-type", "application/apply-patch+yaml")
        .body(http_body_util::Full::new(apply.to_string().into()))
        .unwrap();
    let applied = world.ask(&crate::world::admin(), request).await;
    assert_eq!(applied.status, 403, "{}", applied.text());
    assert!(
        refused(&world, &format!("PATCH {one}"), external(&["198.51.100.7"]))
            .await
            .contains(DENIED)
    );
    let mut stored = done(&world, &format!("GET {one}"), Value::Null).await;
    stored["spec"]["externalIPs"] = json!(["198.51.100.7"]);
    assert!(refused(&world, &format!("PUT {one}"), stored).await.contains(DENIED));
}

#[tokio::test]
async fn allowed_external_addresses_never_are_those_of_services_pods_or_nodes() {
    let external_ips = ExternalIps::Allow;
    let admission = admission::Settings { external_ips, ..Default::default() };
    let world = World::with(Settings { admission, ..Settings::default() }).await;
    let node = json!({"metadata": {"name": "n"}, "spec": {"podCIDRs": ["192.168.77.0/24"]}});
    done(&world, "POST /api/v1/nodes", node).await;
    let status = json!({"status": {"addresses": [
        {"type": "InternalIP", "address": "192.0.2.44"}, {"type": "Hostname", "address": "n"}]}});
    done(&world, "PATCH /api/v1/nodes/n/status", status).await;
    for (address, owner) in [
        ("10.96.0.1", "the service range 10.96.0.0/16"),
        ("10.96.200.200", "the service range 10.96.0.0/16"),
        ("10.42.9.9", "the pod range 10.42.0.0/16"),
        ("192.168.77.3", "the pod range 192.168.77.0/24"),
        ("192.0.2.44", "a node"),
        ("127.64.0.1", "the loopback range"),
        ("::ffff:10.96.0.1", "the service range 10.96.0.0/16"),
    ] {
        let answer = ask(&world, &format!("POST {SERVICES}"), service("thief", &[address])).await;
        // Validation of the kind refuses some forms before admission does.
        assert!([403, 422].contains(&answer.status), "{address}: {}", answer.text());
        let message = answer.json()["message"].to_string();
        let is_named = message.contains(&format!("{address} belongs to {owner}"));
        assert!(answer.status == 422 || is_named, "{address}: {message}");
    }
    let made = done(&world, &format!("POST {SERVICES}"), service("web", &["198.51.100.7"])).await;
    assert_eq!(made["spec"]["externalIPs"], json!(["198.51.100.7"]));
    // Changes of anything else keep what is there, even if a node has the address by now.
    let status =
        json!({"status": {"addresses": [{"type": "InternalIP", "address": "198.51.100.7"}]}});
    done(&world, "PATCH /api/v1/nodes/n/status", status).await;
    let one = format!("PATCH {SERVICES}/web");
    let labelled = done(&world, &one, json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(labelled["spec"]["externalIPs"], json!(["198.51.100.7"]));
    let gone = done(&world, &one, external(&[])).await;
    assert_eq!(gone["spec"].get("externalIPs").unwrap_or(&json!([])), &json!([]));
    refused(&world, &one, external(&["198.51.100.7"])).await;
}
