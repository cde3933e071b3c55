//! Volumes, claims, and the drivers behind them.
//!
//! Upstream: pkg/printers/internalversion/printers.go, pkg/apis/core/helper/helpers.go

use serde_json::Value;

use super::super::read::{
    age, at, count, is_deleted, is_true, join, list, name, plain, text, text_or,
};
use super::super::{Column, Printer, cells};

const GROUP: &str = "storage.k8s.io";

pub static PRINTERS: &[Printer] = &[
    Printer::new("", "PersistentVolume", VOLUME, volume),
    Printer::new("", "PersistentVolumeClaim", CLAIM, claim),
    Printer::new(GROUP, "StorageClass", CLASS, class),
    Printer::new(GROUP, "VolumeAttributesClass", ATTRIBUTES_CLASS, |object, now| {
        let name = name_with_default(object, &["volumeattributesclass.alpha.kubernetes.io"]);
        cells![name, text(object, &["driverName"]), age(object, now)]
    }),
    Printer::new(GROUP, "VolumeAttachment", ATTACHMENT, attachment),
    Printer::new(GROUP, "CSINode", CSI_NODE, |object, now| {
        cells![name(object), count(object, &["spec", "drivers"]), age(object, now)]
    }),
    Printer::new(GROUP, "CSIDriver", CSI_DRIVER, csi_driver),
    Printer::new(GROUP, "CSIStorageCapacity", CSI_STORAGE_CAPACITY, |object, _| {
        let capacity = quantity_or(at(object, &["capacity"]), "<unset>");
        cells![name(object), text(object, &["storageClassName"]), capacity]
    }),
];

const VOLUME: &[Column] = &[
    Column::NAME,
    Column::text("Capacity", "How much the volume holds."),
    Column::text("Access Modes", "How many may mount it, and how."),
    Column::text("Reclaim Policy", "What happens when it is released."),
    Column::text("Status", "Whether it is free, bound or released."),
    Column::text("Claim", "The claim it is bound to."),
    Column::text("StorageClass", "The class of the volume."),
    Column::text("VolumeAttributesClass", "The attributes class of the volume."),
    Column::text("Reason", "Why it is in this state."),
    Column::AGE,
    Column::text("VolumeMode", "A file system, or a block device.").wide(),
];

const CLAIM: &[Column] = &[
    Column::NAME,
    Column::text("Status", "Whether the claim is bound."),
    Column::text("Volume", "The volume it is bound to."),
    Column::text("Capacity", "How much the volume holds."),
    Column::text("Access Modes", "How many may mount it, and how."),
    Column::text("StorageClass", "The class of the claim."),
    Column::text("VolumeAttributesClass", "The attributes class of the claim."),
    Column::AGE,
    Column::text("VolumeMode", "A file system, or a block device.").wide(),
];

const CLASS: &[Column] = &[
    Column::NAME,
    Column::text("Provisioner", "Who makes volumes of the class."),
    Column::text("ReclaimPolicy", "What happens when a volume is released."),
    Column::text("VolumeBindingMode", "When claims are bound."),
    Column::text("AllowVolumeExpansion", "Whether volumes can be made larger."),
    Column::AGE,
];

const ATTRIBUTES_CLASS: &[Column] =
    &[Column::NAME, Column::text("DriverName", "The driver of the class."), Column::AGE];

const ATTACHMENT: &[Column] = &[
    Column::NAME,
    Column { format: "name", ..Column::text("Attacher", "The driver that attaches.") },
    Column::text("PV", "The volume."),
    Column::text("Node", "The node."),
    Column::boolean("Attached", "Whether it is attached."),
    Column::AGE,
];

const CSI_NODE: &[Column] =
    &[Column::NAME, Column::integer("Drivers", "How many drivers the node has."), Column::AGE];

const CSI_DRIVER: &[Column] = &[
    Column::NAME,
    Column::boolean("AttachRequired", "Whether volumes are attached before they are mounted."),
    Column::boolean("PodInfoOnMount", "Whether the driver is told of the pod."),
    Column::boolean("StorageCapacity", "Whether the driver says how much room there is."),
    Column::text("TokenRequests", "For whom the driver gets tokens of the pod."),
    Column::boolean("RequiresRepublish", "Whether mounts are refreshed now and then."),
    Column::text("Modes", "What lives its volumes can have."),
    Column::AGE,
];

