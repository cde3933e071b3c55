//! The Service through which ports of a machine are reached, where the network of pods says so
//! (`serviceExposure`): made, changed, and taken back. That it cannot be keeps nothing else from
//! being.

use reconcile::plan::{Deletion, Target};
use reconcile::{Object, Step};
use serde_json::{Value, json};

use super::machine::MACHINE_LABEL;
use super::observe::Observed;
use super::spec::{POD_NETWORK, Wukong, in_the_way};
use crate::kinds::SERVICE;
use crate::value::{list, text};

#[derive(Debug, PartialEq, Eq)]
pub enum Exposure {
    NotAsked,
    Pending(String),
    Done(String),
    Failed(String),
}

/// What a Wukong says of it, if it is to be.
pub fn asked<'a>(wukong: &Wukong<'a>) -> Option<&'a Value> {
    let mut networks = list(&wukong.spec()["networks"]).iter();
    let own = networks.find(|network| network["name"] == POD_NETWORK)?;
    Some(&own["serviceExposure"]).filter(|said| said["enabled"] == true)
}

pub fn look(steps: &mut Vec<Step>, wukong: &Wukong<'_>, observed: &Observed) -> Exposure {
    let there = observed.service.as_deref();
    let Some(asked) = asked(wukong) else {
        if let Some(there) = there.filter(|one| wukong.owns(one) && !one.is_terminating()) {
            let (target, options) = (Target::of(SERVICE, there), Deletion::default());
            steps.push(Step::Delete { target, options });
        }
        return Exposure::NotAsked;
    };
    let name = wukong.service_name();
    let Some(there) = there else {
        let mut object = wukong.child(SERVICE, &name);
        object["spec"] = wanted(wukong, asked, &Value::Null);
        steps.push(Step::Create { kind: SERVICE, object });
        return Exposure::Pending(format!("Service {name} is being made"));
    };
    if !wukong.owns(there) {
        return Exposure::Failed(in_the_way(SERVICE, there));
    }
    let wanted = wanted(wukong, asked, &there.value["spec"]);
    if !says(there, &wanted) {
        let patch = json!({"spec": wanted});
        steps.push(Step::Patch { target: Target::unchanged(SERVICE, there), patch });
        return Exposure::Pending(format!("Service {name} is being changed"));
    }
    Exposure::Done(format!("Service {name} leads to the machine"))
}

/// What a Service is to say. Ports of nodes that it was given stay its own.
fn wanted(wukong: &Wukong<'_>, asked: &Value, found: &Value) -> Value {
    let kind = match text(&asked["type"]) {
        "" => "ClusterIP",
        kind => kind,
    };
    let ports: Vec<Value> =
        list(&asked["ports"]).iter().map(|port| wanted_port(port, kind, found)).collect();
    let mut spec = json!({"type": kind, "selector": {MACHINE_LABEL: wukong.machine_name()},
        "ports": ports});
    match text(&asked["loadBalancerIP"]) {
        address if kind == "LoadBalancer" && !address.is_empty() => {
            spec["loadBalancerIP"] = json!(address);
        }
        _ if !found["loadBalancerIP"].is_null() => spec["loadBalancerIP"] = Value::Null,
        _ => {}
    }
    spec
}

fn wanted_port(port: &Value, kind: &str, found: &Value) -> Value {
    let protocol = match text(&port["protocol"]) {
        "" => "TCP",
        protocol => protocol,
    };
    let target = match &port["targetPort"] {
        Value::Null => &port["port"],
        target => target,
    };
    let mut wanted = json!({"port": port["port"], "protocol": protocol, "targetPort": target});
    if !text(&port["name"]).is_empty() {
        wanted["name"] = port["name"].clone();
    }
    let is_same = |one: &&Value| one["port"] == port["port"] && one["protocol"] == protocol;
    let given = list(&found["ports"]).iter().find(is_same).map(|one| &one["nodePort"]);
    let said = Some(&port["nodePort"]).filter(|number| number.is_u64());
    if let Some(number) = said.or(given).filter(|number| number.is_u64())
        && kind != "ClusterIP"
    {
        wanted["nodePort"] = number.clone();
    }
    wanted
}

/// Whether a Service says all of this.
fn says(there: &Object, wanted: &Value) -> bool {
    let spec = &there.value["spec"];
    let is_said = |(field, value): (&String, &Value)| match field.as_str() {
        "ports" => has_ports(list(&spec["ports"]), list(value)),
        field => spec[field] == *value,
    };
    wanted.as_object().into_iter().flatten().all(is_said)
}

fn has_ports(found: &[Value], wanted: &[Value]) -> bool {
    let is_same = |(found, wanted): (&Value, &Value)| {
        // A port of nodes that was not asked for is one that the server gave.
        ["name", "port", "protocol", "targetPort"].iter().all(|of| found[*of] == wanted[*of])
            && (wanted["nodePort"].is_null() || found["nodePort"] == wanted["nodePort"])
    };
    found.len() == wanted.len() && found.iter().zip(wanted).all(is_same)
}

