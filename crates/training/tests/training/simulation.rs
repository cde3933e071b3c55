//! The operators on trial: under every fault that their own traces offer, with what must hold of
//! training (`oracles.rs`) checked over everything that was written.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use reconcile::plan::Target;
use reconcile::{Context, Object, conditions};
use serde_json::{Value, json};
use testkit::Cluster;
use testkit::faults::Pattern;
use testkit::oracle::{Case, Check, Violation};
use testkit::record::Change;
use testkit::simulation::{self, Also, Trial};
use training::Enabled;
use training::kinds::{TRAIN_JOB, TRAINING_RUNTIME};
use training::plugin::{Groups, Settings};
use training::value::text;

use crate::oracles::{self, FOREIGN};
use crate::world::{install_bare, install_bare_for, install_groups, job, play, runtime};

/// Trials are named after the user that the operators are.
macro_rules! concat_name {
    ($what:literal) => {
        concat!("system:serviceaccount:kubeflow-system:kubeflow-trainer-controller-manager/", $what)
    };
}

type Workload = fn(Arc<Cluster>, Context) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Between what users do: longer than any fault lasts that does not last.
const WHILE: Duration = Duration::from_secs(1_900);
/// Plans of each trial in the default suite; the long one has more.
const SAMPLES_MAX: usize = 14;
/// Deadlines, and how much later than that a job may fail. What is held has time; once it goes on
/// it has all of it.
const DEADLINE_SECONDS: u64 = 600;
const HELD_DEADLINE_SECONDS: u64 = 3_000;
const LATE_SECONDS_MAX: u64 = 120;

/// Both operators, as the user that their roles are bound to.
const fn trial(name: &'static str, workload: Workload) -> Trial {
    Trial {
        name,
        seed: 1,
        // A world without gangs is made sooner.
        component: |context| Box::pin(operators(context, false)),
        workload,
        play: |context| Box::pin(play(context)),
    }
}

async fn operators(context: Context, coscheduling: bool) {
    run(context, Enabled::default(), coscheduling).await;
}

async fn run(context: Context, enabled: Enabled, coscheduling: bool) {
    let plugins =
        Settings { groups: Groups { coscheduling, volcano: false }, ..Settings::default() };
    let options = training::Options { enabled, plugins, ..Default::default() };
    let mut running = training::start(&context, &options);
    while running.join_next().await.is_some() {}
}

fn try_everything(trial: Trial, plans_min: usize) {
    try_with(trial, plans_min, oracles::ALL);
}

fn try_with(trial: Trial, plans_min: usize, oracles: &'static [Check]) {
    let also = Also { oracles, samples_max: SAMPLES_MAX, ..Also::default() };
    let plans = simulation::try_with(trial, also);
    println!("{plans} plans");
    assert!(plans > plans_min, "{plans}");
}

async fn hold(context: &Context, made: &Object, suspend: bool) {
    let requests = context.requests("test", Default::default());
    let patch = json!({"spec": {"suspend": suspend}});
    requests.patch(&Target::of(TRAIN_JOB, made), &patch).await.expect("changed");
}

#[test]
fn no_fault_changes_how_a_job_completes() {
    let workload: Workload = |cluster, _| {
        Box::pin(async move {
            install_bare(&cluster).await;
            let own = runtime("own", json!({"play/ends": "Succeeded"}));
            cluster.create(TRAINING_RUNTIME, own).await;
            let foreign = json!({"managedBy": "kueue.x-k8s.io/multikueue", "suspend": true});
            cluster.create(TRAIN_JOB, job(FOREIGN, foreign)).await;
            cluster.create(TRAIN_JOB, job("good", json!({"trainer": {"numNodes": 2}}))).await;
        })
    };
    try_everything(trial(concat_name!("complete"), workload), 50);
}

#[test]
fn no_fault_changes_how_often_a_job_begins_again() {
    let workload: Workload = |cluster, _| {
        Box::pin(async move {
            install_bare(&cluster).await;
            let mut own = runtime("own", json!({"play/ends": "Failed"}));
            own["spec"]["template"]["spec"]["failurePolicy"] = json!({"maxRestarts": 1});
            cluster.create(TRAINING_RUNTIME, own).await;
            cluster.create(TRAIN_JOB, job("bad", json!({}))).await;
        })
    };
    try_everything(trial(concat_name!("restart"), workload), 50);
}

