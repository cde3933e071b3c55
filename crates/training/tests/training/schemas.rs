//! What the definitions refuse and fill in: rows 2 to 9 of the feature table.

use serde_json::{Value, json};
use training::kinds::{TRAIN_JOB, TRAINING_RUNTIME};

use crate::world::{World, job, runtime};

async fn refused(world: &World, name: &str, spec: Value) -> (u16, String) {
    let error = world.try_create(TRAIN_JOB, job(name, spec)).await.expect_err("refused");
    (error.code().unwrap_or(0), error.said())
}

#[tokio::test]
async fn names_are_labels_of_a_host() {
    let world = World::start().await;
    world.create(TRAINING_RUNTIME, runtime("own", json!({}))).await;
    for name in ["Bad-Name", "1abc", "abc-", &"a".repeat(64)] {
        assert_eq!(refused(&world, name, json!({})).await.0, 422, "{name}");
    }
    let held = json!({"suspend": true});
    world.create(TRAIN_JOB, job(&"a".repeat(63), held)).await;
}

#[tokio::test]
async fn what_is_not_said_is_filled_in_and_what_is_wrong_is_refused() {
    let world = World::start().await;
    world.create(TRAINING_RUNTIME, runtime("own", json!({}))).await;
    let made = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": {"namespace": "default", "name": "bare"},
        "spec": {"runtimeRef": {"name": "torch-distributed"}}});
    let made = world.create(TRAIN_JOB, made).await;
    let expected = json!({"runtimeRef": {"name": "torch-distributed",
        "apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime"}, "suspend": false,
        "managedBy": "trainer.kubeflow.org/trainjob-controller"});
    assert_eq!(made.value["spec"], expected);
    let uri = |uri: &str| json!({"initializer": {"dataset": {"storageUri": uri}}});
    let command = |length: usize| json!({"trainer": {"command": ["x".repeat(length)]}});
    for (spec, why) in [
        (json!({"trainer": {"numNodes": -1}}), "numNodes"),
        (json!({"trainer": {"numProcPerNode": 0}}), "must be greater than or equal to 1"),
        (uri("not-a-uri"), "storageUri"),
        (uri("s3://"), "storageUri"),
        (command(1_048_577), "command"),
        (json!({"activeDeadlineSeconds": 0}), "activeDeadlineSeconds"),
        (json!({"managedBy": "acme.io/x"}), "ManagedBy must be"),
    ] {
        let (code, said) = refused(&world, "wrong", spec).await;
        assert!(code == 422 && said.contains(why), "{code} {said}");
    }
    let held = |spec: Value| {
        let mut spec = spec;
        spec["suspend"] = json!(true);
        spec
    };
    world.create(TRAIN_JOB, job("zero", held(json!({"trainer": {"numNodes": 0}})))).await;
    world.create(TRAIN_JOB, job("long", held(command(1_048_576)))).await;
}

#[tokio::test]
async fn what_may_not_change_does_not() {
    let world = World::start().await;
    world.create(TRAINING_RUNTIME, runtime("own", json!({}))).await;
    let spec = json!({"suspend": true, "trainer": {"numNodes": 1}, "activeDeadlineSeconds": 100});
    world.create(TRAIN_JOB, job("fixed", spec)).await;
    let fetches = json!({"runtimeRef": {"name": "torchtune-llama3.2-1b",
        "kind": "ClusterTrainingRuntime"}, "suspend": true,
        "initializer": {"dataset": {"storageUri": "hf://a/b"}}});
    world.create(TRAIN_JOB, job("fetches", fetches)).await;
    let other = json!({"spec": {"initializer": {"dataset": {"storageUri": "hf://c/d"}}}});
    let error = world.try_patch(TRAIN_JOB, "fetches", other).await.expect_err("refused");
    assert!(error.code() == Some(422) && error.said().contains("field is immutable"));
    for patch in [
        json!({"runtimeRef": {"name": "other"}}),
        json!({"trainer": {"numNodes": 2}}),
        json!({"activeDeadlineSeconds": 200}),
        json!({"managedBy": "kueue.x-k8s.io/multikueue"}),
    ] {
        let error = world.try_patch(TRAIN_JOB, "fixed", json!({"spec": patch})).await;
        let error = error.expect_err("refused");
        assert_eq!(error.code(), Some(422), "{patch}");
        assert!(error.said().contains("field is immutable"), "{}", error.said());
    }
}

