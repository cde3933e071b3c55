//! The Job that starts the worker that is to be frozen: as its component would, and so that it can
//! be frozen.

use reconcile::Object;
use serde_json::{Value, json};

use super::{ARTIFACT_VERSION, ID, OWNER, Observed, SOURCE, TARGETS};
use crate::backends::{Deployer, Role};
use crate::component::Facts;
use crate::names;
use crate::pods::{self, Given};
use crate::settings::Settings;
use crate::value::{find_mut, object_mut, text};

const DEADLINE_SECONDS: i64 = 3_600;
const KEPT_SECONDS: i64 = 300;

pub fn name(checkpoint: &Object) -> String {
    format!("checkpoint-{}", checkpoint.name.name)
}

/// The container that is frozen.
pub fn target(checkpoint: &Object) -> &str {
    checkpoint.value["spec"]["job"]["targetContainerName"].as_str().unwrap_or("main")
}

pub fn job(
    settings: &Settings,
    checkpoint: &Object,
    observed: &Observed,
    id: &str,
) -> Result<Value, String> {
    let said = &checkpoint.value["spec"]["job"];
    let component = component(checkpoint);
    let facts = Facts::of(&component);
    let given = Given {
        settings,
        facts: &facts,
        role: Role::Main,
        deployer: Deployer::LeaderWorkerSet,
        secrets: &observed.secrets,
        account: "default",
        is_legacy: false,
    };
    let mut template = pods::template(&given)?;
    for (name, value) in [(OWNER, &*checkpoint.name.name), (SOURCE, "true"), (ID, id)] {
        template["metadata"]["labels"][name] = json!(value);
    }
    // It serves nobody, so nobody is to find it.
    let labels = object_mut(&mut template["metadata"]["labels"]);
    labels.remove(names::DISCOVERY_ENABLED);
    labels.remove(names::SELECTOR);
    for (name, value) in [(ARTIFACT_VERSION, "1"), (TARGETS, target(checkpoint))] {
        template["metadata"]["annotations"][name] = json!(value);
    }
    let pod = &mut template["spec"];
    pod["restartPolicy"] = json!("Never");
    if !settings.seccomp_profile.is_empty() {
        pod["securityContext"]["seccompProfile"] =
            json!({"type": "Localhost", "localhostProfile": settings.seccomp_profile});
    }
    let Some(main) = find_mut(&mut pod["containers"], "name", target(checkpoint)) else {
        return Err(format!("the pod template has no container {:?}", target(checkpoint)));
    };
    main["securityContext"]["privileged"] = json!(true);
    if let Some(storage) = &settings.storage {
        storage.mount(pod, target(checkpoint));
    }
    let deadline = said["activeDeadlineSeconds"].as_i64().unwrap_or(DEADLINE_SECONDS);
    Ok(json!({
        "metadata": {"namespace": &*checkpoint.name.namespace, "name": name(checkpoint),
            "labels": {OWNER: &*checkpoint.name.name, ID: id}},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": deadline,
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": template,
        },
    }))
}

/// The worker as a component of its own would say it.
fn component(checkpoint: &Object) -> Object {
    let spec = &checkpoint.value["spec"];
    let template = &spec["job"]["podTemplateSpec"];
    let labels = &template["metadata"]["labels"];
    let kind = match text(&labels[names::COMPONENT_TYPE]) {
        kind @ ("worker" | "prefill" | "decode") => kind,
        _ => "worker",
    };
    let mut made = json!({
        "metadata": {"namespace": &*checkpoint.name.namespace, "name": &*checkpoint.name.name},
        "spec": {
            "name": &*checkpoint.name.name,
            "type": kind,
            "podTemplate": template,
            "backendFramework": spec["identity"]["backendFramework"],
            "globalDynamoNamespace": labels[names::DYNAMO_NAMESPACE].is_null(),
        },
    });
    if let Some(size) = spec["job"]["sharedMemory"].get("size") {
        made["spec"]["sharedMemorySize"] = size.clone();
    }
    if spec["job"]["sharedMemory"]["disabled"] == true {
        made["spec"]["sharedMemorySize"] = json!("0");
    }
    if !labels[names::DYNAMO_NAMESPACE].is_null() {
        made["metadata"]["labels"] =
            json!({names::DYNAMO_NAMESPACE: labels[names::DYNAMO_NAMESPACE]});
    }
    Object::new(made)
}