const CSI_STORAGE_CAPACITY: &[Column] = &[
    Column::NAME,
    Column::text("StorageClassName", "The class that has room."),
    Column::text("Capacity", "How much room there is."),
];

fn volume(object: &Value, now: i64) -> Vec<Value> {
    let claim = match at(object, &["spec", "claimRef"]) {
        Value::Null => String::new(),
        claim => format!("{}/{}", text(claim, &["namespace"]), text(claim, &["name"])),
    };
    cells![
        name(object),
        quantity_or(at(object, &["spec", "capacity", "storage"]), "0"),
        access_modes(list(object, &["spec", "accessModes"])),
        text(object, &["spec", "persistentVolumeReclaimPolicy"]),
        phase(object),
        claim,
        storage_class(object),
        text_or(object, &["spec", "volumeAttributesClassName"], "<unset>"),
        text(object, &["status", "reason"]),
        age(object, now),
        text_or(object, &["spec", "volumeMode"], "<unset>"),
    ]
}

fn claim(object: &Value, now: i64) -> Vec<Value> {
    let volume = text(object, &["spec", "volumeName"]);
    let (mut capacity, mut modes) = (String::new(), String::new());
    if !volume.is_empty() {
        capacity = quantity_or(at(object, &["status", "capacity", "storage"]), "0");
        modes = access_modes(list(object, &["status", "accessModes"]));
    }
    cells![
        name(object),
        phase(object),
        volume,
        capacity,
        modes,
        storage_class(object),
        text_or(object, &["spec", "volumeAttributesClassName"], "<unset>"),
        age(object, now),
        text_or(object, &["spec", "volumeMode"], "<unset>"),
    ]
}

fn phase(object: &Value) -> &str {
    if is_deleted(object) { "Terminating" } else { text(object, &["status", "phase"]) }
}

/// Each mode once, in a fixed order.
fn access_modes(modes: &[Value]) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let given = SHORT.iter().filter(|(long, _)| modes.iter().any(|mode| mode == long));
    join(given.map(|(_, short)| *short), ",")
}

/// The class of a volume or a claim; an old annotation comes before the field.
fn storage_class(object: &Value) -> &str {
    const ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
    match at(object, &["metadata", "annotations", ANNOTATION]).as_str() {
        Some(class) => class,
        None => text(object, &["spec", "storageClassName"]),
    }
}

fn class(object: &Value, now: i64) -> Vec<Value> {
    cells![
        name_with_default(
            object,
            &["storageclass.kubernetes.io", "storageclass.beta.kubernetes.io"]
        ),
        text(object, &["provisioner"]),
        text_or(object, &["reclaimPolicy"], "Delete"),
        text_or(object, &["volumeBindingMode"], "Immediate"),
        is_true(object, &["allowVolumeExpansion"]),
        age(object, now),
    ]
}

/// The name, and whether an annotation of one of these domains makes it the default.
fn name_with_default(object: &Value, domains: &[&str]) -> String {
    let annotations = at(object, &["metadata", "annotations"]);
    let is_default = domains.iter().any(|domain| {
        let key = format!("{domain}/is-default-class");
        annotations.get(&key).and_then(Value::as_str) == Some("true")
    });
    format!("{}{}", name(object), if is_default { " (default)" } else { "" })
}

fn attachment(object: &Value, now: i64) -> Vec<Value> {
    cells![
        name(object),
        text(object, &["spec", "attacher"]),
        text(object, &["spec", "source", "persistentVolumeName"]),
        text(object, &["spec", "nodeName"]),
        is_true(object, &["status", "attached"]),
        age(object, now),
    ]
}

fn csi_driver(object: &Value, now: i64) -> Vec<Value> {
    let spec = at(object, &["spec"]);
    let tokens = match at(spec, &["tokenRequests"]) {
        Value::Array(requests) => join(requests.iter().map(|one| text(one, &["audience"])), ","),
        _ => "<unset>".to_owned(),
    };
    let modes = list(spec, &["volumeLifecycleModes"]).iter().filter_map(Value::as_str);
    let modes = match join(modes, ",") {
        empty if empty.is_empty() => "<none>".to_owned(),
        modes => modes,
    };
    cells![
        name(object),
        at(spec, &["attachRequired"]).as_bool().unwrap_or(true),
        is_true(spec, &["podInfoOnMount"]),
        is_true(spec, &["storageCapacity"]),
        tokens,
        is_true(spec, &["requiresRepublish"]),
        modes,
        age(object, now),
    ]
}