/// What a patch says of pods stays as it was said, apart from where they go; and where they go by
/// affinity, as soon as there is a JobSet, which takes no other.
#[tokio::test]
async fn what_a_patch_says_of_pods_may_not_change() {
    let world = World::start().await;
    world.create(TRAINING_RUNTIME, runtime("own", json!({}))).await;
    let patches = |pod: Value| {
        json!({"runtimePatches": [{"manager": "a.io/b", "trainingRuntimeSpec": {"template":
            {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template":
                {"spec": pod}}}}]}}}}]})
    };
    let fields = |name: &str, number: i64| {
        let size = format!("{number}Gi");
        json!({"serviceAccountName": name,
            "volumes": [{"name": "data", "emptyDir": {"sizeLimit": size}}],
            "containers": [{"name": "node", "volumeMounts": [
                {"name": "data", "mountPath": format!("/{name}")}]}],
            "imagePullSecrets": [{"name": name}], "securityContext": {"runAsUser": number},
            "terminationGracePeriodSeconds": number, "nodeSelector": {"zone": name}})
    };
    let mut held = job("fixed", patches(fields("a", 1)));
    held["spec"]["suspend"] = json!(true);
    world.create(TRAIN_JOB, held).await;
    world.until_set("fixed", "Suspended").await;
    let other = fields("b", 2);
    for (field, value) in other.as_object().expect("fields") {
        let mut pod = fields("a", 1);
        pod[field] = value.clone();
        let patch = json!({"spec": patches(pod)});
        let changed = world.try_patch(TRAIN_JOB, "fixed", patch).await;
        if field == "nodeSelector" {
            changed.expect("it may change");
            continue;
        }
        let error = changed.expect_err("refused");
        assert!(error.code() == Some(422), "{field}: {}", error.said());
        assert!(error.said().contains("field is immutable"), "{}", error.said());
    }
    let term = json!({"weight": 1, "preference": {"matchExpressions": [
        {"key": "zone", "operator": "Exists"}]}});
    let mut pod = fields("a", 1);
    pod["affinity"] =
        json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}});
    let error = world.try_patch(TRAIN_JOB, "fixed", json!({"spec": patches(pod)})).await;
    let error = error.expect_err("refused");
    assert_eq!(error.code(), Some(403), "{}", error.said());
    assert!(error.said().contains("the affinity of the ReplicatedJob node"), "{}", error.said());
}

#[tokio::test]
async fn a_runtime_has_one_policy_and_its_defaults() {
    let world = World::start().await;
    let with = |policy: Value| {
        let mut runtime = runtime("own", json!({}));
        runtime["spec"]["mlPolicy"] = policy;
        runtime
    };
    let policies = ["torch", "mpi", "jax", "xgboost", "flux"];
    let pairs = policies.iter().enumerate().flat_map(|(at, one)| {
        policies[at + 1..].iter().map(move |other| json!({*one: {}, *other: {}}))
    });
    for pair in pairs {
        let error = world.try_create(TRAINING_RUNTIME, with(pair)).await.expect_err("refused");
        assert_eq!(error.code(), Some(422));
        assert!(error.said().contains("Only one of the policy can be configured"));
    }
    let made = world.create(TRAINING_RUNTIME, with(json!({"mpi": {}}))).await;
    let expected = json!({"mpiImplementation": "OpenMPI", "sshAuthMountPath": "/root/.ssh",
        "runLauncherAsNode": false, "numProcPerNode": 1});
    assert_eq!(made.value["spec"]["mlPolicy"]["mpi"], expected);
    let job = &made.value["spec"]["template"]["spec"]["replicatedJobs"][0];
    assert_eq!((&job["replicas"], &job["groupName"]), (&json!(1), &json!("default")));
}

/// The kind is served, with what its definition says; upstream has no controller for it either.
#[tokio::test]
async fn a_search_for_parameters_is_kept_as_its_definition_says() {
    const KIND: reconcile::Kind = reconcile::Kind::namespaced(
        "trainer.kubeflow.org",
        "v1alpha1",
        "OptimizationJob",
        "optimizationjobs",
    );
    let world = World::start().await;
    let search = |name: &str, more: Value| {
        let rate = json!({"name": "lr", "searchSpace": {"uniform": {"min": "0.1", "max": 1}}});
        let mut spec = json!({"objectives": [{"metric": "loss"}], "parameters": [rate],
            "trainJobTemplate": {"spec": {"runtimeRef": {"name": "torch-distributed"}}}});
        reconcile::plan::merge(&mut spec, &more);
        json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "OptimizationJob",
            "metadata": {"namespace": "default", "name": name}, "spec": spec})
    };
    let made = world.create(KIND, search("good", json!({}))).await;
    let spec = &made.value["spec"];
    assert_eq!(spec["searchAlgorithm"], json!({"random": {}}));
    assert_eq!(spec["objectives"][0]["direction"], "Minimize");
    assert_eq!((&spec["numTrials"], &spec["parallelTrials"]), (&json!(1), &json!(1)));
    for (more, why) in [
        (json!({"parallelTrials": 2}), "less than or equal to numTrials"),
        (json!({"numTrials": 101}), "numTrials"),
        (json!({"objectives": []}), "objectives"),
        (json!({"searchAlgorithm": {"grid": {}, "random": {}}}), "exactly one of"),
        (json!({"searchAlgorithm": {"grid": {}}}), "to be categorical"),
        (json!({"parameters": [{"name": "x", "searchSpace": {}}]}), "exactly one of"),
        (json!({"trainJobTemplate": {"spec": {"suspend": 1}}}), "suspend"),
    ] {
        let error = world.try_create(KIND, search("bad", more)).await.expect_err("refused");
        assert!(error.code() == Some(422) && error.said().contains(why), "{}", error.said());
    }
}
