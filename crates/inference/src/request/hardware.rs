//! The GPUs that a cluster has, as its nodes say it.

use std::collections::BTreeMap;

use reconcile::Object;
use serde_json::{Value, json};

const COUNT: &str = "nvidia.com/gpu.count";
const PRODUCT: &str = "nvidia.com/gpu.product";
const MEMORY: &str = "nvidia.com/gpu.memory";
/// More than this is not planned with.
const GPUS_MAX: i64 = 32;

/// Says of a node that its pods may reach the memory of others.
const RDMA: [&str; 2] =
    ["feature.node.kubernetes.io/rdma.available", "feature.node.kubernetes.io/rdma.capable"];

/// The GPUs of one node.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub count: i64,
    pub product: &'static str,
    pub memory_mb: f64,
    pub is_linked: bool,
    pub has_rdma: bool,
}

/// What is planned with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hardware {
    pub gpu: &'static str,
    pub memory_mb: f64,
    pub gpus_per_node: i64,
    pub gpus: i64,
    /// How the GPUs of a node reach each other, and nodes each other, where it is known.
    pub interconnect: Option<&'static str>,
    pub rdma: Option<bool>,
}

/// What labels of nodes say.
pub fn discover(nodes: &[Object]) -> Option<Hardware> {
    let of_node = |node: &Object| {
        let number = |name: &str| node.label(name).and_then(|text| text.parse::<f64>().ok());
        let (count, memory_mb) = (number(COUNT)?, number(MEMORY)?);
        let product = node.label(PRODUCT).and_then(gpu)?;
        let has_rdma = RDMA.iter().any(|name| node.label(name) == Some("true"));
        let node = Node { count: count as i64, product, memory_mb, is_linked: false, has_rdma };
        (count >= 1.0).then_some(node)
    };
    choose(&nodes.iter().filter_map(of_node).collect::<Vec<Node>>())
}

/// The GPUs that most nodes with the most of them have.
pub fn choose(nodes: &[Node]) -> Option<Hardware> {
    let mut alike: BTreeMap<(i64, &'static str), Vec<&Node>> = BTreeMap::new();
    for node in nodes {
        alike.entry((node.count, node.product)).or_default().push(node);
    }
    let best = alike.into_iter().max_by_key(|((count, _), nodes)| (*count, nodes.len()));
    best.map(|((gpus_per_node, gpu), nodes)| {
        let count = i64::try_from(nodes.len()).unwrap_or(GPUS_MAX);
        let all = |holds: fn(&&Node) -> bool| nodes.iter().all(holds);
        Hardware {
            gpu,
            memory_mb: nodes[0].memory_mb,
            gpus_per_node,
            gpus: gpus_per_node.saturating_mul(count).min(GPUS_MAX),
            interconnect: all(|node| node.is_linked).then_some("nvlink"),
            rdma: all(|node| node.has_rdma).then_some(true),
        }
    })
}

/// What a request calls a product.
pub fn gpu(product: &str) -> Option<&'static str> {
    let product = product.to_uppercase();
    let is_card = product.contains("PCIE");
    let by_form = |card: &'static str, module: &'static str| if is_card { card } else { module };
    let known = [
        ("GB200", "gb200_sxm"),
        ("GB10", "gb10"),
        ("B200", "b200_sxm"),
        ("H200", "h200_sxm"),
        ("H100", by_form("h100_pcie", "h100_sxm")),
        ("A100", by_form("a100_pcie", "a100_sxm")),
        ("A30", "a30"),
        ("L40S", "l40s"),
        ("L40", "l40"),
        ("L4", "l4"),
        ("V100", by_form("v100_pcie", "v100_sxm")),
        ("T4", "t4"),
        ("MI2", "mi200"),
        ("MI3", "mi300"),
    ];
    known.into_iter().find(|(word, _)| product.contains(word)).map(|(_, gpu)| gpu)
}

/// Whether a request says itself what it is to be planned with.
pub fn is_said(spec: &Value) -> bool {
    let said = &spec["hardware"];
    ["gpuSku", "vramMb", "numGpusPerNode"].iter().all(|field| !said[*field].is_null())
}

/// What a request lacks of what was found, as a change of it.
pub fn missing(spec: &Value, found: &Hardware) -> Option<Value> {
    let said = &spec["hardware"];
    let mut more = json!({});
    for (field, value) in [
        ("gpuSku", json!(found.gpu)),
        ("vramMb", json!(found.memory_mb)),
        ("numGpusPerNode", json!(found.gpus_per_node)),
        ("totalGpus", json!(found.gpus)),
        ("interconnect", json!(found.interconnect)),
        ("rdma", json!(found.rdma)),
    ] {
        if said[field].is_null() && !value.is_null() {
            more[field] = value;
        }
    }
    (more != json!({})).then(|| json!({"spec": {"hardware": more}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(count: &str, product: &str) -> Object {
        Object::new(json!({"metadata": {"name": product, "labels":
            {COUNT: count, PRODUCT: product, MEMORY: "81559"}}}))
    }

    #[test]
    fn the_most_gpus_are_planned_with() {
        let nodes = [
            node("4", "NVIDIA-L40S"),
            node("8", "NVIDIA-H100-80GB-HBM3"),
            node("8", "NVIDIA-H100-80GB-HBM3"),
            Object::new(json!({"metadata": {"name": "plain"}})),
        ];
        let found = discover(&nodes).expect("GPUs");
        let expected = Hardware {
            gpu: "h100_sxm",
            memory_mb: 81_559.0,
            gpus_per_node: 8,
            gpus: 16,
            ..Hardware::default()
        };
        assert_eq!(found, expected);
        assert_eq!(discover(&nodes[3..]), None);
        let spec = json!({"hardware": {"gpuSku": "h200_sxm", "totalGpus": 4}});
        let more = missing(&spec, &found);
        let expected = json!({"spec": {"hardware": {"vramMb": 81_559.0, "numGpusPerNode": 8}}});
        assert_eq!(more, Some(expected));
    }

    #[test]
    fn products_have_names_of_their_own() {
        for (product, expected) in [
            ("NVIDIA-A100-SXM4-80GB", Some("a100_sxm")),
            ("NVIDIA-A100-PCIE-40GB", Some("a100_pcie")),
            ("NVIDIA-GB200", Some("gb200_sxm")),
            ("NVIDIA-L4", Some("l4")),
            ("NVIDIA-L40S", Some("l40s")),
            ("Quadro-P4000", None),
        ] {
            assert_eq!(gpu(product), expected, "{product}");
        }
    }
}
