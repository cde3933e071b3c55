//! The rules, one file each, in the order in which they are asked. The first that refuses a node
//! gives the reason.
//!
//! Upstream: pkg/scheduler/apis/config/v1/default_plugins.go

mod dynamic_resources;
mod image_locality;
mod inter_pod_affinity;
mod node_affinity;
mod node_name;
mod node_ports;
mod node_resources_balanced;
mod node_resources_fit;
mod node_unschedulable;
mod pod_topology_spread;
mod taint_toleration;
pub mod volume_binding;
mod volume_restrictions;
mod volume_zone;

#[cfg(test)]
mod tests;

use crate::plugin::Plugin;

/// Every rule, one line each.
pub const ALL: &[&dyn Plugin] = &[
    &dynamic_resources::DynamicResources,
    &node_unschedulable::NodeUnschedulable,
    &node_name::NodeName,
    &taint_toleration::TaintToleration,
    &node_affinity::NodeAffinity,
    &node_ports::NodePorts,
    &node_resources_fit::NodeResourcesFit,
    &volume_restrictions::VolumeRestrictions,
    &volume_binding::VolumeBinding,
    &volume_zone::VolumeZone,
    &pod_topology_spread::PodTopologySpread,
    &inter_pod_affinity::InterPodAffinity,
    &node_resources_balanced::NodeResourcesBalancedAllocation,
    &image_locality::ImageLocality,
];
