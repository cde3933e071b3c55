//! The kinds that machines are made of, as the node knows them.

use reconcile::Kind;

pub const INSTANCE: Kind =
    Kind::namespaced("kubevirt.io", "v1", "VirtualMachineInstance", "virtualmachineinstances");
pub const MACHINE: Kind =
    Kind::namespaced("kubevirt.io", "v1", "VirtualMachine", "virtualmachines");
pub const DATA_VOLUME: Kind =
    Kind::namespaced("cdi.kubevirt.io", "v1beta1", "DataVolume", "datavolumes");
pub const SNAPSHOT: Kind = Kind::namespaced(
    "snapshot.kubevirt.io",
    "v1beta1",
    "VirtualMachineSnapshot",
    "virtualmachinesnapshots",
);
pub const RESTORE: Kind = Kind::namespaced(
    "snapshot.kubevirt.io",
    "v1beta1",
    "VirtualMachineRestore",
    "virtualmachinerestores",
);
pub const ATTACHMENT: Kind = Kind::namespaced(
    "k8s.cni.cncf.io",
    "v1",
    "NetworkAttachmentDefinition",
    "network-attachment-definitions",
);
pub const POLICY: Kind = Kind::cluster(
    "nmstate.io",
    "v1",
    "NodeNetworkConfigurationPolicy",
    "nodenetworkconfigurationpolicies",
);
pub const ENACTMENT: Kind = Kind::cluster(
    "nmstate.io",
    "v1beta1",
    "NodeNetworkConfigurationEnactment",
    "nodenetworkconfigurationenactments",
);
pub const CLAIM: Kind =
    Kind::namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
pub const VOLUME: Kind = Kind::cluster("", "v1", "PersistentVolume", "persistentvolumes");
pub const SECRET: Kind = Kind::namespaced("", "v1", "Secret", "secrets");
pub const DEFINITION: Kind = Kind::cluster(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
);
