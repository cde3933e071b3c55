//! The networks of a Wukong: an attachment for each that is not the network of pods, made or the
//! user's own, and a policy that makes its bridge on the machines of the cluster.

use std::fmt::Write;

use aws_lc_rs::digest;
use reconcile::plan::{Deletion, Target};
use reconcile::{Object, Step, conditions};
use serde_json::{Value, json};

use super::observe::Observed;
use super::spec::{Network, POD_NETWORK, Wukong, in_the_way};
use super::validate::subnet;
use crate::Bridges;
use crate::kinds::{ATTACHMENT, POLICY};
use crate::value::text;

/// Whose a policy is: it has no owner, since it is of no namespace.
pub const OWNER_LABEL: &str = "vm.novasphere.dev/wukong-uid";
pub const OWNER_ANNOTATION: &str = "vm.novasphere.dev/wukong";
const POOL_ANNOTATION: &str = "k8s.v1.cni.cncf.io/resourceName";
const CNI_VERSION: &str = "0.3.1";

/// How the networks are, and what is to be done for them.
pub struct Networks {
    pub steps: Vec<Step>,
    pub state: State,
    /// Those that a machine is attached to, beside that of pods.
    pub attached: Vec<Attached>,
    /// Those that cannot be: the cluster knows no attachments.
    pub fallen_back: Vec<String>,
    pub has_pods: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum State {
    Ready,
    Pending(String),
    Failed(String),
}

pub struct Attached {
    pub name: String,
    pub attachment: String,
    pub is_primary: bool,
    pub binding: &'static str,
}

impl State {
    /// The worse of two; of two alike the first.
    fn and(self, other: State) -> State {
        match (&self, &other) {
            (State::Failed(_), _) => self,
            (_, State::Failed(_)) => other,
            (State::Pending(_), _) => self,
            _ => other,
        }
    }
}

pub fn look(wukong: &Wukong<'_>, observed: &Observed) -> Networks {
    let networks = wukong.networks();
    let mut found = Networks {
        steps: Vec::new(),
        state: State::Ready,
        attached: Vec::new(),
        fallen_back: Vec::new(),
        has_pods: !networks.iter().any(|network| network.is_primary() && !network.is_pods()),
    };
    for network in networks.iter().filter(|network| !network.is_pods()) {
        if !observed.add_ons.multus {
            found.fallen_back.push(network.name().to_owned());
            continue;
        }
        let state = attachment(&mut found.steps, wukong, network, observed);
        let state = match state {
            State::Failed(_) => state,
            state => state.and(policy(&mut found.steps, wukong, network, observed)),
        };
        let binding = if network.kind() == "sriov" { "sriov" } else { "bridge" };
        found.attached.push(Attached {
            name: network.name().to_owned(),
            attachment: wukong.attachment_name(network),
            is_primary: network.is_primary(),
            binding,
        });
        found.state = std::mem::replace(&mut found.state, State::Ready).and(state);
    }
    // Who has nothing to attach his first network to has that of pods.
    found.has_pods |= found.attached.is_empty();
    found
}

fn attachment(
    steps: &mut Vec<Step>,
    wukong: &Wukong<'_>,
    network: &Network<'_>,
    observed: &Observed,
) -> State {
    let name = wukong.attachment_name(network);
    let there = observed.attachments.get(&name);
    if network.own_attachment().is_some() {
        return match there {
            Some(_) => State::Ready,
            None => State::Pending(format!("NetworkAttachmentDefinition {name} is not found")),
        };
    }
    let wanted = match wanted_attachment(wukong, network, observed) {
        Ok(wanted) => wanted,
        Err(why) => return State::Failed(why),
    };
    let Some(there) = there else {
        steps.push(Step::Create { kind: ATTACHMENT, object: wanted });
        return State::Pending(format!("NetworkAttachmentDefinition {name} is being made"));
    };
    if !wukong.owns(there) {
        return State::Failed(in_the_way(ATTACHMENT, there));
    }
    if there.value["spec"]["config"] != wanted["spec"]["config"] {
        let patch = json!({"spec": {"config": wanted["spec"]["config"]}});
        steps.push(Step::Patch { target: Target::unchanged(ATTACHMENT, there), patch });
    }
    State::Ready
}

fn wanted_attachment(
    wukong: &Wukong<'_>,
    network: &Network<'_>,
    observed: &Observed,
) -> Result<Value, String> {
    // A policy puts the bridge on an interface of the virtual network already.
    let by_policy = observed.add_ons.nmstate && !network.interface().is_empty();
    let mut object = wukong.child(ATTACHMENT, &wukong.attachment_name(network));
    let bridge = wukong.bridge(network, observed.bridges);
    object["spec"] = json!({"config": config(network, &bridge, by_policy)?});
    if network.kind() == "sriov" && !network.interface().is_empty() {
        object["metadata"]["annotations"] = json!({POOL_ANNOTATION: network.interface()});
    }
    Ok(object)
}

/// What the plugins of a node are told, in the order of fields that they are known by.
fn config(network: &Network<'_>, bridge: &str, by_policy: bool) -> Result<String, String> {
    let mut fields: Vec<(&str, Value)> = vec![("cniVersion", json!(CNI_VERSION))];
    let vlan = network.vlan().map(|vlan| ("vlan", json!(vlan)));
    match network.kind() {
        "macvlan" => {
            let master = match (network.interface(), text(&network.value["bridgeName"])) {
                ("", "") => {
                    return Err(format!(
                        "physicalInterface is required for macvlan network type, network: {}",
                        network.name()
                    ));
                }
                ("", bridge) => bridge,
                (interface, _) => interface,
            };
            let master = match network.vlan() {
                Some(vlan) => format!("{master}.{vlan}"),
                None => master.to_owned(),
            };
            fields.extend([("type", json!("macvlan")), ("master", json!(master))]);
            fields.extend([("mode", json!("bridge")), ("ipam", json!({}))]);
        }
        "sriov" => {
            fields.push(("type", json!("sriov")));
            fields.extend(vlan);
            fields.extend([("spoofchk", json!("on")), ("trust", json!("on"))]);
            fields.push(("ipam", json!({})));
        }
        "ovs" => {
            fields.extend([("type", json!("ovs")), ("bridge", json!(bridge))]);
            fields.extend(vlan);
        }
        _ => {
            fields.extend([("type", json!("bridge")), ("bridge", json!(bridge))]);
            fields.extend(vlan.filter(|_| !by_policy));
            fields.extend([("macspoofchk", json!(true)), ("ipam", json!({}))]);
        }
    }
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    Ok(format!("{{{}}}", fields.join(",")))
}

fn policy(
    steps: &mut Vec<Step>,
    wukong: &Wukong<'_>,
    network: &Network<'_>,
    observed: &Observed,
) -> State {
    if !observed.add_ons.nmstate || !["bridge", "ovs"].contains(&network.kind()) {
        return State::Ready;
    }
    if network.interface().is_empty() {
        // An attachment of the user's has a bridge of the user's.
        let is_made = network.own_attachment().is_some() || observed.bridges == Bridges::ByNode;
        return match is_made {
            true => State::Ready,
            false => State::Failed(format!(
                "physicalInterface is required for bridge/ovs network type, network: {}",
                network.name()
            )),
        };
    }
    let name = wukong.policy_name(network);
    let legacy = observed.policies.get(&wukong.legacy_policy_name(network));
    let legacy = legacy.filter(|policy| policy.label(OWNER_LABEL) == Some(wukong.uid()));
    let state = desired_state(network, &wukong.bridge(network, observed.bridges));
    let Some(there) = observed.policies.get(&name) else {
        let object = json!({
            "apiVersion": POLICY.api_version(),
            "kind": POLICY.kind,
            "metadata": {
                "name": name,
                "labels": {OWNER_LABEL: wukong.uid()},
                "annotations": {OWNER_ANNOTATION: wukong.object.name.to_string()},
            },
            "spec": {"desiredState": state},
        });
        steps.push(Step::Create { kind: POLICY, object });
        // Nodes keep what the policy of the old name made while another one wants the same.
        return match legacy {
            Some(legacy) => availability(legacy),
            None => State::Pending(format!("NodeNetworkConfigurationPolicy {name} is being made")),
        };
    };
    if there.label(OWNER_LABEL) != Some(wukong.uid()) {
        return State::Failed(in_the_way(POLICY, there));
    }
    if there.value["spec"]["desiredState"] != state {
        let patch = json!({"spec": {"desiredState": state}});
        steps.push(Step::Patch { target: Target::unchanged(POLICY, there), patch });
        return State::Pending(format!("NodeNetworkConfigurationPolicy {name} is being changed"));
    }
    match (availability(there), legacy) {
        (State::Ready, Some(legacy)) if !legacy.is_terminating() => {
            let target = Target::of(POLICY, legacy);
            steps.push(Step::Delete { target, options: Deletion::default() });
            State::Ready
        }
        (State::Pending(_), Some(legacy)) => availability(legacy),
        (state, _) => state,
    }
}

/// Whether the machines of the cluster have what a policy says.
fn availability(policy: &Object) -> State {
    let status = &policy.value["status"];
    let said = |kind: &str| {
        let found = conditions::find(status, kind).filter(|one| one["status"] == "True");
        found.map(|one| text(&one["message"]).to_owned())
    };
    let name = &policy.name;
    match (said("Available"), said("Degraded")) {
        (Some(_), _) => State::Ready,
        (_, Some(why)) => {
            State::Failed(format!("NodeNetworkConfigurationPolicy {name} is degraded: {why}"))
        }
        _ => State::Pending(format!("NodeNetworkConfigurationPolicy {name} is not available yet")),
    }
}

fn desired_state(network: &Network<'_>, bridge_name: &str) -> Value {
    let interface = network.interface();
    let is_open = network.kind() == "ovs";
    let kind = if is_open { "ovs-bridge" } else { "linux-bridge" };
    let bridge = |port: &str| {
        json!({"name": bridge_name, "type": kind, "state": "up",
            "bridge": {"options": {"stp": {"enabled": false}}, "port": [{"name": port}]}})
    };
    // An open bridge tells virtual networks apart itself.
    if let Some(vlan) = network.vlan().filter(|_| !is_open) {
        let tagged = format!("{interface}.{vlan}");
        return json!({"interfaces": [
            {"name": tagged, "type": "vlan", "state": "up",
                "vlan": {"base-iface": interface, "id": vlan}},
            bridge(&tagged),
        ]});
    }
    let mut bridge = bridge(interface);
    if let Some((address, length)) = subnet(text(&network.value["nodeIP"])) {
        bridge["ipv4"] = json!({"enabled": true,
            "address": [{"ip": address.to_string(), "prefix-length": length}]});
    }
    json!({"interfaces": [
        bridge,
        {"name": interface, "type": "ethernet", "state": "up", "ipv4": {"enabled": false}},
    ]})
}

/// The address of a machine's interface: the same whenever it is asked for.
pub fn hardware_address(wukong: &Wukong<'_>, network: &str) -> String {
    let whose = format!("{}/{}/{network}", wukong.namespace(), wukong.machine_name());
    let digest = digest::digest(&digest::SHA256, whose.as_bytes());
    let mut address = "02".to_owned();
    for byte in digest.as_ref().iter().take(5) {
        // Writing to a string cannot fail.
        let _ = write!(address, ":{byte:02x}");
    }
    address
}

/// What is told of each network.
pub fn statuses(networks: &Networks, instance: Option<&Object>) -> Vec<Value> {
    let mut all = Vec::new();
    if networks.has_pods {
        all.push(json!({"name": POD_NETWORK}));
    }
    for one in &networks.attached {
        let mut status = json!({"name": one.name, "nadName": one.attachment});
        if one.is_primary {
            status["primary"] = json!(true);
        }
        all.push(status);
    }
    all.extend(networks.fallen_back.iter().map(|name| json!({"name": name})));
    let Some(instance) = instance else { return all };
    for status in &mut all {
        let interfaces = &instance.value["status"]["interfaces"];
        let name = text(&status["name"]).to_owned();
        let Some(found) = crate::value::find(interfaces, "name", &name) else { continue };
        for (field, of) in
            [("macAddress", "mac"), ("ipAddress", "ipAddress"), ("interface", "interfaceName")]
        {
            if !text(&found[of]).is_empty() {
                status[field] = found[of].clone();
            }
        }
    }
    all
}