#[test]
fn no_fault_changes_how_a_job_is_held_and_goes_on() {
    let workload: Workload = |cluster, context| {
        Box::pin(async move {
            install_bare(&cluster).await;
            cluster.create(TRAINING_RUNTIME, runtime("own", json!({}))).await;
            let limit = json!({"activeDeadlineSeconds": HELD_DEADLINE_SECONDS});
            let made = cluster.create(TRAIN_JOB, job("held", limit)).await;
            for suspend in [true, false] {
                tokio::time::sleep(WHILE).await;
                hold(&context, &made, suspend).await;
            }
        })
    };
    try_with(trial(concat_name!("held"), workload), 50, TIMED);
}

/// Two Jobs, whose first attempt fails, and whose second takes its time to begin; meanwhile the job
/// is held.
#[test]
fn no_fault_changes_what_becomes_of_a_job_that_is_held_while_it_begins_again() {
    let workload: Workload = |cluster, context| {
        Box::pin(async move {
            install_bare(&cluster).await;
            let plays = json!({"play/start-after": "300", "play/ends": "Succeeded",
                "play/fails-attempts": "1"});
            let mut own = runtime("own", plays);
            let spec = &mut own["spec"]["template"]["spec"];
            spec["failurePolicy"] =
                json!({"maxRestarts": 3, "restartStrategy": "BlockingRecreate"});
            let mut beside = spec["replicatedJobs"][0].clone();
            beside["name"] = json!("beside");
            beside["template"]["metadata"]["labels"] = json!({});
            let pod = &mut beside["template"]["spec"]["template"]["metadata"];
            pod["annotations"] = json!({"play/start-after": "300", "play/ends": "Succeeded",
                "play/ends-after": "30"});
            spec["replicatedJobs"].as_array_mut().expect("a list").push(beside);
            cluster.create(TRAINING_RUNTIME, own).await;
            let made = cluster.create(TRAIN_JOB, job("again", json!({"trainer": {}}))).await;
            tokio::time::sleep(Duration::from_secs(450)).await;
            hold(&context, &made, true).await;
            tokio::time::sleep(WHILE).await;
            hold(&context, &made, false).await;
        })
    };
    try_everything(trial(concat_name!("held-in-restart"), workload), 50);
}

const TIMED: &[Check] = &[every_usual_oracle, fails_in_time];

/// TJ-9: a job fails when its time is over and not before, whatever is done to the clock.
fn fails_in_time(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let fails = |change: &Change, name: &str| {
        let has_failed = |job: &Value| conditions::is_true(&job["status"], "Failed");
        let is_it = |job: &&Value| job["kind"] == "TrainJob" && job["metadata"]["name"] == name;
        change.new.as_ref().filter(is_it).is_some_and(has_failed)
    };
    let is_only_clock = case.run.planned.iter().all(|one| one.fault.pattern() == Pattern::Clock);
    let held = 2 * WHILE.as_secs() + HELD_DEADLINE_SECONDS;
    for (name, earliest) in [("late", DEADLINE_SECONDS), ("held", held)] {
        let Some(at) = oracles::moment(case, |change| fails(change, name)) else { continue };
        if at < earliest || (is_only_clock && at > earliest + LATE_SECONDS_MAX) {
            violations.push(Violation::new("TJ-9", format!("{name} failed after {at} s")));
        }
    }
    violations
}

#[test]
fn no_fault_changes_when_a_jobs_time_is_over() {
    let workload: Workload = |cluster, _| {
        Box::pin(async move {
            install_bare(&cluster).await;
            cluster.create(TRAINING_RUNTIME, runtime("own", json!({}))).await;
            let limit = json!({"activeDeadlineSeconds": DEADLINE_SECONDS});
            cluster.create(TRAIN_JOB, job("late", limit)).await;
        })
    };
    try_with(trial(concat_name!("deadline"), workload), 50, TIMED);
}

fn every_usual_oracle(case: &Case<'_>) -> Vec<Violation> {
    oracles::ALL.iter().flat_map(|check| check(case)).collect()
}

/// TJ-5: each job runs what its runtime said when it began.
fn runs_what_it_began_with(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let pods = case.run.history.iter().filter_map(|change| change.new.as_ref());
    for pod in pods.filter(|object| object["kind"] == "Pod") {
        let of = text(&pod["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"]);
        let image = text(&pod["spec"]["containers"][0]["image"]);
        let expected = if of == "first" { "i" } else { "new" };
        if image != expected && !oracles::lasts(case) {
            violations.push(Violation::new("TJ-5", format!("{of} runs {image}")));
        }
    }
    violations
}

