//! The kinds that machines are made of where a cluster has no add-ons for them: KubeVirt's
//! machines, instances and snapshots, CDI's DataVolumes, the attachments of Multus, the policies of
//! NMState.
//!
//! Their own definitions are long. Here is said what is read, filled in and refused; the rest of a
//! specification is kept as it is.
//!
//! Upstream: kubevirt/kubevirt, kubevirt/containerized-data-importer,
//! k8snetworkplumbingwg/network-attachment-definition-client, nmstate/kubernetes-nmstate

use serde_json::{Value, json};

use crate::definition::Definition;
use crate::schema::{boolean, choice, integer, object, rule, string, time, with};

pub const KUBEVIRT: &str = "kubevirt.io";
pub const SNAPSHOTS: &str = "snapshot.kubevirt.io";
pub const IMPORTER: &str = "cdi.kubevirt.io";
pub const MULTUS: &str = "k8s.cni.cncf.io";
pub const NMSTATE: &str = "nmstate.io";

pub const RUN_STRATEGIES: [&str; 6] =
    ["Always", "RerunOnFailure", "Manual", "Halted", "Once", "WaitAsReceiver"];

/// Disks and volumes, networks and interfaces: as KubeVirt has them, and so that they can be parts
/// of paths and of arguments.
const VOLUME_NAME: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const NETWORK_NAME: &str = "^[A-Za-z0-9]([-_A-Za-z0-9]*[A-Za-z0-9])?$";
const NAME_LENGTH_MAX: usize = 63;

/// Whether a volume can be called so.
pub fn is_volume_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_whole = !name.starts_with('-') && !name.ends_with('-');
    (1..=NAME_LENGTH_MAX).contains(&name.len()) && is_whole && name.bytes().all(is_plain)
}

fn name_of(pattern: &str) -> Value {
    with(string(), json!({"pattern": pattern, "maxLength": NAME_LENGTH_MAX}))
}

/// Every one of them.
pub fn definitions() -> Vec<Value> {
    let mut all = vec![
        machine(),
        instance(),
        data_volume(),
        attachment(),
        policy(),
        enactment(),
        snapshot("VirtualMachineSnapshot", snapshot_schema(), snapshot_columns()),
        snapshot("VirtualMachineSnapshotContent", open_schema(), content_columns()),
        snapshot("VirtualMachineRestore", restore_schema(), restore_columns()),
    ];
    let short: [(&str, &[&str]); 9] = [
        ("VirtualMachine", &["vm", "vms"]),
        ("VirtualMachineInstance", &["vmi", "vmis"]),
        ("DataVolume", &["dv", "dvs"]),
        ("NetworkAttachmentDefinition", &["net-attach-def"]),
        ("NodeNetworkConfigurationPolicy", &["nncp"]),
        ("NodeNetworkConfigurationEnactment", &["nnce"]),
        ("VirtualMachineSnapshot", &["vmsnapshot", "vmsnapshots"]),
        ("VirtualMachineSnapshotContent", &["vmsnapshotcontent", "vmsnapshotcontents"]),
        ("VirtualMachineRestore", &["vmrestore", "vmrestores"]),
    ];
    for definition in &mut all {
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned();
        if let Some((_, names)) = short.iter().find(|(of, _)| *of == kind) {
            definition["spec"]["names"]["shortNames"] = json!(names);
        }
        if [KUBEVIRT, SNAPSHOTS, IMPORTER].iter().any(|group| definition["spec"]["group"] == *group)
        {
            definition["spec"]["names"]["categories"] = json!(["all"]);
        }
    }
    all
}

/// An object whose other fields are kept.
fn open(schema: Value) -> Value {
    with(schema, json!({"x-kubernetes-preserve-unknown-fields": true}))
}

fn anything() -> Value {
    open(json!({"type": "object"}))
}

fn open_schema() -> Value {
    object([("spec", anything()), ("status", anything())])
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn column(name: &str, kind: &str, path: &str) -> Value {
    json!({"name": name, "type": kind, "jsonPath": path})
}

fn age() -> Value {
    column("Age", "date", ".metadata.creationTimestamp")
}

/// The name of a list is told from that of its item by what stands before it.
fn condition_column(name: &str, of: &str, field: &str) -> Value {
    let path = format!(".status.conditions[?(@.type=='{of}')].{field}");
    column(name, "string", &path)
}

fn positive() -> Value {
    json!({"type": "integer", "format": "int64", "minimum": 1})
}

fn amount() -> Value {
    json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true})
}

