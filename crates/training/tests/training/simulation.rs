//! The operators on trial: under every fault that their own traces offer, with what must hold of
//! training (TJ-1, TJ-2, TJ-3, TJ-4, TJ-8) checked over everything that was written.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use reconcile::plan::Target;
use reconcile::{Context, conditions};
use serde_json::{Value, json};
use testkit::Cluster;
use testkit::oracle::{Case, Violation};
use testkit::simulation::{self, Also, Trial};
use training::kinds::{TRAIN_JOB, TRAINING_RUNTIME};
use training::plugin::{Groups, Settings};
use training::value::text;

use crate::world::{install_bare, job, play, runtime};

/// Trials are named after the user that the operators are.
macro_rules! concat_name {
    ($what:literal) => {
        concat!("system:serviceaccount:kubeflow-system:kubeflow-trainer-controller-manager/", $what)
    };
}

type Workload = fn(Arc<Cluster>, Context) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Both operators, as the user that their roles are bound to.
const fn trial(name: &'static str, workload: Workload) -> Trial {
    Trial {
        name,
        seed: 1,
        component: |context| {
            Box::pin(async move {
                // A world without gangs is made sooner.
                let groups = Groups { coscheduling: false, volcano: false };
                let plugins = Settings { groups, ..Settings::default() };
                let options = training::Options { plugins, ..Default::default() };
                let mut running = training::start(&context, &options);
                while running.join_next().await.is_some() {}
            })
        },
        workload,
        play: |context| Box::pin(play(context)),
    }
}

/// Ended is ended, and never both ways.
fn ends_once(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for change in &case.run.history {
        let is_job = change.key.contains("trainjobs") || change.key.contains("jobsets");
        let (Some(old), Some(new)) = (&change.old, &change.new) else { continue };
        let ended = |object: &Value| {
            let is = |kind: &str| conditions::is_true(&object["status"], kind);
            (is("Complete") || is("Completed"), is("Failed"))
        };
        let (before, after) = (ended(old), ended(new));
        if is_job && ((before.0 && !after.0) || (before.1 && !after.1) || (after.0 && after.1)) {
            violations.push(Violation::new("TJ-2", format!("{} ends twice", change.key)));
        }
    }
    violations
}

/// One pod for each index of an attempt.
fn one_pod_a_rank(case: &Case<'_>) -> Vec<Violation> {
    let mut live: Vec<(String, String)> = Vec::new();
    let mut violations = Vec::new();
    for change in case.run.history.iter().filter(|change| change.key.starts_with("pods/")) {
        live.retain(|(key, _)| *key != change.key);
        let Some(new) = &change.new else { continue };
        let phase = text(&new["status"]["phase"]);
        if matches!(phase, "Succeeded" | "Failed") {
            continue;
        }
        let label = |name: &str| text(&new["metadata"]["labels"][name]).to_owned();
        let rank = format!(
            "{} {} {}",
            label("jobset.sigs.k8s.io/jobset-uid"),
            label("batch.kubernetes.io/job-name"),
            label("batch.kubernetes.io/job-completion-index"),
        );
        if live.iter().any(|(_, other)| *other == rank) {
            violations.push(Violation::new("TJ-3", format!("two pods of {rank}")));
        }
        live.push((change.key.clone(), rank));
    }
    violations
}

/// Restarts go up one at a time.
fn restarts_one_by_one(case: &Case<'_>) -> Vec<Violation> {
    let changes = case.run.history.iter().filter(|change| change.key.contains("jobsets"));
    let restarts = |object: &Value| object["status"]["restarts"].as_i64().unwrap_or(0);
    let leaps = changes.filter(|change| {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { return false };
        !(0..=1).contains(&(restarts(new) - restarts(old)))
    });
    leaps.map(|change| Violation::new("TJ-8", format!("{} leaps", change.key))).collect()
}

/// What has ended has no pods that run.
fn nothing_runs_after_the_end(case: &Case<'_>) -> Vec<Violation> {
    let objects = &case.run.objects;
    let has_ended = objects.values().any(|object| {
        object["kind"] == "TrainJob"
            && ["Complete", "Failed"]
                .iter()
                .any(|kind| conditions::is_true(&object["status"], kind))
    });
    let runs = |object: &&Value| object["kind"] == "Pod" && object["status"]["phase"] == "Running";
    let running = objects.values().filter(runs).count();
    if has_ended && running > 0 {
        return vec![Violation::new("TJ-1", format!("{running} pods run after the end"))];
    }
    Vec::new()
}

fn try_everything(trial: Trial, plans_min: usize) {
    let oracles = &[
        ends_once as testkit::oracle::Check,
        one_pod_a_rank,
        restarts_one_by_one,
        nothing_runs_after_the_end,
    ];
    let plans = simulation::try_with(trial, Also { oracles, ..Also::default() });
    println!("{plans} plans");
    assert!(plans > plans_min, "{plans}");
}

#[test]
fn no_fault_changes_how_a_job_completes() {
    let workload: Workload = |cluster, _| {
        Box::pin(async move {
            install_bare(&cluster).await;
            let own = runtime("own", json!({"play/ends": "Succeeded"}));
            cluster.create(TRAINING_RUNTIME, own).await;
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
            let made = cluster.create(TRAIN_JOB, job("held", json!({}))).await;
            let requests = context.requests("test", Default::default());
            for suspend in [true, false] {
                tokio::time::sleep(Duration::from_secs(1_800)).await;
                let patch = json!({"spec": {"suspend": suspend}});
                requests.patch(&Target::of(TRAIN_JOB, &made), &patch).await.expect("changed");
            }
        })
    };
    try_everything(trial(concat_name!("held"), workload), 50);
}

#[test]
fn no_fault_changes_when_a_jobs_time_is_over() {
    let workload: Workload = |cluster, _| {
        Box::pin(async move {
            install_bare(&cluster).await;
            cluster.create(TRAINING_RUNTIME, runtime("own", json!({}))).await;
            let limit = json!({"activeDeadlineSeconds": 600});
            cluster.create(TRAIN_JOB, job("late", limit)).await;
        })
    };
    try_everything(trial(concat_name!("deadline"), workload), 50);
}
