//! `vm.novasphere.dev/v1alpha1`: Wukong, a virtual machine with its networks and disks, and
//! WukongSnapshot, a moment of one.
//!
//! Upstream: kuihuar/vmoperator, api/v1alpha1

use serde_json::{Value, json};

use crate::core_types;
use crate::definition::Definition;
use crate::schema::{
    atomic_list, boolean, choice, condition, list_by, object, string, text, time, with,
};

pub const GROUP: &str = "vm.novasphere.dev";
pub const VERSION: &str = "v1alpha1";

/// Names of disks and networks.
const NAME: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const NAME_LENGTH_MAX: usize = 63;
const AMOUNT: &str = r"^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|Pi|Ei|K|M|G|T|P|E)?$";

/// The network of pods has this name.
pub const POD_NETWORK: &str = "default";
pub const NETWORK_TYPES: [&str; 4] = ["bridge", "macvlan", "sriov", "ovs"];
pub const CPU_MAX: i64 = 64;
pub const VLAN_MAX: i64 = 4_094;
const PORT_MAX: u16 = u16::MAX;

pub fn definitions() -> [Value; 2] {
    [wukong(), snapshot()]
}

fn wukong() -> Value {
    Definition {
        group: GROUP,
        version: VERSION,
        kind: "Wukong",
        plural: "wukongs",
        singular: "wukong",
        is_namespaced: true,
        schema: object([("spec", spec()), ("status", status())]),
        has_status: true,
        columns: json!([
            {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
            {"name": "Ready", "type": "string",
                "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
            {"name": "Node", "type": "string", "jsonPath": ".status.nodeName"},
            {"name": "Address", "type": "string", "jsonPath": ".status.networks[0].ipAddress"},
            {"name": "Reason", "type": "string", "priority": 1,
                "jsonPath": ".status.conditions[?(@.type==\"Ready\")].reason"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]),
    }
    .manifest()
}

fn snapshot() -> Value {
    let schema = object([
        ("spec!", object([("includeMemory", boolean()), ("wukongName!", text(1, 253))])),
        (
            "status",
            object([
                ("creationTime", time()),
                ("error", string()),
                ("phase", choice(&["Pending", "Creating", "Succeeded", "Failed"])),
                ("snapshotName", string()),
            ]),
        ),
    ]);
    Definition {
        group: GROUP,
        version: VERSION,
        kind: "WukongSnapshot",
        plural: "wukongsnapshots",
        singular: "wukongsnapshot",
        is_namespaced: true,
        schema,
        has_status: true,
        columns: json!([
            {"name": "Wukong", "type": "string", "jsonPath": ".spec.wukongName"},
            {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]),
    }
    .manifest()
}

fn spec() -> Value {
    object([
        ("cloudInitUser", user()),
        ("cpu!", json!({"type": "integer", "minimum": 1, "maximum": CPU_MAX})),
        ("disks", plain_list(disk())),
        ("gpus", plain_list(object([("deviceName!", string()), ("name!", string())]))),
        ("highAvailability", availability()),
        ("memory!", amount()),
        ("networks", plain_list(network())),
        ("osImage", string()),
        ("restoreFromSnapshot", string()),
        ("sshKeySecret", string()),
        (
            "startStrategy",
            object([
                ("autoStart", boolean()),
                ("runStrategy", choice(&["Always", "RerunOnFailure", "Manual"])),
            ]),
        ),
    ])
}

/// A list as upstream has it: nobody says how an apply merges it, so it is replaced whole.
fn plain_list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn amount() -> Value {
    with(string(), json!({"pattern": AMOUNT}))
}

fn name() -> Value {
    with(string(), json!({"pattern": NAME, "maxLength": NAME_LENGTH_MAX}))
}

fn user() -> Value {
    object([
        ("groups", plain_list(string())),
        ("lockPasswd", boolean()),
        ("name!", string()),
        ("password", string()),
        ("passwordHash", string()),
        ("shell", string()),
        ("sudo", string()),
    ])
}

/// That a disk names its class is asked of it only where the cluster has no default.
fn disk() -> Value {
    object([
        ("boot", boolean()),
        ("cloneType", choice(&["full", "linked"])),
        ("image", string()),
        ("name!", name()),
        ("size!", amount()),
        ("storageClassName", string()),
    ])
}

fn network() -> Value {
    let address = object([
        ("address", string()),
        ("dnsServers", plain_list(string())),
        ("gateway", string()),
        ("mode!", choice(&["static", "dhcp"])),
    ]);
    object([
        ("bridgeName", string()),
        ("ipConfig", address),
        ("nadName", string()),
        ("name!", name()),
        ("nodeIP", string()),
        ("physicalInterface", string()),
        ("primary", boolean()),
        ("serviceExposure", exposure()),
        ("type", choice(&NETWORK_TYPES)),
        ("vlanId", json!({"type": "integer", "minimum": 1, "maximum": VLAN_MAX})),
    ])
}

/// Whether a Service leads to the machine, and which.
fn exposure() -> Value {
    let number = || json!({"type": "integer", "minimum": 1, "maximum": PORT_MAX});
    let port = object([
        ("name", string()),
        ("nodePort", number()),
        ("port!", number()),
        ("protocol", choice(&["TCP", "UDP"])),
        ("targetPort", number()),
    ]);
    object([
        ("enabled", boolean()),
        ("loadBalancerIP", string()),
        ("ports", plain_list(port)),
        ("type", choice(&["ClusterIP", "NodePort", "LoadBalancer"])),
    ])
}

fn availability() -> Value {
    object([
        ("antiAffinity", boolean()),
        ("nodeSelector", core_types::shape("map:string")),
        ("restartPolicy", choice(&["Always", "OnFailure", "Never"])),
        ("tolerations", core_types::shape("[]Toleration")),
    ])
}

fn status() -> Value {
    let network = object([
        ("interface", string()),
        ("ipAddress", string()),
        ("macAddress", string()),
        ("nadName", string()),
        ("name!", string()),
        ("primary", boolean()),
    ]);
    let volume = object([
        ("bound", boolean()),
        ("name!", string()),
        ("pvcName", string()),
        ("size", string()),
    ]);
    object([
        ("conditions", list_by("type", condition(), None)),
        ("networks", atomic_list(network, None)),
        ("nodeName", string()),
        ("phase", choice(&["Pending", "Creating", "Running", "Stopped", "Error"])),
        ("vmName", string()),
        ("volumes", atomic_list(volume, None)),
    ])
}
