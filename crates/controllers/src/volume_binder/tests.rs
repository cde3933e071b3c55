//! Plans of claims and volumes.

use reconcile::Step;
use serde_json::{Value, json};

use super::*;

/// A claim for 5Gi of the class `fast`, with parts replaced by their paths.
fn claim(changes: &[(&str, Value)]) -> Object {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "a", "name": "c", "uid": "u", "annotations": {}},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
            "resources": {"requests": {"storage": "5Gi"}}, "volumeMode": "Filesystem"},
        "status": {"phase": "Pending"},
    });
    changed(claim, changes)
}

/// A free volume of the class `fast`.
fn volume(name: &str, size: &str, changes: &[(&str, Value)]) -> Arc<Object> {
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": name, "annotations": {}, "labels": {"disk": name}},
        "spec": {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "storageClassName": "fast",
            "capacity": {"storage": size}, "persistentVolumeReclaimPolicy": "Retain"},
        "status": {"phase": "Available"},
    });
    Arc::new(changed(volume, changes))
}

fn changed(mut value: Value, changes: &[(&str, Value)]) -> Object {
    for (path, change) in changes {
        let (parent, name) = path.rsplit_once('/').expect("a path");
        let parent = if parent.is_empty() { Some(&mut value) } else { value.pointer_mut(parent) };
        parent.expect("a parent")[name] = change.clone();
    }
    Object::new(value)
}

fn class(provisioner: &str, mode: &str) -> Option<Arc<Object>> {
    Some(Arc::new(Object::new(json!({"metadata": {"name": "fast"}, "provisioner": provisioner,
        "reclaimPolicy": "Delete", "volumeBindingMode": mode, "allowVolumeExpansion": true}))))
}

fn node() -> Option<Arc<Object>> {
    Some(Arc::new(Object::new(json!({"metadata": {"name": "n",
        "labels": {"kubernetes.io/hostname": "n"}}}))))
}

/// Every write of a plan as text: what is replaced, made, deleted, and the phase.
fn shown(plan: &Plan) -> String {
    let mut lines: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
    lines.extend(plan.status.iter().map(|status| format!("phase {}", text(&status["phase"]))));
    lines.extend(plan.notices.iter().map(|notice| notice.reason.to_owned()));
    lines.join(", ")
}

fn with(volumes: Vec<Arc<Object>>) -> ForClaim {
    ForClaim { volumes, class: class("example.com/x", "Immediate"), ..ForClaim::default() }
}

const REFERENCE: &str = "/spec/claimRef";

fn reference(uid: &str) -> Value {
    json!({"kind": "PersistentVolumeClaim", "namespace": "a", "name": "c", "uid": uid})
}

#[test]
fn a_claim_gets_the_smallest_volume_that_fits() {
    let bound = |name: &str| {
        format!("replace v1 PersistentVolume {name}, replace v1 PersistentVolumeClaim a/c")
    };
    let others = "replace v1 PersistentVolumeClaim a/c";
    let block = json!("Block");
    let cases = [
        (vec![volume("x", "9Gi", &[]), volume("y", "5Gi", &[])], bound("y")),
        (vec![volume("x", "5120Mi", &[])], bound("x")),
        (vec![volume("x", "4Gi", &[])], others.to_owned()),
        (vec![volume("x", "5Gi", &[("/spec/storageClassName", json!("slow"))])], others.to_owned()),
        (vec![volume("x", "5Gi", &[("/spec/volumeMode", block)])], others.to_owned()),
        (vec![volume("x", "5Gi", &[("/status/phase", json!("Pending"))])], others.to_owned()),
        (
            vec![volume("x", "5Gi", &[("/spec/accessModes", json!(["ReadWriteMany"]))])],
            others.to_owned(),
        ),
        (
            vec![volume("x", "5Gi", &[(REFERENCE, json!({"namespace": "a", "name": "d"}))])],
            others.to_owned(),
        ),
        // One that a user made for this claim comes before all others.
        (
            vec![volume("x", "5Gi", &[]), volume("y", "9Gi", &[(REFERENCE, reference(""))])],
            bound("y"),
        ),
        (
            vec![volume("x", "5Gi", &[]), volume("y", "9Gi", &[(REFERENCE, reference("old"))])],
            bound("x"),
        ),
    ];
    for (volumes, expected) in cases {
        let names: Vec<_> = volumes.iter().map(|volume| volume.value.to_string()).collect();
        assert_eq!(shown(&claim::plan(&claim(&[]), &with(volumes))), expected, "{names:?}");
    }
}

#[test]
fn a_selector_and_a_node_choose_among_volumes() {
    let volumes = || vec![volume("x", "5Gi", &[]), volume("y", "9Gi", &[])];
    let selecting = claim(&[("/spec/selector", json!({"matchLabels": {"disk": "y"}}))]);
    let found = matching::find(&selecting, &with(volumes())).map(|it| it.name.to_string());
    assert_eq!(found.as_deref(), Some("y"));
    let affinity = |host: &str| {
        json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}]}]}})
    };
    let on_nodes = vec![
        volume("x", "5Gi", &[("/spec/nodeAffinity", affinity("other"))]),
        volume("y", "9Gi", &[("/spec/nodeAffinity", affinity("n"))]),
    ];
    let observed = ForClaim { node: node(), ..with(on_nodes) };
    let placed = claim(&[("/metadata/annotations", json!({SELECTED_NODE: "n"}))]);
    let found = matching::find(&placed, &observed).map(|it| it.name.to_string());
    assert_eq!(found.as_deref(), Some("y"));
}

