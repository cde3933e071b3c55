//! The variables of a container, as a table of what 4.8 says.

use std::sync::Arc;

use reconcile::Object;
use serde_json::{Value, json};

use super::super::environment::{Sources, environment};
use super::pod;

fn sources() -> Sources {
    let map = Object::new(json!({"data": {"color": "blue", "size": "9"}}));
    let service = Object::new(json!({"metadata": {"namespace": "d", "name": "my-db"},
        "spec": {"clusterIP": "10.9.0.1", "ports": [
            {"name": "sql", "port": 3306, "protocol": "TCP"},
            {"name": "more", "port": 53, "protocol": "UDP"}]}}));
    let headless = Object::new(json!({"metadata": {"namespace": "d", "name": "less"},
        "spec": {"clusterIP": "None", "ports": [{"port": 1, "protocol": "TCP"}]}}));
    let mut sources = Sources {
        services: vec![Arc::new(service), Arc::new(headless)],
        node_address: "10.0.0.1".into(),
        capacity: json!({"cpu": "4", "memory": "8Gi"}),
        api: ("10.9.0.9".into(), 443),
        ..Sources::default()
    };
    sources.config_maps.insert("map".into(), Arc::new(map));
    sources.secrets.insert("key".into(), [("word".to_owned(), b"open".to_vec())].into());
    sources
}

fn told(container: Value) -> Result<Vec<(String, String)>, String> {
    let mut value = pod("Always", "main:a");
    value["metadata"]["labels"] = json!({"app": "x"});
    value["metadata"]["annotations"] = json!({"note/a": "n"});
    value["spec"]["serviceAccountName"] = json!("builder");
    value["status"]["podIP"] = json!("10.0.0.1");
    let told = environment(&Object::new(value), &container, &sources());
    told.map(|it| it.into_list()).map_err(|refusal| refusal.to_string())
}

fn one(variable: Value) -> String {
    let mut variable = variable;
    variable["name"] = json!("X");
    let container = json!({"env": [{"name": "A", "value": "1"}, variable],
        "resources": {"limits": {"cpu": "1500m"}, "requests": {"memory": "64Mi"}}});
    match told(container) {
        Ok(list) => list.into_iter().find(|(name, _)| name == "X").map_or("-".into(), |it| it.1),
        Err(message) => message,
    }
}

fn key_of(kind: &str, name: &str, key: &str, optional: bool) -> Value {
    json!({"valueFrom": {kind: {"name": name, "key": key, "optional": optional}}})
}

fn amount(resource: &str, divisor: &str) -> Value {
    json!({"valueFrom": {"resourceFieldRef": {"resource": resource, "divisor": divisor}}})
}

#[test]
fn a_variable_has_the_value_that_its_source_says() {
    let field = |path: &str| json!({"valueFrom": {"fieldRef": {"fieldPath": path}}});
    let map =
        |name: &str, key: &str, optional: bool| key_of("configMapKeyRef", name, key, optional);
    let secret =
        |name: &str, key: &str, optional: bool| key_of("secretKeyRef", name, key, optional);
    // The container beside says nothing, so that it may use what the node has.
    let of = |name: &str| {
        let mut amount = amount("limits.cpu", "1m");
        amount["valueFrom"]["resourceFieldRef"]["containerName"] = json!(name);
        amount
    };
    for (variable, expected) in [
        (of("a"), "4000"),
        (of(""), "1500"),
        (json!({"value": "$(A)-$$(A)-$(B)-$A"}), "1-$(A)-$(B)-$A"),
        (json!({}), ""),
        (field("metadata.name"), "p"),
        (field("metadata.namespace"), "d"),
        (field("metadata.uid"), "u"),
        (field("metadata.labels['app']"), "x"),
        (field("metadata.annotations['note/a']"), "n"),
        (field("metadata.labels['none']"), ""),
        (field("spec.nodeName"), "n"),
        (field("spec.serviceAccountName"), "builder"),
        (field("status.hostIP"), "10.0.0.1"),
        (field("status.hostIPs"), "10.0.0.1"),
        (field("status.podIP"), "10.0.0.1"),
        (field("status.podIPs"), "10.0.0.1"),
        (map("map", "color", false), "blue"),
        (map("map", "none", true), "-"),
        (map("none", "color", true), "-"),
        (
            map("map", "none", false),
            "CreateContainerConfigError: couldn't find key none in ConfigMap d/map",
        ),
        (map("none", "x", false), "CreateContainerConfigError: configmap \"none\" not found"),
        (secret("key", "word", false), "open"),
        (secret("key", "none", true), "-"),
        (
            secret("key", "none", false),
            "CreateContainerConfigError: couldn't find key none in Secret d/key",
        ),
        (secret("none", "x", false), "CreateContainerConfigError: secret \"none\" not found"),
        (amount("limits.cpu", "1"), "2"),
        (amount("limits.cpu", "1m"), "1500"),
        (amount("requests.memory", "1Mi"), "64"),
        (amount("limits.memory", "1Gi"), "8"),
        (amount("requests.cpu", "1m"), "0"),
    ] {
        assert_eq!(one(variable.clone()), expected, "{variable}");
    }
}

#[test]
fn later_variables_win_and_services_come_first() {
    let container = json!({
        "envFrom": [{"configMapRef": {"name": "map"}, "prefix": "P_"},
            {"secretRef": {"name": "key"}}, {"configMapRef": {"name": "none", "optional": true}}],
        "env": [{"name": "word", "value": "own"}, {"name": "MY_DB_PORT", "value": "mine"},
            {"name": "SEEN", "value": "$(P_color) $(MY_DB_SERVICE_HOST)"}],
    });
    let list = told(container).unwrap();
    let value = |name: &str| list.iter().find(|it| it.0 == name).map_or("", |it| it.1.as_str());
    for (name, expected) in [
        ("P_color", "blue"),
        ("P_size", "9"),
        ("word", "own"),
        ("SEEN", "blue 10.9.0.1"),
        ("MY_DB_PORT", "mine"),
        ("MY_DB_SERVICE_HOST", "10.9.0.1"),
        ("MY_DB_SERVICE_PORT", "3306"),
        ("MY_DB_SERVICE_PORT_SQL", "3306"),
        ("MY_DB_SERVICE_PORT_MORE", "53"),
        ("MY_DB_PORT_3306_TCP", "tcp://10.9.0.1:3306"),
        ("MY_DB_PORT_3306_TCP_PROTO", "tcp"),
        ("MY_DB_PORT_3306_TCP_PORT", "3306"),
        ("MY_DB_PORT_3306_TCP_ADDR", "10.9.0.1"),
        ("MY_DB_PORT_53_UDP", "udp://10.9.0.1:53"),
        ("LESS_SERVICE_HOST", ""),
        ("KUBERNETES_SERVICE_HOST", "10.9.0.9"),
        ("KUBERNETES_SERVICE_PORT", "443"),
        ("KUBERNETES_PORT_443_TCP_ADDR", "10.9.0.9"),
    ] {
        assert_eq!(value(name), expected, "{name}");
    }
    let missing = told(json!({"envFrom": [{"secretRef": {"name": "none"}}]})).unwrap_err();
    assert_eq!(missing, "CreateContainerConfigError: secret \"none\" not found");
}

#[test]
fn without_service_links_only_the_server_is_told_of() {
    let mut value = pod("Always", "main:a");
    value["spec"]["enableServiceLinks"] = json!(false);
    let list = environment(&Object::new(value), &json!({}), &sources()).unwrap().into_list();
    assert!(list.iter().all(|(name, _)| name.starts_with("KUBERNETES_")), "{list:?}");
}