/// What is wrong with what is said of it.
pub fn check(wrong: &mut Vec<String>, at: usize, network: &Value) {
    let said = &network["serviceExposure"];
    if said["enabled"] != true {
        return;
    }
    if network["name"] != POD_NETWORK {
        wrong.push(format!(
            "network[{at}].serviceExposure leads to the network of pods: say it of the network \
             {POD_NETWORK}"
        ));
    }
    let ports = list(&said["ports"]);
    if ports.is_empty() {
        wrong.push(format!("network[{at}].serviceExposure.ports is required"));
    }
    for (number, port) in ports.iter().enumerate() {
        if ports.len() > 1 && text(&port["name"]).is_empty() {
            wrong.push(format!("network[{at}].serviceExposure.ports[{number}].name is required"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn wukong(exposure: Value) -> Object {
        Object::new(json!({"metadata": {"namespace": "ns", "name": "w", "uid": "uid"},
            "spec": {"networks": [{"name": "default", "serviceExposure": exposure}]}}))
    }

    fn exposed(kind: &str, port: u64) -> Value {
        json!({"enabled": true, "type": kind, "ports": [{"port": port, "targetPort": 22}]})
    }

    /// What is done for a Wukong while this Service is there, and what is told.
    fn done(exposure: Value, there: Option<&Value>) -> (Vec<Step>, Exposure) {
        let object = wukong(exposure);
        let service = there.map(|there| Arc::new(Object::new(there.clone())));
        let observed = Observed { service, ..Observed::default() };
        let mut steps = Vec::new();
        let exposure = look(&mut steps, &Wukong::of(&object), &observed);
        (steps, exposure)
    }

    /// The Service of a Wukong as a server keeps it.
    fn made(kind: &str, node_port: u64) -> Value {
        let (steps, _) = done(exposed(kind, 80), None);
        let [Step::Create { object, .. }] = &steps[..] else { panic!("{steps:?}") };
        let mut object = object.clone();
        object["metadata"]["uid"] = json!("service");
        object["spec"]["clusterIP"] = json!("10.96.0.9");
        object["spec"]["ports"][0]["nodePort"] = json!(node_port);
        object
    }

    #[test]
    fn a_service_that_says_what_is_wanted_is_left_alone() {
        let there = made("NodePort", 30_080);
        assert_eq!(there["metadata"]["name"], "w-vm-service");
        assert_eq!(there["spec"]["selector"], json!({"kubevirt.io/vm": "w-vm"}));
        let (steps, told) = done(exposed("NodePort", 80), Some(&there));
        assert!(steps.is_empty(), "{steps:?}");
        assert_eq!(told, Exposure::Done("Service w-vm-service leads to the machine".to_owned()));
    }

    #[test]
    fn what_changes_keeps_the_port_of_nodes_that_was_given() {
        let there = made("NodePort", 30_080);
        let mut other = exposed("NodePort", 80);
        other["ports"][0]["targetPort"] = json!(23);
        let (steps, _) = done(other, Some(&there));
        let [Step::Patch { patch, .. }] = &steps[..] else { panic!("{steps:?}") };
        let port = json!({"port": 80, "protocol": "TCP", "targetPort": 23, "nodePort": 30_080});
        assert_eq!(patch["spec"]["ports"], json!([port]));
        // Inside the cluster alone there is none.
        let (steps, _) = done(exposed("ClusterIP", 80), Some(&there));
        let [Step::Patch { patch, .. }] = &steps[..] else { panic!("{steps:?}") };
        let port = json!({"port": 80, "protocol": "TCP", "targetPort": 22});
        assert_eq!(
            (&patch["spec"]["ports"], &patch["spec"]["type"]),
            (&json!([port]), &json!("ClusterIP"))
        );
    }

    #[test]
    fn what_is_not_asked_for_any_more_goes_and_what_is_anothers_stays() {
        let there = made("NodePort", 30_080);
        let off = json!({"enabled": false, "ports": [{"port": 80}]});
        let (steps, told) = done(off.clone(), Some(&there));
        assert!(matches!(&steps[..], [Step::Delete { .. }]) && told == Exposure::NotAsked);
        let mut another = there;
        another["metadata"]["ownerReferences"][0]["uid"] = json!("another");
        assert!(done(off, Some(&another)).0.is_empty());
        let (steps, told) = done(exposed("NodePort", 80), Some(&another));
        let why = "Service ns/w-vm-service exists and belongs to another owner".to_owned();
        assert!(steps.is_empty());
        assert_eq!(told, Exposure::Failed(why));
    }

    #[test]
    fn what_cannot_be_exposed_is_said() {
        let said = |name: &str, exposure: Value| {
            let mut wrong = Vec::new();
            check(&mut wrong, 1, &json!({"name": name, "serviceExposure": exposure}));
            wrong.join("; ")
        };
        assert_eq!(said("default", exposed("NodePort", 80)), "");
        assert_eq!(said("lan", json!({"enabled": false})), "");
        assert_eq!(
            said("lan", exposed("NodePort", 80)),
            "network[1].serviceExposure leads to the network of pods: say it of the network default"
        );
        let none = json!({"enabled": true});
        assert_eq!(said("default", none), "network[1].serviceExposure.ports is required");
        let unnamed = json!({"enabled": true, "ports": [{"port": 1, "name": "a"}, {"port": 2}]});
        let why = "network[1].serviceExposure.ports[1].name is required";
        assert_eq!(said("default", unnamed), why);
    }
}
