//! State of one training job.

use std::fmt;
use std::process::ExitCode;

use anyhow::Result;
use reconcile::conditions;
use serde::Serialize;
use serde_json::Value;

use super::cluster::Cluster;
use super::failure::{Failure, Failures};
use super::progress;
use super::ranks::{Rank, ranks};
use super::timing::{self, Timing};
use crate::cli::Context;
use crate::cli::past::columns;

/// In one word.
pub fn state(job: &Value) -> &'static str {
    let is = |kind: &str| conditions::is_true(&job["status"], kind);
    let jobs = job["status"]["jobsStatus"].as_array().map_or(&[][..], Vec::as_slice);
    let some = |field: &str| jobs.iter().any(|one| one[field].as_i64().unwrap_or(0) > 0);
    match () {
        () if is("Complete") => "complete",
        () if is("Failed") => "failed",
        () if is("Suspended") => "suspended",
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

/// Start of the command of a script: `python3 -uc LAUNCHER DIRECTORY SCRIPT ARGUMENTS`.
const LAUNCHER_WORDS: usize = 4;

#[derive(Serialize)]
struct Shown {
    name: String,
    state: &'static str,
    /// As the trainer reported it; null if it reported none.
    progress: Value,
    runtime: String,
    nodes: Option<i64>,
    command: Vec<String>,
    created: String,
    started: Option<String>,
    ended: Option<String>,
    #[serde(rename = "durationSeconds")]
    duration_seconds: Option<u64>,
    jobs: Value,
    conditions: Value,
    /// The rank that failed first, of a job that failed.
    failed: Option<Failure>,
    /// Reasons why a job does not run yet.
    waits: Vec<String>,
    ranks: Vec<Rank>,
    #[serde(skip)]
    progress_text: String,
}

pub async fn show(cluster: &Cluster, name: &str, context: &Context) -> Result<ExitCode> {
    let job = cluster.job(name).await?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pods = cluster.pods(name).await?;
    let jobs = cluster.batch_jobs(Some(name)).await;
    let mut failures = Failures::default();
    pods.iter().for_each(|pod| failures.look_at(pod));
    let waits = match state(&job.value) {
        "waiting" | "starting" => cluster.obstacles(name, &pods).await.unwrap_or_default(),
        _ => Vec::new(),
    };
    let timing = Timing::new(&job.value, &jobs, &pods);
    context.output.print(&Shown {
        name: name.to_owned(),
        state: state(&job.value),
        progress: job.value["status"]["trainerStatus"].clone(),
        progress_text: progress_text(&job.value),
        runtime: text(&job.value["spec"]["runtimeRef"]["name"]),
        nodes: nodes(&job.value, &jobs),
        command: command(&job.value, &pods),
        created: text(&job.value["metadata"]["creationTimestamp"]),
        duration_seconds: timing.seconds(),
        started: timing.started,
        ended: timing.ended,
        jobs: job.value["status"]["jobsStatus"].clone(),
        conditions: job.value["status"]["conditions"].clone(),
        failed: failures.first().filter(|_| state(&job.value) == "failed").cloned(),
        waits,
        ranks: ranks(&jobs, &pods),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Number of nodes that a job asks for, or that its runtime gives it.
pub fn nodes(job: &Value, jobs: &[Value]) -> Option<i64> {
    let is_trainer =
        |one: &&Value| one["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"] == "node";
    let of_runtime = || jobs.iter().find(is_trainer)?["spec"]["completions"].as_i64();
    job["spec"]["trainer"]["numNodes"].as_i64().or_else(of_runtime)
}

/// Command of the trainer as its user wrote it: of a script without the launcher.
fn command(job: &Value, pods: &[Value]) -> Vec<String> {
    let words = |container: &Value| -> Vec<String> {
        let all = ["command", "args"].iter().flat_map(|field| container[*field].as_array());
        let words = all.flatten().filter_map(Value::as_str);
        words.map(|word| word.replace("$$", "$")).collect()
    };
    let mut found = words(&job["spec"]["trainer"]);
    if found.is_empty() {
        found = pods.first().map(|pod| words(&pod["spec"]["containers"][0])).unwrap_or_default();
    }
    if found.get(1).is_some_and(|word| word == "-uc") && found.len() > LAUNCHER_WORDS {
        found.drain(1..LAUNCHER_WORDS);
    }
    found
}

impl fmt::Display for Shown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, text: &str| writeln!(formatter, "{name:<9} {text}");
        line("name", &self.name)?;
        line("state", self.state)?;
        line("progress", &self.progress_text)?;
        line("runtime", &self.runtime)?;
        if let Some(nodes) = self.nodes {
            line("nodes", &nodes.to_string())?;
        }
        line("command", &first_line(&self.command.join(" ")))?;
        line("created", &self.created)?;
        line("started", self.started.as_deref().unwrap_or("-"))?;
        if let Some(ended) = &self.ended {
            let took = timing::shown(self.duration_seconds);
            line("ended", &format!("{ended} (after {took})"))?;
        }
        match &self.failed {
            Some(failed) => line("failed", &failed.to_string())?,
            None => {
                for one in self.conditions.as_array().into_iter().flatten() {
                    let field = |name: &str| one[name].as_str().unwrap_or_default();
                    if field("status") == "True" && field("type") != "Complete" {
                        let name = field("type").to_lowercase();
                        line(&name, &format!("{}: {}", field("reason"), field("message")))?;
                    }
                }
            }
        }
        for why in &self.waits {
            line("waiting", why)?;
        }
        let mut rows =
            vec![["RANK", "STATE", "RESTARTS", "NODE", "POD"].map(str::to_owned).to_vec()];
        let or_none = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        for Rank { rank, state, restarts, node, pod, .. } in &self.ranks {
            let (rank, state) = (rank.clone(), state.clone());
            rows.push(vec![rank, state, restarts.to_string(), or_none(node), or_none(pod)]);
        }
        match self.ranks.is_empty() {
            true => write!(formatter, "ranks     none yet"),
            false => formatter.write_str(&columns(&rows)),
        }
    }
}

/// The first line of a command, whose words may be whole programs.
fn first_line(text: &str) -> String {
    match text.split_once('\n') {
        Some((first, _)) => format!("{first} ..."),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_state_and_progress_of_a_job_are_short() {
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
        assert_eq!(progress_text(&job), "40%, 2m05s left, loss 0.2");
        assert_eq!(progress_text(&json!({})), "no progress reported");
        let metrics = json!({"status": {"trainerStatus": {"metrics": [
            {"name": "loss", "value": "0.2"}]}}});
        assert_eq!(progress_text(&metrics), "loss 0.2");
    }

    #[test]
    fn the_command_of_a_script_is_shown_without_its_launcher() {
        let words = ["/venv/bin/python3", "-uc", "import os\n...", "/src", "/src/a.py", "$$5"];
        let job = json!({"spec": {"trainer": {"command": words, "args": ["--fast"]}}});
        assert_eq!(command(&job, &[]).join(" "), "/venv/bin/python3 /src/a.py $5 --fast");
        let pod = json!({"spec": {"containers": [{"command": ["sleep", "1"]}]}});
        assert_eq!(command(&json!({}), &[pod]), ["sleep", "1"]);
        assert_eq!(first_line("python3 -c import os\nprint()"), "python3 -c import os ...");
    }
}
