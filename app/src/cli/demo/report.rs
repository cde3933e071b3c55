//! What a demonstration came to: each part with what was measured, and what to try next.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::board::State;
use super::{Outcome, Part, seconds};
use crate::output::Marks;

const NEXT: &str = "
Everything was removed again. A cluster that stays:
  setpoint up                       then kubectl as you know it
  setpoint train FILE.py --watch    your own script; --nodes 3 for three ranks
  setpoint serve -f GRAPH.yaml      a graph; the README has one to begin with
  setpoint vm create NAME --image URL
  setpoint doctor                   what this machine could do better";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    succeeded: bool,
    seconds: f64,
    cluster_ready_seconds: f64,
    parts: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: Part,
    state: &'static str,
    detail: String,
    seconds: f64,
    #[serde(skip_serializing_if = "Value::is_null")]
    measured: Value,
}

impl Report {
    pub fn new(ready_millis: u64) -> Report {
        let ready = seconds(Duration::from_millis(ready_millis));
        let parts = Vec::new();
        Report { succeeded: false, seconds: 0.0, cluster_ready_seconds: ready, parts }
    }

    pub fn add(&mut self, part: Part, outcome: Outcome, took: Duration) {
        let state = match outcome.state {
            State::Well => "succeeded",
            State::Skipped => "skipped",
            State::Failed | State::Goes => "failed",
        };
        let (detail, measured) = (outcome.detail, outcome.facts);
        self.parts.push(Row { name: part, state, detail, seconds: seconds(took), measured });
    }

    /// A part that was still at it when the time was over.
    pub fn add_unfinished(&mut self, part: Part, limit: Duration) {
        if self.parts.iter().any(|row| row.name == part) {
            return;
        }
        let detail = "did not end in time; give it more with --timeout".to_owned();
        let outcome = Outcome { state: State::Failed, detail, facts: Value::Null };
        self.add(part, outcome, limit);
    }

    pub fn finish(&mut self, took: Duration) {
        let place = |part: Part| Part::ALL.iter().position(|one| *one == part);
        self.parts.sort_by_key(|row| place(row.name));
        (self.seconds, self.succeeded) = (seconds(took), !self.has_failed());
    }

    pub fn has_failed(&self) -> bool {
        self.parts.iter().any(|row| row.state == "failed")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let marks = Marks::of_stdout();
        let ready = self.cluster_ready_seconds;
        writeln!(formatter, "{} cluster     {ready:>6.2} s   until it was ready", marks.well())?;
        for Row { name, state, detail, seconds, .. } in &self.parts {
            let mark = match *state {
                "succeeded" => marks.well(),
                "skipped" => marks.so_so(),
                _ => marks.unwell(),
            };
            writeln!(formatter, "{mark} {:<10} {seconds:>7.2} s   {detail}", name.name())?;
        }
        let count = |state: &str| self.parts.iter().filter(|row| row.state == state).count();
        let (total, all) = (self.seconds, self.parts.len());
        write!(formatter, "{} of {all} parts succeeded", count("succeeded"))?;
        for state in ["failed", "skipped"] {
            if count(state) > 0 {
                write!(formatter, ", {} {state}", count(state))?;
            }
        }
        writeln!(formatter, "; {total:.1} s in all")?;
        formatter.write_str(NEXT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_and_what_was_left_out_is_told_apart() {
        let mut report = Report::new(40);
        report.add(Part::Machine, Outcome::skipped("no QEMU"), Duration::ZERO);
        report.add(Part::Training, Outcome::well("trained", Value::Null), Duration::from_secs(2));
        report.finish(Duration::from_secs(3));
        let text = report.to_string();
        assert!(text.contains("training      2.00 s   trained"), "{text}");
        assert!(text.contains("1 of 2 parts succeeded, 1 skipped; 3.0 s in all"), "{text}");
        assert!(report.succeeded && text.lines().all(|line| line.chars().count() <= 80), "{text}");
        report.add_unfinished(Part::Inference, Duration::from_secs(1));
        report.add_unfinished(Part::Machine, Duration::from_secs(1));
        report.finish(Duration::from_secs(3));
        assert!(report.has_failed() && !report.succeeded);
        assert_eq!(report.parts.len(), 3);
    }
}
