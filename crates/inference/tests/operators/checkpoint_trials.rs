//! Checkpoints on trial: under every fault that the operator's own trace offers, with what must
//! hold of what they keep (DY-8) checked over everything that was written. Who runs Jobs, and who
//! freezes pods, is played.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use inference::checkpoint::{self, identity, storage::Storage};
use inference::kinds::{CHECKPOINT, JOB, POD, POD_SNAPSHOT};
use inference::settings::{Discovery, Gates, Settings};
use inference::value::text;
use inference::{Enabled, manifests, names};
use reconcile::plan::Target;
use reconcile::{Context, Object, conditions, owners, run};
use serde_json::{Value, json};
use testkit::Cluster;
use testkit::manifests::bare;
use testkit::oracle::{Case, Check, Violation};
use testkit::simulation::{self, Also, Trial};

use crate::optional::definition;

type Workload = fn(Arc<Cluster>, Context) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Between what users do: longer than any fault lasts that does not last.
const WHILE: Duration = Duration::from_secs(1_800);
const SAMPLES_MAX: usize = 16;
const CLEANUP: &str = "checkpoint-cleanup-";

fn settings() -> Settings {
    let kept = json!({"pvc": {"pvcName": "kept", "basePath": "/kept", "create": true,
        "size": "1Gi"}});
    let storage = Storage::read(&kept).expect("a claim");
    let gates = Gates { checkpoints: true, ..Gates::default() };
    // How pods find each other is made once and never changed: without it worlds are made sooner.
    Settings { gates, storage, discovery: Discovery::Etcd, ..Settings::default() }
}

/// One that a graph had made.
fn automatic(name: &str, model: &str) -> Value {
    json!({"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoCheckpoint",
        "metadata": {"namespace": "default", "name": name,
            "annotations": {names::AUTO_CHECKPOINT: "true"}},
        "spec": {"identity": {"model": model, "backendFramework": "vllm"},
            "job": {"podTemplateSpec": {"spec": {"containers":
                [{"name": "main", "image": "w:1.0.0"}]}}}}})
}

