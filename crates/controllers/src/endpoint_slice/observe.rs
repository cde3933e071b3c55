//! The pods and slices of a service.

use std::collections::BTreeMap;
use std::sync::Arc;

use reconcile::{Context, Name, Object};

use super::plan::{MANAGED_BY, MANAGER};
use crate::kinds::{ENDPOINT_SLICE, NODE};
use crate::{pods, service_pods};

const ZONE: &str = "topology.kubernetes.io/zone";

#[derive(Default)]
pub struct Observed {
    /// The pods that the service selects.
    pub pods: Vec<Arc<Object>>,
    /// The slices that are ours.
    pub slices: Vec<Arc<Object>>,
    /// The zone of every node that has a pod of the service; no entry for a node that is not there.
    pub zones: BTreeMap<String, String>,
}

pub fn observe(context: &Context, service: &Object) -> Observed {
    let pods = service_pods::selected(context, service);
    let mut slices = context.cache(ENDPOINT_SLICE).owned_by(&service.uid);
    slices.retain(|slice| slice.label(MANAGED_BY) == Some(MANAGER));
    let nodes = context.cache(NODE);
    let names = pods.iter().map(|pod| pods::node(pod)).filter(|node| !node.is_empty());
    let found = names.filter_map(|name| nodes.get(&Name::new("", name)));
    let zones = found.map(|node| (node.name.name.to_string(), zone(&node))).collect();
    Observed { pods, slices, zones }
}

/// Empty for a node that does not say.
pub fn zone(node: &Object) -> String {
    node.label(ZONE).unwrap_or_default().to_owned()
}
