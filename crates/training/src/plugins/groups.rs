//! What the two kinds of PodGroup share.

use amounts::pod::{self, Amounts};
use serde_json::{Map, Value, json};

use crate::blueprint::Blueprint;

/// How many pods must be able to start together, and what they request.
pub fn members(blueprint: &Blueprint) -> (i64, Value) {
    let sets = 0..blueprint.pod_sets.len();
    let count = sets.clone().map(|set| blueprint.gang_members(set)).sum();
    let mut sum = Amounts::new();
    for set in sets.filter(|set| blueprint.is_in_gang(*set)) {
        let pods = &blueprint.pod_sets[set];
        let times = pods.count * pods.replicas;
        let requests = blueprint.requests(set).into_iter();
        pod::add(&mut sum, &requests.map(|(name, amount)| (name, amount.times(times))).collect());
    }
    let sum: Map<String, Value> =
        sum.into_iter().map(|(name, amount)| (name, json!(amount.to_string()))).collect();
    (count, Value::Object(sum))
}
