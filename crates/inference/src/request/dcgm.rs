//! The GPUs that a cluster has, as those say it who measure them: exporters of NVIDIA's DCGM, of
//! which every node with GPUs runs one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use futures::StreamExt;
use reconcile::{Context, Object, conditions};

use super::hardware::{self, Hardware, Node};
use crate::kinds::POD;
use crate::model::call;
use crate::value::text;

/// What exporters are known by.
const LABELS: [(&str, &str); 3] = [
    ("app", "nvidia-dcgm-exporter"),
    ("app", "dcgm-exporter"),
    ("app.kubernetes.io/name", "dcgm-exporter"),
];
/// How much of a GPU's memory is how, in MiB; the sum is what it has.
const MEMORY: [&str; 3] = ["DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_RESERVED"];
const NVLINK: &str = "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL";
/// Exporters that are asked, how many at once, and how long each has.
const EXPORTERS_MAX: usize = 256;
const AT_ONCE_MAX: usize = 16;
const WITHIN: Duration = Duration::from_secs(5);

/// What exporters say; nothing if there are none, or none that answers.
pub async fn discover(context: &Context, template: &str) -> Option<Hardware> {
    let pods = context.cache(POD).all();
    let exporters = pods.iter().filter(|pod| is_exporter(pod)).take(EXPORTERS_MAX);
    let urls: Vec<String> = exporters.filter_map(|pod| url(pod, template)).collect();
    let asked = urls.into_iter().map(|url| async move { call::get(&url, WITHIN).await });
    let mut answers = futures::stream::iter(asked).buffered(AT_ONCE_MAX);
    let mut nodes = Vec::new();
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(answer) if answer.status == 200 => nodes.extend(read(&answer.text)),
            Ok(answer) => tracing::debug!(status = answer.status, "an exporter of GPUs refused"),
            Err(reason) => tracing::debug!(reason, "an exporter of GPUs does not answer"),
        }
    }
    hardware::choose(&nodes)
}

fn is_exporter(pod: &Object) -> bool {
    LABELS.iter().any(|(name, value)| pod.label(name) == Some(value))
        && conditions::is_true(&pod.value["status"], "Ready")
}

fn url(pod: &Object, template: &str) -> Option<String> {
    let address: IpAddr = text(&pod.value["status"]["podIP"]).parse().ok()?;
    let host = match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    Some(template.replace("%s", &host))
}

/// What is known of one GPU.
#[derive(Default)]
struct Gpu {
    product: String,
    memory: f64,
}

/// The nodes that metrics tell of.
fn read(metrics: &str) -> Vec<Node> {
    let mut gpus: BTreeMap<String, BTreeMap<String, Gpu>> = BTreeMap::new();
    let mut linked: BTreeSet<String> = BTreeSet::new();
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, rest)) = line.split_once('{') else { continue };
        let Some((labels, value)) = rest.rsplit_once('}') else { continue };
        let host = label(labels, "Hostname").unwrap_or_default();
        let value = value.split_whitespace().next().and_then(|value| value.parse::<f64>().ok());
        if name == NVLINK && value.is_some_and(|value| value > 0.0) {
            linked.insert(host.clone());
        }
        let (Some(number), Some(product)) = (label(labels, "gpu"), label(labels, "modelName"))
        else {
            continue;
        };
        // A part of a GPU is not one more.
        let gpu = gpus.entry(host).or_default().entry(number).or_default();
        gpu.product = product;
        if MEMORY.contains(&name) && label(labels, "GPU_I_ID").is_none() {
            gpu.memory += value.unwrap_or(0.0);
        }
    }
    let of_node = |(host, gpus): (String, BTreeMap<String, Gpu>)| {
        let first = gpus.values().next()?;
        let count = i64::try_from(gpus.len()).ok()?;
        let (product, memory_mb) = (hardware::gpu(&first.product)?, first.memory);
        let is_linked = linked.contains(&host);
        (memory_mb > 0.0).then_some(Node { count, product, memory_mb, is_linked, has_rdma: false })
    };
    gpus.into_iter().filter_map(of_node).collect()
}

/// The value of a label.
fn label(labels: &str, name: &str) -> Option<String> {
    let mut rest = labels;
    while let Some((found, after)) = rest.split_once("=\"") {
        let (value, after) = after.split_once('"')?;
        if found.trim_start_matches([',', ' ']) == name {
            return Some(value.to_owned());
        }
        rest = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const METRICS: &str = r#"
# HELP DCGM_FI_DEV_FB_FREE Framebuffer memory free (in MiB).
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"} 80000
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"} 1559
DCGM_FI_DEV_FB_FREE{gpu="1",UUID="GPU-b",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"} 81559
DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{gpu="0",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"} 12
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-c",modelName="Quadro P4000",Hostname="n2"} 8000
garbage
"#;

    #[test]
    fn metrics_tell_how_many_gpus_of_which_kind_a_node_has() {
        let nodes = read(METRICS);
        let expected = Node {
            count: 2,
            product: "h100_sxm",
            memory_mb: 81_559.0,
            is_linked: true,
            has_rdma: false,
        };
        assert_eq!(nodes, [expected]);
        let found = hardware::choose(&nodes).expect("GPUs");
        assert_eq!((found.gpus_per_node, found.gpus, found.interconnect), (2, 2, Some("nvlink")));
    }

    #[test]
    fn an_exporter_is_asked_where_its_pod_is() {
        let pod = |address: &str| {
            Object::new(json!({"metadata": {"name": "e", "labels": {"app": "dcgm-exporter"}},
                "status": {"podIP": address, "conditions": [{"type": "Ready", "status": "True"}]}}))
        };
        let template = "http://%s:9400/metrics";
        assert!(is_exporter(&pod("10.0.0.1")));
        let of = |address: &str| url(&pod(address), template);
        assert_eq!(of("10.0.0.1").as_deref(), Some("http://10.0.0.1:9400/metrics"));
        assert_eq!(of("fd00::1").as_deref(), Some("http://[fd00::1]:9400/metrics"));
        assert_eq!(of(""), None);
    }
}
