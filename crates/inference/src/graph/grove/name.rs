//! The name of the set of a graph: names of pods follow from it, and must not get too long.

use serde_json::Value;

use super::is_group;
use crate::graph::facts::{Graph, Part};
use crate::pods::shared_weights::is_between;

/// Letters of a name that Grove and Kubernetes leave to the set and to what is in it.
const LENGTH_MAX: usize = 45;
const LENGTH_MIN: usize = 8;
/// A dash and four digits.
const SUFFIX: usize = 5;

pub fn set_name(graph: &Graph<'_>) -> String {
    let longest = graph.components().map(|part| taken(&part)).max().unwrap_or(0);
    let budget = LENGTH_MAX.saturating_sub(longest).max(LENGTH_MIN);
    shortened(graph.name(), budget)
}

/// How many letters a component leaves too few for the name of its set.
pub fn excess(part: &Value) -> usize {
    (taken(&Part(part)) + LENGTH_MIN).saturating_sub(LENGTH_MAX)
}

/// Letters that a component takes.
fn taken(part: &Part<'_>) -> usize {
    let own = part.name().len();
    let is_many = crate::component::nodes(part.0) > 1;
    match (is_group(part), is_many) {
        // The longest clique has a rank as well.
        _ if is_between(part.0) => own + own + "-gms-".len() + digits(part),
        (true, true) => own + own + "-ldr".len(),
        (true, false) => own + own,
        (false, _) => own,
    }
}

/// Digits of the last rank of a component.
fn digits(part: &Part<'_>) -> usize {
    (crate::component::nodes(part.0) - 1).max(0).to_string().len()
}

fn shortened(name: &str, budget: usize) -> String {
    if name.len() <= budget {
        return name.to_owned();
    }
    let kept: String = name.chars().take(budget - SUFFIX).collect();
    format!("{kept}-{:04x}", fnv(name) & 0xffff)
}

/// FNV-1a of 32 bits.
fn fnv(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use reconcile::Object;
    use serde_json::json;

    use super::*;

    fn named(name: &str, component: Value) -> String {
        let object = Object::new(json!({"metadata": {"namespace": "ns", "name": name},
            "spec": {"components": [component]}}));
        set_name(&Graph::of(&object))
    }

    #[test]
    fn long_names_are_shortened_as_others_expect() {
        let long = "a-very-long-dynamo-graph-deployment-name-for-grove";
        let one = json!({"name": "decodeworker"});
        assert_eq!(named(long, one.clone()), "a-very-long-dynamo-graph-dep-b594");
        let many = json!({"name": "decodeworker", "multinode": {"nodeCount": 2}});
        assert_eq!(named(long, many), "a-very-long--b594");
        assert_eq!(named("g", one), "g");
    }
}
