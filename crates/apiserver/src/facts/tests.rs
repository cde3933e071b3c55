//! The tables say what the API's users rely on, and are in the order that searches need.

use super::*;

#[test]
fn tables_are_sorted() {
    assert!(types().is_sorted_by(|a, b| a.name < b.name));
    let key = |kind: &Kind| (kind.group, kind.version, kind.plural);
    assert!(kinds().is_sorted_by(|a, b| key(a) < key(b)));
    for one in types() {
        assert!(one.fields.is_sorted_by(|a, b| a.name < b.name), "{}", one.name);
    }
}

#[test]
fn kinds_are_found_by_path_and_by_what_objects_say() {
    assert_eq!(kinds().len(), 68);
    let deployments = kind("apps", "v1", "deployments").unwrap();
    assert_eq!(deployments.short_names, ["deploy"]);
    assert_eq!(deployments.api_version(), "apps/v1");
    assert!(deployments.namespaced && deployments.has_verb("watch"));
    let scale = deployments.subresource("scale").unwrap();
    assert_eq!((scale.group, scale.version, scale.kind), ("autoscaling", "v1", "Scale"));
    assert_eq!(kind_of("apps", "v1", "Deployment").unwrap().plural, "deployments");
    assert_eq!(kind("", "v1", "pods").unwrap().type_id.get().short_name(), "Pod");
    assert!(kind("resource.k8s.io", "v1beta1", "resourceclaims").is_none());
    assert!(kind("apps", "v1", "nothing").is_none());
}

#[test]
fn fields_say_how_go_writes_them() {
    let container = type_by_name("io.k8s.api.core.v1.Container").unwrap();
    let ports = container.field("ports").unwrap();
    assert_eq!(ports.merge_key(), "containerPort");
    assert_eq!((ports.patch(), ports.go), (Patch::Merge, Go::Slice));
    assert_eq!(ports.list(), List::Map(&["containerPort", "protocol"]));
    // (type, field, left out when empty)
    let cases = [
        ("core.v1.Container", "resources", false),
        ("core.v1.Container", "name", false),
        ("core.v1.Container", "image", true),
        ("core.v1.PodSpec", "containers", false),
        ("core.v1.Volume", "emptyDir", true),
        ("core.v1.ResourceRequirements", "limits", true),
        ("apps.v1.DeploymentSpec", "selector", false),
        ("rbac.v1.Role", "rules", false),
        ("core.v1.Event", "eventTime", false),
    ];
    for (owner, name, omit) in cases {
        let owner = type_by_name(&format!("io.k8s.api.{owner}")).unwrap();
        assert_eq!(owner.field(name).unwrap().omit, omit, "{}.{name}", owner.name);
    }
    let meta = type_by_name("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta").unwrap();
    assert!(meta.field("creationTimestamp").unwrap().omit);
}

#[test]
fn every_field_has_a_number_of_its_own() {
    for one in types() {
        let mut seen = std::collections::BTreeSet::new();
        for field in one.fields {
            let place = format!("{}.{}", one.name, field.name);
            if field.pb == 0 {
                // What is of the envelope.
                assert!(matches!(field.name, "apiVersion" | "kind"), "{place}");
                continue;
            }
            assert!(seen.insert((field.inlined(), field.pb)), "{place}");
            let around = one.fields.iter().any(|other| {
                other.inlined().strip_prefix(field.inlined()).and_then(|rest| rest.first())
                    == Some(&field.pb)
            });
            assert!(!around, "{place} has the number of an inlined struct");
        }
    }
    let inlined = |owner: &str, name: &str| {
        let owner = type_by_name(&format!("io.k8s.api.{owner}")).unwrap();
        owner.field(name).unwrap().inlined()
    };
    assert_eq!(inlined("core.v1.Volume", "emptyDir"), [2]);
    assert!(inlined("core.v1.Volume", "name").is_empty());
    let rule = "admissionregistration.v1.NamedRuleWithOperations";
    assert_eq!(inlined(rule, "apiGroups"), [2, 2]);
    assert_eq!(inlined(rule, "operations"), [2]);
}
