//! Progress: tells trainers where to report how far they are, and gives them a token for it.

use reconcile::Kind;
use serde_json::{Value, json};

use crate::blueprint::{Blueprint, set_variable};
use crate::kinds::CONFIG_MAP;
use crate::plugin::{Make, Plugin, Settings, StatusServer, Unless, Wanted};
use crate::train_job::TrainJob;
use crate::value::upsert;

const VOLUME: &str = "kubeflow-trainer-token";
const DIRECTORY: &str = "/var/run/secrets/kubeflow/trainer";
const TOKEN_SECONDS: u64 = 3_600;

pub struct Progress;

fn map_name(job: &str) -> String {
    format!("{job}-tls-config")
}

/// The path of a job's status, which is also what its token is for.
pub fn audience(namespace: &str, name: &str) -> String {
    format!("{}/namespaces/{namespace}/trainjobs/{name}/status", api::training::api_version())
}

impl Plugin for Progress {
    fn name(&self) -> &'static str {
        "TrainJobStatus"
    }

    fn makes(&self, job: &str) -> Vec<(Kind, String)> {
        vec![(CONFIG_MAP, map_name(job))]
    }

    fn enforce_pods(&self, settings: &Settings, job: &TrainJob<'_>, blueprint: &mut Blueprint) {
        let Some(server) = &settings.status_server else { return };
        let Some(set) = blueprint.trainer_set() else { return };
        let pod = blueprint.pod_mut(set);
        upsert(&mut pod["volumes"], "name", volume(job));
        for container in pod["containers"].as_array_mut().into_iter().flatten() {
            tell(container, server, job);
        }
    }

    fn objects(&self, make: &Make<'_>) -> Result<Vec<Wanted>, String> {
        let Some(server) = &make.settings.status_server else { return Ok(Vec::new()) };
        let mut map = make.job.child(CONFIG_MAP, &map_name(make.job.name()));
        map["data"] = json!({"ca.crt": &*server.authority_pem});
        Ok(vec![Wanted { kind: CONFIG_MAP, object: map, unless: Unless::Same }])
    }
}

fn tell(container: &mut Value, server: &StatusServer, job: &TrainJob<'_>) {
    let url = format!("{}/apis/{}", server.url, audience(job.namespace(), job.name()));
    set_variable(container, "KUBEFLOW_TRAINER_SERVER_URL", url);
    let certificate = format!("{DIRECTORY}/ca.crt");
    set_variable(container, "KUBEFLOW_TRAINER_SERVER_CA_CERT", certificate);
    set_variable(container, "KUBEFLOW_TRAINER_SERVER_TOKEN", format!("{DIRECTORY}/token"));
    let mount = json!({"name": VOLUME, "mountPath": DIRECTORY, "readOnly": true});
    upsert(&mut container["volumeMounts"], "mountPath", mount);
}

fn volume(job: &TrainJob<'_>) -> Value {
    json!({"name": VOLUME, "projected": {"sources": [
        {"serviceAccountToken": {
            "audience": audience(job.namespace(), job.name()),
            "expirationSeconds": TOKEN_SECONDS,
            "path": "token",
        }},
        {"configMap": {
            "name": map_name(job.name()),
            "items": [{"key": "ca.crt", "path": "ca.crt"}],
        }},
    ]}})
}
