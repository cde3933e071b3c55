//! What a demonstration came to: each part with what was measured, and what to try next.

use std::fmt;
use std::io::{self, IsTerminal};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::board::{self, State};
use super::inference::ECHO;
use super::{Outcome, Part, seconds};
use crate::output::{self, Marks};

const NEXT: &str = "
Everything was removed again. A cluster that stays:
  setpoint up --runtime process     then kubectl as you know it
  setpoint train FILE.py --watch    your own script; --nodes 3 for three ranks
  setpoint serve -f GRAPH.yaml      a graph; examples/inference/echo.yaml is one
  setpoint vm create NAME --image URL
  setpoint doctor                   what this machine could do better";
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
        for Row { name, state, detail, seconds, .. } in &self.parts {
            let mark = match *state {
                "succeeded" => marks.well(),
                "skipped" => marks.so_so(),
                _ => marks.unwell(),
            };
            let detail = wrapped(detail, width);
            writeln!(formatter, "{mark} {:<10} {seconds:>7.2} s   {detail}", name.name())?;
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
        formatter.write_str(NEXT)?;
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
    fn what_failed_and_what_was_left_out_is_told_apart() {
        let mut report = Report::new(40);
        report.add(Part::Machine, Outcome::skipped("no QEMU"), Duration::ZERO);
        report.add(Part::Training, Outcome::well("trained", Value::Null), Duration::from_secs(2));
        report.finish(Duration::from_secs(3));
        let text = report.to_string();
        assert!(text.contains("training      2.00 s   trained"), "{text}");
        assert!(text.contains("2 of 3 parts succeeded, 1 skipped; 3.0 s in all"), "{text}");
        assert!(!text.contains("--install"), "nothing was played: {text}");
        assert!(report.succeeded && text.lines().all(|line| line.chars().count() <= 80), "{text}");
        report.add_unfinished(Part::Inference, Duration::from_secs(1));
        report.add_unfinished(Part::Machine, Duration::from_secs(1));
        report.finish(Duration::from_secs(3));
        assert!(report.has_failed() && !report.succeeded);
        assert_eq!(report.parts.len(), 3);
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
