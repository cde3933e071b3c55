//! Requests: what the older version says in the profiler's configuration, the newer has fields for.

use serde_json::{Map, Value, json};

use super::Way;
use super::envelope::{self, Kept};
use super::leaves::{flat, whole};
use crate::value::{find, list, object_mut, text};

/// Fields of the newer version, and where the older has the same in its profiler's configuration.
const CONFIGURED: [(&str, &str); 9] = [
    ("/sla/ttft", "/sla/ttft"),
    ("/sla/itl", "/sla/itl"),
    ("/sla/optimizationType", "/sla/optimizationType"),
    ("/workload/isl", "/sla/isl"),
    ("/workload/osl", "/sla/osl"),
    ("/modelCache/pvcName", "/deployment/modelCache/pvcName"),
    ("/modelCache/pvcModelPath", "/deployment/modelCache/modelPathInPvc"),
    ("/modelCache/pvcMountPath", "/deployment/modelCache/pvcMountPath"),
    ("/features/planner", "/planner"),
];
/// Annotations of older operators, and the field of the older version that each stands for.
const NOTES: [(&str, &str); 9] = [
    ("nvidia.com/dgdr-config-map-ref", "/spec/profilingConfig/configMapRef"),
    ("nvidia.com/dgdr-output-pvc", "/spec/profilingConfig/outputPVC"),
    ("nvidia.com/dgdr-enable-gpu-discovery", "/spec/enableGpuDiscovery"),
    ("nvidia.com/dgdr-deployment-overrides", "/spec/deploymentOverrides"),
    ("nvidia.com/dgdr-profiling-config", "/spec/profilingConfig/config"),
    ("nvidia.com/dgdr-status-backend", "/status/backend"),
    ("nvidia.com/dgdr-profiling-results", "/status/profilingResults"),
    ("nvidia.com/dgdr-deployment-status", "/status/deployment"),
    // It has a field of its own; there is nothing to be put back.
    ("nvidia.com/dgdr-profiling-job-name", ""),
];
const PROFILER: &str = "profiler";

pub fn convert(object: &Value, way: Way) -> Value {
    let (plain, notes) = match way {
        Way::ToHub => (object.clone(), Vec::new()),
        Way::ToSpoke => without_notes(object),
    };
    let namespace = text(&plain["metadata"]["namespace"]).to_owned();
    let mut made = part(&plain, (envelope::REQUEST, "spec"), way, |value, way| match way {
        Way::ToHub => hub_of(value),
        Way::ToSpoke => spoke_of(value),
    });
    made = part(&made, (envelope::REQUEST_STATUS, "status"), way, |value, way| match way {
        Way::ToHub => hub_status(value),
        Way::ToSpoke => spoke_status(value, &namespace),
    });
    for (at, value) in notes {
        put(&mut made, at, value);
    }
    made
}

/// Converts one part of an object; what the other version cannot say of it is kept, leaf by leaf.
fn part(
    object: &Value,
    (annotation, field): (&str, &str),
    way: Way,
    of: impl Fn(&Value, Way) -> Value,
) -> Value {
    let (plain, envelope) = envelope::open(object, annotation);
    if !plain[field].is_object() {
        return plain;
    }
    let (own, other) = match way {
        Way::ToHub => ("hub", "spec"),
        Way::ToSpoke => ("spec", "hub"),
    };
    let mut there = flat(&of(&plain[field], way));
    Kept::read(&envelope[own], &envelope[&format!("{own}Live")]).restore(&mut there, &[]);
    let there = whole(&there);
    let back = flat(&of(&there, super::status::opposite(way)));
    let kept = Kept::of(&flat(&plain[field]), &back, &[]);
    let mut content = Map::new();
    if !kept.is_empty() {
        content.insert(other.to_owned(), Value::Object(kept.said));
        content.insert(format!("{other}Live"), Value::Object(kept.live));
    }
    let mut made = plain;
    made[field] = there;
    envelope::close(&mut made, annotation, content);
    made
}

/// What only the older version can say of a request of the newer, by the names that it has there.
pub fn preserved(object: &Value) -> Value {
    whole(&envelope::kept(object, envelope::REQUEST))
}

fn copy(from: &Value, at: &str, to: &mut Value, place: &str) {
    if let Some(value) = from.pointer(at) {
        put(to, place, value.clone());
    }
}

/// Sets a field, and makes what it is in.
fn put(object: &mut Value, at: &str, value: Value) {
    let mut place = object;
    for part in at.split('/').skip(1) {
        place = object_mut(place).entry(part.to_owned()).or_insert(Value::Null);
    }
    *place = value;
}

