//! GPUs that several pods of a group have claimed together: one claim for each rank of a replica,
//! which Grove makes and gives to the cliques of that rank.

use serde_json::{Value, json};

use super::{Pods, Rendered};
use crate::backends;
use crate::component::Facts;
use crate::graph::claims;
use crate::pods::shared_weights::is_between;

/// The claim of a rank.
fn name(one: &Rendered<'_>, rank: i64) -> String {
    format!("{}-gpu-rank-{rank}", one.part.name().to_lowercase())
}

/// The ranks of a component whose pods share GPUs.
fn ranks(one: &Rendered<'_>) -> Vec<i64> {
    let mut all: Vec<i64> = one.pods.iter().filter_map(|pods| pods.rank).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The templates of a component's claims, as the set keeps them.
pub fn templates(one: &Rendered<'_>) -> Vec<Value> {
    if !is_between(one.part.0) {
        return Vec::new();
    }
    let count = gpus(one);
    let device = claims::device(&one.part, count);
    let template = |rank: i64| {
        json!({"name": name(one, rank), "templateSpec": {"spec": {"devices": {"requests": [
            {"name": "gpu", "exactly": device}]}}}})
    };
    ranks(one).into_iter().map(template).collect()
}

/// Which cliques of a component's group have which claim.
pub fn shares(one: &Rendered<'_>, name_of: impl Fn(&Pods) -> String) -> Vec<Value> {
    let share = |rank: i64| {
        let of_rank = one.pods.iter().filter(|pods| pods.rank == Some(rank));
        let cliques: Vec<String> = of_rank.map(&name_of).collect();
        json!({"name": name(one, rank), "scope": "PerReplica",
            "filter": {"childCliqueNames": cliques}})
    };
    ranks(one).into_iter().map(share).collect()
}

/// The GPUs that a pod of the component asks for.
pub fn gpus(one: &Rendered<'_>) -> i64 {
    backends::gpus(Facts::of(&one.object).main()).max(1)
}
