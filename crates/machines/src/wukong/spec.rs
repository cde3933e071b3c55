//! A Wukong, read: what is not said has its default here, whether a webhook filled it in or not.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_lc_rs::digest;
use reconcile::{Kind, Object, owners};
use serde_json::Value;

use crate::Bridges;
use crate::kinds::WUKONG;
use crate::value::{list, text};

pub const FINALIZER: &str = "wukong.novasphere.dev/finalizer";
/// What the kernel lets an interface be called at the most.
pub const INTERFACE_LENGTH_MAX: usize = 15;
pub const POD_NETWORK: &str = api::wukong::POD_NETWORK;
/// What marks the class of disks that name none.
const DEFAULT_CLASS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

#[derive(Clone, Copy)]
pub struct Wukong<'a> {
    pub object: &'a Object,
}

impl<'a> Wukong<'a> {
    pub fn of(object: &'a Object) -> Wukong<'a> {
        Wukong { object }
    }

    pub fn name(&self) -> &'a str {
        &self.object.name.name
    }

    pub fn namespace(&self) -> &'a str {
        &self.object.name.namespace
    }

    pub fn uid(&self) -> &'a str {
        &self.object.uid
    }

    pub fn spec(&self) -> &'a Value {
        &self.object.value["spec"]
    }

    pub fn status(&self) -> &'a Value {
        &self.object.value["status"]
    }

    pub fn phase(&self) -> &'a str {
        text(&self.status()["phase"])
    }

    pub fn machine_name(&self) -> String {
        machine_name(self.name())
    }

    /// The name of the Service that leads to its machine.
    pub fn service_name(&self) -> String {
        format!("{}-service", self.machine_name())
    }

    pub fn networks(&self) -> Vec<Network<'a>> {
        list(&self.spec()["networks"]).iter().map(|value| Network { value }).collect()
    }

    pub fn disks(&self) -> Vec<Disk<'a>> {
        let disks = list(&self.spec()["disks"]);
        let all = disks.iter().enumerate();
        let boot = disks.iter().position(|disk| disk["boot"] == true).unwrap_or(0);
        let has_image = disks.iter().any(|disk| !text(&disk["image"]).is_empty());
        let system = if has_image { "" } else { text(&self.spec()["osImage"]) };
        all.map(|(at, value)| {
            let own = text(&value["image"]);
            let image = if own.is_empty() && at == boot { system } else { own };
            Disk { value, image }
        })
        .collect()
    }

    /// The name of a disk's claim, and of the volume that fills it.
    pub fn claim_name(&self, disk: &str) -> String {
        format!("{}-{disk}", self.name())
    }

    pub fn attachment_name(&self, network: &Network<'_>) -> String {
        match network.own_attachment() {
            Some(own) => own.to_owned(),
            None => format!("{}-{}-nad", self.name(), network.name()),
        }
    }

    /// The name of the policy of a network. Policies are cluster-scoped and namespaces have no
    /// dots, so objects of different namespaces never share a name.
    pub fn policy_name(&self, network: &Network<'_>) -> String {
        format!("{}.{}", self.namespace(), self.legacy_policy_name(network))
    }

    /// The name that policies had before it included the namespace.
    pub fn legacy_policy_name(&self, network: &Network<'_>) -> String {
        format!("{}-{}-bridge", self.name(), network.name())
    }

    /// The bridge of a network. A network that names neither a bridge nor an interface of the nodes
    /// has a bridge of its namespace where nodes make bridges.
    pub fn bridge(&self, network: &Network<'_>, bridges: Bridges) -> String {
        let is_private = network.interface().is_empty() && bridges == Bridges::ByNode;
        match text(&network.value["bridgeName"]) {
            "" if is_private => private_bridge(self.namespace(), network.name()),
            "" => bridge_of(network.name()),
            bridge => bridge.to_owned(),
        }
    }

    pub fn starts_itself(&self) -> bool {
        self.spec()["startStrategy"]["autoStart"] != false
    }

    /// When the machine is to run, as KubeVirt calls it.
    pub fn run_strategy(&self) -> &'a str {
        let asked = text(&self.spec()["startStrategy"]["runStrategy"]);
        let policy = text(&self.spec()["highAvailability"]["restartPolicy"]);
        match (self.starts_itself(), asked, policy) {
            (false, "Manual", _) => "Manual",
            (false, ..) => "Halted",
            (true, "", "OnFailure") => "RerunOnFailure",
            (true, "", "Never") => "Once",
            (true, "", _) => "Always",
            (true, asked, _) => asked,
        }
    }

    pub fn restores_from(&self) -> Option<&'a str> {
        let from = text(&self.spec()["restoreFromSnapshot"]);
        (!from.is_empty()).then_some(from)
    }

    pub fn restore_name(&self, snapshot: &str) -> String {
        format!("{}-restore-{snapshot}", self.name())
    }

    /// An object of its own.
    pub fn child(&self, kind: Kind, name: &str) -> Value {
        owners::child(kind, name, WUKONG, self.object)
    }

    pub fn owns(&self, object: &Object) -> bool {
        object.controller() == Some(self.uid())
    }
}

