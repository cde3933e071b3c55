//! Training, as users do it: real processes on this machine, through kubectl and `setpoint train`.

use serde_json::{Value, json};

use crate::node::Machine;
use crate::sandbox::Ended;

/// Says who it is; every rank knows all it needs to find the others.
const HELLO: &str = "
import os
rank, nodes = os.environ['PET_NODE_RANK'], os.environ['PET_NNODES']
print(f'rank {rank} of {nodes}, first is {os.environ[\"PET_MASTER_ADDR\"]}')
";

/// One of its ranks fails.
const FAILS: &str = "
import os, sys
if os.environ['PET_NODE_RANK'] == '1':
    print('out of luck')
    sys.exit(3)
import time
time.sleep(100)
";

/// Reports progress as the SDK of the trainer does.
pub const REPORTS: &str = "
import json, os, ssl, urllib.request, urllib.error
from datetime import datetime, timezone
url = os.environ['KUBEFLOW_TRAINER_SERVER_URL']
context = ssl.create_default_context(cafile=os.environ['KUBEFLOW_TRAINER_SERVER_CA_CERT'])
token = open(os.environ['KUBEFLOW_TRAINER_SERVER_TOKEN']).read()
def report(url, token, body):
    request = urllib.request.Request(url, data=body, method='POST',
        headers={'Authorization': 'Bearer ' + token, 'Content-Type': 'application/json'})
    try:
        with urllib.request.urlopen(request, context=context, timeout=5) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
status = {'progressPercentage': 40, 'estimatedRemainingSeconds': 60,
    'metrics': [{'name': 'loss', 'value': '0.25'}],
    'lastUpdatedTime': datetime.now(timezone.utc).isoformat()}
def body(status):
    return json.dumps({'trainerStatus': status}).encode()
print('good', report(url, token, body(status)))
print('empty', report(url, token, b'{}'))
print('broken', report(url, token, b'['))
print('large', report(url, token, b'[' + b' ' * 70000))
print('wrong', report(url, token, body({**status, 'progressPercentage': 101})))
print('nobody', report(url, 'x', body(status)))
print('other', report(url.replace('/trainjobs/', '/trainjobs/x'), token, body(status)))
";

fn train(machine: &Machine, words: &[&str]) -> Ended {
    machine.sandbox.run(&[&["train"], words].concat())
}

const TYPO: &str = "
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: typo}
spec: {runtimeRef: {name: plain-local}, trainer: {numNodes: 1, command: [pyhton, train.py]}}
";

fn begin() -> Machine {
    let machine = Machine::start();
    machine.until("get clustertrainingruntimes -o name", |names| names.contains("torch-local"));
    machine
}

