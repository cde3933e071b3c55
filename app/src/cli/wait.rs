//! Waiting: for an object to be as it should be, with what it says while it is not, and showing
//! something again whenever it changes.

use std::fmt::Display;
use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, anyhow};
use reconcile::conditions;
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::Context;
use super::exit::{self, Failure};
use super::stuck::{self, Place};
use crate::config::duration;
use crate::output;

/// How often an object is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// How long pods may be in a state that somebody has to mend: what they miss may be on its way.
const STUCK_MAX: Duration = Duration::from_secs(2);
/// How often something that is shown is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How an object is, as far as it says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Done,
    /// It will not get better by itself.
    Failed(String),
    Waits(String),
}

/// Whether an object is as it should be. Pure.
pub fn verdict(object: &Value) -> Verdict {
    let status = &object["status"];
    let condition = |kind: &str| conditions::find(status, kind);
    let is = |kind: &str| conditions::is_true(status, kind);
    let message = |kind: &str| {
        let found = condition(kind).unwrap_or(&Value::Null);
        let text = |field: &str| found[field].as_str().unwrap_or_default();
        format!("{}: {}", text("reason"), text("message"))
    };
    if is("Failed") {
        return Verdict::Failed(message("Failed"));
    }
    if is("Complete") {
        return Verdict::Done;
    }
    let generation = object["metadata"]["generation"].as_i64();
    let observed = status["observedGeneration"].as_i64();
    // What failed may not say that it was looked at; the condition tells what it is of.
    let has_failed = status["state"] == "failed" && condition("Ready").is_some();
    let is_seen = match has_failed {
        true => is_said_of_now(object, "Ready"),
        false => observed.is_none() || observed >= generation,
    };
    if !is_seen {
        return Verdict::Waits("it was not looked at yet".to_owned());
    }
    match object["kind"].as_str().unwrap_or_default() {
        "Pod" => of_pod(object, is("Ready"), &message("PodScheduled")),
        "Deployment" | "StatefulSet" | "ReplicaSet" => of_replicas(object),
        "Job" | "TrainJob" | "JobSet" => Verdict::Waits(of_ended(&condition)),
        // Whoever acts on it has not come yet.
        "DynamoGraphDeployment" | "Wukong"
            if status["state"].is_null() && status["phase"].is_null() =>
        {
            Verdict::Waits("it says nothing yet".to_owned())
        }
        "PersistentVolumeClaim" | "Namespace" => of_phase(status),
        _ if status["phase"].is_string() => of_phase(status),
        _ if status["state"].is_string() => of_state(status, &message("Ready")),
        _ => {
            match ["Ready", "Available", "Established"].iter().find(|it| condition(it).is_some()) {
                Some(kind) if is(kind) => Verdict::Done,
                Some(kind) => Verdict::Waits(message(kind)),
                None => Verdict::Done,
            }
        }
    }
}

/// Whether a condition was set for the object as it is. One that does not say what it was set for
/// is as old as the rest of the status.
pub fn is_said_of_now(object: &Value, kind: &str) -> bool {
    let status = &object["status"];
    let generation = object["metadata"]["generation"].as_i64();
    let said = conditions::find(status, kind).and_then(|one| one["observedGeneration"].as_i64());
    let seen = said.or(status["observedGeneration"].as_i64());
    seen.is_none() || seen >= generation
}

fn of_ended<'a>(condition: &impl Fn(&str) -> Option<&'a Value>) -> String {
    let held = condition("Suspended").is_some_and(|one| one["status"] == "True");
    (if held { "it is held" } else { "it has not ended" }).to_owned()
}

fn of_pod(pod: &Value, is_ready: bool, unscheduled: &str) -> Verdict {
    let status = &pod["status"];
    match status["phase"].as_str().unwrap_or_default() {
        "Succeeded" => Verdict::Done,
        "Running" if is_ready => Verdict::Done,
        "Running" => Verdict::Waits("it runs and is not ready".to_owned()),
        "Failed" => {
            let said = status["message"].as_str().filter(|said| !said.is_empty());
            let ended = stuck::failed(std::slice::from_ref(pod)).map(|one| one.to_string());
            let why = said.map(str::to_owned).or(ended);
            Verdict::Failed(why.unwrap_or_else(|| "it failed".to_owned()))
        }
        _ if !status["nodeName"].is_string() && unscheduled.len() > 2 => {
            Verdict::Waits(unscheduled.to_owned())
        }
        _ => Verdict::Waits("it is starting".to_owned()),
    }
}