fn quantity_or(value: &Value, instead: &str) -> String {
    if value.is_null() { instead.to_owned() } else { plain(value) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::{ago, check};
    use super::GROUP;

    #[test]
    fn volumes() {
        check(
            "",
            "PersistentVolume",
            json!({
                "spec": {
                    "capacity": {"storage": "10Gi"}, "volumeMode": "Filesystem",
                    "accessModes": ["ReadWriteMany", "ReadWriteOnce", "ReadWriteOnce"],
                    "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "fast",
                    "claimRef": {"namespace": "default", "name": "data"},
                },
                "status": {"phase": "Bound"},
            }),
            json!([
                "x",
                "10Gi",
                "RWO,RWX",
                "Retain",
                "Bound",
                "default/data",
                "fast",
                "<unset>",
                "",
                "5m",
                "Filesystem"
            ]),
        );
        check(
            "",
            "PersistentVolume",
            json!({
                "metadata": {"deletionTimestamp": ago(1),
                    "annotations": {"volume.beta.kubernetes.io/storage-class": "old"}},
                "spec": {"volumeAttributesClassName": "gold",
                    "accessModes": ["ReadOnlyMany", "ReadWriteOncePod"]},
                "status": {"phase": "Failed", "reason": "why"},
            }),
            json!([
                "x",
                "0",
                "ROX,RWOP",
                "",
                "Terminating",
                "",
                "old",
                "gold",
                "why",
                "5m",
                "<unset>"
            ]),
        );
    }

    #[test]
    fn claims_show_their_volume_once_they_have_one() {
        let spec = json!({"storageClassName": "fast", "volumeMode": "Block",
            "accessModes": ["ReadWriteOnce"]});
        let kind = "PersistentVolumeClaim";
        check(
            "",
            kind,
            json!({"spec": spec, "status": {"phase": "Pending"}}),
            json!(["x", "Pending", "", "", "", "fast", "<unset>", "5m", "Block"]),
        );
        let mut bound = json!({"spec": spec, "status": {"phase": "Bound",
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}});
        bound["spec"]["volumeName"] = json!("pv-1");
        check(
            "",
            kind,
            bound,
            json!(["x", "Bound", "pv-1", "1Gi", "RWO", "fast", "<unset>", "5m", "Block"]),
        );
    }

    #[test]
    fn classes_say_which_is_the_default() {
        let default =
            json!({"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}});
        check(
            GROUP,
            "StorageClass",
            json!({"metadata": default, "provisioner": "p", "allowVolumeExpansion": true,
                "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer"}),
            json!(["x (default)", "p", "Retain", "WaitForFirstConsumer", true, "5m"]),
        );
        check(
            GROUP,
            "StorageClass",
            json!({"provisioner": "p"}),
            json!(["x", "p", "Delete", "Immediate", false, "5m"]),
        );
        check(GROUP, "VolumeAttributesClass", json!({"driverName": "d"}), json!(["x", "d", "5m"]));
    }

    #[test]
    fn drivers_and_what_they_do() {
        check(
            GROUP,
            "VolumeAttachment",
            json!({
                "spec": {"attacher": "d", "nodeName": "n",
                    "source": {"persistentVolumeName": "v"}},
                "status": {"attached": true},
            }),
            json!(["x", "d", "v", "n", true, "5m"]),
        );
        check(GROUP, "CSINode", json!({"spec": {"drivers": [{}, {}]}}), json!(["x", 2, "5m"]));
        check(
            GROUP,
            "CSIDriver",
            json!({}),
            json!(["x", true, false, false, "<unset>", false, "<none>", "5m"]),
        );
        check(
            GROUP,
            "CSIDriver",
            json!({"spec": {
                "attachRequired": false, "podInfoOnMount": true, "storageCapacity": true,
                "tokenRequests": [{"audience": "a"}, {"audience": "b"}], "requiresRepublish": true,
                "volumeLifecycleModes": ["Persistent", "Ephemeral"]}}),
            json!(["x", false, true, true, "a,b", true, "Persistent,Ephemeral", "5m"]),
        );
        check(
            GROUP,
            "CSIStorageCapacity",
            json!({"storageClassName": "c", "capacity": "1Ti"}),
            json!(["x", "c", "1Ti"]),
        );
        check(GROUP, "CSIStorageCapacity", json!({}), json!(["x", "", "<unset>"]));
    }
}