#[test]
fn a_script_trains_on_many_nodes_and_its_output_is_shown() {
    let machine = begin();
    machine.sandbox.write("hello.py", HELLO);
    let ended = train(&machine, &["hello.py", "--nodes", "2", "--name", "hello", "--watch"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for rank in 0..2 {
        let line = format!("[node-{rank}] rank {rank} of 2, first is hello-node-0-0.hello");
        assert!(ended.stdout.contains(&line), "{ended:?}");
    }
    assert!(ended.stdout.contains("[hello] complete"), "{ended:?}");
    let columns = machine.kubectl(&["get", "trainjob", "hello"], "");
    assert!(columns.starts_with("NAME    STATE      AGE\nhello   Complete "), "{columns}");
    let listed = train(&machine, &["ls"]);
    let mut lines = listed.stdout.lines();
    let words = |line: Option<&str>| {
        line.unwrap_or_default().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let head = ["NAME", "STATE", "PROGRESS", "NODES", "AGE", "DURATION", "RUNTIME"];
    assert_eq!(words(lines.next()), head, "{listed:?}");
    let row = words(lines.next());
    assert_eq!(row[..4], ["hello", "complete", "-", "2"], "{listed:?}");
    assert!(row[4].ends_with('s') && row[5].ends_with('s'), "{listed:?}");
    assert_eq!(row[6], "torch-local", "{listed:?}");
    let again = train(&machine, &["logs", "hello"]);
    assert!(again.stdout.contains("[node-1] rank 1 of 2"), "{again:?}");
    machine.kubectl(&["delete", "trainjob", "hello"], "");
    machine.until("get jobset,job,pod,configmap -o name", |left| !left.contains("hello"));
}

#[test]
fn the_rank_that_failed_is_shown_with_its_last_lines() {
    let machine = begin();
    machine.sandbox.write("fails.py", FAILS);
    let ended = train(&machine, &["fails.py", "--nodes", "2", "--name", "fails", "--watch"]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    let failed = "[fails] node-1 failed with exit code 3; its last lines:\n[node-1] out of luck\n";
    assert!(ended.stdout.ends_with(failed), "{ended:?}");
    let shown = train(&machine, &["show", "fails"]);
    let expected =
        ["command   ", "started   2", "ended     2", "failed    node-1 failed with exit code 3"];
    for start in expected {
        assert!(shown.stdout.lines().any(|line| line.starts_with(start)), "{start}: {shown:?}");
    }
    // Rank 0 was stopped when its job failed, and is listed all the same.
    let rank = |name: &str| shown.stdout.lines().find(|line| line.starts_with(name));
    assert!(rank("node-0 ").is_some(), "{shown:?}");
    assert!(rank("node-1 ").is_some_and(|line| line.contains("failed (exit code 3)")), "{shown:?}");
    assert!(!ended.stdout.contains("first failed job"), "{ended:?}");
    let shown = train(&machine, &["-o", "json", "show", "fails"]).json();
    assert_eq!((&shown["state"], &shown["failed"]["exitCode"]), (&json!("failed"), &json!(3)));
    machine.until("get pods --field-selector=status.phase=Running -o name", str::is_empty);
    // A program that is not there has no output, and the node says so in its place.
    machine.sandbox.write("typo.yaml", TYPO);
    let ended = train(&machine, &["-f", "typo.yaml", "--watch"]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    let failed = "[typo] node-0 failed with exit code 128 (StartError): could not start \"pyhton\"";
    assert!(ended.stdout.contains(failed), "{ended:?}");
    assert!(!ended.stdout.contains("no output"), "{ended:?}");
    let why = machine.sandbox.run(&["why", "trainjob/typo"]);
    let first = why.stdout.lines().next().unwrap_or_default();
    assert!(first.contains("container node ended with code 128 (StartError): could"), "{why:?}");
    if std::process::Command::new("torchrun").arg("--help").output().is_ok() {
        return;
    }
    // Where a node runs several processes, each line says whose it is.
    let words = ["fails.py", "--nodes", "2", "--procs", "2", "--name", "pairs", "--watch"];
    let ended = train(&machine, &words).stdout;
    let is_of = |line: &str, end: &str| {
        ["2", "3"].iter().any(|rank| line == format!("[node-1] [rank {rank}] {end}"))
    };
    for end in ["out of luck", "failed with exit code 3"] {
        assert!(ended.lines().any(|line| is_of(line, end)), "{ended}");
    }
}

#[test]
fn what_is_followed_can_be_read_by_programs_too() {
    let machine = begin();
    machine.sandbox.write("fails.py", FAILS);
    let words = ["-o", "json", "fails.py", "--nodes", "2", "--name", "fails", "--watch"];
    let ended = train(&machine, &words);
    let read = |line: &str| serde_json::from_str::<Value>(line).expect("every line is JSON");
    let told: Vec<Value> = ended.stdout.lines().map(read).collect();
    assert_eq!((ended.code, &told[0]["name"]), (Some(4), &json!("fails")));
    let has = |wanted: &Value| told.contains(wanted);
    assert!(has(&json!({"rank": "node-1", "line": "out of luck"})), "{ended:?}");
    assert!(has(&json!({"job": "fails", "state": "failed", "progress": null})), "{ended:?}");
    let failed = told.iter().find(|one| one["failed"].is_object()).expect("the failure");
    assert_eq!(failed["failed"]["reason"], "FailedJobs", "{failed}");
    assert_eq!(failed["failed"]["rank"], "node-1", "{failed}");
    assert_eq!(failed["failed"]["exitCode"], 3, "{failed}");
    let stopped = train(&machine, &["stop", "fails"]);
    assert!(
        stopped.error().contains("fails is failed; only a job that has not ended"),
        "{stopped:?}"
    );
    let listed = train(&machine, &["-o", "json", "ls"]).json();
    assert_eq!((&listed[0]["name"], &listed[0]["state"]), (&json!("fails"), &json!("failed")));
}

/// More than this machine has.
const WANTS_TOO_MUCH: &str = "
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: large}
spec:
  runtimeRef: {name: torch-local}
  trainer: {numNodes: 1, resourcesPerNode: {requests: {cpu: 9k}}}
";

#[test]
fn who_waits_is_told_why() {
    let machine = begin();
    machine.sandbox.write("large.yaml", WANTS_TOO_MUCH);
    let ended = train(&machine, &["-f", "large.yaml", "--watch"]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.stdout.contains("[large] waiting: large-node-0-0-"), "{ended:?}");
    assert!(ended.stdout.contains("Insufficient cpu"), "{ended:?}");
    // No node is as large: the wait ends without a timeout.
    assert!(ended.stderr.contains("error: large cannot run: pod/large-node-0-0-"), "{ended:?}");
    assert!(ended.stderr.contains("\nWarning FailedScheduling pod/large-node-0-0-"), "{ended:?}");
    train(&machine, &["rm", "large"]);
    // `show` prints the reason too.
    let words = ["-f", "large.yaml", "--name", "larger", "--wait", "--timeout", "3s"];
    let late = train(&machine, &words);
    assert_eq!(late.code, Some(3), "{late:?}");
    assert!(late.stderr.contains("larger timed out after 3s: Warning FailedSched"), "{late:?}");
    let shown = train(&machine, &["show", "larger"]).stdout;
    assert!(shown.contains("\nwaiting   larger-node-0-0-"), "{shown}");
    assert!(shown.contains("Insufficient cpu"), "{shown}");
    let none = train(&machine, &["large.py", "--nodes", "0"]);
    assert!(none.code == Some(2) && none.stderr.contains("--nodes"), "{none:?}");
    // What is not there, or is no job, is said in one line.
    let missing = train(&machine, &["show", "nothing"]);
    assert_eq!(missing.code, Some(5), "{missing:?}");
    assert!(missing.error().contains("TrainJob \"nothing\" not found in default"), "{missing:?}");
    machine.sandbox.write("pod.yaml", "kind: Pod\n");
    let wrong = train(&machine, &["-f", "pod.yaml"]);
    assert!(wrong.error().contains("only runtimes and a TrainJob are for this"), "{wrong:?}");
    let nowhere = train(&machine, &["nowhere.py"]);
    assert!(nowhere.error().contains("could not find nowhere.py"), "{nowhere:?}");
}

#[test]
fn a_script_runs_where_its_user_is() {
    let machine = begin();
    machine.sandbox.write("data.txt", "from beside the script");
    let script = "import sys\nprint(open('data.txt').read(), *sys.argv[1:])\n";
    machine.sandbox.write("reads.py", script);
    let words = ["reads.py", "--name", "reads", "--watch", "--", "--rate", "0.1"];
    let ended = train(&machine, &words);
    let line = "[node-0] from beside the script --rate 0.1\n";
    assert!(ended.code == Some(0) && ended.stdout.contains(line), "{ended:?}");
    // A cluster that is named may be anywhere: the script goes along.
    machine.sandbox.write("sent.py", "print('sent', '$(HOME)', 'sent.py' in __file__)\n");
    let kubeconfig = machine.sandbox.data().join("kubeconfig").display().to_string();
    let place = ["--kubeconfig", &kubeconfig, "--runtime", "torch-local"];
    let words = [&["sent.py", "--name", "sent", "--watch"][..], &place].concat();
    let ended = train(&machine, &words);
    let line = "[node-0] sent $(HOME) True\n";
    assert!(ended.code == Some(0) && ended.stdout.contains(line), "{ended:?}");
}

#[test]
fn a_job_is_held_and_goes_on() {
    let machine = begin();
    machine.sandbox.write("sleeps.py", "import time\ntime.sleep(1000)\n");
    assert_eq!(train(&machine, &["sleeps.py", "--name", "sleeps"]).code, Some(0));
    let ready = "get trainjob sleeps -o jsonpath={.status.jobsStatus[0].ready}";
    machine.until(ready, |ready| ready == "1");
    // Who has seen enough goes, and the job goes on.
    let follows = machine.sandbox.start_command(&["train", "-o", "json", "logs", "-f", "sleeps"]);
    assert_eq!(follows.ready["state"], "running");
    follows.signal("INT");
    assert_eq!(follows.wait().0, Some(130));
    assert_eq!(train(&machine, &["stop", "sleeps"]).stdout, "sleeps suspended\n");
    machine.until("get pods -o name", str::is_empty);
    assert_eq!(train(&machine, &["resume", "sleeps"]).stdout, "sleeps resumed\n");
    machine.until(ready, |ready| ready == "1");
    machine.kubectl(&["delete", "trainjob", "sleeps"], "");
    machine.until("get pods -o name", str::is_empty);
}

#[test]
fn a_second_interruption_holds_the_job_that_the_command_made() {
    let machine = begin();
    machine.sandbox.write("long.py", "import time\ntime.sleep(1000)\n");
    let words = ["train", "long.py", "--name", "long", "--watch", "-o", "json"];
    let started = machine.sandbox.start_command(&words);
    assert_eq!(started.ready["name"], "long");
    let ready = "get trainjob long -o jsonpath={.status.jobsStatus[0].ready}";
    machine.until(ready, |ready| ready == "1");
    let (code, told) = started.interrupt_until_ended();
    assert_eq!(code, Some(130), "{told}");
    assert!(told.contains("Ctrl-C again within 3 s suspends it"), "{told}");
    machine.until("get trainjob long -o jsonpath={.spec.suspend}", |held| held == "true");
    machine.until("get pods -o name", str::is_empty);
    machine.kubectl(&["delete", "trainjob", "long"], "");
}

#[test]
fn a_trainer_reports_how_far_it_is() {
    let machine = begin();
    machine.sandbox.write("reports.py", REPORTS);
    let ended = train(&machine, &["reports.py", "--name", "reports", "--watch"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for line in
        ["good 200", "empty 200", "broken 422", "large 413", "wrong 422", "nobody 403", "other 403"]
    {
        assert!(ended.stdout.contains(&format!("[node-0] {line}\n")), "{line}: {ended:?}");
    }
    let shown = train(&machine, &["show", "reports"]);
    assert!(shown.stdout.contains("\nprogress  40%, loss 0.25\n"), "{shown:?}");
}

/// The SDK of Kubeflow, as its users write: what it does not find would be a warning or an error.
const SDK: &str = "
import logging, os, sys
logging.basicConfig(level=logging.WARNING, stream=sys.stdout)
from kubeflow.trainer import BuiltinTrainer, CustomTrainer, TorchTuneConfig, TrainerClient
client = TrainerClient()
names = sorted(runtime.name for runtime in client.list_runtimes())
print('runtimes', len(names), 'torch-distributed' in names, 'mpi-local' in names)

def hello():
    import os
    print('hello from', os.environ['JOB_COMPLETION_INDEX'])

# Scripts of the SDK call `python`, which not every machine has by that name.
path = os.path.dirname(sys.executable) + ':' + os.environ['PATH'] + ':' + sys.argv[1]
trainer = CustomTrainer(func=hello, num_nodes=2, env={'PATH': path})
name = client.train(trainer=trainer, runtime='plain-local')
job = client.wait_for_job_status(name, timeout=100, polling_interval=1)
print('job', job.status, sorted((step.name, step.status) for step in job.steps))
print('logs', [line.strip() for line in client.get_job_logs(name) if 'hello' in line])
print('events', 'AllJobsCompleted' in {event.reason for event in client.get_job_events(name)})
print('listed', name in [job.name for job in client.list_jobs()])
client.delete_job(name)

def waits():
    import time
    time.sleep(1000)

trainer = CustomTrainer(func=waits, num_nodes=3, env={'PATH': path})
runs = client.train(trainer=trainer, runtime='torch-local')
job = client.wait_for_job_status(runs, status={'Running'}, timeout=100, polling_interval=1)
print('three', job.status, sorted((step.name, step.status) for step in job.steps))
client.delete_job(runs)
tune = client.train(trainer=BuiltinTrainer(config=TorchTuneConfig(epochs=1)),
    runtime='torchtune-llama3.2-1b')
print('builtin', client.get_job(tune).status)
client.delete_job(tune)
";

#[test]
fn the_sdk_of_kubeflow_works_unchanged() {
    let machine = begin();
    let target = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target");
    let python = servers::python_kubeflow(target).expect("it is installed");
    let work = machine.sandbox.work();
    machine.sandbox.write("sdk.py", SDK);
    // The SDK starts scripts for PyTorch by torchrun; where there is none, Python stands for it.
    machine.sandbox.write("torchrun", "#!/bin/sh\nexec python3 \"$@\"\n");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(work.join("torchrun"), executable).expect("it is ours");
    let mut command = std::process::Command::new(python);
    command.arg(work.join("sdk.py")).arg(&work);
    command.env("KUBECONFIG", machine.sandbox.data().join("kubeconfig"));
    let ended = command.output().expect("Python runs");
    let said = String::from_utf8_lossy(&ended.stdout);
    let expected = "runtimes 11 True True\n\
        job Complete [('node-0', 'Succeeded'), ('node-1', 'Succeeded')]\n\
        logs ['hello from 0']\n\
        events True\n\
        listed True\n\
        three Running [('node-0', 'Running'), ('node-1', 'Running'), ('node-2', 'Running')]\n\
        builtin Created\n";
    assert_eq!(said, expected, "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn what_cannot_train_is_refused_by_schema_or_by_the_operator() {
    let machine = begin();
    let job = |name: &str, spec: &str| {
        format!(
            "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\n\
             metadata: {{name: {name}}}\nspec: {spec}\n"
        )
    };
    let refused = |manifest: &str| {
        let ended = machine.run(&["create", "-f", "-"], manifest);
        assert_ne!(ended.code, Some(0), "{ended:?}");
        ended.stderr
    };
    let said = refused(&job("x", "{runtimeRef: {name: nothing}}"));
    let by_us = "Error from server (Forbidden): error when creating \"STDIN\": admission webhook \
                 \"validator.trainjob.trainer.kubeflow.org\" denied the request: spec.RuntimeRef:";
    assert!(said.starts_with(by_us), "{said}");
    let said = refused(&job("x", "{runtimeRef: {name: torch-local}, trainer: {numNodes: -1}}"));
    assert!(said.starts_with("The TrainJob \"x\" is invalid:"), "{said}");
    // Older manifests had another field for patches.
    let old = "{runtimeRef: {name: torch-local}, podTemplateOverrides: []}";
    assert!(refused(&job("x", old)).contains("podTemplateOverrides"));
    let label = "trainer.kubeflow.org/support=deprecated";
    machine.kubectl(&["label", "clustertrainingruntime", "plain-local", label], "");
    let held = job("held", "{runtimeRef: {name: plain-local}, suspend: true}");
    let warned = machine.run(&["create", "-f", "-"], &held);
    let warning = "Warning: Referenced ClusterTrainingRuntime \"plain-local\" is deprecated";
    assert!(warned.code == Some(0) && warned.stderr.starts_with(warning), "{warned:?}");
    let warned = machine.run(&["label", "trainjob", "held", "a=b"], "");
    assert!(warned.code == Some(0) && warned.stderr.starts_with(warning), "{warned:?}");
    let runtime =
        machine.kubectl(&["get", "clustertrainingruntime", "torch-local", "-o", "json"], "");
    let mut runtime: Value = serde_json::from_str(&runtime).expect("it is JSON");
    runtime["metadata"] = json!({"name": "old", "labels": {"trainer.kubeflow.org/support":
        "deprecated"}});
    let warned = machine.run(&["create", "-f", "-"], &runtime.to_string());
    assert!(warned.code == Some(0) && warned.stderr.starts_with("Warning: "), "{warned:?}");
    assert!(warned.stderr.contains("#runtime-deprecation-policy"), "{warned:?}");
}

/// A job that runs while everything is tried on it.
const RUNS: &str = "
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: own}
spec:
  mlPolicy: {numNodes: 1, torch: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              spec:
                containers: [{name: node, image: local, command: [sleep, '1000']}]
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: runs}
spec: {runtimeRef: {kind: TrainingRuntime, name: own}, trainer: {numNodes: 1}}
";

#[test]
fn what_is_wrong_with_a_change_does_not_touch_what_runs() {
    let machine = begin();
    machine.kubectl(&["apply", "-f", "-"], RUNS);
    let running =
        "get pods --field-selector=status.phase=Running -o jsonpath={.items[*].metadata.uid}";
    let before = machine.until(running, |uid| !uid.is_empty());
    let refused = |patch: &Value, why: &str| {
        let patch = patch.to_string();
        let words = ["patch", "trainjob", "runs", "--type=merge", "-p", &patch];
        let ended = machine.run(&words, "");
        assert!(ended.code == Some(1) && ended.stderr.contains(why), "{why}: {ended:?}");
    };
    let patches = |job: &str, container: Value| {
        json!({"spec": {"suspend": true, "runtimePatches": [{"manager": "acme.io/x",
            "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [{"name": job,
                "template": {"spec": {"template": {"spec": {"containers": container}}}}}]}}}}]}})
    };
    refused(&patches("other", json!([])), "must not have replicated job that doesn't exist");
    refused(
        &patches("node", json!([{"name": "other"}])),
        "must not have container that doesn't exist in the runtime job node",
    );
    let reserved = json!([{"name": "PET_NNODES", "value": "9"}]);
    refused(&json!({"spec": {"trainer": {"env": reserved}}}), "field is immutable");
    refused(&json!({"spec": {"runtimeRef": {"name": "nothing"}}}), "field is immutable");
    let old = RUNS.replace("numNodes: 1}}", "numNodes: 1}, podTemplateOverrides: []}");
    let ended = machine.run(&["apply", "-f", "-"], &old);
    let why = "unknown field \"spec.podTemplateOverrides\"";
    assert!(ended.code == Some(1) && ended.stderr.contains(why), "{ended:?}");
    machine.kubectl(&["delete", "trainingruntime", "own"], "");
    machine.kubectl(&["label", "trainjob", "runs", "still=here"], "");
    assert_eq!(machine.until(running, |uid| !uid.is_empty()), before);
    machine.kubectl(&["delete", "trainjob", "runs"], "");
    machine.until("get pods -o name", str::is_empty);
}
