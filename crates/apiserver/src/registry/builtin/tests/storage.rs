//! Volumes, claims and classes.

use super::{check, check_changed, check_changes, check_changes_of, check_created};

#[test]
fn claims_are_defaulted_and_checked() {
    check_created(
        "/PersistentVolumeClaim",
        r#"
        => spec.volumeMode = "Filesystem" ; status.phase = "Pending"
        spec.dataSource = {"kind": "PersistentVolumeClaim", "name": "x"} => spec.dataSourceRef = {"kind": "PersistentVolumeClaim", "name": "x"}
        "#,
    );
    check(
        "/PersistentVolumeClaim",
        r#"
        => ok
        spec.accessModes = [] => spec.accessModes: Required value: at least 1 access mode is required
        spec.accessModes = ["X"] => spec.accessModes: Unsupported value: "X": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"
        spec.accessModes = ["ReadWriteOncePod", "ReadWriteOnce"] => spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes
        spec.resources = {} => spec.resources.requests[storage]: Required value
        spec.resources.requests.storage = "0" => spec.resources.requests[storage]: Invalid value: "0": must be greater than zero
        spec.storageClassName = "A" => spec.storageClassName: Invalid value: "A": a lowercase RFC 1123 subdomain...
        spec.storageClassName = "" => ok
        spec.volumeMode = "X" => spec.volumeMode: Unsupported value: "X": supported values: "Block", "Filesystem"
        "#,
    );
    check_changes(
        "/PersistentVolumeClaim",
        r#"
        spec.volumeName = "v" => ok
        spec.storageClassName = "c" => ok
        spec.accessModes = ["ReadWriteMany"] => spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims...
        spec.resources.requests.storage = "2Gi" => spec: Forbidden: spec is immutable after creation...
        metadata.labels = {"a": "b"} => ok
        "#,
    );
    check_changes_of(
        "/PersistentVolumeClaim",
        "",
        r#"spec.volumeName = "v" ; status = {"phase": "Bound", "capacity": {"storage": "1Gi"}}"#,
        r#"
        spec.resources.requests.storage = "2Gi" => ok
        spec.resources.requests.storage = "1Mi" => spec.resources.requests.storage: Forbidden: field can not be less than status.capacity
        spec.volumeName = "w" => spec: Forbidden: spec is immutable...
        "#,
    );
}

#[test]
fn volumes_are_defaulted_and_checked() {
    check_created(
        "/PersistentVolume",
        r#"
        => spec.persistentVolumeReclaimPolicy = "Retain" ; spec.volumeMode = "Filesystem" ; status = {"phase": "Pending", "lastPhaseTransitionTime": "2026-01-01T00:00:00Z"}
        "#,
    );
    check(
        "/PersistentVolume",
        r#"
        => ok
        spec.capacity = {} => spec.capacity: Required value
        spec.accessModes = [] => spec.accessModes: Required value
        spec.hostPath - => spec: Required value: must specify a volume type
        spec.nfs = {"server": "s", "path": "/p"} => spec.nfs: Forbidden: may not specify more than 1 volume type
        spec.hostPath.path = "/a/../b" => spec.hostPath.path: Invalid value: "/a/../b": must not contain '..'
        spec.persistentVolumeReclaimPolicy = "X" => spec.persistentVolumeReclaimPolicy: Unsupported value: "X": supported values: "Delete", "Recycle", "Retain"
        spec.capacity.storage = "-1" => spec.capacity[storage]: Invalid value: "-1": must be greater than zero
        "#,
    );
    check_changes(
        "/PersistentVolume",
        r#"
        spec.persistentVolumeReclaimPolicy = "Delete" => ok
        spec.claimRef = {"name": "c", "namespace": "ns"} => ok
        spec.hostPath.path = "/other" => spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation...
        spec.volumeMode = "Block" => spec.volumeMode: Invalid value: "Block": field is immutable
        "#,
    );
    check_changed(
        "/PersistentVolume",
        "status",
        r#"status.lastPhaseTransitionTime = "2020-01-01T00:00:00Z""#,
        r#"status.phase = "Bound" => status.lastPhaseTransitionTime = "2026-01-01T00:00:00Z""#,
    );
}

#[test]
fn classes_are_defaulted_checked_and_fixed() {
    check_created(
        "storage.k8s.io/StorageClass",
        r#"
        => reclaimPolicy = "Delete" ; volumeBindingMode = "Immediate" ; metadata.generation = null
        "#,
    );
    check(
        "storage.k8s.io/StorageClass",
        r#"
        => ok
        provisioner = "" => provisioner: Required value
        reclaimPolicy = "Recycle" => reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"
        volumeBindingMode = "X" => volumeBindingMode: Unsupported value: "X": supported values: "Immediate", "WaitForFirstConsumer"
        "#,
    );
    check_changes(
        "storage.k8s.io/StorageClass",
        r#"
        allowVolumeExpansion = true => ok
        provisioner = "other" => provisioner: Forbidden: updates to provisioner are forbidden.
        parameters = {"a": "b"} => parameters: Forbidden: updates to parameters are forbidden.
        reclaimPolicy = "Retain" => reclaimPolicy: Forbidden: updates to reclaimPolicy are forbidden.
        volumeBindingMode = "WaitForFirstConsumer" => volumeBindingMode: Invalid value: "WaitForFirstConsumer": field is immutable
        "#,
    );
}

#[test]
fn drivers_are_defaulted_checked_and_fixed() {
    check_created(
        "storage.k8s.io/CSIDriver",
        r#"
        => spec = {"attachRequired": true, "podInfoOnMount": false, "storageCapacity": false, "fsGroupPolicy": "ReadWriteOnceWithFSType", "requiresRepublish": false, "seLinuxMount": false, "volumeLifecycleModes": ["Persistent"]}
        "#,
    );
    check_changes(
        "storage.k8s.io/CSIDriver",
        r#"
        spec.podInfoOnMount = true => ok
        spec.attachRequired = false => spec.attachRequired: Invalid value: false: field is immutable
        "#,
    );
    check(
        "storage.k8s.io/CSINode",
        r#"spec.drivers[0].nodeID = "" => spec.drivers[0].nodeID: Required value"#,
    );
    check(
        "storage.k8s.io/VolumeAttachment",
        r#"
        => ok
        spec.attacher = "" => spec.attacher: Required value
        spec.source = {} => spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName
        "#,
    );
    check_changes(
        "storage.k8s.io/VolumeAttributesClass",
        r#"parameters = {"a": "c"} => parameters: Forbidden: updates to parameters are forbidden."#,
    );
}