pub fn machine_name(wukong: &str) -> String {
    format!("{wukong}-vm")
}

/// What is said of an object of a name that ours should have.
pub fn in_the_way(kind: Kind, object: &Object) -> String {
    format!("{} {} exists and belongs to another owner", kind.kind, object.name)
}

#[derive(Clone, Copy)]
pub struct Network<'a> {
    pub value: &'a Value,
}

impl<'a> Network<'a> {
    pub fn name(&self) -> &'a str {
        text(&self.value["name"])
    }

    /// Whether it is the network that pods have.
    pub fn is_pods(&self) -> bool {
        self.name() == POD_NETWORK
    }

    pub fn kind(&self) -> &'a str {
        match text(&self.value["type"]) {
            "" => "bridge",
            kind => kind,
        }
    }

    /// An attachment that the user has made.
    pub fn own_attachment(&self) -> Option<&'a str> {
        let name = text(&self.value["nadName"]);
        (!name.is_empty()).then_some(name)
    }

    pub fn is_primary(&self) -> bool {
        self.value["primary"] == true
    }

    pub fn vlan(&self) -> Option<i64> {
        self.value["vlanId"].as_i64().filter(|vlan| *vlan > 0)
    }

    pub fn interface(&self) -> &'a str {
        text(&self.value["physicalInterface"])
    }
}

/// The bridge of a network that only virtual machines of a namespace use. Its hash is long enough
/// that no network of another namespace can be named to have the same one.
pub fn private_bridge(namespace: &str, network: &str) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    const LENGTH: usize = INTERFACE_LENGTH_MAX - 3;
    let digest = digest::digest(&digest::SHA256, format!("{namespace}/{network}").as_bytes());
    let letters = digest.as_ref().iter().take(LENGTH);
    let hash: String = letters.map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect();
    format!("vb-{hash}")
}

/// The bridge of a network that names none. What no interface can be called is cut short, with what
/// tells it from others that begin alike.
pub fn bridge_of(network: &str) -> String {
    let whole = format!("br-{network}");
    if whole.len() <= INTERFACE_LENGTH_MAX {
        return whole;
    }
    let digest = digest::digest(&digest::SHA256, network.as_bytes());
    let digest: String = digest.as_ref().iter().take(3).map(|byte| format!("{byte:02x}")).collect();
    let begin: String = network.chars().take(5).collect();
    format!("br-{begin}-{digest}")
}

#[derive(Clone, Copy)]
pub struct Disk<'a> {
    pub value: &'a Value,
    /// What it is filled with, or empty.
    pub image: &'a str,
}

impl<'a> Disk<'a> {
    pub fn name(&self) -> &'a str {
        text(&self.value["name"])
    }

    pub fn size(&self) -> &'a str {
        text(&self.value["size"])
    }

    pub fn boots(&self) -> bool {
        self.value["boot"] == true
    }

    pub fn class<'b>(&self, classes: &'b Classes) -> &'b str
    where
        'a: 'b,
    {
        match text(&self.value["storageClassName"]) {
            "" => classes.default().unwrap_or_default(),
            own => own,
        }
    }
}

/// The storage classes of the cluster.
#[derive(Default)]
pub struct Classes(pub BTreeMap<String, Arc<Object>>);

impl Classes {
    pub fn of(all: Vec<Arc<Object>>) -> Classes {
        let named = all.into_iter().map(|class| (class.name.name.to_string(), class));
        Classes(named.collect())
    }

    /// The class of disks that name none: of several the newest.
    pub fn default(&self) -> Option<&str> {
        let is_default = |class: &Object| {
            DEFAULT_CLASS.iter().any(|mark| class.annotation(mark) == Some("true"))
        };
        let marked = self.0.iter().filter(|(_, class)| is_default(class));
        let newest = marked
            .max_by_key(|(name, class)| (class.created(), std::cmp::Reverse((*name).clone())));
        newest.map(|(name, _)| name.as_str())
    }

    /// Whether claims of a class wait for whoever uses them first.
    pub fn waits_for_consumer(&self, class: &str) -> bool {
        let class = self.0.get(class);
        class.is_some_and(|class| class.value["volumeBindingMode"] == "WaitForFirstConsumer")
    }

    pub fn allows_expansion(&self, class: &str) -> bool {
        self.0.get(class).is_some_and(|class| class.value["allowVolumeExpansion"] == true)
    }
}
