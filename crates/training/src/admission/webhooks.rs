//! The objects that make a server ask.

use serde_json::{Value, json};

use crate::{Enabled, NAMESPACE, SERVICE_ACCOUNT};

pub const DEFAULT_TRAIN_JOB: &str = "/mutate-trainer-kubeflow-org-v1alpha1-trainjob";
pub const VALIDATE_TRAIN_JOB: &str = "/validate-trainer-kubeflow-org-v1alpha1-trainjob";
pub const VALIDATE_RUNTIME: &str = "/validate-trainer-kubeflow-org-v1alpha1-trainingruntime";
pub const VALIDATE_CLUSTER_RUNTIME: &str =
    "/validate-trainer-kubeflow-org-v1alpha1-clustertrainingruntime";
pub const DEFAULT_JOB_SET: &str = "/mutate-jobset-x-k8s-io-v1alpha2-jobset";
pub const VALIDATE_JOB_SET: &str = "/validate-jobset-x-k8s-io-v1alpha2-jobset";

/// Runtimes with this label are not judged; those that are shipped have it.
const UNJUDGED: &str = "trainer.kubeflow.org/webhook-validation";

/// The service that is asked.
pub const SERVICE: &str = SERVICE_ACCOUNT;

pub fn configurations(enabled: Enabled) -> Vec<Value> {
    let mut all = Vec::new();
    if enabled.job_set {
        let jobs = (api::job_set::GROUP, api::job_set::VERSION, "jobsets");
        let create = &["CREATE"][..];
        let default = webhook("mjobset.kb.io", DEFAULT_JOB_SET, jobs, create);
        let validate = webhook("vjobset.kb.io", VALIDATE_JOB_SET, jobs, &["CREATE", "UPDATE"]);
        all.push(configuration("Mutating", "jobset-mutating-webhook-configuration", [default]));
        all.push(configuration(
            "Validating",
            "jobset-validating-webhook-configuration",
            [validate],
        ));
    }
    if enabled.trainer {
        let of = |kind: &str, path: &str, plural: &'static str, word: &str| {
            let resource = (api::training::GROUP, api::training::VERSION, plural);
            let name = format!("{word}.{kind}.trainer.kubeflow.org");
            webhook(&name, path, resource, &["CREATE", "UPDATE"])
        };
        let default = of("trainjob", DEFAULT_TRAIN_JOB, "trainjobs", "defaulter");
        all.push(configuration("Mutating", "defaulter.trainer.kubeflow.org", [default]));
        let judged = json!({"matchExpressions": [{"key": UNJUDGED, "operator": "NotIn",
            "values": ["disabled"]}]});
        let mut runtimes = [
            of(
                "clustertrainingruntime",
                VALIDATE_CLUSTER_RUNTIME,
                "clustertrainingruntimes",
                "validator",
            ),
            of("trainingruntime", VALIDATE_RUNTIME, "trainingruntimes", "validator"),
        ];
        runtimes.iter_mut().for_each(|one| one["objectSelector"] = judged.clone());
        let [cluster, namespaced] = runtimes;
        let jobs = of("trainjob", VALIDATE_TRAIN_JOB, "trainjobs", "validator");
        let all_of_them = [cluster, namespaced, jobs];
        all.push(configuration("Validating", "validator.trainer.kubeflow.org", all_of_them));
    }
    all
}

fn configuration<const N: usize>(word: &str, name: &str, webhooks: [Value; N]) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": format!("{word}WebhookConfiguration"),
        "metadata": {"name": name},
        "webhooks": webhooks.to_vec(),
    })
}

fn webhook(
    name: &str,
    path: &str,
    (group, version, plural): (&str, &str, &str),
    operations: &[&str],
) -> Value {
    json!({
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": NAMESPACE, "name": SERVICE, "path": path}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "rules": [{"apiGroups": [group], "apiVersions": [version], "resources": [plural],
            "operations": operations, "scope": "*"}],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::list;

    #[test]
    fn webhooks_fail_closed() {
        let all = configurations(Enabled::default());
        let names: Vec<&Value> = all.iter().map(|one| &one["metadata"]["name"]).collect();
        assert!(names.contains(&&json!("defaulter.trainer.kubeflow.org")), "{names:?}");
        assert!(names.contains(&&json!("validator.trainer.kubeflow.org")), "{names:?}");
        let webhooks: Vec<&Value> = all.iter().flat_map(|one| list(&one["webhooks"])).collect();
        assert_eq!(webhooks.len(), 6);
        for webhook in webhooks {
            assert_eq!(webhook["failurePolicy"], "Fail", "{webhook}");
            assert_eq!(webhook["sideEffects"], "None", "{webhook}");
        }
    }
}