#[test]
fn both_sides_know_each_other_and_then_nothing_is_written() {
    let first = claim::plan(&claim(&[]), &with(vec![volume("x", "9Gi", &[])]));
    let [Step::Replace { object: volume, .. }, Step::Replace { object: claim, .. }] =
        &first.steps[..]
    else {
        panic!("{first}")
    };
    assert_eq!(
        volume["spec"]["claimRef"],
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "a", "name": "c",
            "uid": "u"})
    );
    assert_eq!(volume["metadata"]["annotations"], json!({BOUND_BY_CONTROLLER: "yes"}));
    assert_eq!(claim["spec"]["volumeName"], "x");
    let (claim, volume) = (Object::new(claim.clone()), Arc::new(Object::new(volume.clone())));
    let second = claim::plan(&claim, &with(vec![volume.clone()]));
    assert!(second.steps.is_empty(), "{second}");
    let status = second.status.expect("a status");
    assert_eq!(
        status,
        json!({"phase": "Bound", "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
            "capacity": {"storage": "9Gi"}})
    );
    let observed = ForVolume { claim: Some(Arc::new(claim)) };
    assert_eq!(shown(&volume::plan(&volume, &observed)), "phase Bound");
}

#[test]
fn a_claim_that_cannot_be_bound_says_why() {
    let named = ("/spec/volumeName", json!("x"));
    let taken = [(REFERENCE, json!({"namespace": "a", "name": "d", "uid": "d"}))];
    let none = ("/spec/storageClassName", json!(""));
    let waits = ForClaim { class: class("x", "WaitForFirstConsumer"), ..ForClaim::default() };
    let asked = json!({"volume.kubernetes.io/storage-provisioner": "example.com/x",
        "volume.beta.kubernetes.io/storage-provisioner": "example.com/x"});
    let cases = [
        (claim(std::slice::from_ref(&named)), with(vec![]), "phase Pending"),
        (
            claim(std::slice::from_ref(&named)),
            with(vec![volume("x", "1Gi", &[])]),
            "phase Pending, VolumeMismatch",
        ),
        (claim(&[named]), with(vec![volume("x", "9Gi", &taken)]), "phase Pending, FailedBinding"),
        (claim(&[none]), ForClaim::default(), "phase Pending, FailedBinding"),
        (claim(&[]), ForClaim::default(), "phase Pending, ProvisioningFailed"),
        (claim(&[]), waits, "phase Pending, WaitForFirstConsumer"),
        (
            claim(&[("/metadata/annotations", asked)]),
            with(vec![]),
            "phase Pending, ExternalProvisioning",
        ),
    ];
    for (claim, observed, expected) in cases {
        assert_eq!(shown(&claim::plan(&claim, &observed)), expected, "{}", claim.value);
    }
}

#[test]
fn a_claim_without_a_class_gets_the_default_once_there_is_one() {
    let without = claim(&[("/spec/storageClassName", Value::Null)]);
    let default = || class(PROVISIONER, "WaitForFirstConsumer");
    let observed = ForClaim { default_class: default(), ..ForClaim::default() };
    let plan = claim::plan(&without, &observed);
    let Step::Replace { object, .. } = &plan.steps[0] else { panic!("{plan}") };
    assert_eq!(object["spec"]["storageClassName"], "fast");
    let refusing = claim(&[("/spec/storageClassName", json!(""))]);
    let observed = ForClaim { default_class: default(), ..ForClaim::default() };
    assert!(claim::plan(&refusing, &observed).steps.is_empty());
}

fn local(node: Option<Arc<Object>>) -> ForClaim {
    ForClaim { class: class(PROVISIONER, "WaitForFirstConsumer"), node, ..ForClaim::default() }
}

#[test]
fn a_directory_is_made_on_the_node_that_was_chosen() {
    let placed = ("/metadata/annotations", json!({SELECTED_NODE: "n"}));
    let plan = claim::plan(&claim(std::slice::from_ref(&placed)), &local(node()));
    let Step::Create { object, .. } = &plan.steps[0] else { panic!("{plan}") };
    assert_eq!(shown(&plan), "create v1 PersistentVolume pvc-u, ProvisioningSucceeded");
    assert_eq!(
        object["spec"],
        json!({
            "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem", "storageClassName": "fast",
            "persistentVolumeReclaimPolicy": "Delete",
            "hostPath": {"path": "/var/lib/setpoint/local-path/pvc-u_a_c",
                "type": "DirectoryOrCreate"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n"]}]}]}},
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "a",
                "name": "c", "uid": "u"},
        })
    );
    // A node that went is chosen anew; what cannot be made is refused in words.
    let gone = claim::plan(&claim(std::slice::from_ref(&placed)), &local(None));
    let Step::Replace { object, .. } = &gone.steps[0] else { panic!("{gone}") };
    assert_eq!(object["metadata"]["annotations"], json!({}));
    let many = claim(&[placed, ("/spec/accessModes", json!(["ReadWriteMany"]))]);
    let refused = claim::plan(&many, &local(node()));
    assert_eq!(
        refused.notices[0].message,
        "failed to provision volume with StorageClass \"fast\": only the access modes \
         ReadWriteOnce and ReadWriteOncePod are supported"
    );
}