#[test]
fn no_fault_changes_which_runtime_a_job_began_with() {
    const ORACLES: &[Check] = &[every_usual_oracle, runs_what_it_began_with];
    let workload: Workload = |cluster, context| {
        Box::pin(async move {
            install_bare(&cluster).await;
            let own = cluster.create(TRAINING_RUNTIME, runtime("own", json!({}))).await;
            cluster.create(TRAIN_JOB, job("first", json!({}))).await;
            tokio::time::sleep(WHILE).await;
            let mut spec = own.value["spec"].clone();
            let job_of = &mut spec["template"]["spec"]["replicatedJobs"][0]["template"];
            job_of["spec"]["template"]["spec"]["containers"][0]["image"] = json!("new");
            let requests = context.requests("test", Default::default());
            let target = Target::of(TRAINING_RUNTIME, &own);
            requests.patch(&target, &json!({"spec": spec})).await.expect("changed");
            cluster.create(TRAIN_JOB, job("second", json!({}))).await;
            tokio::time::sleep(WHILE).await;
            requests.delete(&target, &Default::default()).await.expect("deleted");
        })
    };
    try_with(trial(concat_name!("runtime"), workload), 50, ORACLES);
}

#[test]
fn no_fault_changes_how_large_a_gang_is() {
    let workload: Workload = |cluster, _| {
        Box::pin(async move {
            install_bare(&cluster).await;
            install_groups(&cluster).await;
            let mut own = runtime("own", json!({"play/ends": "Succeeded"}));
            own["spec"]["podGroupPolicy"] = json!({"coscheduling": {}});
            let jobs = &mut own["spec"]["template"]["spec"]["replicatedJobs"];
            let mut first = jobs[0].clone();
            first["name"] = json!("dataset-initializer");
            first["template"]["metadata"]["labels"] = json!({});
            jobs[0]["dependsOn"] = json!([{"name": "dataset-initializer", "status": "Complete"}]);
            jobs.as_array_mut().expect("a list").insert(0, first);
            cluster.create(TRAINING_RUNTIME, own).await;
            cluster.create(TRAIN_JOB, job("gang", json!({"trainer": {"numNodes": 2}}))).await;
        })
    };
    let usual = trial(concat_name!("gang"), workload);
    let with_gangs = Trial { component: |context| Box::pin(operators(context, true)), ..usual };
    try_everything(with_gangs, 50);
}

const TRAINER: Enabled = Enabled { trainer: true, job_set: false };
const JOB_SETS: Enabled = Enabled { trainer: false, job_set: true };

/// On a cluster that has JobSet already: with its own rights alone the trainer ends what is late.
#[test]
fn no_fault_changes_what_the_trainer_does_with_sets_of_others() {
    let workload: Workload = |cluster, _| {
        Box::pin(async move {
            install_bare_for(&cluster, TRAINER).await;
            cluster.create(TRAINING_RUNTIME, runtime("own", json!({}))).await;
            let limit = json!({"activeDeadlineSeconds": DEADLINE_SECONDS});
            cluster.create(TRAIN_JOB, job("late", limit)).await;
        })
    };
    let usual = trial(concat_name!("trainer-alone"), workload);
    let alone = Trial {
        component: |context| Box::pin(run(context, TRAINER, false)),
        play: |context| {
            Box::pin(async move {
                tokio::join!(play(context.clone()), run(context, JOB_SETS, false));
            })
        },
        ..usual
    };
    try_with(alone, 20, TIMED);
}

const TTL_SECONDS: u64 = 300;

/// A job that is to go goes with all that it has, and not before its time.
fn goes_in_time(case: &Case<'_>) -> Vec<Violation> {
    let is_it =
        |object: &Value| object["kind"] == "TrainJob" && object["metadata"]["name"] == "short";
    let mut violations = Vec::new();
    let is_left = case.run.objects.values().any(|object| {
        is_it(object) || (object["kind"] == "JobSet" && object["metadata"]["name"] == "short")
    });
    if is_left && case.run.is_settled {
        violations.push(Violation::new("TTL", "it is still there".to_owned()));
    }
    let is_clock = case.run.planned.iter().any(|one| one.fault.pattern() == Pattern::Clock);
    let goes = |change: &Change| change.new.is_none() && change.old.as_ref().is_some_and(is_it);
    let gone = oracles::moment(case, goes);
    if gone.is_some_and(|at| at < TTL_SECONDS) && !is_clock {
        violations.push(Violation::new("TTL", format!("it went after {gone:?} s")));
    }
    violations
}