fn hub_of(spoke: &Value) -> Value {
    let mut made = json!({"autoApply": spoke["autoApply"] == true});
    for field in ["model", "backend", "runtimeVersionOverride"] {
        copy(spoke, &format!("/{field}"), &mut made, &format!("/{field}"));
    }
    let profiling = &spoke["profilingConfig"];
    let images = [&profiling["profilerImage"], &spoke["deploymentOverrides"]["workersImage"]];
    if let Some(image) = images.into_iter().find(|image| !text(image).is_empty()) {
        made["image"] = image.clone();
    }
    if spoke["useMocker"] == true {
        put(&mut made, "/features/mocker/enabled", json!(true));
    }
    for (hub, configured) in CONFIGURED {
        copy(&profiling["config"], configured, &mut made, hub);
    }
    let template = "/overrides/profilingJob/template/spec";
    for field in ["tolerations", "nodeSelector"] {
        copy(profiling, &format!("/{field}"), &mut made, &format!("{template}/{field}"));
    }
    if let Some(resources) = profiling.get("resources") {
        let container = json!([{"name": PROFILER, "resources": resources}]);
        put(&mut made, &format!("{template}/containers"), container);
    }
    made
}

fn spoke_of(hub: &Value) -> Value {
    let image = text(&hub["image"]);
    let mut made = json!({
        "autoApply": hub["autoApply"] != false,
        "profilingConfig": {"profilerImage": image},
    });
    for field in ["model", "backend", "runtimeVersionOverride"] {
        copy(hub, &format!("/{field}"), &mut made, &format!("/{field}"));
    }
    if hub["features"]["mocker"]["enabled"] == true {
        made["useMocker"] = json!(true);
    }
    for (field, configured) in CONFIGURED {
        copy(hub, field, &mut made, &format!("/profilingConfig/config{configured}"));
    }
    let pod = &hub["overrides"]["profilingJob"]["template"]["spec"];
    for field in ["tolerations", "nodeSelector"] {
        copy(pod, &format!("/{field}"), &mut made, &format!("/profilingConfig/{field}"));
    }
    let profiler = find(&pod["containers"], "name", PROFILER);
    let is_plain = |one: &&Value| one.as_object().is_some_and(|fields| fields.len() == 2);
    if let Some(resources) = profiler
        .filter(is_plain)
        .filter(|_| list(&pod["containers"]).len() == 1)
        .and_then(|one| one.get("resources"))
    {
        made["profilingConfig"]["resources"] = resources.clone();
    }
    made
}

fn hub_status(spoke: &Value) -> Value {
    let mut made = json!({});
    for field in ["conditions", "observedGeneration"] {
        copy(spoke, &format!("/{field}"), &mut made, &format!("/{field}"));
    }
    let deployment = &spoke["deployment"];
    let phase = match text(&spoke["state"]) {
        "" | "Initializing" | "Pending" => "Pending",
        "Ready" if deployment["created"] == true => "Deployed",
        "DeploymentDeleted" => "Ready",
        state => state,
    };
    made["phase"] = json!(phase);
    copy(deployment, "/name", &mut made, "/dgdName");
    copy(spoke, "/generatedDeployment", &mut made, "/profilingResults/selectedConfig");
    made
}

fn spoke_status(hub: &Value, namespace: &str) -> Value {
    let mut made = json!({});
    for field in ["conditions", "observedGeneration"] {
        copy(hub, &format!("/{field}"), &mut made, &format!("/{field}"));
    }
    let phase = text(&hub["phase"]);
    made["state"] = json!(match phase {
        "" => "Initializing",
        "Deployed" => "Ready",
        phase => phase,
    });
    if let Some(name) = hub.get("dgdName") {
        made["deployment"] = json!({"name": name, "namespace": namespace});
        if phase == "Deployed" {
            made["deployment"]["created"] = json!(true);
        }
    }
    copy(hub, "/profilingResults/selectedConfig", &mut made, "/generatedDeployment");
    made
}