/// What a machine is made of; machines hold it in their template.
fn instance_spec() -> Value {
    let processor = open(object([
        ("cores", positive()),
        ("model", string()),
        ("sockets", positive()),
        ("threads", positive()),
    ]));
    let disk = open(object([
        ("bootOrder", positive()),
        ("name!", name_of(VOLUME_NAME)),
        ("serial", string()),
    ]));
    let interface = open(object([
        ("macAddress", string()),
        ("name!", name_of(NETWORK_NAME)),
        ("ports", list(anything())),
    ]));
    let gpu = open(object([("deviceName!", string()), ("name!", string())]));
    let devices =
        open(object([("disks", list(disk)), ("gpus", list(gpu)), ("interfaces", list(interface))]));
    let domain = open(object([
        ("cpu", processor),
        ("devices", devices),
        ("memory", open(object([("guest", amount()), ("maxGuest", amount())]))),
    ]));
    let named = |pattern| open(object([("name!", name_of(pattern))]));
    open(object([
        ("domain!", domain),
        ("networks", list(named(NETWORK_NAME))),
        ("terminationGracePeriodSeconds", json!({"type": "integer", "format": "int64"})),
        ("volumes", list(named(VOLUME_NAME))),
    ]))
}

fn machine() -> Value {
    let template = object([("metadata", anything()), ("spec", instance_spec())]);
    let spec = open(object([
        ("dataVolumeTemplates", list(anything())),
        ("runStrategy", choice(&RUN_STRATEGIES)),
        ("running", boolean()),
        ("template!", template),
    ]));
    let spec = rule(
        spec,
        "!(has(self.running) && has(self.runStrategy))",
        "running and runstrategy are mutually exclusive",
    );
    let status = open(object([
        ("conditions", list(anything())),
        ("created", boolean()),
        ("printableStatus", with(string(), json!({"default": "Stopped"}))),
        ("ready", boolean()),
        ("runStrategy", string()),
    ]));
    Definition {
        group: KUBEVIRT,
        version: "v1",
        kind: "VirtualMachine",
        plural: "virtualmachines",
        singular: "virtualmachine",
        is_namespaced: true,
        schema: with(object([("spec", spec), ("status", status)]), json!({"required": ["spec"]})),
        has_status: true,
        columns: json!([
            age(),
            column("Status", "string", ".status.printableStatus"),
            condition_column("Ready", "Ready", "status"),
        ]),
    }
    .manifest()
}

fn instance() -> Value {
    let interface = open(object([
        ("interfaceName", string()),
        ("ipAddress", string()),
        ("mac", string()),
        ("name", string()),
    ]));
    let status = open(object([
        ("conditions", list(anything())),
        ("interfaces", list(interface)),
        ("nodeName", string()),
        ("phase", string()),
    ]));
    let live = with(
        condition_column("Live-Migratable", "LiveMigratable", "status"),
        json!({"priority": 1}),
    );
    let paused = with(condition_column("Paused", "Paused", "status"), json!({"priority": 1}));
    Definition {
        group: KUBEVIRT,
        version: "v1",
        kind: "VirtualMachineInstance",
        plural: "virtualmachineinstances",
        singular: "virtualmachineinstance",
        is_namespaced: true,
        schema: with(
            object([("spec", instance_spec()), ("status", status)]),
            json!({"required": ["spec"]}),
        ),
        has_status: true,
        columns: json!([
            age(),
            column("Phase", "string", ".status.phase"),
            column("IP", "string", ".status.interfaces[0].ipAddress"),
            column("NodeName", "string", ".status.nodeName"),
            condition_column("Ready", "Ready", "status"),
            live,
            paused,
        ]),
    }
    .manifest()
}

fn data_volume() -> Value {
    let named = || object([("name!", string()), ("namespace", string())]);
    let http = open(object([
        ("certConfigMap", string()),
        ("checksum", string()),
        ("extraHeaders", list(string())),
        ("secretRef", string()),
        ("url!", string()),
    ]));
    let registry = open(object([
        ("pullMethod", choice(&["pod", "node"])),
        ("secretRef", string()),
        ("url", string()),
    ]));
    let source = open(object([
        ("blank", anything()),
        ("http", http),
        ("pvc", named()),
        ("registry", registry),
        ("snapshot", named()),
        ("upload", anything()),
    ]));
    let claim = || open(object([("resources", anything()), ("storageClassName", string())]));
    let spec = object([
        ("checkpoints", list(anything())),
        ("contentType", choice(&["kubevirt", "archive"])),
        ("finalCheckpoint", boolean()),
        ("preallocation", boolean()),
        ("priorityClassName", string()),
        ("pvc", claim()),
        ("source", source),
        ("sourceRef", anything()),
        ("storage", claim()),
    ]);
    let spec = rule(spec, "self == oldSelf", "Cannot update DataVolume Spec");
    let status = open(object([
        ("claimName", string()),
        ("conditions", list(anything())),
        ("phase", string()),
        ("progress", string()),
        ("restartCount", integer()),
    ]));
    Definition {
        group: IMPORTER,
        version: "v1beta1",
        kind: "DataVolume",
        plural: "datavolumes",
        singular: "datavolume",
        is_namespaced: true,
        schema: with(object([("spec", spec), ("status", status)]), json!({"required": ["spec"]})),
        has_status: true,
        columns: json!([
            column("Phase", "string", ".status.phase"),
            column("Progress", "string", ".status.progress"),
            column("Restarts", "integer", ".status.restartCount"),
            age(),
        ]),
    }
    .manifest()
}