/// Plays Jobs, each with a pod, and who freezes pods: all of them succeed. Never returns.
async fn play(context: Context) {
    let (jobs, snapshots) = (context.cache(JOB), context.cache(POD_SNAPSHOT));
    loop {
        let seen = (jobs.seen(), snapshots.seen());
        let requests = context.requests("play", Default::default());
        for job in jobs.all() {
            if job.name.name.starts_with(CLEANUP) {
                if !conditions::is_true(&job.value["status"], "Complete") {
                    let target = Target::of(JOB, &job).part("status");
                    let ended = json!({"status": {"startTime": "2026-01-01T00:00:00Z",
                        "completionTime": "2026-01-01T00:00:01Z", "succeeded": 1, "conditions": [
                        {"type": "SuccessCriteriaMet", "status": "True"},
                        {"type": "Complete", "status": "True"}]}});
                    let _ = requests.patch(&target, &ended).await;
                }
                continue;
            }
            let mut pod = owners::child(POD, &format!("{}-0", job.name.name), JOB, &job);
            pod["metadata"]["labels"] = job.value["spec"]["template"]["metadata"]["labels"].clone();
            pod["spec"] = json!({"containers": [{"name": "main", "image": "w:1.0.0"}]});
            // That it is there already is as good.
            let _ = requests.create(POD, &pod).await;
        }
        for snapshot in snapshots.all() {
            if !is_frozen(&snapshot.value) {
                let target = Target::of(POD_SNAPSHOT, &snapshot).part("status");
                let done = json!({"status": {"boundPodSnapshotContentName": "x", "conditions":
                    [{"type": "Ready", "status": "True", "reason": "Done", "message": "frozen",
                        "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
                let _ = requests.patch(&target, &done).await;
            }
        }
        tokio::select! {
            () = jobs.reaches(seen.0 + 1) => {}
            () = snapshots.reaches(seen.1 + 1) => {}
        }
    }
}

fn is_frozen(snapshot: &Value) -> bool {
    let status = &snapshot["status"];
    status["boundPodSnapshotContentName"].is_string() && conditions::is_true(status, "Ready")
}

/// What there is of the kinds that matter, at a moment.
#[derive(Default)]
struct Seen<'a>(BTreeMap<&'a str, BTreeMap<&'a str, &'a Value>>);

impl<'a> Seen<'a> {
    fn of(&self, kind: &str) -> impl Iterator<Item = &&'a Value> {
        self.0.get(kind).into_iter().flat_map(BTreeMap::values)
    }

    fn update(&mut self, object: &'a Value, is_there: bool) {
        let own = self.0.entry(text(&object["kind"])).or_default();
        match is_there {
            true => own.insert(text(&object["metadata"]["name"]), object),
            false => own.remove(text(&object["metadata"]["name"])),
        };
    }

    /// Whether somebody starts from what is kept under this, or will.
    fn is_referred_to(&self, id: &str) -> bool {
        self.of("DynamoCheckpoint").any(|one| {
            one["metadata"]["deletionTimestamp"].is_null()
                && identity::hash(&one["spec"]["identity"]) == id
        })
    }
}

/// DY-8: one that is ready was frozen whole, for it; what it keeps is removed only when nobody
/// refers to it, and before it goes.
fn what_is_kept_is_whole(case: &Case<'_>) -> Vec<Violation> {
    let mut seen = Seen::default();
    let mut violations = Vec::new();
    for change in &case.run.history {
        let Some(object) = change.new.as_ref().or(change.old.as_ref()) else { continue };
        let name = text(&object["metadata"]["name"]);
        let mut say =
            |what: &str| violations.push(Violation::new("DY-8", format!("{name} {what}")));
        let was = change.old.as_ref().map_or(&Value::Null, |old| &old["status"]["phase"]);
        match text(&object["kind"]) {
            "DynamoCheckpoint" if change.new.is_some() => {
                let is_its = |one: &&&Value| {
                    one["metadata"]["ownerReferences"][0]["uid"] == object["metadata"]["uid"]
                };
                let becomes_ready = object["status"]["phase"] == "Ready" && *was != "Ready";
                let mut snapshots = seen.of("PodSnapshot").filter(is_its);
                if becomes_ready && !snapshots.any(|one| is_frozen(one)) {
                    say("is ready though nothing was frozen for it");
                }
            }
            "DynamoCheckpoint" => {
                let id = text(&object["status"]["checkpointID"]);
                let own = format!("{CLEANUP}{id}");
                let is_removed = seen.of("Job").any(|job| {
                    job["metadata"]["name"] == own
                        && conditions::is_true(&job["status"], "Complete")
                });
                seen.update(object, false);
                if !id.is_empty() && !is_removed && !seen.is_referred_to(id) {
                    say("is gone and what it kept is not");
                }
            }
            "Job"
                if change.old.is_none()
                    && name.strip_prefix(CLEANUP).is_some_and(|id| seen.is_referred_to(id)) =>
            {
                say("removes what others start from");
            }
            _ => {}
        }
        seen.update(object, change.new.is_some());
    }
    violations
}

#[test]
fn no_fault_changes_what_checkpoints_keep_and_when_it_goes() {
    const ORACLES: &[Check] = &[what_is_kept_is_whole];
    let workload: Workload = |cluster, context| {
        Box::pin(async move {
            static ALL: LazyLock<Vec<Value>> = LazyLock::new(|| {
                let enabled = Enabled { dynamo: true, leader_worker_set: false };
                let kinds = [bare(api::dynamo_checkpoint::definition()), definition(POD_SNAPSHOT)];
                [kinds.to_vec(), manifests::roles(enabled)].concat()
            });
            cluster.install_all(&[], &ALL).await;
            // Two are kept in one place; nobody shares the third.
            let mut made: Vec<Object> = Vec::new();
            for (name, model) in [("one", "shared"), ("two", "shared"), ("three", "own")] {
                made.push(cluster.create(CHECKPOINT, automatic(name, model)).await);
                // The claim is all of theirs, and made for the first.
                tokio::time::sleep(WHILE).await;
            }
            let requests = context.requests("test", Default::default());
            let delete = async |gone: &Object| {
                let target = Target::of(CHECKPOINT, gone);
                requests.delete(&target, &Default::default()).await.expect("deleted");
                tokio::time::sleep(WHILE).await;
            };
            delete(&made[0]).await;
            delete(&made[2]).await;
            // One like it, made when what it had kept is gone.
            let again = cluster.create(CHECKPOINT, automatic("three", "own")).await;
            tokio::time::sleep(WHILE).await;
            delete(&again).await;
        })
    };
    let trial = Trial {
        name: "system:serviceaccount:dynamo-system:dynamo-operator-controller-manager/checkpoint",
        seed: 1,
        component: |context| {
            Box::pin(run::run(context, checkpoint::Controller::new(Arc::new(settings()))))
        },
        workload,
        play: |context| {
            Box::pin(async move {
                tokio::join!(controllers::garbage_collector::run(context.clone()), play(context));
            })
        },
    };
    let also = Also { oracles: ORACLES, samples_max: SAMPLES_MAX, ..Also::default() };
    let plans = simulation::try_with(trial, also);
    println!("{plans} plans");
    assert!(plans > 30, "{plans}");
}
