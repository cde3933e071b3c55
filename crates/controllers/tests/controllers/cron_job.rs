//! CronJobs in a cluster whose Jobs are played.

use std::time::Duration;

use controllers::cron_job::Controller;
use controllers::kinds::{CRON_JOB, JOB};
use reconcile::plan::Target;
use reconcile::{Context, Object, conditions, run};
use serde_json::{Value, json};
use testkit::faults::Pattern;
use testkit::simulation::{self, Also, Trial};

/// Jobs succeed at once. Never returns.
async fn play(context: Context) {
    let cache = context.cache(JOB);
    loop {
        let seen = cache.seen();
        for job in cache.all() {
            if !conditions::is_true(&job.value["status"], "Complete") && !job.is_terminating() {
                complete(&context, &job).await;
            }
        }
        cache.reaches(seen + 1).await;
    }
}

async fn complete(context: &Context, job: &Object) {
    let now = conditions::time(context.environment.now());
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "CompletionsReached", "message": "",
            "lastProbeTime": now, "lastTransitionTime": now})
    };
    let status = json!({"status": {"startTime": now, "completionTime": now, "succeeded": 1,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]}});
    let requests = context.requests("test", Default::default());
    let _ = requests.patch(&Target::of(JOB, job).part("status"), &status).await;
}

fn cron() -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "CronJob",
        "metadata": {"namespace": "default", "name": "tick"},
        "spec": {"schedule": "*/5 * * * *", "timeZone": "Europe/Berlin",
            "concurrencyPolicy": "Replace", "successfulJobsHistoryLimit": 2,
            "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never",
                "containers": [{"name": "main", "image": "i"}]}}}}},
    })
}

/// Four runs, of which the last two are kept.
const TICKS: Trial = Trial {
    name: "cronjob-controller",
    seed: 1,
    component: |context| Box::pin(run::run(context, Controller)),
    workload: |cluster, context| {
        Box::pin(async move {
            let made = cluster.create(CRON_JOB, cron()).await;
            tokio::time::sleep(Duration::from_secs(21 * 60)).await;
            let requests = context.requests("test", Default::default());
            let patch = json!({"spec": {"suspend": true}});
            requests.patch(&Target::of(CRON_JOB, &made), &patch).await.expect("suspended");
        })
    },
    play: |context| Box::pin(play(context)),
};

#[test]
fn no_fault_of_a_request_changes_where_it_ends() {
    let end = simulation::run(TICKS, TICKS.seed, Vec::new());
    let jobs: Vec<_> = end.objects.keys().filter(|key| key.starts_with("jobs/")).collect();
    assert_eq!(jobs.len(), 2, "{jobs:?}");
    let cron = &end.objects["cronjobs/default/tick"];
    assert!(cron["status"].get("active").is_none(), "{cron}");
    // What is due follows from the clock, and what is missed for long stays missed.
    let incomparable = &[Pattern::Clock, Pattern::Lasting];
    let plans = simulation::try_with(TICKS, Also { incomparable, ..Also::default() });
    println!("{plans} plans");
    assert!(plans > 50, "{plans}");
}
