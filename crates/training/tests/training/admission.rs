//! What is refused before it is written: rows 10 to 17 and 66 of the feature table.

use serde_json::{Value, json};
use training::kinds::{
    CLUSTER_TRAINING_RUNTIME, CONFIG_MAP, JOB_SET, TRAIN_JOB, TRAINING_RUNTIME, VOLCANO_GROUP,
};

use crate::world::{World, has_condition, job, runtime};

const PRIORITY_CLASS: reconcile::Kind =
    reconcile::Kind::cluster("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses");

async fn refused(world: &World, spec: Value) -> String {
    let error = world.try_create(TRAIN_JOB, job("wrong", spec)).await.expect_err("refused");
    assert_eq!(error.code(), Some(403), "{}", error.said());
    error.said()
}

fn cluster(name: &str) -> Value {
    json!({"runtimeRef": {"name": name, "kind": "ClusterTrainingRuntime"}})
}

fn with(mut spec: Value, more: Value) -> Value {
    reconcile::plan::merge(&mut spec, &more);
    spec
}

#[tokio::test]
async fn a_job_needs_a_runtime_that_fits() {
    let world = World::start().await;
    let why = refused(&world, json!({})).await;
    assert!(why.contains("specified trainingRuntime must be created before"), "{why}");
    let why = refused(&world, cluster("nothing")).await;
    assert!(why.contains("specified clusterTrainingRuntime must be created before"), "{why}");
    let why = refused(&world, json!({"runtimeRef": {"kind": "X", "apiGroup": "acme.io"}})).await;
    assert!(why.ends_with("unsupported runtime: X.acme.io"), "{why}");
    world.create(TRAINING_RUNTIME, runtime("own", json!({}))).await;
    for (source, config) in [("dataset", "datasetConfig"), ("model", "modelConfig")] {
        let spec = json!({"initializer": {source: {"storageUri": "hf://a/b"}}});
        let why = refused(&world, spec.clone()).await;
        let expected = format!(
            "must have {source}-initializer job when trainJob is configured with input {config}"
        );
        assert!(why.contains(&expected), "{why}");
        let name = format!("{source}-initializer");
        let mut other = runtime(source, json!({}));
        other["spec"]["template"]["spec"]["replicatedJobs"][0]["name"] = json!(name);
        world.create(TRAINING_RUNTIME, other.clone()).await;
        let reference = json!({"runtimeRef": {"name": source, "kind": "TrainingRuntime"}});
        let why = refused(&world, with(spec.clone(), reference)).await;
        assert!(why.contains(&format!("must have container with name - {name} in the")), "{why}");
        let jobs = &mut other["spec"]["template"]["spec"]["replicatedJobs"][0];
        let pod = &mut jobs["template"]["spec"]["template"]["spec"];
        pod["containers"][0]["name"] = json!(name);
        jobs["template"]["metadata"]["labels"] = json!({});
        other["metadata"]["name"] = json!(format!("{source}-two"));
        world.create(TRAINING_RUNTIME, other).await;
        let reference = json!({"runtimeRef": {"name": format!("{source}-two"),
            "kind": "TrainingRuntime"}});
        let why = refused(&world, with(spec, reference)).await;
        assert!(why.contains("must have volumeMount with name - initializer in container"));
    }
}

#[tokio::test]
async fn names_that_the_operator_sets_are_reserved_for_their_runtime_only() {
    let world = World::start().await;
    for (runtime, name) in [
        ("torch-distributed", "PET_MASTER_ADDR"),
        ("deepspeed-distributed", "OMPI_MCA_plm_rsh_args"),
        ("xgboost-distributed", "DMLC_TASK_ID"),
    ] {
        let env = |name: &str| json!({"trainer": {"env": [{"name": name, "value": "x"}]}});
        let why = refused(&world, with(cluster(runtime), env(name))).await;
        assert!(why.contains(name) && why.contains("reserved"), "{why}");
        let held = with(cluster("jax-distributed"), json!({"suspend": true}));
        let free = format!("free-{runtime}");
        world.create(TRAIN_JOB, job(&free, with(held, env(name)))).await;
    }
    let tune = json!({"trainer": {"command": ["tune", "run"], "numNodes": 2,
        "args": ["output_dir=/x", "model.lora_attn_modules=[q]"]}});
    let why = refused(&world, with(cluster("torchtune-llama3.2-1b"), tune.clone())).await;
    for expected in [
        "must be 1 for llama3_2/1B model",
        "must not set immutable config \"output_dir\" in trainer args",
        "LoRA fine-tuning is not supported for multi-node training in TorchTune",
    ] {
        assert!(why.contains(expected), "{why}");
    }
    let why = refused(&world, with(cluster("torch-distributed"), tune)).await;
    assert!(why.contains("must have a supported pretrained model"), "{why}");
}