/// The object without what older operators noted on it, and where each note belongs.
fn without_notes(object: &Value) -> (Value, Vec<(&'static str, Value)>) {
    let mut plain = object.clone();
    let mut found = Vec::new();
    let Some(Value::Object(annotations)) = plain.pointer_mut("/metadata/annotations") else {
        return (plain, found);
    };
    for (name, at) in NOTES {
        let Some(Value::String(said)) = annotations.remove(name) else { continue };
        // A text that is no JSON is itself what is meant.
        let value = serde_json::from_str(&said).unwrap_or(Value::String(said));
        if !at.is_empty() {
            found.push((at, value));
        }
    }
    (plain, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn older() -> Value {
        json!({
            "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeploymentRequest",
            "metadata": {"namespace": "n", "name": "r"},
            "spec": {
                "model": "m", "backend": "vllm", "autoApply": false, "useMocker": true,
                "enableGpuDiscovery": true,
                "profilingConfig": {
                    "profilerImage": "p:1.0.0", "outputPVC": "out",
                    "configMapRef": {"name": "base", "key": "disagg.yaml"},
                    "config": {"sla": {"ttft": 200, "isl": 3_000}, "engine": {"x/y": 1},
                        "deployment": {"modelCache": {"pvcName": "models"}}, "planner": {"a": 1}},
                    "resources": {"limits": {"cpu": "2"}}, "tolerations": [{"operator": "Exists"}],
                    "nodeSelector": {"a.b/c": "d"},
                },
                "deploymentOverrides": {"name": "other", "workersImage": "w:1.0.0"},
            },
            "status": {"state": "Ready", "backend": "vllm", "profilingResults": "configmap/x",
                "deployment": {"name": "g", "namespace": "n", "created": true,
                    "state": "successful"}},
        })
    }

    #[test]
    fn the_older_version_becomes_fields_and_comes_back_whole() {
        let hub = convert(&older(), Way::ToHub);
        let spec = &hub["spec"];
        let expected = json!({
            "model": "m", "backend": "vllm", "autoApply": false, "image": "p:1.0.0",
            "features": {"mocker": {"enabled": true}, "planner": {"a": 1}},
            "sla": {"ttft": 200}, "workload": {"isl": 3_000},
            "modelCache": {"pvcName": "models"},
            "overrides": {"profilingJob": {"template": {"spec": {
                "containers": [{"name": "profiler", "resources": {"limits": {"cpu": "2"}}}],
                "tolerations": [{"operator": "Exists"}], "nodeSelector": {"a.b/c": "d"}}}}},
        });
        assert_eq!(*spec, expected);
        assert_eq!(hub["status"]["phase"], "Deployed");
        assert_eq!(hub["status"]["dgdName"], "g");
        let preserved = preserved(&hub);
        assert_eq!(preserved["profilingConfig"]["outputPVC"], "out");
        assert_eq!(preserved["deploymentOverrides"]["name"], "other");
        assert_eq!(convert(&hub, Way::ToSpoke), older());
        // What is changed meanwhile counts; what stood beside it comes back.
        let mut changed = hub;
        changed["spec"]["workload"]["isl"] = json!(5_000);
        let back = convert(&changed, Way::ToSpoke);
        let config = &back["spec"]["profilingConfig"]["config"];
        assert_eq!((&config["sla"]["isl"], &config["engine"]), (&json!(5_000), &json!({"x/y": 1})));
    }

    #[test]
    fn the_newer_version_survives_a_visit_to_the_older() {
        let hub = json!({
            "metadata": {"namespace": "n", "name": "r"},
            "spec": {"model": "m", "image": "p:1.0.0", "searchStrategy": "thorough",
                "hardware": {"gpuSku": "l4"}, "workload": {"isl": 1, "concurrency": 2.5},
                "overrides": {"dgd": {"metadata": {"name": "x"}}, "profilingJob": {"template":
                    {"spec": {"containers": [{"name": "profiler", "image": "q",
                        "resources": {}}]}}}}},
            "status": {"phase": "Deployed", "dgdName": "g", "profilingJobName": "j",
                "profilingResults": {"selectedConfig": {"a": {"b": 1}}, "pareto": [{}]},
                "deploymentInfo": {"replicas": 2}},
        });
        let spoke = convert(&hub, Way::ToSpoke);
        assert_eq!(spoke["spec"]["autoApply"], true);
        assert_eq!(spoke["status"]["state"], "Ready");
        assert_eq!(spoke["status"]["deployment"]["created"], true);
        assert_eq!(spoke["status"]["generatedDeployment"], json!({"a": {"b": 1}}));
        assert_eq!(convert(&spoke, Way::ToHub), hub);
        for (phase, state) in [("Failed", "Failed"), ("Deploying", "Deploying"), ("Ready", "Ready")]
        {
            let one = json!({"metadata": {}, "status": {"phase": phase, "dgdName": "g"}});
            let there = convert(&one, Way::ToSpoke);
            assert_eq!(there["status"]["state"], state);
            assert_eq!(convert(&there, Way::ToHub), one);
        }
    }

    #[test]
    fn notes_of_older_operators_are_read_once() {
        let hub = json!({"metadata": {"annotations": {
            "nvidia.com/dgdr-output-pvc": "out",
            "nvidia.com/dgdr-config-map-ref": "{\"name\":\"base\"}",
            "nvidia.com/dgdr-profiling-job-name": "j"}}, "spec": {"model": "m", "image": "p"}});
        let spoke = convert(&hub, Way::ToSpoke);
        let profiling = &spoke["spec"]["profilingConfig"];
        assert_eq!(profiling["outputPVC"], "out");
        assert_eq!(profiling["configMapRef"], json!({"name": "base"}));
        let text = spoke["metadata"].to_string();
        assert!(!text.contains("dgdr-output-pvc") && !text.contains("job-name"), "{text}");
    }
}
