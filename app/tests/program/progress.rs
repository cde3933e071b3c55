//! Progress and metrics that are read from the output of training jobs, or reported by them.

use serde_json::{Value, json};

use crate::node::Machine;

/// Prints one line per epoch, as most scripts do; the control plane restarts meanwhile.
const EPOCHS: &str = "
import time
for epoch in range(1, 41):
    print(f'epoch {epoch}/40 loss={1 / epoch:.4f} lr=0.1')
    time.sleep(0.2)
";

/// Prints numbers that are no metrics.
const SILENT: &str = "
import time
print('seed=42 world_size=1')
print('listening on 127.0.0.1:8080')
time.sleep(2)
";

/// Bars on stderr and dictionaries on stdout, as the Trainer of Hugging Face prints them.
const BARS: &str = "
import sys, time
for step in range(1, 13):
    sys.stderr.write(f'\\r {100 * step // 24}%|##   | {step}/24 [00:0{step // 4}<00:03, 4.16it/s]')
    sys.stderr.flush()
    if step % 4 == 0:
        print({'loss': str(3 / step), 'learning_rate': '5e-05', 'epoch': str(step / 8)}, flush=True)
    time.sleep(0.1)
sys.stderr.write('\\n')
sys.exit(1)
";

/// A long line, bytes that are no text, and more lines than anybody reads.
const HOSTILE: &str = "
import sys, time
out = sys.stdout.buffer
out.write(b'epoch 1/2 loss=' + b'9' * 3_000_000 + b'\\n' + bytes(range(128, 256)) * 100 + b'\\n')
out.write(b'loss=nan ' * 10_000 + b'\\n{' * 10_000 + b'\\n')
for number in range(200_000):
    out.write(b'loss=%d.5 metric%d=1\\n' % (number, number))
out.flush()
time.sleep(1)
print('epoch 2/2 loss=0.25', flush=True)
time.sleep(1)
";

/// Reports by itself; what it prints besides is not believed.
const REPORTS: &str = "
import sys, time
sys.path.insert(0, '@PYTHON@')
import setpoint
for step in range(4):
    print(f'epoch {step + 1}/4 loss=9.9')
    setpoint.report(progress=(step + 1) / 10, loss=0.25, name='text', nothing=None)
    time.sleep(0.5)
";

const OWN_PATTERN: &str = r#"
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: NAME
  annotations: {training.setpoint.dev/progress-pattern: 'PATTERN'}
spec:
  runtimeRef: {name: plain-local}
  trainer:
    numNodes: 1
    command: [sh, -c, "echo round 3 out-of 4 quality 0.75; echo epoch 1/2 loss=9; sleep 2; exit 1"]
"#;

fn train(machine: &Machine, words: &[&str]) -> String {
    let ended = machine.sandbox.run(&[&["train"], words].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.stdout
}

fn reported(machine: &Machine, job: &str) -> Value {
    let job = machine.kubectl(&["get", "trainjob", job, "-o", "json"], "");
    let job: Value = serde_json::from_str(&job).expect("kubectl prints JSON");
    job["status"]["trainerStatus"].clone()
}

fn metric<'a>(reported: &'a Value, name: &str) -> &'a str {
    let mut metrics = reported["metrics"].as_array().into_iter().flatten();
    let found = metrics.find(|one| one["name"] == name);
    found.and_then(|one| one["value"].as_str()).unwrap_or_default()
}

fn until_reported(machine: &Machine, job: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let line = format!("get trainjob {job} -o jsonpath={{.status.trainerStatus}}");
    let read = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
    read(&machine.until(&line, |text| holds(&read(text))))
}