fn attachment() -> Value {
    Definition {
        group: MULTUS,
        version: "v1",
        kind: "NetworkAttachmentDefinition",
        plural: "network-attachment-definitions",
        singular: "network-attachment-definition",
        is_namespaced: true,
        schema: object([("spec", object([("config", string())]))]),
        has_status: false,
        columns: json!([]),
    }
    .manifest()
}

fn policy() -> Value {
    let spec = open(object([
        ("desiredState", anything()),
        ("maxUnavailable", amount()),
        ("nodeSelector", json!({"type": "object", "additionalProperties": {"type": "string"}})),
    ]));
    Definition {
        group: NMSTATE,
        version: "v1",
        kind: "NodeNetworkConfigurationPolicy",
        plural: "nodenetworkconfigurationpolicies",
        singular: "nodenetworkconfigurationpolicy",
        is_namespaced: false,
        schema: object([("spec", spec), ("status", anything())]),
        has_status: true,
        columns: json!([
            json!({"name": "Status", "type": "string",
                "jsonPath": ".status.conditions[?(@.status==\"True\")].type"}),
            json!({"name": "Reason", "type": "string",
                "jsonPath": ".status.conditions[?(@.status==\"True\")].reason"}),
        ]),
    }
    .manifest()
}

/// What a node made of a policy, and how that went.
fn enactment() -> Value {
    Definition {
        group: NMSTATE,
        version: "v1beta1",
        kind: "NodeNetworkConfigurationEnactment",
        plural: "nodenetworkconfigurationenactments",
        singular: "nodenetworkconfigurationenactment",
        is_namespaced: false,
        schema: object([("status", anything())]),
        has_status: true,
        columns: json!([
            json!({"name": "Status", "type": "string",
                "jsonPath": ".status.conditions[?(@.status==\"True\")].type"}),
            json!({"name": "Reason", "type": "string",
                "jsonPath": ".status.conditions[?(@.status==\"True\")].reason"}),
        ]),
    }
    .manifest()
}

/// Snapshots are served in two versions of one form.
fn snapshot(kind: &'static str, schema: Value, columns: Value) -> Value {
    let (plural, singular) = match kind {
        "VirtualMachineSnapshot" => ("virtualmachinesnapshots", "virtualmachinesnapshot"),
        "VirtualMachineRestore" => ("virtualmachinerestores", "virtualmachinerestore"),
        _ => ("virtualmachinesnapshotcontents", "virtualmachinesnapshotcontent"),
    };
    let mut made = Definition {
        group: SNAPSHOTS,
        version: "v1beta1",
        kind,
        plural,
        singular,
        is_namespaced: true,
        schema,
        has_status: true,
        columns,
    }
    .manifest();
    let mut older = made["spec"]["versions"][0].clone();
    older["name"] = json!("v1alpha1");
    older["storage"] = json!(false);
    if let Some(versions) = made["spec"]["versions"].as_array_mut() {
        versions.push(older);
    }
    made
}

fn reference() -> Value {
    object([("apiGroup", string()), ("kind!", string()), ("name!", string())])
}

fn snapshot_schema() -> Value {
    let spec = object([
        ("deletionPolicy", choice(&["Delete", "Retain"])),
        ("failureDeadline", string()),
        ("source!", reference()),
    ]);
    let spec = rule(spec, "self == oldSelf", "spec in immutable after creation");
    let status =
        open(object([("creationTime", time()), ("phase", string()), ("readyToUse", boolean())]));
    with(object([("spec", spec), ("status", status)]), json!({"required": ["spec"]}))
}

fn snapshot_columns() -> Value {
    json!([
        column("SourceKind", "string", ".spec.source.kind"),
        column("SourceName", "string", ".spec.source.name"),
        column("Phase", "string", ".status.phase"),
        column("ReadyToUse", "boolean", ".status.readyToUse"),
        column("CreationTime", "date", ".status.creationTime"),
        column("Error", "string", ".status.error.message"),
    ])
}

fn content_columns() -> Value {
    json!([
        column("ReadyToUse", "boolean", ".status.readyToUse"),
        column("CreationTime", "date", ".status.creationTime"),
        column("Error", "string", ".status.error.message"),
    ])
}

fn restore_schema() -> Value {
    let spec = open(object([
        ("patches", list(string())),
        (
            "targetReadinessPolicy",
            choice(&["StopTarget", "WaitGracePeriod", "FailImmediate", "WaitEventually"]),
        ),
        ("target!", reference()),
        ("virtualMachineSnapshotName!", string()),
        ("volumeRestorePolicy", choice(&["RandomizeNames", "InPlace", "PrefixTargetName"])),
    ]));
    let status = open(object([("complete", boolean()), ("restoreTime", time())]));
    with(object([("spec", spec), ("status", status)]), json!({"required": ["spec"]}))
}

fn restore_columns() -> Value {
    json!([
        column("TargetKind", "string", ".spec.target.kind"),
        column("TargetName", "string", ".spec.target.name"),
        column("Complete", "boolean", ".status.complete"),
        column("RestoreTime", "date", ".status.restoreTime"),
        column("Error", "string", ".status.error.message"),
    ])
}
