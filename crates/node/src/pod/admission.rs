//! Whether this node takes a pod that was bound to it. Whoever binds pods may not know what others
//! bound meanwhile, or may not care.
//!
//! Upstream: pkg/kubelet/lifecycle/predicate.go

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use amounts::Quantity;
use amounts::pod::{Amounts, add, of, read};
use reconcile::Object;
use serde_json::Value;

use super::{confinement, spec};
use crate::runtime::Refusal;

/// What the pods that were taken have, by UID.
#[derive(Debug, Default)]
pub struct Ledger {
    taken: Mutex<BTreeMap<String, Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    amounts: Amounts,
    ports: Vec<Port>,
}

/// A port of the machine.
#[derive(Debug, PartialEq, Eq)]
struct Port {
    address: String,
    protocol: String,
    number: u64,
}

impl Ledger {
    /// Takes a pod, if it was taken before or there is room for it.
    pub fn admit(&self, pod: &Object, node: Option<&Object>) -> Result<(), Refusal> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.contains_key(&pod.uid) || spec::is_over(pod) {
            return Ok(());
        }
        let asked = Taken::of(pod);
        let is_known = pod.value["status"]["startTime"].is_string() || pod.is_terminating();
        if let Some(node) = node.filter(|_| !is_known) {
            if let Some(message) = confinement::forbidden_sysctl(&pod.value) {
                return Err(Refusal { reason: "SysctlForbidden", message });
            }
            fits(pod, &asked, node, &taken)?;
        }
        taken.insert(pod.uid.clone(), asked);
        Ok(())
    }

    /// What the pod had is free for others.
    pub fn release(&self, uid: &str) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

impl Taken {
    fn of(pod: &Object) -> Taken {
        let mut amounts = of(&pod.value, "requests");
        amounts.insert("pods".to_owned(), Quantity::from_i64(1));
        let mut ports = Vec::new();
        for container in spec::containers(pod) {
            for port in container.value["ports"].as_array().into_iter().flatten() {
                let text = |field: &str, usual: &str| {
                    let own = port[field].as_str().filter(|text| !text.is_empty());
                    own.unwrap_or(usual).to_owned()
                };
                if let Some(number) = port["hostPort"].as_u64().filter(|number| *number > 0) {
                    let (address, protocol) = (text("hostIP", "0.0.0.0"), text("protocol", "TCP"));
                    ports.push(Port { address, protocol, number });
                }
            }
        }
        Taken { amounts, ports }
    }
}

impl Port {
    fn collides(&self, other: &Port) -> bool {
        let is_any = |address: &str| address == "0.0.0.0" || address == "::";
        let same = self.address == other.address;
        self.number == other.number
            && self.protocol == other.protocol
            && (same || is_any(&self.address) || is_any(&other.address))
    }
}

fn fits(
    pod: &Object,
    asked: &Taken,
    node: &Object,
    taken: &BTreeMap<String, Taken>,
) -> Result<(), Refusal> {
    let rejected = |reason: &'static str, message: String| {
        Err(Refusal { reason, message: format!("Pod was rejected: {message}") })
    };
    let system = pod.value["spec"]["os"]["name"].as_str();
    if system.is_some_and(|name| name != "linux") {
        let message = "Failed to admit pod as the OS field doesn't match node OS";
        return rejected("PodOSNotSupported", message.to_owned());
    }
    // A pod that names its node itself is seen by no scheduler, which keeps such pods Pending.
    if pod.value["spec"]["resourceClaims"].as_array().is_some_and(|claims| !claims.is_empty()) {
        let message = "this node cannot allocate the devices of resource claims \
                       (spec.resourceClaims)";
        return rejected("UnexpectedAdmissionError", message.to_owned());
    }
    if !selects(pod, node) {
        let why = "node(s) didn't match Pod's node affinity/selector";
        return rejected("NodeAffinity", format!("Predicate NodeAffinity failed: {why}"));
    }
    let held = || taken.values().flat_map(|one| &one.ports);
    if asked.ports.iter().any(|port| held().any(|other| port.collides(other))) {
        let why = "node(s) didn't have free ports for the requested pod ports";
        return rejected("NodePorts", format!("Predicate NodePorts failed: {why}"));
    }
    let allocatable = read(&node.value["status"]["allocatable"]);
    let mut used = Amounts::new();
    taken.values().for_each(|one| add(&mut used, &one.amounts));
    for (name, wanted) in &asked.amounts {
        // What the node does not count, nobody can run out of.
        let Some(room) = allocatable.get(name).filter(|_| !wanted.is_zero()) else { continue };
        let used = used.get(name).copied().unwrap_or(Quantity::ZERO);
        if used.plus(wanted) <= *room {
            continue;
        }
        let told = |amount: &Quantity| match name.as_str() {
            "cpu" => amount.milli_value(),
            _ => amount.value(),
        };
        return rejected(
            out_of(name),
            format!(
                "Node didn't have enough resource: {name}, requested: {}, used: {}, capacity: {}",
                told(wanted),
                told(&used),
                told(room)
            ),
        );
    }
    Ok(())
}

fn out_of(resource: &str) -> &'static str {
    match resource {
        "cpu" => "OutOfcpu",
        "memory" => "OutOfmemory",
        "pods" => "OutOfpods",
        "ephemeral-storage" => "OutOfephemeral-storage",
        _ => "UnexpectedAdmissionError",
    }
}

/// Whether a pod's `nodeSelector` and its required affinity let it be on a node.
fn selects(pod: &Object, node: &Object) -> bool {
    let spec = &pod.value["spec"];
    let mut wanted = spec["nodeSelector"].as_object().into_iter().flatten();
    if !wanted.all(|(name, value)| node.label(name) == value.as_str()) {
        return false;
    }
    let required =
        &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let Some(terms) = required["nodeSelectorTerms"].as_array() else { return true };
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    terms.iter().any(|term| {
        let (labels, fields) = (list(&term["matchExpressions"]), list(&term["matchFields"]));
        let is_empty = labels.is_empty() && fields.is_empty();
        let label = |one: &Value| matches(one, node.label(text(&one["key"])));
        let field = |one: &Value| {
            let name = (one["key"] == "metadata.name").then_some(&*node.name.name);
            matches(one, name)
        };
        !is_empty && labels.iter().all(label) && fields.iter().all(field)
    })
}

fn matches(requirement: &Value, found: Option<&str>) -> bool {
    let values = requirement["values"].as_array().into_iter().flatten();
    let is_in = || found.is_some_and(|found| values.clone().any(|value| value == found));
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    let bound = || number(values.clone().next().and_then(Value::as_str));
    match text(&requirement["operator"]) {
        "In" => is_in(),
        "NotIn" => !is_in(),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => number(found).zip(bound()).is_some_and(|(found, bound)| found > bound),
        "Lt" => number(found).zip(bound()).is_some_and(|(found, bound)| found < bound),
        _ => false,
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
