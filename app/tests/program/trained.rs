//! Really trained: ranks that are processes of this machine, in pods of their own, find each other
//! by what the operator tells them and by name, and work together. What is run are the examples.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::node::Machine;
use crate::sandbox::Ended;

fn example(name: &str) -> String {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/training");
    let path = examples.join(name).canonicalize().expect("an example must be there");
    path.display().to_string()
}

fn train(machine: &Machine, words: &[&str]) -> Ended {
    machine.sandbox.run(&[&["train"], words].concat())
}

fn begin() -> Machine {
    let machine = Machine::start();
    machine.until("get clustertrainingruntimes -o name", |names| names.contains("torch-local"));
    machine
}

/// Waits until a job has ended well, and returns the output of all of its ranks.
fn complete(machine: &Machine, name: &str) -> String {
    let line = format!("get trainjob {name} -o jsonpath={{.status.conditions[*].type}}");
    let ended =
        machine.until(&line, |types| types.contains("Complete") || types.contains("Failed"));
    let logs = train(machine, &["logs", name]).stdout;
    let shown = || machine.kubectl(&["describe", "trainjob,jobset,job,pod"], "");
    assert!(ended.contains("Complete"), "{name}: {logs}\n{}", shown());
    logs
}

fn delete(machine: &Machine, name: &str) {
    machine.kubectl(&["delete", "trainjob", name], "");
    machine.until("get pods -o name", str::is_empty);
}

#[track_caller]
fn says(output: &str, line: &str) {
    assert!(output.lines().any(|one| one == line), "{line:?} is not in {output}");
}

