//! What would be made of a TrainJob that is not there yet, for whoever plans: the same functions
//! that make it, on the runtime as it is.

use reconcile::Object;
use serde_json::Value;

use crate::plugin::{Found, Make, Settings, Surroundings};
use crate::plugins;
use crate::train_job::{TrainJob, runtime_kind};

/// Where in the API the runtime of a job is; nothing where nobody knows such runtimes.
pub fn runtime_path(job: &Value) -> Option<String> {
    let object = Object::new(job.clone());
    let job = TrainJob::of(&object);
    let kind = runtime_kind(&job.runtime_key())?;
    let namespace = match kind.namespaced {
        true => format!("namespaces/{}/", job.namespace()),
        false => String::new(),
    };
    let (group, version, plural) = (kind.group, kind.version, kind.plural);
    Some(format!("/apis/{group}/{version}/{namespace}{plural}/{}", job.runtime_name()))
}

/// The objects that a job would have, in the order in which they are made.
pub fn made_of(settings: &Settings, job: &Value, runtime: &Value) -> Result<Vec<Value>, String> {
    let object = Object::new(job.clone());
    let job = TrainJob::of(&object);
    let blueprint = plugins::enforce(settings, &job, &runtime["spec"])?;
    let found = Found::new();
    let fresh = plugins::fresh(&job, &blueprint, &found)?;
    let make = Make {
        settings,
        job: &job,
        blueprint: &blueprint,
        found: &found,
        surroundings: &Surroundings::default(),
        fresh: &fresh,
    };
    let mut objects = Vec::new();
    for plugin in plugins::ALL {
        objects.extend(plugin.objects(&make)?.into_iter().map(|wanted| wanted.object));
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_is_made_of_what_its_runtime_says_too() {
        let job = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
            "metadata": {"name": "bert", "namespace": "team", "uid": "u"},
            "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 3}}});
        let path = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes/torch-distributed";
        assert_eq!(runtime_path(&job).as_deref(), Some(path));
        let container = json!({"name": "node", "image": "torch",
            "resources": {"requests": {"cpu": "2"}}});
        let pod = json!({"metadata": {"labels": {
                "trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"nodeSelector": {"gpu": "yes"}, "containers": [container]}});
        let node = json!({"name": "node", "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"template": pod}}});
        let runtime = json!({"spec": {"mlPolicy": {"numNodes": 1, "torch": {}},
            "podGroupPolicy": {"coscheduling": {"scheduleTimeoutSeconds": 10}},
            "template": {"spec": {"replicatedJobs": [node]}}}});
        let made = made_of(&Settings::default(), &job, &runtime).unwrap();
        let kinds: Vec<_> = made.iter().filter_map(|object| object["kind"].as_str()).collect();
        assert_eq!(kinds, ["PodGroup", "JobSet"]);
        assert_eq!(made[0]["spec"]["minMember"], 3);
        let jobs = &made[1]["spec"]["replicatedJobs"][0]["template"]["spec"];
        assert_eq!(jobs["parallelism"], 3);
        assert_eq!(jobs["template"]["spec"]["nodeSelector"]["gpu"], "yes");
    }
}