fn of_replicas(object: &Value) -> Verdict {
    let wanted = object["spec"]["replicas"].as_i64().unwrap_or(1);
    let count = |field: &str| object["status"][field].as_i64().unwrap_or(0);
    let has_update = object["kind"] != "ReplicaSet";
    let updated = if has_update { count("updatedReplicas") } else { wanted };
    let ready = count("readyReplicas");
    match ready >= wanted && updated >= wanted && count("replicas") <= wanted {
        true => Verdict::Done,
        false => Verdict::Waits(format!("{ready} of {wanted} ready, {updated} updated")),
    }
}

fn of_phase(status: &Value) -> Verdict {
    match status["phase"].as_str().unwrap_or_default() {
        "Running" | "Bound" | "Active" | "Succeeded" | "Ready" => Verdict::Done,
        phase @ ("Failed" | "Error") => Verdict::Failed(match not_so(status) {
            Some(why) => format!("its phase is {phase}: {why}"),
            None => format!("its phase is {phase}"),
        }),
        "" => Verdict::Waits("it says nothing yet".to_owned()),
        phase => Verdict::Waits(format!("its phase is {phase}")),
    }
}

/// What a condition says that does not hold; that it is not ready is said only if nothing else is.
fn not_so(status: &Value) -> Option<&str> {
    let all = status["conditions"].as_array()?;
    let message = |one: &&Value| one["status"] == "False" && one["message"] != "";
    let (ready, others): (Vec<&Value>, Vec<&Value>) =
        all.iter().filter(message).partition(|one| one["type"] == "Ready");
    others.first().or(ready.first())?["message"].as_str()
}

fn of_state(status: &Value, why: &str) -> Verdict {
    match status["state"].as_str().unwrap_or_default() {
        "successful" | "ready" => Verdict::Done,
        "failed" => Verdict::Failed(why.to_owned()),
        state => Verdict::Waits(format!("{state}: {why}")),
    }
}

/// What is waited for, and for how long.
pub struct Waited<'a> {
    /// For people: `trainjob/a`.
    pub what: &'a str,
    pub timeout: Duration,
    /// What shows more, once it has failed or takes too long.
    pub hint: String,
}

/// Waits until an object is as it should be. What it waits for is said on stderr, each reason once.
pub async fn until_done<F>(waited: &Waited<'_>, look: impl Fn() -> F) -> Result<()>
where
    F: Future<Output = Result<Option<Value>>>,
{
    until(waited, look, None).await
}

/// The same for an object that has pods: one that cannot run is not waited for until the time is
/// over, and what it said last is shown.
pub async fn until_done_with_pods<F>(
    waited: &Waited<'_>,
    look: impl Fn() -> F,
    place: &Place<'_>,
) -> Result<()>
where
    F: Future<Output = Result<Option<Value>>>,
{
    until(waited, look, Some(place)).await
}

async fn until<F>(
    waited: &Waited<'_>,
    look: impl Fn() -> F,
    place: Option<&Place<'_>>,
) -> Result<()>
where
    F: Future<Output = Result<Option<Value>>>,
{
    let deadline = Instant::now() + waited.timeout;
    let mut said = String::new();
    let mut stuck_since = None;
    loop {
        let object = look().await?;
        let mut found = match &object {
            Some(object) => verdict(object),
            None => Verdict::Waits("it does not exist yet".to_owned()),
        };
        let pods = match (&object, place) {
            (Some(object), Some(place)) if found != Verdict::Done => place.pods(object).await,
            _ => Vec::new(),
        };
        match stuck::stuck(&pods).filter(|_| matches!(found, Verdict::Waits(_))) {
            None => stuck_since = None,
            Some(stuck) => {
                let since = stuck_since.get_or_insert_with(Instant::now);
                found = match since.elapsed() < STUCK_MAX {
                    true => Verdict::Waits(stuck.to_string()),
                    false => Verdict::Failed(stuck.to_string()),
                };
            }
        }
        let (what, hint) = (waited.what, waited.hint.clone());
        let why = match found {
            Verdict::Done => return Ok(()),
            Verdict::Failed(why) => {
                let failure = Failure::new(exit::WORKLOAD_FAILED, format!("{what} failed: {why}"));
                let mut failure = failure.hint(hint);
                if let (Some(culprit), Some(place)) = (stuck::failed(&pods), place) {
                    failure.shown = place.last_lines(&culprit).await;
                }
                return Err(anyhow!(failure));
            }
            Verdict::Waits(why) => why,
        };
        if why != said {
            output::remark(format!("{what} waits: {why}"));
            said.clone_from(&why);
        }
        if Instant::now() > deadline {
            let limit = waited.timeout;
            let failure = format!("{what} is not ready after {limit:?}: {why}");
            return Err(anyhow!(Failure::new(exit::TIMED_OUT, failure).hint(hint)));
        }
        sleep(LOOK).await;
    }
}

/// Shows something again whenever it changes, until Ctrl-C.
pub async fn watch<T, F>(context: &Context, look: impl Fn() -> F) -> Result<ExitCode>
where
    T: Display + Serialize,
    F: Future<Output = Result<T>>,
{
    let mut said = String::new();
    let mut enough = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        let now = look().await?;
        let text = serde_json::to_string(&now)?;
        if text != said {
            context.output.print(&now)?;
            said = text;
        }
        tokio::select! {
            () = sleep(LOOK_AGAIN) => {}
            _ = &mut enough => return Ok(ExitCode::from(exit::INTERRUPTED)),
        }
    }
}

