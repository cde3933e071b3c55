//! Which services lead to which ports of a machine, and what is said of it.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use hypervisor::{Port, Protocol};
use reconcile::Object;
use serde_json::{Value, json};

use super::slices::{
    Asked, MANAGED_BY, MANAGER, Place, Served, asked, is_it, is_listed, is_of_node, is_same,
    is_selected, machine_of, slice,
};

const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 42, 7, 1);

fn service(spec: Value) -> Object {
    Object::new(json!({"metadata": {"namespace": "n", "name": "web", "uid": "s"}, "spec": spec}))
}

/// A machine whose interface says which ports it has.
fn instance(ports: Value) -> Object {
    Object::new(json!({
        "metadata": {"namespace": "n", "name": "m", "uid": "i",
            "labels": {"kubevirt.io/vm": "m", "app": "web"}},
        "spec": {"networks": [{"name": "default", "pod": {}},
                {"name": "lan", "multus": {"networkName": "lan"}}],
            "domain": {"devices": {"interfaces": [
                {"name": "default", "masquerade": {}, "ports": ports},
                {"name": "lan", "bridge": {}, "ports": [{"name": "far", "port": 9}]}]}}},
        "status": {"nodeName": "here", "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}]},
    }))
}

fn tcp(number: u16) -> Port {
    Port { protocol: Protocol::Tcp, number }
}

fn udp(number: u16) -> Port {
    Port { protocol: Protocol::Udp, number }
}

/// What a service with these ports leads to, and why not.
fn led(service_ports: Value, machine_ports: Value) -> (Vec<Port>, Vec<String>) {
    let service = service(json!({"selector": {"app": "web"}, "ports": service_ports}));
    let Asked { served, unserved } = asked(&service, &instance(machine_ports));
    (served.into_iter().map(|one| one.port).collect(), unserved)
}

#[test]
fn a_service_leads_to_machines_that_have_its_labels() {
    let of = |spec: Value| is_selected(&service(spec), &instance(json!([])));
    assert!(of(json!({"selector": {"kubevirt.io/vm": "m"}})));
    assert!(of(json!({"selector": {"app": "web", "kubevirt.io/vm": "m"}})));
    assert!(!of(json!({"selector": {"app": "other"}})));
    assert!(!of(json!({"selector": {}})) && !of(json!({})), "it selects nothing");
    assert!(!of(json!({"selector": {"app": "web"}, "type": "ExternalName"})));
}

#[test]
fn a_machine_is_listed_on_its_node_while_it_runs() {
    let found = instance(json!([]));
    assert!(is_listed(&found, "here") && !is_listed(&found, "there"));
    for phase in ["Scheduled", "Succeeded", "Failed"] {
        let mut value = (*found.value).clone();
        value["status"]["phase"] = json!(phase);
        assert!(!is_listed(&Object::new(value), "here"), "{phase}");
    }
}

#[test]
fn a_port_leads_to_its_target_by_number_or_by_name() {
    let none = Vec::<String>::new;
    assert_eq!(led(json!([{"port": 80}]), json!([])), (vec![tcp(80)], none()));
    let numbers = json!([{"port": 80, "targetPort": 8080}, {"port": 53, "protocol": "UDP"}]);
    assert_eq!(led(numbers, json!([])), (vec![tcp(8080), udp(53)], none()));
    let named = json!([{"port": 80, "targetPort": "http"}]);
    let declared = json!([{"name": "http", "port": 8080, "protocol": "TCP"}]);
    assert_eq!(led(named.clone(), declared), (vec![tcp(8080)], none()));
    // One of another protocol is another.
    let declared = json!([{"name": "http", "port": 8080, "protocol": "UDP"}]);
    let why = "port 80: no interface of the machine has a port http";
    assert_eq!(led(named, declared), (vec![], vec![why.to_owned()]));
    let far = json!([{"port": 80, "targetPort": "far"}]);
    let why = "port 80: no interface of the machine has a port far";
    assert_eq!(led(far, json!([])), (vec![], vec![why.to_owned()]));
}

#[test]
fn what_cannot_be_reached_is_said() {
    let sctp = json!([{"port": 7, "protocol": "SCTP"}, {"port": 80}]);
    let why = "port 7: SCTP does not reach machines: TCP and UDP do";
    assert_eq!(led(sctp, json!([])), (vec![tcp(80)], vec![why.to_owned()]));
    // Who says which ports a machine has means these.
    let declared = json!([{"name": "http", "port": 8080}]);
    let why = "port 22: 22 is not among the ports of the machine's interface";
    let asked = json!([{"port": 22}, {"port": 8080}]);
    assert_eq!(led(asked, declared), (vec![tcp(8080)], vec![why.to_owned()]));
}

fn said(service: &Object, instance: &Object, open: &[(Port, u16)]) -> Option<Value> {
    let open: BTreeMap<Port, u16> = open.iter().copied().collect();
    let served = [
        Served { name: "http".to_owned(), app_protocol: None, port: tcp(8080) },
        Served { name: "dns".to_owned(), app_protocol: None, port: udp(53) },
    ];
    slice(service, instance, &served, Place { node: "here", address: ADDRESS, open: &open })
}

#[test]
fn a_slice_says_where_the_ports_of_a_machine_are() {
    let service = service(json!({"clusterIP": "10.96.0.7"}));
    let machine = instance(json!([]));
    let found = said(&service, &machine, &[(tcp(8080), 40_001), (udp(53), 40_002)]).unwrap();
    assert_eq!(
        found["ports"],
        json!([{"name": "http", "port": 40_001, "protocol": "TCP"},
            {"name": "dns", "port": 40_002, "protocol": "UDP"}])
    );
    let labels = json!({"kubernetes.io/service-name": "web", MANAGED_BY: MANAGER});
    assert_eq!(found["metadata"]["labels"], labels);
    let endpoint = &found["endpoints"][0];
    assert_eq!(
        (&endpoint["addresses"], &endpoint["nodeName"]),
        (&json!([ADDRESS]), &json!("here"))
    );
    let up = json!({"ready": true, "serving": true, "terminating": false});
    assert_eq!(endpoint["conditions"], up);
    let kept = Object::new(found.clone());
    assert_eq!(machine_of(&kept), Some(machine.name.clone()));
    assert!(is_of_node(&kept, "here") && !is_of_node(&kept, "there"));
    assert!(is_same(&kept, &found));
    // What is not open is left out; with nothing open there is nothing to say.
    let less = said(&service, &machine, &[(udp(53), 40_002)]).unwrap();
    assert_eq!(less["ports"].as_array().unwrap().len(), 1);
    assert!(!is_same(&kept, &less));
    assert_eq!(said(&service, &machine, &[]), None);
    // The next life of the machine is another.
    let mut next = (*machine.value).clone();
    next["metadata"]["uid"] = json!("j");
    let next = said(&service, &Object::new(next), &[(tcp(8080), 1)]).unwrap();
    assert!(is_it(&kept, &found) && is_it(&kept, &less) && !is_it(&kept, &next));
}

#[test]
fn who_is_paused_or_ends_is_not_ready() {
    let plain = service(json!({"clusterIP": "10.96.0.7"}));
    let always = service(json!({"clusterIP": "None", "publishNotReadyAddresses": true}));
    let conditions = |service: &Object, change: fn(&mut Value)| {
        let mut value = (*instance(json!([])).value).clone();
        change(&mut value);
        let found = said(service, &Object::new(value), &[(tcp(8080), 1)]).unwrap();
        let conditions = &found["endpoints"][0]["conditions"];
        ["ready", "serving", "terminating"].map(|field| conditions[field] == true)
    };
    let pause: fn(&mut Value) = |value| value["status"]["conditions"][0]["status"] = json!("False");
    let end: fn(&mut Value) =
        |value| value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(conditions(&plain, pause), [false, false, false]);
    assert_eq!(conditions(&plain, end), [false, true, true]);
    assert_eq!(conditions(&always, pause), [true, false, false]);
}

#[test]
fn slices_of_others_are_left_alone() {
    let service = service(json!({"clusterIP": "10.96.0.7"}));
    let mut found = said(&service, &instance(json!([])), &[(tcp(8080), 1)]).unwrap();
    found["metadata"]["labels"][MANAGED_BY] = json!("endpointslice-controller.k8s.io");
    assert_eq!(machine_of(&Object::new(found)), None);
}