#[tokio::test]
async fn fine_tuning_fits_its_model() {
    let world = World::start().await;
    let quantized = |more: Value| {
        let trainer = json!({"trainer": {"command": ["tune", "run"],
            "args": ["model.quantize_base=True", "model.lora_attn_modules=[q]"]}});
        with(trainer, more)
    };
    let on = |model: &str, more: Value| {
        let job = cluster(&format!("torchtune-{model}"));
        with(job, quantized(more))
    };
    let why = refused(&world, on("qwen2.5-1.5b", json!({}))).await;
    assert!(why.contains("QLoRA is not supported for qwen2_5/1.5B model"), "{why}");
    let two = json!({"trainer": {"numProcPerNode": 2}});
    let why = refused(&world, on("llama3.2-1b", two)).await;
    for expected in [
        "must be auto or 1 for llama3_2/1B model when using QLoRA",
        "must have gpu resource with value 1",
    ] {
        assert!(why.contains(expected), "{why}");
    }
    let mut held = on("llama3.2-3b", json!({"trainer": {"numProcPerNode": 1}}));
    held["suspend"] = json!(true);
    world.create(TRAIN_JOB, job("fits", held)).await;
    // What is to be told must be there.
    let mut other = runtime("own", json!({}));
    other["spec"]["mlPolicy"]["torch"] = json!({"envInjection": {"targets": [
        {"jobName": "node", "containerNames": ["absent"]}]}});
    world.create(TRAINING_RUNTIME, other).await;
    let why = refused(&world, json!({})).await;
    let expected = "podSet \"node\" container \"absent\" not found in runtime template";
    assert!(why.contains(expected), "{why}");
}

#[tokio::test]
async fn a_queue_has_a_name_and_classes_are_there() {
    let world = World::start().await;
    let gang = |name: &str, queue: &str, class: &str| {
        let mut gang = runtime(name, json!({}));
        gang["spec"]["podGroupPolicy"] = json!({"volcano": {}});
        let template = &mut gang["spec"]["template"];
        template["metadata"] = json!({"annotations": {"scheduling.volcano.sh/queue-name": queue}});
        let pod = &mut template["spec"]["replicatedJobs"][0]["template"]["spec"]["template"];
        pod["spec"]["priorityClassName"] = json!(class);
        gang
    };
    world.create(TRAINING_RUNTIME, gang("own", "", "system-node-critical")).await;
    let why = refused(&world, json!({})).await;
    assert!(why.contains("Volcano queue name must not be empty"), "{why}");
    world.create(TRAINING_RUNTIME, gang("classed", "q", "absent")).await;
    let reference = json!({"runtimeRef": {"name": "classed"}});
    let why = refused(&world, reference.clone()).await;
    assert!(why.contains("spec.templateSpec.priorityClassName"), "{why}");
    let class = json!({"metadata": {"name": "absent"}, "value": 7});
    world.create(PRIORITY_CLASS, class).await;
    world.create(TRAIN_JOB, job("queued", reference)).await;
    let group = world.until(VOLCANO_GROUP, "queued", |_| true).await;
    assert_eq!(group.value["spec"]["queue"], "q");
    assert_eq!(group.value["spec"]["priorityClassName"], "absent");
}

/// Whoever measured the names by making them would take all memory.
#[tokio::test]
async fn a_great_number_of_nodes_is_judged_at_once() {
    let world = World::start().await;
    let many = json!({"suspend": true, "trainer": {"numNodes": 2_000_000_000}});
    let why = refused(&world, with(cluster("mpi-local"), many.clone())).await;
    assert!(why.contains("MPI takes at most 100000 nodes"), "{why}");
    world.create(TRAIN_JOB, job("many", with(cluster("torch-distributed"), many))).await;
}