/// For options.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    duration::parse(text).ok_or_else(|| format!("expected {}", duration::EXPECTED))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn waits(object: Value) -> String {
        match verdict(&object) {
            Verdict::Waits(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn objects_are_done_when_they_say_so() {
        let condition = |kind: &str| json!([{"type": kind, "status": "True"}]);
        let done = [
            json!({"kind": "ConfigMap"}),
            json!({"kind": "TrainJob", "status": {"conditions": condition("Complete")}}),
            json!({"kind": "Pod", "status": {"phase": "Running",
                "conditions": condition("Ready")}}),
            json!({"kind": "Deployment", "spec": {"replicas": 2}, "status":
                {"replicas": 2, "readyReplicas": 2, "updatedReplicas": 2}}),
            json!({"kind": "Wukong", "status": {"phase": "Running"}}),
            json!({"kind": "DynamoGraphDeployment", "status": {"state": "successful"}}),
            json!({"kind": "CustomResourceDefinition",
                "status": {"conditions": condition("Established")}}),
        ];
        for object in done {
            assert_eq!(verdict(&object), Verdict::Done, "{object}");
        }
    }

    #[test]
    fn what_is_not_done_says_why_and_what_failed_is_not_waited_for() {
        let failed = json!({"kind": "Job", "status": {"conditions": [
            {"type": "Failed", "status": "True", "reason": "Late", "message": "too late"}]}});
        assert_eq!(verdict(&failed), Verdict::Failed("Late: too late".to_owned()));
        let pod = json!({"kind": "Pod", "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "0/1 nodes"}]}});
        assert_eq!(waits(pod), "Unschedulable: 0/1 nodes");
        let old = json!({"kind": "Deployment", "metadata": {"generation": 2},
            "status": {"observedGeneration": 1}});
        assert_eq!(waits(old), "it was not looked at yet");
        let few = json!({"kind": "Deployment", "spec": {"replicas": 2},
            "status": {"readyReplicas": 1, "updatedReplicas": 2, "replicas": 2}});
        assert_eq!(waits(few), "1 of 2 ready, 2 updated");
        assert_eq!(waits(json!({"kind": "Job"})), "it has not ended");
        let machine = json!({"kind": "Wukong", "status": {"phase": "Error", "conditions": [
            {"type": "Ready", "status": "False", "message": "it is not ready"},
            {"type": "VolumesBound", "status": "False", "message": "no room"}]}});
        assert_eq!(verdict(&machine), Verdict::Failed("its phase is Error: no room".to_owned()));
        // That it failed is believed only of what it is.
        let failed = |of: i64| {
            json!({"kind": "DynamoGraphDeployment", "metadata": {"generation": 2}, "status":
                {"state": "failed", "observedGeneration": 1, "conditions": [{"type": "Ready",
                    "status": "False", "reason": "r", "message": "m", "observedGeneration": of}]}})
        };
        assert_eq!(waits(failed(1)), "it was not looked at yet");
        assert_eq!(verdict(&failed(2)), Verdict::Failed("r: m".to_owned()));
        assert_eq!(waits(json!({"kind": "DynamoGraphDeployment"})), "it says nothing yet");
    }
}