#[test]
fn no_fault_changes_that_a_job_goes_some_time_after_its_end() {
    const ORACLES: &[Check] = &[every_usual_oracle, goes_in_time];
    let workload: Workload = |cluster, _| {
        Box::pin(async move {
            install_bare(&cluster).await;
            let own = runtime("own", json!({"play/ends": "Succeeded"}));
            cluster.create(TRAINING_RUNTIME, own).await;
            // The time until it goes begins when the time that it has ends.
            let mut short = job("short", json!({"activeDeadlineSeconds": DEADLINE_SECONDS}));
            short["metadata"]["annotations"] = json!(
                {"trainer.kubeflow.org/ttl-seconds-after-finished": TTL_SECONDS.to_string()});
            cluster.create(TRAIN_JOB, short).await;
        })
    };
    try_with(trial(concat_name!("ttl"), workload), 50, ORACLES);
}

/// What completes as its time ends has ended one way or the other.
#[test]
fn no_fault_lets_a_job_complete_and_be_late() {
    let workload: Workload = |cluster, _| {
        Box::pin(async move {
            install_bare(&cluster).await;
            let after = (DEADLINE_SECONDS - 1).to_string();
            let plays = json!({"play/ends": "Succeeded", "play/ends-after": after});
            cluster.create(TRAINING_RUNTIME, runtime("own", plays)).await;
            let limit = json!({"activeDeadlineSeconds": DEADLINE_SECONDS});
            cluster.create(TRAIN_JOB, job("close", limit)).await;
        })
    };
    try_unlike(concat_name!("late-complete"), workload, oracles::ALL);
}

/// Trials whose worlds may end in several ways, whatever the fault.
fn try_unlike(name: &'static str, workload: Workload, oracles: &'static [Check]) {
    const EVERY: &[Pattern] = &[
        Pattern::Intermediate,
        Pattern::Stale,
        Pattern::Unobserved,
        Pattern::Ambiguous,
        Pattern::Duplicate,
        Pattern::Zombie,
        Pattern::Clock,
        Pattern::Refused,
        Pattern::Lasting,
    ];
    let also = Also { oracles, incomparable: EVERY, samples_max: SAMPLES_MAX, ..Also::default() };
    let plans = simulation::try_with(trial(name, workload), also);
    assert!(plans > 50, "{plans}");
}

/// The key that ranks reach each other with stays: who mounted it has it.
fn a_key_stays(case: &Case<'_>) -> Vec<Violation> {
    let changed = case.run.history.iter().filter(|change| match (&change.old, &change.new) {
        (Some(old), Some(new)) => new["kind"] == "Secret" && old["data"] != new["data"],
        _ => false,
    });
    changed.map(|change| Violation::new("MPI", format!("{} changed", change.key))).collect()
}

/// A launcher that comes after its workers, and whose end is the end.
#[test]
fn no_fault_changes_the_key_of_a_job_of_mpi() {
    const ORACLES: &[Check] = &[every_usual_oracle, a_key_stays];
    let workload: Workload = |cluster, _| {
        Box::pin(async move {
            install_bare(&cluster).await;
            let mut own = runtime("own", json!({}));
            own["spec"]["mlPolicy"] = json!({"mpi": {"runLauncherAsNode": true}});
            let spec = &mut own["spec"]["template"]["spec"];
            spec["successPolicy"] =
                json!({"operator": "All", "targetReplicatedJobs": ["launcher"]});
            let mut launcher = spec["replicatedJobs"][0].clone();
            launcher["name"] = json!("launcher");
            launcher["dependsOn"] = json!([{"name": "node", "status": "Ready"}]);
            launcher["template"]["spec"]["template"]["metadata"]["annotations"] =
                json!({"play/ends": "Succeeded"});
            spec["replicatedJobs"][0]["template"]["metadata"]["labels"] = json!({});
            spec["replicatedJobs"].as_array_mut().expect("a list").push(launcher);
            cluster.create(TRAINING_RUNTIME, own).await;
            cluster.create(TRAIN_JOB, job("mpi", json!({"trainer": {"numNodes": 2}}))).await;
        })
    };
    // Each run makes a key of its own.
    try_unlike(concat_name!("mpi"), workload, ORACLES);
}
