//! The runtimes that every installation has. Those that end in `-local` need no image: they run
//! what the machine itself has.

use serde_json::Value;

/// As users know them.
const SHIPPED: [&str; 8] = [
    include_str!("torch-distributed.yaml"),
    include_str!("jax-distributed.yaml"),
    include_str!("xgboost-distributed.yaml"),
    include_str!("deepspeed-distributed.yaml"),
    include_str!("mlx-distributed.yaml"),
    include_str!("torchtune-llama3.2-1b.yaml"),
    include_str!("torchtune-llama3.2-3b.yaml"),
    include_str!("torchtune-qwen2.5-1.5b.yaml"),
];
/// For nodes that run pods as processes.
const LOCAL: [&str; 3] = [
    include_str!("plain-local.yaml"),
    include_str!("torch-local.yaml"),
    include_str!("mpi-local.yaml"),
];

/// Which runtimes are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Shipped,
    ShippedAndLocal,
}

pub fn manifests(choice: Choice) -> Vec<Value> {
    let local = match choice {
        Choice::Shipped => &[][..],
        Choice::ShippedAndLocal => &LOCAL[..],
    };
    let texts = SHIPPED.iter().chain(local);
    let read = |text: &&str| serde_saphyr::from_str(text).expect("a runtime of ours must be YAML");
    texts.map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{list, text};

    #[test]
    fn every_runtime_says_its_framework_and_has_a_container_that_trains() {
        let all = manifests(Choice::ShippedAndLocal);
        let names: Vec<&str> = all.iter().map(|one| text(&one["metadata"]["name"])).collect();
        assert_eq!(names.len(), 11);
        assert_eq!(names[0], "torch-distributed");
        for runtime in &all {
            let labels = &runtime["metadata"]["labels"];
            assert!(labels["trainer.kubeflow.org/framework"].is_string(), "{labels}");
            let jobs = list(&runtime["spec"]["template"]["spec"]["replicatedJobs"]);
            let trainers = jobs.iter().filter(|job| {
                job["template"]["metadata"]["labels"][crate::blueprint::ANCESTOR] == "trainer"
            });
            let trainers: Vec<&Value> = trainers.collect();
            assert_eq!(trainers.len(), 1);
            let pod = &trainers[0]["template"]["spec"]["template"]["spec"];
            assert!(pod["containers"][0]["image"].is_string());
        }
    }
}
