//! Carries out what was decided, through the API and nothing else.

use std::sync::Arc;
use std::time::Duration;

use reconcile::conditions::{self, Condition, Truth};
use reconcile::plan::{Deletion, Notice, Target};
use reconcile::requests::{Origin, Requests};
use reconcile::{Context, Error, Kind, Name, Object};
use serde_json::{Value, json};

use crate::kinds::{CLAIM, POD, VOLUME};
use crate::plugins::volume_binding::{SELECTED_NODE, Step};
use crate::pod::PodInfo;
use crate::queue::doubled;
use crate::run::work::{Bound, Done, Report, Work};

/// How long to wait before asking again what became of a binding.
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// The longest wait before a status is written again.
const WRITE_AGAIN_MAX: Duration = Duration::from_secs(60);
/// How long a task waits for the cache to show what it wrote.
const CATCH_UP_MAX: Duration = Duration::from_secs(30);

/// Who writes: the name that the pod calls its scheduler by.
pub type Manager = &'static str;

pub async fn perform(context: Context, manager: Manager, work: Work) -> Done {
    match work {
        Work::Bind { pod, node, after } => {
            tokio::time::sleep(after).await;
            let ended = bind(&context, manager, &pod, &node).await;
            Done::Bind { pod, node, ended }
        }
        Work::Volumes { reservation, steps } => {
            let is_done = volumes(&context, manager, &steps).await;
            let is_done = ended(is_done.map(|()| 0), "volumes not asked for").await.is_some();
            Done::Volumes { reservation, is_done }
        }
        Work::Report { pod, report } => {
            let told = tell(&context, manager, &pod, &report).await;
            Done::Report { uid: pod.uid.clone(), written: ended(told, "pod not told").await }
        }
        Work::Preempt { pod, report, victims } => {
            let made = preempt(&context, manager, &pod, (&report, &victims)).await;
            Done::Preempt { pod, written: ended(made, "room not made").await }
        }
        Work::Group { key, group, status, failures } => {
            let requests = requests(&context, manager, group.revision);
            let target = Target::unchanged(key.family.kind(), &group).part("status");
            let written = requests.patch(&target, &json!({"status": status})).await;
            let written = written.map(|object| object.revision);
            let written = ended(written, "status of a group not written").await;
            if written.is_none() {
                tokio::time::sleep(doubled(failures + 1, WRITE_AGAIN_MAX)).await;
            }
            Done::Group { key, written }
        }
        Work::Notice { pod, notice } => {
            let requests = requests(&context, manager, pod.object.revision);
            let now = context.environment.now();
            context.recorder.record(&requests, (POD, &pod.object), &notice, now).await;
            Done::Notice
        }
    }
}

fn requests(context: &Context, manager: Manager, cause: u64) -> Requests {
    let reconcile = format!("{:016x}", context.environment.random());
    context.requests(manager, Origin { cause: Some(cause), reconcile, epoch: None })
}

/// The revision that was written, if it went well. A server that asks for time gets it.
async fn ended(result: Result<u64, Error>, what: &str) -> Option<u64> {
    let error = match result {
        Ok(revision) => return Some(revision),
        Err(error) => error,
    };
    tracing::debug!(error = %error.chain(), "{what}");
    tokio::time::sleep(error.retry_after().unwrap_or_default()).await;
    None
}

/// Returns when the cache shows what was written: the next write must not rest on less.
async fn seen(context: &Context, kind: Kind, written: Result<Object, Error>) -> Result<(), Error> {
    let revision = written?.revision;
    let cache = context.cache(kind);
    let _ = tokio::time::timeout(CATCH_UP_MAX, cache.reaches(revision)).await;
    Ok(())
}

/// Gives a pod its node. Whatever the answer, what the server has counts.
async fn bind(context: &Context, manager: Manager, pod: &PodInfo, node: &str) -> Bound {
    let Name { namespace, name } = pod.name();
    let path = format!("{}/binding?fieldManager={manager}", POD.path(namespace, name));
    let body = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": &**namespace, "name": &**name, "uid": &*pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let answer = requests(context, manager, pod.object.revision).post(&path, &body).await;
    let Err(error) = answer else { return Bound::Done };
    tracing::debug!(pod = %pod.name(), node, error = %error.chain(), "not bound");
    loop {
        match context.get_live(POD, pod.name()).await {
            Ok(Some(found)) if found.uid == *pod.uid => {
                let has_node =
                    found.value["spec"]["nodeName"].as_str().is_some_and(|it| !it.is_empty());
                if has_node {
                    return Bound::Elsewhere(Arc::new(found));
                }
                tokio::time::sleep(error.retry_after().unwrap_or_default()).await;
                return Bound::Not;
            }
            Ok(_) => return Bound::Gone(pod.name().clone()),
            // Until somebody knows, the room stays taken.
            Err(_) => tokio::time::sleep(ASK_AGAIN).await,
        }
    }
}

