//! What becomes of jobs, as data: each file of `goldens/` is a runtime and a job, and the objects
//! that are made of them. `UPDATE_GOLDENS=1` writes what is found.

use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::jiff::Timestamp;
use reconcile::{Kind, Object, Step};
use serde_json::{Value, json};

use super::torch::tune::{Mode, model, recipe};
use crate::plugin::{Settings, StatusServer};
use crate::runtimes::{self, Choice};
use crate::train_job::{self, Observed, Runtime, TrainJob};
use crate::value::text;

const SEPARATOR: &str = "---\n";

fn files() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens");
    let files = fs::read_dir(directory).expect("there are goldens");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    files
}

/// The runtime that a file names or holds.
fn runtime_of(case: &Value) -> Value {
    let named = |name: &str| {
        let all = runtimes::manifests(Choice::ShippedAndLocal);
        let found = all.into_iter().find(|one| one["metadata"]["name"] == name);
        found.expect("a runtime of that name")
    };
    match &case["runtime"] {
        Value::String(name) => named(name),
        spec => json!({"apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "ClusterTrainingRuntime", "metadata": {"name": "own"}, "spec": spec}),
    }
}

fn job_of(case: &Value, runtime: &Value) -> Object {
    let mut spec = case["job"].clone();
    spec["runtimeRef"] = json!({"name": runtime["metadata"]["name"]});
    Object::new(json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": {"namespace": "ns", "name": "tj", "uid": "uid"}, "spec": spec}))
}

/// The objects that the job's first plan applies, without the snapshot and what is made by chance.
fn objects(case: &Value) -> Vec<Value> {
    let runtime = runtime_of(case);
    let job = job_of(case, &runtime);
    let server = StatusServer { url: "https://trainer".to_owned(), authority_pem: "PEM".into() };
    let status_server = (case["reports"] == true).then_some(server);
    let settings = Settings { status_server, ..Settings::default() };
    let fresh = [("MPI", json!({"ssh-privatekey": "x", "ssh-publickey": "y"}))];
    let observed = Observed {
        is_outdated: false,
        runtime: Runtime::Live(runtime),
        found: Default::default(),
        surroundings: Default::default(),
        fresh: fresh.into_iter().collect(),
        until_deadline: None,
        until_deletion: None,
    };
    let plan = train_job::plan_of(&settings, &job, &observed, Timestamp::UNIX_EPOCH);
    assert!(plan.notices.is_empty(), "{plan}");
    let object = |step: &Step| match step {
        Step::Apply { kind, object } => of_kind(*kind, object),
        step => panic!("{step}"),
    };
    let all = plan.steps.iter().map(object);
    all.filter(|object| text(&object["metadata"]["name"]) != "tj-runtime-snapshot").collect()
}

fn of_kind(kind: Kind, object: &Value) -> Value {
    let mut object = object.clone();
    assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "uid");
    if let Some(meta) = object["metadata"].as_object_mut() {
        meta.remove("ownerReferences");
    }
    object["kind"] = json!(kind.kind);
    object
}

#[test]
fn jobs_become_what_their_goldens_say() {
    let is_update = std::env::var("UPDATE_GOLDENS").is_ok();
    for file in files() {
        let whole = fs::read_to_string(&file).expect("readable");
        let (question, answer) = whole.split_once(SEPARATOR).unwrap_or((&whole, ""));
        let case: Value = serde_saphyr::from_str(question).expect("a case is YAML");
        let found = objects(&case);
        if is_update {
            let found = serde_saphyr::to_string(&found).expect("YAML");
            fs::write(&file, format!("{question}{SEPARATOR}{found}")).expect("written");
            continue;
        }
        let expected: Value = serde_saphyr::from_str(answer).expect("an answer is YAML");
        assert_eq!(Value::Array(found), expected, "{}", file.display());
    }
    assert!(files().len() >= 20);
}

#[test]
fn a_recipe_fits_model_and_devices() {
    let cases = [
        ((1, true, Mode::Qlora), ("lora_finetune_single_device", "_qlora_single_device")),
        ((1, true, Mode::Lora), ("lora_finetune_single_device", "_lora_single_device")),
        ((1, true, Mode::Full), ("full_finetune_single_device", "_full_single_device")),
        ((1, false, Mode::Qlora), ("lora_finetune_distributed", "_qlora")),
        ((1, false, Mode::Lora), ("lora_finetune_distributed", "_lora")),
        ((1, false, Mode::Full), ("full_finetune_distributed", "_full")),
        ((2, true, Mode::Lora), ("full_finetune_distributed", "_full_multinode")),
    ];
    for ((nodes, is_single, mode), expected) in cases {
        assert_eq!(recipe(nodes, is_single, mode), expected);
    }
    assert_eq!(model("torchtune-llama3.2-1b"), "llama3_2/1B");
    assert_eq!(model("torchtune-qwen2.5-1.5b"), "qwen2_5/1.5B");
    assert_eq!(model("torch-distributed"), "");
    let mode = |args: &[&str]| Mode::of(&json!({"args": args}));
    assert_eq!(mode(&["model.quantize_base=True", "model.lora_attn_modules=[q]"]), Mode::Qlora);
    assert_eq!(mode(&["model.quantize_base=true", "model.use_dora=true"]), Mode::Full);
    assert_eq!(mode(&["model.lora_attn_modules=[q]"]), Mode::Lora);
}

#[test]
fn a_number_of_processes_wins_over_devices() {
    let nproc = |trainer: Value| {
        let case = json!({"runtime": "torch-distributed", "job": {"trainer": trainer}});
        let made = objects(&case);
        let pod = &made[0]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"];
        let env = &pod["containers"][0]["env"];
        let found = crate::value::find(env, "name", "PET_NPROC_PER_NODE").expect("the variable");
        text(&found["value"]).to_owned()
    };
    let with = |resources: Value| nproc(json!({"resourcesPerNode": resources}));
    assert_eq!(with(json!({"requests": {"cpu": "2.5"}})), "3");
    assert_eq!(with(json!({"limits": {"nvidia.com/gpu": 4}})), "auto");
    assert_eq!(with(json!({})), "1");
    let both = json!({"numProcPerNode": 7, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 4}}});
    assert_eq!(nproc(both), "7");
}

