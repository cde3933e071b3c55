//! A definition as large as the largest ones published is served in no time.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::{Cluster, DEFINITIONS, WIDGETS, v1, widget, widgets};

const BYTES: usize = 700 << 10;
/// Generous: the suite runs unoptimised and beside other tests.
const TIME_MAX: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_definition_of_700_kilobytes_is_installed_quickly() {
    let cluster = Cluster::start().await;
    let definition = widgets(json!([v1(large())]));
    let length = definition.to_string().len();
    assert!(length > BYTES);
    let start = now();
    cluster.done(&format!("POST {DEFINITIONS}"), definition).await;
    let installed = start.elapsed();
    let start = now();
    let spec = json!({"group0": {"pod0": {"name": "x"}}});
    cluster.done(&format!("POST {WIDGETS}"), widget("a", spec)).await;
    println!("{length} bytes installed in {installed:?}, an object in {:?}", start.elapsed());
    assert!(installed < TIME_MAX, "{installed:?}");
}

#[expect(clippy::disallowed_methods, reason = "the time taken is what is tested")]
fn now() -> Instant {
    Instant::now()
}

fn large() -> Value {
    let sentence = "What this field is for, said in one sentence of about the usual length. ";
    let pod = json!({
        "type": "object",
        "description": sentence.repeat(3),
        "properties": {
            "name": {"type": "string", "description": sentence, "maxLength": 63},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "env": {
                "type": "array", "description": sentence,
                "items": {"type": "object", "properties": {"name": {"type": "string"}}},
            },
        },
    });
    let mut spec = json!({"type": "object", "properties": {}});
    let pod_bytes = pod.to_string().len() + 10;
    for group in 0..=BYTES / (20 * pod_bytes) {
        let mut pods = json!({"type": "object", "properties": {}});
        for index in 0..20 {
            pods["properties"][format!("pod{index}")] = pod.clone();
        }
        spec["properties"][format!("group{group}")] = pods;
    }
    spec
}