#[test]
fn progress_is_read_from_the_output_of_jobs_unless_they_report_it() {
    let mut machine = Machine::start();
    machine.until("get clustertrainingruntimes -o name", |names| names.contains("torch-local"));
    let python = concat!(env!("CARGO_MANIFEST_DIR"), "/../python");
    let scripts = [
        ("epochs", EPOCHS.to_owned()),
        ("silent", SILENT.to_owned()),
        ("bars", BARS.to_owned()),
        ("hostile", HOSTILE.to_owned()),
        ("reports", REPORTS.replace("@PYTHON@", python)),
    ];
    for (name, script) in &scripts {
        let file = format!("{name}.py");
        machine.sandbox.write(&file, script);
        train(&machine, &[&file, "--name", name]);
    }
    for (name, pattern) in [
        ("own", r"round (?P<epoch>\d+) out-of (?P<epochs>\d+) quality (?P<quality>\S+)"),
        ("wrong", "loss=([0-9.]+"),
    ] {
        let manifest = OWN_PATTERN.replace("NAME", name).replace("PATTERN", pattern);
        machine.kubectl(&["apply", "-f", "-"], &manifest);
    }
    // A restart of the control plane neither ends nor repeats anything.
    until_reported(&machine, "epochs", |found| !metric(found, "loss").is_empty());
    machine.restart();

    let bars = until_reported(&machine, "bars", |found| found["progressPercentage"] == 50);
    assert_eq!((metric(&bars, "loss"), metric(&bars, "epoch")), ("0.25", "1.5"), "{bars}");
    let own = until_reported(&machine, "own", |found| found["progressPercentage"] == 75);
    assert_eq!((metric(&own, "quality"), metric(&own, "loss")), ("0.75", ""), "{own}");
    let event = "get events --field-selector=reason=InvalidProgressPattern -o yaml";
    let event = machine.until(event, |events| events.contains("InvalidProgressPattern"));
    assert!(event.contains("metadata.annotations[training.setpoint.dev/progress-pattern]"));
    let hostile = until_reported(&machine, "hostile", |found| found["progressPercentage"] == 100);
    assert_eq!(metric(&hostile, "loss"), "0.25", "{hostile}");
    assert!(hostile["metrics"].as_array().is_some_and(|all| all.len() <= 32), "{hostile}");

    let ended = |name: &str, condition: &str| {
        let wait = format!("--for=condition={condition}");
        let job = format!("trainjob/{name}");
        machine.kubectl(&["wait", &wait, &job, "--timeout=60s"], "");
    };
    ended("reports", "Complete");
    let posted = reported(&machine, "reports");
    assert_eq!(posted["progressPercentage"], 40, "{posted}");
    assert_eq!(posted["metrics"], json!([{"name": "loss", "value": "0.25"}]), "{posted}");
    ended("silent", "Complete");
    assert_eq!(reported(&machine, "silent"), Value::Null);
    assert!(train(&machine, &["show", "silent"]).contains("no progress reported"));
    ended("epochs", "Complete");
    let epochs = until_reported(&machine, "epochs", |found| metric(found, "epoch") == "40");
    assert_eq!(epochs["progressPercentage"], 100, "{epochs}");
    assert_eq!(metric(&epochs, "loss"), "0.0250", "{epochs}");
    let shown = train(&machine, &["show", "epochs"]);
    assert!(shown.contains("100%, loss 0.0250"), "{shown}");
    let shown = train(&machine, &["-o", "json", "show", "epochs"]);
    assert!(shown.contains("0.0250"), "{shown}");
}

#[test]
fn the_output_of_train_watch_shows_progress_and_the_trend_of_the_loss() {
    let machine = Machine::start();
    machine.sandbox.write("epochs.py", EPOCHS);
    let output = train(&machine, &["epochs.py", "--name", "epochs", "--watch"]);
    let states = output.lines().filter(|line| line.starts_with("[epochs] running "));
    let trends = states.filter(|line| line.contains("%") && line.contains(", loss 0."));
    assert!(trends.clone().count() >= 2, "{output}");
    assert!(trends.clone().any(|line| line.contains('█')), "{output}");
    // Few writes: a line every fifth of a second, a report every two seconds.
    assert!(trends.count() <= 8, "{output}");
}
