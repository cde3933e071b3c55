//! The fields that an endpoint cannot change, so that nobody owns them by writing there.
//!
//! Upstream: GetResetFields of each strategy in pkg/registry

use std::sync::LazyLock;

use fields::Set;

use crate::resources::Resource;

static STATUS: LazyLock<Set> = LazyLock::new(|| Set::of_fields(&[&["status"]]));
static SPEC: LazyLock<Set> = LazyLock::new(|| Set::of_fields(&[&["spec"]]));
static SPEC_AND_METADATA: LazyLock<Set> =
    LazyLock::new(|| Set::of_fields(&[&["spec"], &["metadata"]]));
static SPEC_AND_OWNERS: LazyLock<Set> = LazyLock::new(|| {
    Set::of_fields(&[
        &["spec"],
        &["metadata", "deletionTimestamp"],
        &["metadata", "ownerReferences"],
    ])
});
static SPEC_AND_LABELS: LazyLock<Set> =
    LazyLock::new(|| Set::of_fields(&[&["spec"], &["metadata", "labels"]]));
static SPEC_AND_CONDITIONS: LazyLock<Set> =
    LazyLock::new(|| Set::of_fields(&[&["spec"], &["status", "conditions"]]));
static SPEC_AND_CERTIFICATE: LazyLock<Set> =
    LazyLock::new(|| Set::of_fields(&[&["spec"], &["status", "certificate"]]));

/// Kinds whose status endpoint leaves the metadata alone too.
const METADATA_TOO: [(&str, &str); 8] = [
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
    ("networking.k8s.io", "ServiceCIDR"),
    ("resource.k8s.io", "ResourceClaim"),
    ("storage.k8s.io", "VolumeAttachment"),
    ("storagemigration.k8s.io", "StorageVersionMigration"),
];

/// What a write to the resource, or to a part of it, cannot change.
pub fn fields_of(resource: &Resource, subresource: &str) -> Option<&'static Set> {
    let name = (resource.group.as_str(), resource.kind.as_str());
    let set = match (name, subresource) {
        (("certificates.k8s.io", "CertificateSigningRequest"), "status") => &SPEC_AND_CONDITIONS,
        (("certificates.k8s.io", "CertificateSigningRequest"), "approval") => &SPEC_AND_CERTIFICATE,
        (("", "Pod"), "status") => &SPEC_AND_OWNERS,
        (("apps", "Deployment"), "status") => &SPEC_AND_LABELS,
        (name, "status") if METADATA_TOO.contains(&name) => &SPEC_AND_METADATA,
        (_, "status") => &SPEC,
        _ if resource.subresource("status").is_some() => &STATUS,
        _ => return None,
    };
    Some(set)
}