#[test]
fn a_worker_stays_when_the_launcher_trains_alone() {
    let made = objects(&json!({"runtime": "mlx-distributed", "job": {"trainer": {"numNodes": 1}}}));
    let set = made.iter().find(|one| one["kind"] == "JobSet").expect("a JobSet");
    let jobs = &set["spec"]["replicatedJobs"];
    assert_eq!(jobs[0]["template"]["spec"]["parallelism"], 1);
    assert_eq!(jobs[1]["template"]["spec"]["parallelism"], 1);
}

/// A number that would take all memory if every name was made.
#[test]
fn more_nodes_than_can_be_listed_are_refused_and_not_listed() {
    let many = json!({"trainer": {"numNodes": 2_000_000_000}});
    let built = |runtime: &str| {
        let runtime = runtime_of(&json!({"runtime": runtime}));
        let object = job_of(&json!({"job": many}), &runtime);
        let job = TrainJob::of(&object);
        let blueprint = super::enforce(&Settings::default(), &job, &runtime["spec"])?;
        let set = blueprint.trainer_set().expect("pods that train");
        Ok::<_, String>(blueprint.last_endpoint(&job, set))
    };
    let last = built("torch-distributed").expect("built");
    assert_eq!(last.as_deref(), Some("tj-node-0-1999999999.tj"));
    let why = built("mpi-local").expect_err("refused");
    assert!(why.starts_with("MPI takes at most 100000 nodes"), "{why}");
}
