//! Chooses the jobs whose output is followed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::leader::Term;
use reconcile::{Context, Name, Object, conditions};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::{Id, JoinSet};

use super::follow::{Outcome, follow};
use super::pattern::FROM_OUTPUT;
use crate::kinds::TRAIN_JOB;
use crate::train_job::{TrainJob, Watcher};
use crate::value::{list, text};

pub const NAME: &str = "training_progress";

/// Jobs that are followed at once, each over one connection. Others wait for their turn.
const FOLLOWED_JOBS_MAX: usize = 32;
/// Jobs that wait.
const WAITING_JOBS_MAX: usize = 4_096;
/// Age of the end of a job whose last output is still read after a restart.
const ENDED_AGE_MAX: Duration = Duration::from_secs(300);

/// Jobs that are to be followed, as they become known.
#[derive(Debug, Default)]
pub struct Candidates {
    waiting: Mutex<BTreeSet<Name>>,
    changed: Notify,
}

impl Candidates {
    fn add(&self, name: &Name) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < WAITING_JOBS_MAX && waiting.insert(name.clone()) {
            self.changed.notify_one();
        }
    }

    fn take(&self) -> Option<Name> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_first()
    }
}

impl Watcher for Candidates {
    fn changed(&self, old: Option<&Object>, new: Option<&Object>) {
        let Some(job) = new.filter(|job| has_output(job)) else { return };
        let is_running = |job: &Object| !TrainJob::of(job).is_finished();
        // A job that ends between two looks still has its last lines to be read.
        if is_running(job) || old.is_some_and(is_running) {
            self.add(&job.name);
        }
    }
}

/// True if a job prints something that is to be read.
fn has_output(object: &Object) -> bool {
    let job = TrainJob::of(object);
    let is_begun = |one: &Value| {
        ["active", "ready", "succeeded", "failed"]
            .iter()
            .any(|field| one[*field].as_i64().unwrap_or(0) > 0)
    };
    let is_off = object.value["metadata"]["annotations"][FROM_OUTPUT] == "false";
    let is_excluded = is_off || job.is_managed_elsewhere() || object.is_terminating();
    !is_excluded && !job.is_suspended() && list(&job.status()["jobsStatus"]).iter().any(is_begun)
}

/// True if a job ended so lately that its end may have been missed.
fn has_just_ended(job: &Object, now: Timestamp) -> bool {
    let ended = ["Complete", "Failed"].iter().find_map(|kind| {
        conditions::find(&job.value["status"], kind).filter(|one| one["status"] == "True")
    });
    let at = ended.and_then(|one| text(&one["lastTransitionTime"]).parse::<Timestamp>().ok());
    at.is_some_and(|at| now.duration_since(at).as_secs_f64() < ENDED_AGE_MAX.as_secs_f64())
}

/// Follows the output of running jobs while this process leads.
pub async fn run(context: Context, candidates: Arc<Candidates>) {
    let mut term = context.term.clone();
    let leads = |term: &Term| matches!(term, Term::Alone | Term::Leader(_));
    loop {
        if term.wait_for(leads).await.is_err() {
            return;
        }
        let lost = async {
            // Without an election the term never changes.
            if term.wait_for(|term| !leads(term)).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = serve(&context, &candidates) => {}
            () = lost => {}
        }
    }
}

/// Jobs whose output need not be read: they report by themselves, or their pattern is wrong. That
/// holds until their annotations change.
#[derive(Default)]
struct Settled {
    jobs: BTreeMap<Name, (String, Value)>,
}

impl Settled {
    fn has(&self, job: &Object) -> bool {
        let known = self.jobs.get(&job.name);
        known.is_some_and(|(uid, annotations)| {
            *uid == job.uid && *annotations == job.value["metadata"]["annotations"]
        })
    }

    fn add(&mut self, job: &Object) {
        if self.jobs.len() >= WAITING_JOBS_MAX {
            self.jobs.clear();
        }
        let annotations = job.value["metadata"]["annotations"].clone();
        self.jobs.insert(job.name.clone(), (job.uid.clone(), annotations));
    }
}

async fn serve(context: &Context, candidates: &Candidates) {
    let jobs = context.cache(TRAIN_JOB);
    jobs.reaches(1).await;
    let now = context.environment.now();
    for job in jobs.all().iter().filter(|job| has_output(job)) {
        if !TrainJob::of(job).is_finished() || has_just_ended(job, now) {
            candidates.add(&job.name);
        }
    }
    let mut tasks = JoinSet::new();
    let mut settled = Settled::default();
    let mut followed: BTreeMap<Id, Name> = BTreeMap::new();
    loop {
        while followed.len() < FOLLOWED_JOBS_MAX
            && let Some(name) = candidates.take()
        {
            let is_followed = followed.values().any(|one| *one == name);
            let Some(job) = jobs.get(&name) else { continue };
            if !is_followed && !settled.has(&job) && !context.elsewhere.has(&name.namespace) {
                let task = tasks.spawn(follow(context.clone(), name.clone()));
                followed.insert(task.id(), name);
            }
        }
        tokio::select! {
            Some(ended) = tasks.join_next_with_id() => {
                let (id, outcome) = ended.unwrap_or_else(|error| (error.id(), Outcome::Ended));
                let job = followed.remove(&id).and_then(|name| jobs.get(&name));
                if let (Some(job), Outcome::NotNeeded) = (job, outcome) {
                    settled.add(&job);
                }
            }
            () = candidates.changed.notified(), if followed.len() < FOLLOWED_JOBS_MAX => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(changes: Value) -> Object {
        let mut job = json!({"metadata": {"namespace": "n", "name": "a"}, "spec": {},
            "status": {"jobsStatus": [{"name": "node", "active": 1}]}});
        reconcile::plan::merge(&mut job, &changes);
        Object::new(job)
    }

    #[test]
    fn jobs_are_followed_from_their_first_pod_to_their_end() {
        let complete = json!({"status": {"conditions": [{"type": "Complete", "status": "True",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        let candidates = Candidates::default();
        let is_added = |old: Option<&Object>, new: &Object| {
            candidates.changed(old, Some(new));
            candidates.take().is_some()
        };
        assert!(is_added(None, &job(json!({}))));
        assert!(is_added(Some(&job(json!({}))), &job(complete.clone())));
        assert!(!is_added(None, &job(complete.clone())));
        assert!(!is_added(Some(&job(complete.clone())), &job(complete.clone())));
        for excluded in [
            json!({"status": {"jobsStatus": [{"active": 0}]}}),
            json!({"spec": {"suspend": true}}),
            json!({"spec": {"managedBy": "kueue.x-k8s.io/multikueue"}}),
            json!({"metadata": {"annotations": {FROM_OUTPUT: "false"}}}),
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        ] {
            assert!(!is_added(None, &job(excluded.clone())), "{excluded}");
        }
        let at = |time: &str| time.parse().expect("the time is a constant");
        assert!(has_just_ended(&job(complete.clone()), at("2026-01-01T00:01:00Z")));
        assert!(!has_just_ended(&job(complete), at("2026-01-01T01:00:00Z")));
    }
}
