//! Lists training jobs.

use std::fmt;

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;
use training::kinds::TRAIN_JOB;

use super::cluster::{Cluster, JOB_SET_NAME};
use super::show::{self, progress_text, state};
use super::timing::{self, Timing};
use crate::cli::past::columns;

#[derive(Serialize)]
#[serde(transparent)]
pub struct Listed {
    jobs: Vec<Row>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    kind: &'static str,
    name: String,
    state: &'static str,
    /// As the trainer reported it; null if it reported none.
    progress: Value,
    nodes: Option<i64>,
    runtime: String,
    created: String,
    started: Option<String>,
    ended: Option<String>,
    /// Of a job that has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_seconds: Option<u64>,
    // Left out of JSON, so that a watched list is printed again only when a job changes.
    #[serde(skip)]
    age_seconds: Option<u64>,
    #[serde(skip)]
    elapsed_seconds: Option<u64>,
    #[serde(skip)]
    progress_text: String,
}

pub async fn list(cluster: &Cluster) -> Result<Listed> {
    let (jobs, runs) = (cluster.jobs().await?, cluster.batch_jobs(None).await);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let row = |job: &Value| {
        let name = text(&job["metadata"]["name"]);
        let is_own = |one: &&Value| one["metadata"]["labels"][JOB_SET_NAME] == name.as_str();
        let own: Vec<Value> = runs.iter().filter(is_own).cloned().collect();
        let timing = Timing::new(job, &own, &[]);
        let created = text(&job["metadata"]["creationTimestamp"]);
        let took = timing.seconds();
        Row {
            kind: TRAIN_JOB.kind,
            name,
            state: state(job),
            progress: job["status"]["trainerStatus"].clone(),
            progress_text: progress_text(job),
            nodes: show::nodes(job, &own),
            runtime: text(&job["spec"]["runtimeRef"]["name"]),
            age_seconds: timing::age(&created),
            created,
            duration_seconds: took.filter(|_| timing.ended.is_some()),
            elapsed_seconds: took,
            started: timing.started,
            ended: timing.ended,
        }
    };
    Ok(Listed { jobs: jobs.iter().map(row).collect() })
}

impl Row {
    /// `40%`, or `-` where no progress was reported.
    fn percentage(&self) -> String {
        let percentage = self.progress["progressPercentage"].as_i64();
        percentage.map_or_else(|| "-".to_owned(), |it| format!("{it}%"))
    }
}

impl fmt::Display for Listed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.jobs.is_empty() {
            return write!(formatter, "no training jobs");
        }
        let is_wide = formatter.alternate();
        let mut head = vec!["NAME", "STATE", "PROGRESS", "NODES", "AGE", "DURATION", "RUNTIME"];
        if is_wide {
            head.extend(["CREATED", "REPORTED"]);
        }
        let mut rows = vec![head.into_iter().map(str::to_owned).collect::<Vec<String>>()];
        for row in &self.jobs {
            let nodes = row.nodes.map_or_else(|| "-".to_owned(), |nodes| nodes.to_string());
            let mut cells = vec![
                row.name.clone(),
                row.state.to_owned(),
                row.percentage(),
                nodes,
                timing::shown(row.age_seconds),
                timing::shown(row.elapsed_seconds),
                row.runtime.clone(),
            ];
            if is_wide {
                cells.extend([row.created.clone(), row.progress_text.clone()]);
            }
            rows.push(cells);
        }
        formatter.write_str(&columns(&rows))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_without_progress_has_a_dash_and_never_zero_percent() {
        let row = |progress: Value| Row {
            kind: "TrainJob",
            name: "bert".to_owned(),
            state: "running",
            progress,
            nodes: Some(2),
            runtime: "torch-local".to_owned(),
            created: String::new(),
            started: None,
            ended: None,
            age_seconds: Some(61),
            duration_seconds: None,
            elapsed_seconds: Some(5),
            progress_text: "no progress reported".to_owned(),
        };
        let jobs = vec![row(Value::Null), row(json!({"progressPercentage": 40}))];
        let shown = Listed { jobs }.to_string();
        let lines: Vec<Vec<&str>> =
            shown.lines().map(|line| line.split_whitespace().collect()).collect();
        let head = ["NAME", "STATE", "PROGRESS", "NODES", "AGE", "DURATION", "RUNTIME"];
        assert_eq!(lines[0], head, "{shown}");
        assert_eq!(lines[1], ["bert", "running", "-", "2", "1m1s", "5s", "torch-local"], "{shown}");
        assert_eq!(lines[2][2], "40%", "{shown}");
    }
}
