//! Server-side request forgery: addresses of this host are not reached on behalf of clients.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{ask, done};
use crate::world::World;

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

/// A server on the loopback, which answers every connection, and its port.
async fn secret_server() -> u16 {
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    #[expect(clippy::disallowed_methods, reason = "it ends with the test")]
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 1024]).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret").await;
        }
    });
    port
}

/// Writes a slice past validation, as an operator of an older version may have.
async fn put_slice(world: &World, address: &str, port: u16) {
    let family = if address.contains(':') { "IPv6" } else { "IPv4" };
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
        "metadata": {"name": "s-1", "namespace": "default",
            "labels": {"kubernetes.io/service-name": "s"}},
        "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
        "ports": [{"name": "", "port": port, "protocol": "TCP"}],
    });
    super::put(world, "endpointslices/default/s-1", &slice).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_proxy_reaches_no_address_of_this_host_in_any_form() {
    let world = World::real().await;
    let port = secret_server().await;
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    done(&world, "POST /api/v1/namespaces/default/services", service).await;
    let proxied = "GET /api/v1/namespaces/default/services/s/proxy/";
    for address in [
        "127.0.0.1",
        "127.64.0.1",
        "0.0.0.0",
        "::1",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "fd00:ec2::254",
        "100.100.100.200",
        "fe80::1",
        "224.0.0.1",
    ] {
        put_slice(&world, address, port).await;
        let answer = ask(&world, proxied, Value::Null).await;
        assert_eq!(answer.status, 400, "{address}: {}", answer.text());
        assert!(answer.text().contains("address not allowed"), "{address}: {}", answer.text());
    }
}

/// Pods of an unprivileged node share the loopback of the host; only their addresses are reached.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loopback_address_is_reached_only_if_a_pod_of_the_namespace_has_it() {
    let world = World::real().await;
    let port = secret_server().await;
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    done(&world, "POST /api/v1/namespaces/default/services", service).await;
    let proxied = "GET /api/v1/namespaces/default/services/s/proxy/";
    put_slice(&world, "127.64.0.9", port).await;
    assert_eq!(ask(&world, proxied, Value::Null).await.status, 400);
    let account = json!({"metadata": {"name": "default"}});
    ask(&world, "POST /api/v1/namespaces/default/serviceaccounts", account).await;
    let pod = json!({"metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    done(&world, "POST /api/v1/namespaces/default/pods", pod).await;
    let status = json!({"status": {"podIP": "127.64.0.9", "podIPs": [{"ip": "127.64.0.9"}]}});
    done(&world, "PATCH /api/v1/namespaces/default/pods/p/status", status).await;
    let answer = ask(&world, proxied, Value::Null).await;
    assert_eq!((answer.status, answer.text().as_str()), (200, "secret"));
}

#[tokio::test]
async fn endpoints_at_a_mapped_loopback_address_are_refused() {
    let world = World::real().await;
    let slice = |address: &str| {
        json!({"metadata": {"name": "x"}, "addressType": "IPv6",
            "endpoints": [{"addresses": [address]}], "ports": [{"port": 80}]})
    };
    let answer = ask(&world, &format!("POST {SLICES}"), slice("::ffff:127.0.0.1")).await;
    assert_eq!(answer.status, 422, "{}", answer.text());
}
