//! Plans of Endpoints.

use reconcile::Step;
use serde_json::{Value, json};

use super::*;

fn service(spec: Value) -> Object {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": "a", "name": "web", "uid": "u", "labels": {"team": "x"},
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
            "ports": [{"port": 80, "targetPort": 8080}]},
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        service["spec"][key] = value.clone();
    }
    Object::new(service)
}

fn pod(number: usize, ready: &str) -> Arc<Object> {
    let (name, ip) = (format!("p{number}"), format!("10.1.{}.{}", number / 250, number % 250));
    Arc::new(Object::new(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "a", "name": name, "uid": name, "labels": {"app": "web"}},
        "spec": {"nodeName": "n"},
        "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": ready}]},
    })))
}

fn made(service: &Object, pods: Vec<Arc<Object>>) -> Object {
    let plan = plan::plan(service, &Observed { pods, endpoints: None });
    match &plan.steps[..] {
        [Step::Create { object, .. }] => Object::new(object.clone()),
        _ => panic!("{plan}"),
    }
}

fn address(number: usize) -> Value {
    let name = format!("p{number}");
    json!({"ip": format!("10.1.0.{number}"), "nodeName": "n",
        "targetRef": {"kind": "Pod", "namespace": "a", "name": name, "uid": name}})
}

#[test]
fn ready_and_unready_pods_are_told_apart() {
    let endpoints = made(&service(json!({})), vec![pod(1, "True"), pod(2, "False")]);
    assert_eq!(
        endpoints.value["subsets"],
        json!([{"addresses": [address(1)], "notReadyAddresses": [address(2)],
            "ports": [{"port": 8080, "protocol": "TCP"}]}])
    );
    assert_eq!(
        endpoints.value["metadata"]["labels"],
        json!({"team": "x", "endpoints.kubernetes.io/managed-by": "endpoint-controller"})
    );
    let all = made(&service(json!({"publishNotReadyAddresses": true})), vec![pod(2, "False")]);
    assert_eq!(all.value["subsets"][0]["addresses"], json!([address(2)]));
}

#[test]
fn what_is_so_already_is_not_written() {
    let service = service(json!({}));
    let pods = vec![pod(1, "True")];
    let endpoints = Some(Arc::new(made(&service, pods.clone())));
    let plan = plan::plan(&service, &Observed { pods, endpoints: endpoints.clone() });
    assert!(plan.steps.is_empty(), "{plan}");
    let plan = plan::plan(&service, &Observed { pods: vec![pod(2, "True")], endpoints });
    assert_eq!(plan.steps[0].to_string(), "replace v1 Endpoints a/web");
}

#[test]
fn addresses_are_grouped_by_the_ports_they_share() {
    let ports = json!([{"name": "a", "port": 1, "targetPort": 11},
        {"name": "b", "port": 2, "targetPort": "named"}]);
    let named = |number: usize, port: u16| {
        let mut pod = pod(number, "True").value.clone();
        pod["spec"]["containers"] = json!([{"ports": [{"name": "named", "containerPort": port}]}]);
        Arc::new(Object::new(pod))
    };
    let pods = vec![pod(1, "True"), named(2, 22), named(3, 22)];
    let endpoints = made(&service(json!({"ports": ports})), pods);
    let shown: Vec<_> = endpoints.value["subsets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            (it["addresses"].as_array().unwrap().len(), it["ports"].as_array().unwrap().len())
        })
        .collect();
    assert_eq!(shown, [(2, 2), (1, 1)]);
}

#[test]
fn a_headless_service_needs_no_ports() {
    let spec = json!({"clusterIP": "None", "ports": []});
    let endpoints = made(&service(spec), vec![pod(1, "True")]);
    assert_eq!(endpoints.value["subsets"], json!([{"addresses": [address(1)]}]));
    assert_eq!(endpoints.label(service_pods::HEADLESS), Some(""));
}

#[test]
fn too_many_addresses_are_cut_the_unready_first() {
    let over = "endpoints.kubernetes.io/over-capacity";
    let mut pods: Vec<_> = (0..900).map(|number| pod(number, "True")).collect();
    pods.extend((900..1200).map(|number| pod(number, "False")));
    let endpoints = made(&service(json!({})), pods);
    let count = |field: &str| endpoints.value["subsets"][0][field].as_array().unwrap().len();
    assert_eq!((count("addresses"), count("notReadyAddresses")), (900, 100));
    assert_eq!(endpoints.annotation(over), Some("truncated"));
    let endpoints = Some(Arc::new(endpoints));
    let pods = vec![pod(1, "True")];
    let plan = plan::plan(&service(json!({})), &Observed { pods, endpoints });
    let Step::Replace { object, .. } = &plan.steps[0] else { panic!("{plan}") };
    assert!(object["metadata"]["annotations"][over].is_null());
}