#[tokio::test]
async fn a_time_to_live_that_is_no_number_is_warned_of() {
    let world = World::start().await;
    let warnings = async |seconds: &str| {
        let mut asked = job("asked", cluster("torch-distributed"));
        asked["metadata"]["annotations"] =
            json!({"trainer.kubeflow.org/ttl-seconds-after-finished": seconds});
        let review = json!({"request": {"uid": "r", "operation": "CREATE", "object": asked}});
        let path = training::admission::webhooks::VALIDATE_TRAIN_JOB;
        let answer = training::admission::review(&world.context, path, &review).await;
        let response = answer.expect("answered")["response"].clone();
        assert_eq!(response["allowed"], true, "{response}");
        response["warnings"].clone()
    };
    assert_eq!(warnings("60").await, Value::Null);
    for wrong in ["1h", "-1", ""] {
        let said = warnings(wrong).await;
        assert!(said[0].as_str().is_some_and(|one| one.contains("no number of seconds")), "{said}");
    }
}

fn patch(manager: &str, pod: Value) -> Value {
    json!({"manager": manager, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [
        {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}]}}}})
}

#[tokio::test]
async fn patches_are_of_what_there_is() {
    let world = World::start().await;
    world.create(TRAINING_RUNTIME, runtime("own", json!({}))).await;
    let cases = [
        (patch("nodomain", json!({})), "domain-prefixed path"),
        (
            json!({"manager": "a.io/b", "trainingRuntimeSpec": {"template": {"spec":
            {"replicatedJobs": [{"name": "other"}]}}}}),
            "must not have replicated job that",
        ),
        (patch("a.io/b", json!({"containers": [{"name": "other"}]})), "must not have container"),
        (
            patch("a.io/b", json!({"initContainers": [{"name": "other"}]})),
            "must not have initContainer",
        ),
        (
            patch(
                "a.io/b",
                json!({"containers": [{"name": "node",
            "env": [{"name": "A", "value": "1"}]}]}),
            ),
            "must not have envs for the",
        ),
    ];
    for (patch, expected) in cases {
        let why = refused(&world, json!({"runtimePatches": [patch]})).await;
        assert!(why.contains(expected), "{why}");
    }
}

#[tokio::test]
async fn patches_change_only_while_nothing_runs() {
    let world = World::start().await;
    world.create(TRAINING_RUNTIME, runtime("own", json!({}))).await;
    let zone = |zone: &str| {
        let patch = patch("a.io/b", json!({"nodeSelector": {"z": zone}}));
        json!({"spec": {"runtimePatches": [patch]}})
    };
    world.create(TRAIN_JOB, job("runs", zone("a")["spec"].clone())).await;
    let active = |set: &Value| set["status"]["replicatedJobsStatus"][0]["active"] == 1;
    world.until(JOB_SET, "runs", active).await;
    let error = world.try_patch(TRAIN_JOB, "runs", zone("b")).await.expect_err("refused");
    assert_eq!(error.code(), Some(403));
    assert!(error.said().contains("can only be modified when the TrainJob is suspended"));
    // Together with the suspension, but not while anything is active.
    let mut both = zone("b");
    both["spec"]["suspend"] = json!(true);
    let error = world.try_patch(TRAIN_JOB, "runs", both).await.expect_err("refused");
    assert!(error.said().contains("ReplicatedJob node is still active"), "{}", error.said());
    world.patch(TRAIN_JOB, "runs", json!({"spec": {"suspend": true}})).await;
    world
        .until(JOB_SET, "runs", |set| {
            set["status"]["replicatedJobsStatus"][0]["active"] == 0
                && has_condition(set, "Suspended")
        })
        .await;
    let changed = world.patch(TRAIN_JOB, "runs", zone("c")).await;
    assert!(changed.value["spec"]["runtimePatches"][0]["time"].is_string());
    let pod = "/spec/replicatedJobs/0/template/spec/template/spec/nodeSelector/z";
    world.until(JOB_SET, "runs", |set| set.pointer(pod) == Some(&json!("c"))).await;
    let mut resumed = zone("d");
    resumed["spec"]["suspend"] = json!(false);
    world.patch(TRAIN_JOB, "runs", resumed).await;
    world
        .until(JOB_SET, "runs", |set| {
            set.pointer(pod) == Some(&json!("d")) && set["spec"]["suspend"] == false
        })
        .await;
    let reached = |pods: &[std::sync::Arc<reconcile::Object>]| {
        pods.iter().any(|pod| pod.value["spec"]["nodeSelector"]["z"] == "d")
    };
    testkit::cluster::until(&world.context, crate::world::POD, reached).await;
}