/// Gives volumes to claims, or tells for which node they are to be made.
async fn volumes(
    context: &Context,
    manager: Manager,
    steps: &[(Step, Arc<str>)],
) -> Result<(), Error> {
    let gone = |name: &Name| Error::Other { reason: format!("{name} is gone") };
    for (step, node) in steps {
        let (Step::Bind { claim, .. } | Step::Provision { claim }) = step;
        let held = context.cache(CLAIM).get(claim).ok_or_else(|| gone(claim))?;
        let requests = requests(context, manager, held.revision);
        match step {
            Step::Bind { volume, .. } => {
                let name = Name::new("", volume.clone());
                let volume = context.cache(VOLUME).get(&name).ok_or_else(|| gone(&name))?;
                if volume.value["spec"]["claimRef"]["uid"] == held.uid.as_str() {
                    continue;
                }
                let patch = json!({
                    "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
                    "spec": {"claimRef": {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        "namespace": &*claim.namespace,
                        "name": &*claim.name,
                        "uid": held.uid,
                        "resourceVersion": held.revision.to_string(),
                    }},
                });
                let written = requests.patch(&Target::unchanged(VOLUME, &volume), &patch).await;
                seen(context, VOLUME, written).await?;
            }
            Step::Provision { .. } => {
                if held.annotation(SELECTED_NODE) == Some(&**node) {
                    continue;
                }
                let patch = json!({"metadata": {"annotations": {SELECTED_NODE: &**node}}});
                let written = requests.patch(&Target::unchanged(CLAIM, &held), &patch).await;
                seen(context, CLAIM, written).await?;
            }
        }
    }
    Ok(())
}

/// Tells a pod that it has no node, unless it was told.
async fn tell(
    context: &Context,
    manager: Manager,
    pod: &PodInfo,
    report: &Report,
) -> Result<u64, Error> {
    let Some(object) = current(context, pod) else { return Ok(0) };
    let status = &object.value["status"];
    let is_told = conditions::find(status, "PodScheduled").is_some_and(|one| {
        one["status"] == "False"
            && one["reason"] == "Unschedulable"
            && one["message"] == report.message.as_str()
    });
    let nominated = status["nominatedNodeName"].as_str().unwrap_or_default();
    if is_told && nominated == &*report.nominated {
        return Ok(0);
    }
    let condition = Condition {
        kind: "PodScheduled",
        status: Truth::False,
        reason: "Unschedulable",
        message: &report.message,
        observed_generation: None,
    };
    let mut patch = with_condition(context, &object, &condition);
    if nominated != &*report.nominated {
        patch["status"]["nominatedNodeName"] = match &*report.nominated {
            "" => Value::Null,
            name => json!(name),
        };
    }
    let requests = requests(context, manager, object.revision);
    let target = Target::unchanged(POD, &object).part("status");
    let written = requests.patch(&target, &patch).await?.revision;
    if !is_told {
        let notice = Notice::warning("FailedScheduling", report.message.as_str());
        let now = context.environment.now();
        context.recorder.record(&requests, (POD, &object), &notice, now).await;
    }
    Ok(written)
}

/// The pod as the cache has it, if it is the same.
fn current(context: &Context, pod: &PodInfo) -> Option<Arc<Object>> {
    context.cache(POD).get(pod.name()).filter(|object| object.uid == *pod.uid)
}

fn with_condition(context: &Context, object: &Object, condition: &Condition<'_>) -> Value {
    let mut list = object.value["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions::set(&mut list, condition, context.environment.now());
    json!({"status": {"conditions": list}})
}

/// First the pod is promised the room, so that nobody goes for nothing; then the others go.
async fn preempt(
    context: &Context,
    manager: Manager,
    pod: &PodInfo,
    (report, victims): (&Report, &[Arc<PodInfo>]),
) -> Result<u64, Error> {
    let written = tell(context, manager, pod, report).await?;
    for victim in victims {
        let Some(object) = current(context, victim).filter(|object| !object.is_terminating())
        else {
            continue;
        };
        let requests = requests(context, manager, pod.object.revision);
        let message = format!("{manager}: preempting to accommodate a higher priority pod");
        let condition = Condition {
            kind: "DisruptionTarget",
            status: Truth::True,
            reason: "PreemptionByScheduler",
            message: &message,
            observed_generation: None,
        };
        if !conditions::is_true(&object.value["status"], "DisruptionTarget") {
            let patch = with_condition(context, &object, &condition);
            let target = Target::unchanged(POD, &object).part("status");
            requests.patch(&target, &patch).await?;
        }
        match requests.delete(&Target::of(POD, &object), &Deletion::default()).await {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
        let message = format!("Preempted by pod {} on node {}", pod.uid, report.nominated);
        let notice = Notice::normal("Preempted", message);
        let now = context.environment.now();
        context.recorder.record(&requests, (POD, &object), &notice, now).await;
    }
    Ok(written)
}
