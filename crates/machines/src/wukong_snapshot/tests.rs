//! What a snapshot does next, by what is there.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::Object;
use serde_json::{Value, json};

use super::{Observed, plan};

fn snapshot(status: Value) -> Object {
    Object::new(json!({"apiVersion": "vm.novasphere.dev/v1alpha1", "kind": "WukongSnapshot",
        "metadata": {"namespace": "ns", "name": "s", "uid": "uid-of-s",
            "creationTimestamp": "1970-01-01T00:02:03Z"},
        "spec": {"wukongName": "w"}, "status": status}))
}

fn observed(machine: &str, taken: Option<Value>) -> Observed {
    let wukong = json!({"metadata": {"namespace": "ns", "name": "w"},
        "status": {"vmName": machine}});
    let taken = taken.map(|status| {
        Arc::new(Object::new(json!({"metadata": {"namespace": "ns", "name": "w-snapshot-123",
            "ownerReferences": [{"uid": "uid-of-s", "controller": true}]}, "status": status})))
    });
    Observed { wukong: Some(Arc::new(Object::new(wukong))), snapshot: taken, ..Default::default() }
}

fn told(status: Value, observed: &Observed) -> String {
    plan(&snapshot(status), observed, Timestamp::UNIX_EPOCH).to_string()
}

#[test]
fn a_snapshot_goes_on_from_what_is_there() {
    let named = json!({"phase": "Pending", "snapshotName": "w-snapshot-123"});
    let creating = json!({"phase": "Creating", "snapshotName": "w-snapshot-123"});
    let cases = [
        (
            // The name comes first, so that a crash does not make a second.
            told(json!({}), &observed("w-vm", None)),
            "status {\"phase\":\"Pending\",\"snapshotName\":\"w-snapshot-123\"}\nwake after 5s\n",
        ),
        (
            told(named.clone(), &observed("w-vm", None)),
            "create snapshot.kubevirt.io/v1beta1 VirtualMachineSnapshot ns/w-snapshot-123\n\
             status {\"phase\":\"Creating\",\"snapshotName\":\"w-snapshot-123\"}\n\
             Normal Creating: the snapshot is being made\nwake after 5s\n",
        ),
        (
            told(creating.clone(), &observed("w-vm", Some(json!({"readyToUse": false})))),
            "status {\"phase\":\"Creating\",\"snapshotName\":\"w-snapshot-123\"}\n\
             wake after 10s\n",
        ),
        (
            told(creating.clone(), &observed("w-vm", None)),
            "status {\"error\":\"VirtualMachineSnapshot w-snapshot-123 is gone\",\
             \"phase\":\"Failed\",\"snapshotName\":\"w-snapshot-123\"}\n\
             Warning Failed: VirtualMachineSnapshot w-snapshot-123 is gone\nwake on change\n",
        ),
        (
            told(creating, &observed("w-vm", Some(json!({"phase": "Failed"})))),
            "status {\"error\":\"the snapshot failed\",\"phase\":\"Failed\",\
             \"snapshotName\":\"w-snapshot-123\"}\n\
             Warning Failed: the snapshot failed\nwake on change\n",
        ),
        (told(json!({"phase": "Failed"}), &observed("w-vm", None)), "wake on change\n"),
        (told(json!({"phase": "Succeeded"}), &observed("w-vm", None)), "wake on change\n"),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
    let mut none = observed("w-vm", None);
    none.add_ons.snapshots = false;
    let expected = "status {\"error\":\"the cluster does not have \
        virtualmachinesnapshots.snapshot.kubevirt.io\",\"phase\":\"Pending\",\
        \"snapshotName\":\"w-snapshot-123\"}\nwake after 10s\n";
    assert_eq!(told(named, &none), expected);
}

#[test]
fn memory_is_kept_by_nodes_of_ours_and_by_nobody_else() {
    let named = json!({"phase": "Pending", "snapshotName": "w-snapshot-123"});
    let mut object = (*snapshot(named).value).clone();
    object["spec"]["includeMemory"] = json!(true);
    let object = Object::new(object);
    let elsewhere = plan(&object, &observed("w-vm", None), Timestamp::UNIX_EPOCH);
    let status = elsewhere.status.as_ref().unwrap();
    assert_eq!(status["phase"], "Failed");
    assert!(status["error"].as_str().unwrap().starts_with("spec.includeMemory: KubeVirt keeps no"));
    assert!(elsewhere.steps.is_empty());
    let here = Observed { bridges: crate::Bridges::ByNode, ..observed("w-vm", None) };
    let here = plan(&object, &here, Timestamp::UNIX_EPOCH);
    let [reconcile::Step::Create { object, .. }] = &here.steps[..] else { panic!("{here}") };
    assert_eq!(object["metadata"]["annotations"][super::INCLUDE_MEMORY], "true");
}
