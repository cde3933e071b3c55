//! What a demonstration came to: each part with what was measured, and what to try next.

use std::fmt;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::board::{self, State};
use super::inference::ECHO;
use super::{Outcome, Part, seconds};
use crate::kubeconfig;
use crate::output::{self, Marks};

const NEXT: &str = "
Everything was removed. To start a cluster that stays:
  setpoint up --runtime process     then use kubectl, or:
  setpoint train FILE.py --watch    your own script; --nodes 3 for three ranks
  setpoint serve -f GRAPH.yaml      a graph; see examples/inference/echo.yaml
  setpoint vm create NAME --image URL
  setpoint doctor                   check what this machine supports";
/// Printed if a part failed and nothing was kept.
const KEEP: &str = "
  setpoint demo --keep              this again, leaving everything for inspection";
const WITH_DYNAMO: &str = "
  setpoint demo --install           this again, with the real Dynamo from PyPI";
/// Where the last column of the report begins.
const DETAIL_AT: usize = 25;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    succeeded: bool,
    seconds: f64,
    cluster_ready_seconds: f64,
    parts: Vec<Row>,
    /// True if a part was not done within the time limit.
    pub has_timed_out: bool,
    /// Directory of the cluster, if it was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<PathBuf>,
}

#[derive(Serialize)]
struct Row {
    name: Part,
    state: &'static str,
    detail: String,
    seconds: f64,
    /// Warning events and last lines of output of a part that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<String>,
    #[serde(skip_serializing_if = "Value::is_null")]
    measured: Value,
}

impl Report {
    pub fn new(ready_millis: u64) -> Report {
        let ready = seconds(Duration::from_millis(ready_millis));
        Report {
            succeeded: false,
            seconds: 0.0,
            cluster_ready_seconds: ready,
            parts: Vec::new(),
            has_timed_out: false,
            kept: None,
        }
    }

    /// Notes the directory of a cluster that is kept.
    pub fn keep(&mut self, directory: PathBuf) {
        self.kept = Some(directory);
    }

    /// Commands to inspect and remove a cluster that was kept.
    pub fn inspection(&self) -> String {
        let Some(directory) = &self.kept else { return String::new() };
        let (data, directory) = (directory.join("data"), directory.display());
        let (data, kubeconfig) = (data.display(), kubeconfig::in_data(&data));
        format!(
            "
The cluster was kept in {directory}. To look at it:
  export SETPOINT_DATA_DIR={data} KUBECONFIG={kubeconfig}
  setpoint status                   also get, why, events, logs POD, ui
  less {directory}/setpoint.log
To remove it:
  setpoint down --delete-data --yes --data-dir {data}
  rm -r {directory}",
            kubeconfig = kubeconfig.display()
        )
    }

    pub fn add(&mut self, part: Part, outcome: Outcome, took: Duration) {
        let state = match outcome.state {
            State::Well => "succeeded",
            State::Skipped => "skipped",
            State::Failed | State::Goes => "failed",
        };
        let Outcome { detail, evidence, facts: measured, .. } = outcome;
        let seconds = seconds(took);
        self.parts.push(Row { name: part, state, detail, seconds, evidence, measured });
    }

    pub fn finish(&mut self, took: Duration) {
        let place = |part: Part| Part::ALL.iter().position(|one| *one == part);
        self.parts.sort_by_key(|row| place(row.name));
        (self.seconds, self.succeeded) = (seconds(took), !self.has_failed());
    }

    /// Whether the model was played.
    fn was_echoed(&self) -> bool {
        self.parts.iter().any(|row| row.measured["server"] == ECHO)
    }