#[tokio::test]
async fn runtimes_are_judged_unless_they_say_not_to() {
    let world = World::start().await;
    let mut two = runtime("two", json!({}));
    two["spec"]["template"]["spec"]["replicatedJobs"][0]["replicas"] = json!(2);
    let error = world.try_create(TRAINING_RUNTIME, two.clone()).await.expect_err("refused");
    assert_eq!(error.code(), Some(403));
    assert!(error.said().contains("always must be 1"), "{}", error.said());
    two["kind"] = json!("ClusterTrainingRuntime");
    two["metadata"] = json!({"name": "two"});
    let error = world.try_create(CLUSTER_TRAINING_RUNTIME, two.clone()).await;
    assert_eq!(error.expect_err("refused").code(), Some(403));
    two["metadata"]["labels"] = json!({"trainer.kubeflow.org/webhook-validation": "disabled"});
    world.create(CLUSTER_TRAINING_RUNTIME, two).await;
}

#[tokio::test]
async fn a_job_may_change_after_its_runtime_has_gone() {
    let world = World::start().await;
    world.create(TRAINING_RUNTIME, runtime("own", json!({}))).await;
    world.create(TRAIN_JOB, job("left", json!({"suspend": true}))).await;
    world.until_set("left", "Suspended").await;
    world.delete(TRAINING_RUNTIME, "own").await;
    world.patch(TRAIN_JOB, "left", json!({"metadata": {"labels": {"a": "b"}}})).await;
    world.patch(TRAIN_JOB, "left", json!({"spec": {"suspend": false}})).await;
    world.until(JOB_SET, "left", |set| set["spec"]["suspend"] == false).await;
}

#[tokio::test]
async fn a_job_that_goes_is_let_go_after_its_runtime_and_what_was_kept_of_it() {
    let world = World::start().await;
    world.create(TRAINING_RUNTIME, runtime("own", json!({}))).await;
    let mut held = job("left", json!({"suspend": true}));
    held["metadata"]["finalizers"] = json!(["acme.io/waits"]);
    world.create(TRAIN_JOB, held).await;
    world.until_set("left", "Suspended").await;
    world.delete(TRAINING_RUNTIME, "own").await;
    world.delete(CONFIG_MAP, "left-runtime-snapshot").await;
    // What asks for nothing is allowed; what asks for something cannot be judged.
    world.patch(TRAIN_JOB, "left", json!({"metadata": {"labels": {"a": "b"}}})).await;
    let resume = json!({"spec": {"suspend": false}});
    let error = world.try_patch(TRAIN_JOB, "left", resume).await.expect_err("refused");
    assert_eq!(error.code(), Some(403), "{}", error.said());
    world.delete(TRAIN_JOB, "left").await;
    world.patch(TRAIN_JOB, "left", json!({"metadata": {"finalizers": null}})).await;
    world.until_gone(TRAIN_JOB, "left").await;
}

#[tokio::test]
async fn a_set_that_is_held_takes_only_what_places_pods() {
    let world = World::start().await;
    let set = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"namespace": "default", "name": "s"}, "spec": {"suspend": true,
        "replicatedJobs": [{"name": "a", "template": {"spec": {"template": {"spec":
            {"containers": [{"name": "c", "image": "i"}]}}}}}]}});
    let made = world.create(JOB_SET, set).await;
    let change = |field: &str, value: Value| {
        let mut jobs = made.value["spec"]["replicatedJobs"].clone();
        jobs[0]["template"]["spec"]["template"]["spec"][field] = value;
        json!({"spec": {"replicatedJobs": jobs}})
    };
    let image = change("containers", json!([{"name": "c", "image": "other"}]));
    let error = world.try_patch(JOB_SET, "s", image).await.expect_err("refused");
    assert_eq!(error.code(), Some(422), "{}", error.said());
    world.patch(JOB_SET, "s", change("nodeSelector", json!({"z": "a"}))).await;
    let network = json!({"spec": {"network": {"subdomain": "x"}}});
    let error = world.try_patch(JOB_SET, "s", network).await.expect_err("refused");
    assert!(error.said().contains("Value is immutable"), "{}", error.said());
}
