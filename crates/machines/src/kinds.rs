//! The kinds that the operators read and write.

use api::{add_ons, wukong};
use reconcile::Kind;

pub const WUKONG: Kind = Kind::namespaced(wukong::GROUP, wukong::VERSION, "Wukong", "wukongs");
pub const WUKONG_SNAPSHOT: Kind =
    Kind::namespaced(wukong::GROUP, wukong::VERSION, "WukongSnapshot", "wukongsnapshots");

pub const SERVICE: Kind = Kind::namespaced("", "v1", "Service", "services");

pub const MACHINE: Kind =
    Kind::namespaced(add_ons::KUBEVIRT, "v1", "VirtualMachine", "virtualmachines");
pub const INSTANCE: Kind =
    Kind::namespaced(add_ons::KUBEVIRT, "v1", "VirtualMachineInstance", "virtualmachineinstances");
pub const SNAPSHOT: Kind = Kind::namespaced(
    add_ons::SNAPSHOTS,
    "v1beta1",
    "VirtualMachineSnapshot",
    "virtualmachinesnapshots",
);
pub const RESTORE: Kind = Kind::namespaced(
    add_ons::SNAPSHOTS,
    "v1beta1",
    "VirtualMachineRestore",
    "virtualmachinerestores",
);
pub const DATA_VOLUME: Kind =
    Kind::namespaced(add_ons::IMPORTER, "v1beta1", "DataVolume", "datavolumes");
pub const ATTACHMENT: Kind = Kind::namespaced(
    add_ons::MULTUS,
    "v1",
    "NetworkAttachmentDefinition",
    "network-attachment-definitions",
);
pub const POLICY: Kind = Kind::cluster(
    add_ons::NMSTATE,
    "v1",
    "NodeNetworkConfigurationPolicy",
    "nodenetworkconfigurationpolicies",
);
/// What a node made of a policy.
pub const ENACTMENT: Kind = Kind::cluster(
    add_ons::NMSTATE,
    "v1beta1",
    "NodeNetworkConfigurationEnactment",
    "nodenetworkconfigurationenactments",
);

pub const CLAIM: Kind =
    Kind::namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
pub const DEFINITION: Kind = Kind::cluster(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
);
pub const SECRET: Kind = Kind::namespaced("", "v1", "Secret", "secrets");
pub const STORAGE_CLASS: Kind =
    Kind::cluster("storage.k8s.io", "v1", "StorageClass", "storageclasses");
