//! DefaultTolerationSeconds: pods stay five minutes on a node that is lost.
//!
//! Upstream: plugin/pkg/admission/defaulttolerationseconds/admission.go

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Attributes, Plugin};
use crate::registry::edit::{self, object, set_default, text};
use crate::server::Server;
use crate::status::Error;

const SECONDS: i64 = 300;
const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

pub fn apply(pod: &mut Value) {
    let Some(spec) = object(pod, "spec") else { return };
    for taint in TAINTS {
        let covers = |it: &Value| {
            let key = text(it, &["key"]);
            let effect = text(it, &["effect"]);
            (key == taint || key.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        };
        if edit::list(spec, &["tolerations"]).iter().any(covers) {
            continue;
        }
        set_default(spec, "tolerations", json!([]));
        if let Some(all) = spec.get_mut("tolerations").and_then(Value::as_array_mut) {
            all.push(json!({
                "key": taint,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": SECONDS,
            }));
        }
    }
}

pub struct DefaultTolerationSeconds;

#[async_trait]
impl Plugin for DefaultTolerationSeconds {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.creates("", "pods") || attributes.updates("", "pods")
    }

    async fn mutate(
        &self,
        _server: &Server,
        _attributes: &Attributes<'_>,
        object: &mut Value,
    ) -> Result<(), Error> {
        apply(object);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_taints_are_tolerated_unless_the_pod_says_how() {
        let mut pod = json!({"spec": {"tolerations": [{"key": TAINTS[0], "operator": "Exists",
            "tolerationSeconds": 5, "effect": "NoExecute"}]}});
        apply(&mut pod);
        apply(&mut pod);
        let tolerations = pod["spec"]["tolerations"].as_array().unwrap();
        assert_eq!(tolerations.len(), 2);
        assert_eq!(tolerations[0]["tolerationSeconds"], 5);
        assert_eq!(tolerations[1]["key"], TAINTS[1]);
    }
}
