//! Kinds whose objects are encrypted at rest, hidden in history and kept out of the audit log.
//!
//! Virtual machines are among them because cloud-init user data, network data and passwords can be
//! written inline. Their objects are encrypted as a unit, so that no list of fields can be
//! incomplete.

/// A kind with confidential fields.
#[derive(Debug)]
pub struct ConfidentialKind {
    pub group: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    /// Prefix of its keys in the store.
    pub prefix: &'static str,
    pub fields: ConfidentialFields,
}

/// Fields that history and exports hide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfidentialFields {
    /// `data` and `stringData` of a Secret.
    SecretData,
    /// Cloud-init texts and passwords at any depth.
    InlineCloudInit,
}

/// All confidential kinds, in the order of their prefixes.
pub const CONFIDENTIAL_KINDS: [ConfidentialKind; 7] = [
    ConfidentialKind {
        group: "kubevirt.io",
        kind: "VirtualMachineInstanceReplicaSet",
        plural: "virtualmachineinstancereplicasets",
        prefix: "kubevirt.io/virtualmachineinstancereplicasets/",
        fields: ConfidentialFields::InlineCloudInit,
    },
    ConfidentialKind {
        group: "kubevirt.io",
        kind: "VirtualMachineInstance",
        plural: "virtualmachineinstances",
        prefix: "kubevirt.io/virtualmachineinstances/",
        fields: ConfidentialFields::InlineCloudInit,
    },
    ConfidentialKind {
        group: "kubevirt.io",
        kind: "VirtualMachine",
        plural: "virtualmachines",
        prefix: "kubevirt.io/virtualmachines/",
        fields: ConfidentialFields::InlineCloudInit,
    },
    ConfidentialKind {
        group: "pool.kubevirt.io",
        kind: "VirtualMachinePool",
        plural: "virtualmachinepools",
        prefix: "pool.kubevirt.io/virtualmachinepools/",
        fields: ConfidentialFields::InlineCloudInit,
    },
    ConfidentialKind {
        group: "",
        kind: "Secret",
        plural: "secrets",
        prefix: "secrets/",
        fields: ConfidentialFields::SecretData,
    },
    ConfidentialKind {
        group: "snapshot.kubevirt.io",
        kind: "VirtualMachineSnapshotContent",
        plural: "virtualmachinesnapshotcontents",
        prefix: "snapshot.kubevirt.io/virtualmachinesnapshotcontents/",
        fields: ConfidentialFields::InlineCloudInit,
    },
    ConfidentialKind {
        group: "vm.novasphere.dev",
        kind: "Wukong",
        plural: "wukongs",
        prefix: "vm.novasphere.dev/wukongs/",
        fields: ConfidentialFields::InlineCloudInit,
    },
];

/// Returns the confidential fields of a kind, if it has any.
pub fn confidential_fields(group: &str, kind: &str) -> Option<ConfidentialFields> {
    let mut all = CONFIDENTIAL_KINDS.iter();
    all.find(|one| one.group == group && one.kind == kind).map(|one| one.fields)
}

/// Returns whether a resource of the API has confidential fields.
pub fn is_confidential_resource(group: &str, plural: &str) -> bool {
    CONFIDENTIAL_KINDS.iter().any(|one| one.group == group && one.plural == plural)
}

/// Returns whether the object of a storage key is encrypted.
pub fn is_confidential_key(key: &str) -> bool {
    CONFIDENTIAL_KINDS.iter().any(|one| key.starts_with(one.prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_ordered_and_follow_from_the_names() {
        assert!(CONFIDENTIAL_KINDS.is_sorted_by_key(|one| one.prefix));
        for one in &CONFIDENTIAL_KINDS {
            let expected = match one.group {
                "" => format!("{}/", one.plural),
                group => format!("{group}/{}/", one.plural),
            };
            assert_eq!(one.prefix, expected);
        }
    }
}