    pub fn has_failed(&self) -> bool {
        self.parts.iter().any(|row| row.state == "failed")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let marks = Marks::of_stdout();
        let width = match io::stdout().is_terminal() {
            true => output::width(&io::stdout()).unwrap_or(board::WIDTH_USUAL),
            false => usize::MAX,
        };
        let ready = self.cluster_ready_seconds;
        writeln!(formatter, "{} cluster     {ready:>6.2} s   until it was ready", marks.well())?;
        for Row { name, state, detail, seconds, evidence, .. } in &self.parts {
            let mark = match *state {
                "succeeded" => marks.well(),
                "skipped" => marks.so_so(),
                _ => marks.unwell(),
            };
            let detail = wrapped(detail, width);
            writeln!(formatter, "{mark} {:<10} {seconds:>7.2} s   {detail}", name.name())?;
            for line in evidence.iter().flat_map(|text| text.lines()) {
                writeln!(formatter, "    {line}")?;
            }
        }
        let count = |state: &str| self.parts.iter().filter(|row| row.state == state).count();
        // The cluster is one of them: without it there would be no report.
        let (total, all) = (self.seconds, self.parts.len() + 1);
        write!(formatter, "{} of {all} parts succeeded", count("succeeded") + 1)?;
        for state in ["failed", "skipped"] {
            if count(state) > 0 {
                write!(formatter, ", {} {state}", count(state))?;
            }
        }
        writeln!(formatter, "; {total:.1} s in all")?;
        if self.kept.is_some() {
            return formatter.write_str(&self.inspection());
        }
        formatter.write_str(NEXT)?;
        if self.has_failed() {
            formatter.write_str(KEEP)?;
        }
        match self.was_echoed() {
            true => formatter.write_str(WITH_DYNAMO),
            false => Ok(()),
        }
    }
}

/// A text in the last column, on as many lines as it needs there.
fn wrapped(text: &str, width: usize) -> String {
    let room = width.saturating_sub(DETAIL_AT + 1).max(1);
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        let length = line.chars().count();
        if length > 0 && length + 1 + word.chars().count() > room {
            lines.push(word.to_owned());
            continue;
        }
        if length > 0 {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.join(&format!("\n{:DETAIL_AT$}", ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_and_skipped_parts_are_counted_apart_and_failures_have_evidence() {
        let mut report = Report::new(40);
        report.add(Part::Machine, Outcome::skipped("no QEMU"), Duration::ZERO);
        report.add(Part::Training, Outcome::well("trained", Value::Null), Duration::from_secs(2));
        report.finish(Duration::from_secs(3));
        let text = report.to_string();
        assert!(text.contains("training      2.00 s   trained"), "{text}");
        assert!(text.contains("2 of 3 parts succeeded, 1 skipped; 3.0 s in all"), "{text}");
        assert!(!text.contains("--install"), "nothing was played: {text}");
        assert!(report.succeeded && text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let evidence = Some("Warning FailedMount pod/p: denied".to_owned());
        report.add(
            Part::Inference,
            Outcome::failed("timed out after 5m: denied", evidence),
            Duration::ZERO,
        );
        report.finish(Duration::from_secs(3));
        assert!(report.has_failed() && !report.succeeded);
        let text = report.to_string();
        assert!(text.contains("timed out after 5m: denied\n    Warning FailedMount"), "{text}");
        assert!(text.contains("setpoint demo --keep"), "{text}");
        report.keep(PathBuf::from("/tmp/demo"));
        let text = report.to_string();
        assert!(
            text.contains("setpoint down --delete-data --yes --data-dir /tmp/demo/data"),
            "{text}"
        );
        assert!(!text.contains("Everything was removed"), "{text}");
    }

    #[test]
    fn a_long_line_goes_on_below_itself() {
        assert_eq!(wrapped("one two three", usize::MAX), "one two three");
        let text = wrapped("one two three", DETAIL_AT + 9);
        assert_eq!(text, format!("one two\n{:DETAIL_AT$}three", ""));
    }

    #[test]
    fn who_saw_a_played_model_is_told_how_to_see_the_real_one() {
        let mut report = Report::new(40);
        let facts = serde_json::json!({"server": ECHO});
        report.add(Part::Inference, Outcome::well("answered", facts), Duration::ZERO);
        assert!(report.to_string().contains("setpoint demo --install"));
    }
}
