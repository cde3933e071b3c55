//! Everything about a pod that decides where it may run and where it runs best. Equal pods have
//! equal templates, and a decision for one helps with the others.

use std::sync::Arc;

use reconcile::Object;
use serde_json::Value;

use crate::labels::{self, Labels, NodeTerm, Requirement, list, node_terms, text};
use crate::pod::affinity::Relations;
use crate::pod::requests;
use crate::pod::volumes::{self, Claim, Disk};
use crate::resources::{CPU, Catalogue, MEMORY, ResourceId};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Template {
    pub namespace: Arc<str>,
    /// The pod's labels, if its own relations depend on them.
    pub own_labels: Option<Labels>,
    /// What must be free; nothing that is zero.
    pub needed: Vec<(ResourceId, i64)>,
    /// Cpu and memory, for comparing nodes.
    pub compared: [i64; 2],
    pub node_selector: Vec<Requirement>,
    pub node_terms: Option<Vec<NodeTerm>>,
    pub node_preferences: Vec<(i64, NodeTerm)>,
    pub tolerations: Vec<Toleration>,
    pub ports: Vec<Port>,
    pub images: Vec<Arc<str>>,
    pub containers: usize,
    pub relations: Relations,
    pub claims: Vec<Claim>,
    pub disks: Vec<Disk>,
    /// True if it claims devices.
    pub has_resource_claims: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Toleration {
    pub key: Arc<str>,
    pub value: Option<Arc<str>>,
    pub effect: Arc<str>,
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    pub key: Arc<str>,
    pub value: Arc<str>,
    pub effect: Arc<str>,
}

/// A port of the node that a pod wants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Port {
    pub protocol: Arc<str>,
    pub address: Arc<str>,
    pub number: i64,
}

impl Port {
    pub fn conflicts(&self, other: &Port) -> bool {
        const ANY: &str = "0.0.0.0";
        let overlaps =
            self.address == other.address || &*self.address == ANY || &*other.address == ANY;
        overlaps && self.protocol == other.protocol && self.number == other.number
    }
}

impl Toleration {
    pub fn tolerates(&self, taint: &Taint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
    }
}

impl Taint {
    pub fn read(value: &Value) -> Taint {
        Taint {
            key: text(&value["key"]).into(),
            value: text(&value["value"]).into(),
            effect: text(&value["effect"]).into(),
        }
    }
}

impl Template {
    pub fn read(object: &Object, catalogue: &mut Catalogue) -> Template {
        let spec = &object.value["spec"];
        let namespace = &object.name.namespace;
        let own = labels::read(&object.value["metadata"]["labels"]);
        let relations = Relations::read(namespace, &own, spec);
        let needed = requests::needed(spec).into_iter().filter(|(_, amount)| *amount != 0);
        let needed = needed.map(|(name, amount)| (catalogue.id(&name), amount)).collect();
        let compared = requests::compared(spec);
        let compared = ["cpu", "memory"].map(|name| compared.get(name).copied().unwrap_or(0));
        let affinity = &spec["affinity"]["nodeAffinity"];
        let selector = spec["nodeSelector"].as_object().into_iter().flatten();
        Template {
            namespace: namespace.clone(),
            own_labels: (!relations.is_empty()).then_some(own),
            needed,
            compared,
            node_selector: selector.map(|(key, value)| Requirement::is(key, text(value))).collect(),
            node_terms: node_terms(&affinity["requiredDuringSchedulingIgnoredDuringExecution"]),
            node_preferences: list(&affinity["preferredDuringSchedulingIgnoredDuringExecution"])
                .map(|one| {
                    (one["weight"].as_i64().unwrap_or(0), NodeTerm::read(&one["preference"]))
                })
                .collect(),
            tolerations: list(&spec["tolerations"]).map(toleration).collect(),
            ports: ports(spec),
            images: images(spec),
            containers: list(&spec["containers"]).chain(list(&spec["initContainers"])).count(),
            relations,
            claims: volumes::claims(&object.name.name, spec),
            has_resource_claims: list(&spec["resourceClaims"]).next().is_some(),
            disks: volumes::disks(spec),
        }
    }

    /// Whether nothing is asked for: such a pod does not unbalance a node.
    pub fn is_best_effort(&self) -> bool {
        !self.needed.iter().any(|(id, _)| [CPU, MEMORY].contains(id))
    }

    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|one| one.tolerates(taint))
    }

    /// Whether its node selector and required affinity allow a node.
    pub fn selects(&self, name: &str, labels: &Labels) -> bool {
        let holds = |one: &Requirement| one.holds(labels.get(&one.key).map(|value| &**value));
        let has_term = |terms: &Vec<NodeTerm>| terms.iter().any(|term| term.matches(name, labels));
        self.node_selector.iter().all(holds) && self.node_terms.as_ref().is_none_or(has_term)
    }

    pub fn selects_every_node(&self) -> bool {
        self.node_selector.is_empty() && self.node_terms.is_none()
    }
}

fn toleration(value: &Value) -> Toleration {
    let is_any_value = text(&value["operator"]) == "Exists";
    Toleration {
        key: text(&value["key"]).into(),
        value: (!is_any_value).then(|| text(&value["value"]).into()),
        effect: text(&value["effect"]).into(),
    }
}

fn ports(spec: &Value) -> Vec<Port> {
    let sidecars = list(&spec["initContainers"])
        .filter(|container| text(&container["restartPolicy"]) == "Always");
    let containers = list(&spec["containers"]).chain(sidecars);
    let ports = containers.flat_map(|container| list(&container["ports"]));
    let ports = ports.filter_map(|port| {
        let number = port["hostPort"].as_i64().filter(|number| *number > 0)?;
        let or =
            |found: &str, unsaid: &str| Arc::from(if found.is_empty() { unsaid } else { found });
        Some(Port {
            protocol: or(text(&port["protocol"]), "TCP"),
            address: or(text(&port["hostIP"]), "0.0.0.0"),
            number,
        })
    });
    ports.collect()
}

fn images(spec: &Value) -> Vec<Arc<str>> {
    let containers = list(&spec["containers"]).chain(list(&spec["initContainers"]));
    containers.map(|container| normal_image(text(&container["image"]))).collect()
}

/// An image name with its tag.
pub fn normal_image(name: &str) -> Arc<str> {
    let after_path = name.rsplit('/').next().unwrap_or(name);
    if after_path.contains([':', '@']) { name.into() } else { format!("{name}:latest").into() }
}