#[test]
fn a_directory_grows_when_its_claim_does() {
    let claim = claim(&[
        ("/spec/volumeName", json!("pvc-u")),
        ("/metadata/annotations", json!({BIND_COMPLETED: "yes"})),
        ("/status", json!({"phase": "Bound", "capacity": {"storage": "4Gi"}})),
    ]);
    let ours = ("/metadata/annotations", json!({PROVISIONED_BY: PROVISIONER}));
    let small = volume("pvc-u", "4Gi", &[(REFERENCE, reference("u")), ours]);
    let observed = |volume: &Arc<Object>| ForClaim { volumes: vec![volume.clone()], ..local(None) };
    let plan = claim::plan(&claim, &observed(&small));
    let Step::Replace { object, .. } = &plan.steps[0] else { panic!("{plan}") };
    assert_eq!(object["spec"]["capacity"]["storage"], "5Gi");
    let grown = Arc::new(Object::new(object.clone()));
    let plan = claim::plan(&claim, &observed(&grown));
    assert!(plan.steps.is_empty(), "{plan}");
    assert_eq!(plan.status.expect("a status")["capacity"]["storage"], "5Gi");
    // What others made, they let grow.
    let theirs = volume("pvc-u", "4Gi", &[(REFERENCE, reference("u"))]);
    let plan = claim::plan(&claim, &observed(&theirs));
    assert!(plan.steps.is_empty(), "{plan}");
    assert_eq!(plan.status.expect("a status")["capacity"]["storage"], "4Gi");
}

#[test]
fn a_claim_that_lost_its_volume_is_lost() {
    let done = ("/metadata/annotations", json!({BIND_COMPLETED: "yes"}));
    let named = ("/spec/volumeName", json!("x"));
    let other = [(REFERENCE, json!({"namespace": "a", "name": "d", "uid": "d"}))];
    let cases = [
        (claim(std::slice::from_ref(&done)), vec![], "phase Lost, ClaimLost"),
        (claim(&[done.clone(), named.clone()]), vec![], "phase Lost, ClaimLost"),
        (claim(&[done, named]), vec![volume("x", "5Gi", &other)], "phase Lost, ClaimMisbound"),
    ];
    for (claim, volumes, expected) in cases {
        assert_eq!(shown(&claim::plan(&claim, &with(volumes))), expected, "{}", claim.value);
    }
}

#[test]
fn a_volume_follows_its_claim() {
    let of = |uid: &str, phase: &str, more: &[(&str, Value)]| {
        let mut changes = vec![(REFERENCE, reference(uid)), ("/status/phase", json!(phase))];
        changes.extend(more.iter().cloned());
        volume("x", "5Gi", &changes)
    };
    let policy = |policy: &str| ("/spec/persistentVolumeReclaimPolicy", json!(policy));
    let by = |who: &str| ("/metadata/annotations", json!({PROVISIONED_BY: who}));
    let chosen = ("/metadata/annotations", json!({BOUND_BY_CONTROLLER: "yes"}));
    let claims = |name: &str| Some(claim(&[("/spec/volumeName", json!(name))]));
    let cases = [
        (volume("x", "5Gi", &[]), None, "phase Available"),
        (of("", "Pending", &[]), None, "phase Available"),
        (of("u", "Available", &[]), claims(""), ""),
        (of("u", "Available", &[]), claims("x"), "phase Bound"),
        (of("u", "Bound", &[]), None, "phase Released"),
        (of("u", "Released", &[]), None, ""),
        (
            of("u", "Released", &[policy("Delete"), by(PROVISIONER)]),
            None,
            "delete v1 PersistentVolume x",
        ),
        (of("u", "Released", &[policy("Delete"), by("example.com/x")]), None, ""),
        (of("u", "Released", &[policy("Delete")]), None, "phase Failed, VolumeFailedDelete"),
        (of("u", "Failed", &[policy("Delete")]), None, "phase Failed"),
        (of("u", "Released", &[policy("Recycle")]), None, "phase Failed, VolumeFailedRecycle"),
        (of("u", "Available", &[chosen]), claims("y"), "replace v1 PersistentVolume x"),
        (of("u", "Available", &[]), claims("y"), "replace v1 PersistentVolume x"),
    ];
    for (volume, claim, expected) in cases {
        let observed = ForVolume { claim: claim.map(Arc::new) };
        assert_eq!(shown(&volume::plan(&volume, &observed)), expected, "{}", volume.value);
    }
}