#[test]
fn ranks_find_each_other_by_name_and_add_up_their_gradients() {
    let machine = begin();
    let linear = example("linear.py");
    let ended = train(&machine, &[&linear, "--nodes", "3", "--name", "line", "--watch"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for rank in 0..3 {
        says(&ended.stdout, &format!("[node-{rank}] rank {rank} of 3 begins at step 0"));
        says(&ended.stdout, &format!("[node-{rank}] rank {rank}: y = 2.000 x + 1.000"));
    }
    let shown = train(&machine, &["show", "line"]).stdout;
    assert!(shown.contains("\nprogress  100%, loss 0.000000\n"), "{shown}");
    delete(&machine, "line");
    // Two processes on each of two nodes, with no launcher but ours or torchrun.
    let words = [&linear, "--nodes", "2", "--procs", "2", "--name", "square"];
    assert_eq!(train(&machine, &words).code, Some(0));
    let output = complete(&machine, "square");
    for rank in 0..4 {
        // Where a node runs several, each line says whose it is; torchrun leaves that to them.
        let line = format!("rank {rank}: y = 2.000 x + 1.000");
        let node = format!("[node-{}] ", rank / 2);
        let is_told = |said: &str| said.starts_with(&node) && said.ends_with(&line);
        assert!(output.lines().any(is_told), "{line:?} is not in {output}");
    }
    delete(&machine, "square");
}

/// Says what `torch.distributed` comes to, as its users write.
const TORCH: &str = "
import torch, torch.distributed as distributed
distributed.init_process_group('gloo')
one = torch.ones(1)
distributed.all_reduce(one)
print('rank', distributed.get_rank(), 'sum', int(one.item()), flush=True)
";

#[test]
fn torchrun_trains_where_torch_is_installed() {
    let installed = std::process::Command::new("torchrun").arg("--help").output();
    if !installed.is_ok_and(|help| help.status.success()) {
        println!("torchrun is not installed: the ranks of plain Python stand for it");
        return;
    }
    let machine = begin();
    machine.sandbox.write("train.py", TORCH);
    let path = std::env::var("PATH").expect("a path");
    let script = machine.sandbox.work().join("train.py");
    let job = job(
        "torch",
        "{name: torch-local}",
        &format!(
            "{{numNodes: 2, numProcPerNode: 2, command: [torchrun, {}], \
         env: [{{name: PATH, value: '{path}'}}]}}",
            script.display()
        ),
    );
    machine.kubectl(&["apply", "-f", "-"], &job);
    let output = complete(&machine, "torch");
    for rank in 0..4 {
        assert!(output.contains(&format!("rank {rank} sum 4")), "{output}");
    }
    delete(&machine, "torch");
}

#[test]
fn an_mpi_job_reaches_its_workers_over_ssh() {
    let machine = begin();
    machine.kubectl(&["apply", "-f", &example("mpi.yaml")], "");
    let output = complete(&machine, "mpi");
    let sums = output.lines().filter(|line| line.ends_with(" of 3, sum 6.0"));
    let hosts: BTreeSet<&str> = sums.filter_map(|line| line.split(' ').nth(1)).collect();
    let all = ["mpi-launcher-0-0", "mpi-node-0-0", "mpi-node-0-1"];
    assert_eq!(hosts, BTreeSet::from(all), "{output}");
    // Workers run for ever; they end with the launcher.
    machine.until("get pods --field-selector=status.phase=Running -o name", str::is_empty);
    delete(&machine, "mpi");
}

#[test]
fn processes_meet_at_their_coordinator_as_those_of_jax_do() {
    let machine = begin();
    let file = example("coordinator.yaml");
    let ended = train(&machine, &["-f", &file, "--watch"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for process in 0..3 {
        says(&ended.stdout, &format!("[node-{process}] process {process} knows 0 1 2"));
    }
    delete(&machine, "coordinator");
}

#[test]
fn data_set_and_model_are_there_before_training_begins() {
    let machine = begin();
    let file = example("initializers.yaml");
    let made = train(&machine, &["-f", &file]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let output = complete(&machine, "with-initializers");
    for rank in 0..2 {
        says(&output, &format!("[node-{rank}] trains made-up://line with made-up://points"));
    }
    let time = |job: &str, field: &str| {
        let path = format!("jsonpath={{.status.{field}}}");
        machine.kubectl(&["get", "job", &format!("with-initializers-{job}-0"), "-o", &path], "")
    };
    for step in ["dataset-initializer", "model-initializer"] {
        assert!(time(step, "completionTime") <= time("node", "startTime"), "{step}");
    }
    machine.kubectl(&["delete", "trainjob", "with-initializers"], "");
    machine.until("get pods,pvc -o name", str::is_empty);
}

/// A TrainJob.
fn job(name: &str, runtime: &str, trainer: &str) -> String {
    format!(
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {{name: {name}}}\n\
         spec:\n  runtimeRef: {runtime}\n  trainer: {trainer}\n"
    )
}

/// A runtime of plain processes, with what else its JobSet says and its pods request.
fn runtime(name: &str, policies: &str, requests: &str) -> String {
    format!(
        "apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {{name: {name}}}
spec:
  mlPolicy: {{numNodes: 1, torch: {{}}}}
{policies}
      replicatedJobs:
      - name: node
        template:
          metadata: {{labels: {{trainer.kubeflow.org/trainjob-ancestor-step: trainer}}}}
          spec:
            backoffLimit: 0
            template:
              spec:
                restartPolicy: Never
                terminationGracePeriodSeconds: 1
                containers:
                - {{name: node, image: local, command: [sleep, '1000'], resources: {requests}}}
---
"
    )
}

/// Rank 1 fails, but not twice; the other waits for it and would wait for ever.
const FAILS_ONCE: &str = "
import os, sys, time
marker, rank = sys.argv[1], os.environ['PET_NODE_RANK']
if rank == '1' and not os.path.exists(marker):
    open(marker, 'w').close()
    sys.exit(3)
while not os.path.exists(marker + '.again'):
    if rank == '1':
        open(marker + '.again', 'w').close()
    time.sleep(0.05)
print('rank', rank, 'has come through')
";

#[test]
fn a_rank_that_fails_once_makes_all_begin_again() {
    let machine = begin();
    machine.sandbox.write("fails_once.py", FAILS_ONCE);
    let path = |name: &str| -> PathBuf { machine.sandbox.work().join(name) };
    let policies = "  template:\n    spec:\n      failurePolicy: {maxRestarts: 2}";
    let mut manifest = runtime("again", policies, "{}");
    let trainer = format!(
        "{{numNodes: 2, command: [python3, -u, {}, {}]}}",
        path("fails_once.py").display(),
        path("marker").display()
    );
    manifest.push_str(&job("again", "{kind: TrainingRuntime, name: again}", &trainer));
    machine.kubectl(&["apply", "-f", "-"], &manifest);
    let output = complete(&machine, "again");
    says(&output, "[node-0] rank 0 has come through");
    says(&output, "[node-1] rank 1 has come through");
    let restarts =
        machine.kubectl(&["get", "jobset", "again", "-o", "jsonpath={.status.restarts}"], "");
    assert_eq!(restarts, "1");
    delete(&machine, "again");
}

#[test]
fn a_job_that_is_held_midway_goes_on_from_its_checkpoint() {
    let machine = begin();
    let checkpoint = machine.sandbox.work().join("line.json");
    let step = || {
        let text = std::fs::read_to_string(&checkpoint).unwrap_or_default();
        let step = text.trim_start_matches('[').split(',').next().unwrap_or_default().to_owned();
        step.parse::<u32>().unwrap_or(0)
    };
    let place = checkpoint.display().to_string();
    let (linear, name) = (example("linear.py"), ["--nodes", "2", "--name", "line"]);
    let slow = ["--", "--steps", "150", "--pause", "0.05", "--checkpoint", &place];
    let words: Vec<&str> = [&[linear.as_str()][..], &name, &slow].concat();
    assert_eq!(train(&machine, &words).code, Some(0));
    machine.until("get pods -o name", |_| step() > 5);
    assert_eq!(train(&machine, &["stop", "line"]).stdout, "line suspended\n");
    machine.until("get pods -o name", str::is_empty);
    let held_at = step();
    assert!((6..150).contains(&held_at), "{held_at}");
    let told = train(&machine, &["-o", "json", "resume", "line"]);
    assert_eq!(told.json(), serde_json::json!({"name": "line", "suspended": false}));
    let output = complete(&machine, "line");
    for rank in 0..2 {
        says(&output, &format!("[node-{rank}] rank {rank} of 2 begins at step {held_at}"));
        says(&output, &format!("[node-{rank}] rank {rank}: y = 2.000 x + 1.000"));
    }
    let types = "jsonpath={range .status.conditions[*]}{.type}={.status} {end}";
    let conditions = machine.kubectl(&["get", "trainjob", "line", "-o", types], "");
    assert_eq!(conditions, "Suspended=False Complete=True");
    delete(&machine, "line");
}

#[test]
fn a_gang_that_does_not_fit_waits_whole() {
    let mut machine = Machine { sandbox: crate::sandbox::Sandbox::new(), started: None };
    let resources = ["--store", "embedded", "--node-resources", "example.com/slot=2"];
    machine.started = Some(machine.sandbox.start(&resources));
    machine.until("get clustertrainingruntimes -o name", |names| names.contains("torch-local"));
    machine.until("get nodes", |nodes| nodes.contains(" Ready "));
    let slot = "{requests: {example.com/slot: 1}, limits: {example.com/slot: 1}}";
    let policies = "  podGroupPolicy: {coscheduling: {}}\n  template:\n    spec:";
    let reference = "{kind: TrainingRuntime, name: gang}";
    let gang = runtime("gang", policies, slot);
    let trainer = |nodes: u32| format!("{{numNodes: {nodes}}}");
    let first = gang.clone() + &job("first", reference, &trainer(1));
    machine.kubectl(&["apply", "-f", "-"], &first);
    let running = |name: &str| {
        format!(
            "get pods -l jobset.sigs.k8s.io/jobset-name={name} \
             --field-selector=status.phase=Running -o name"
        )
    };
    machine.until(&running("first"), |pods| pods.lines().count() == 1);
    machine.kubectl(&["apply", "-f", "-"], &job("second", reference, &trainer(2)));
    // One of the two would fit. Both are known to wait before anything else is looked at.
    let reasons = "get pods -l jobset.sigs.k8s.io/jobset-name=second -o \
                   jsonpath={.items[*].status.conditions[?(@.type=='PodScheduled')].reason}";
    machine.until(reasons, |reasons| reasons == "Unschedulable Unschedulable");
    let nodes = "get pods -l jobset.sigs.k8s.io/jobset-name=second -o \
                 jsonpath={.items[*].spec.nodeName}";
    assert_eq!(machine.until(nodes, |_| true), "");
    let size = "jsonpath={.spec.minMember}";
    let group = ["get", "podgroups.scheduling.x-k8s.io", "second", "-o", size];
    assert_eq!(machine.kubectl(&group, ""), "2");
    machine.kubectl(&["delete", "trainjob", "first"], "");
    machine.until(&running("second"), |pods| pods.lines().count() == 2);
    delete(&machine, "second");
}
