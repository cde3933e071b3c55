//! How one job is.

use std::fmt;
use std::process::ExitCode;

use anyhow::Result;
use reconcile::conditions;
use serde::Serialize;
use serde_json::Value;

use super::cluster::Cluster;
use super::failure::{Failure, Failures};
use super::progress;
use crate::cli::Context;

/// In one word.
pub fn state(job: &Value) -> &'static str {
    let is = |kind: &str| conditions::is_true(&job["status"], kind);
    let jobs = job["status"]["jobsStatus"].as_array().map_or(&[][..], Vec::as_slice);
    let some = |field: &str| jobs.iter().any(|one| one[field].as_i64().unwrap_or(0) > 0);
    match () {
        () if is("Complete") => "complete",
        () if is("Failed") => "failed",
        () if is("Suspended") => "held",
        () if some("ready") => "running",
        () if some("active") => "starting",
        () => "waiting",
    }
}

/// Whether a state is one that stays.
pub fn is_over(state: &str) -> bool {
    matches!(state, "complete" | "failed")
}

/// What the trainer reports: how far, how long still, and its numbers.
pub fn progress(job: &Value) -> String {
    reported(&job["status"]["trainerStatus"], state(job))
}

/// The same, of the report itself. What has ended takes no more time.
pub fn reported(reported: &Value, state: &str) -> String {
    progress::summary(reported, is_over(state))
}

/// Progress for people: `40%, loss 0.2`, or that none was reported.
pub fn progress_text(job: &Value) -> String {
    match progress(job).trim_matches([',', ' ']) {
        "" => "no progress reported".to_owned(),
        text => text.to_owned(),
    }
}

#[derive(Serialize)]
struct Shown {
    name: String,
    state: &'static str,
    progress: String,
    runtime: String,
    jobs: Value,
    conditions: Value,
    /// The rank that failed first, of a job that failed.
    failed: Option<Failure>,
    /// What stands in the way of a job that does not run yet.
    waits: Vec<String>,
    pods: Vec<Pod>,
}

#[derive(Serialize)]
struct Pod {
    name: String,
    phase: String,
    node: String,
}

pub async fn show(cluster: &Cluster, name: &str, context: &Context) -> Result<ExitCode> {
    let job = cluster.job(name).await?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pod = |pod: &Value| Pod {
        name: text(&pod["metadata"]["name"]),
        phase: text(&pod["status"]["phase"]),
        node: text(&pod["spec"]["nodeName"]),
    };
    let pods = cluster.pods(name).await?;
    let mut failures = Failures::default();
    pods.iter().for_each(|pod| failures.look_at(pod));
    // Who cannot be asked does not keep the rest from being shown.
    let waits = match state(&job.value) {
        "waiting" | "starting" => cluster.obstacles(name, &pods).await.unwrap_or_default(),
        _ => Vec::new(),
    };
    context.output.print(&Shown {
        name: name.to_owned(),
        state: state(&job.value),
        progress: progress_text(&job.value),
        runtime: text(&job.value["spec"]["runtimeRef"]["name"]),
        jobs: job.value["status"]["jobsStatus"].clone(),
        conditions: job.value["status"]["conditions"].clone(),
        failed: failures.first().filter(|_| state(&job.value) == "failed").cloned(),
        waits,
        pods: pods.iter().map(pod).collect(),
    })?;
    Ok(ExitCode::SUCCESS)
}

impl fmt::Display for Shown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "name     {}", self.name)?;
        writeln!(formatter, "state    {}", self.state)?;
        writeln!(formatter, "progress {}", self.progress)?;
        write!(formatter, "runtime  {}", self.runtime)?;
        for one in self.conditions.as_array().into_iter().flatten() {
            let field = |name: &str| one[name].as_str().unwrap_or_default();
            write!(formatter, "\n{}={}: {}", field("type"), field("status"), field("message"))?;
        }
        if let Some(failed) = &self.failed {
            write!(formatter, "\nfailed   {failed}")?;
        }
        for line in &self.waits {
            write!(formatter, "\nwaits    {line}")?;
        }
        for Pod { name, phase, node } in &self.pods {
            write!(formatter, "\npod      {name} {phase} {node}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_is_told_in_few_words() {
        let job = json!({"status": {"jobsStatus": [{"ready": 1}], "trainerStatus":
            {"progressPercentage": 40, "estimatedRemainingSeconds": 125,
                "metrics": [{"name": "loss", "value": "0.2"}]}}});
        assert_eq!(
            format!("{}{}", state(&job), progress(&job)),
            "running 40%, 2m05s left, loss 0.2"
        );
        assert_eq!(state(&json!({})), "waiting");
        let failed = json!({"status": {"conditions": [{"type": "Failed", "status": "True"}]}});
        assert_eq!(state(&failed), "failed");
    }
}
