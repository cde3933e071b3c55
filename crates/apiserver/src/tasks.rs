//! `/debug/tasks`: what runs in the process for as long as it lives, and what it does at the
//! moment, as text or as JSON. Who may read it is decided as for any other path.

use std::fmt::Write;

use http::HeaderMap;
use http::header::ACCEPT;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::beside::Beside;
use crate::traffic::{Lane, Traffic};

pub const PATH: &str = "/debug/tasks";

/// Something that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// What it is: `task`, `controller`, `cache`, `requests`.
    pub kind: &'static str,
    pub name: String,
    /// How it is, in few words.
    pub state: String,
    /// What it counts.
    pub counts: Vec<(&'static str, u64)>,
}

/// Answers with JSON where the client names it, else with text.
pub fn answer(headers: &HeaderMap, traffic: &Traffic, beside: &Beside) -> Answer {
    let mut all = beside.tasks();
    let lanes = [
        ("read", &traffic.reads),
        ("write", &traffic.writes),
        ("watch", &traffic.watches),
        ("stream", &traffic.streams),
    ];
    all.extend(lanes.map(|(name, lane)| of_lane(name, lane)));
    let said = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    match said.collect::<String>().contains("application/json") {
        true => Answer::value(200, &json!({"tasks": all.iter().map(object).collect::<Vec<_>>()})),
        false => Answer::text(200, text(&all)),
    }
}

/// Requests that are under way.
fn of_lane(name: &str, lane: &Lane) -> Task {
    let (busy, max) = (lane.busy() as u64, lane.max() as u64);
    let state = if busy == 0 { "idle" } else { "busy" };
    let counts = vec![("open", busy), ("max", max)];
    Task { kind: "requests", name: name.to_owned(), state: state.to_owned(), counts }
}

fn object(task: &Task) -> Value {
    let Task { kind, name, state, counts } = task;
    let counts: Map<String, Value> =
        counts.iter().map(|(name, count)| ((*name).to_owned(), json!(count))).collect();
    json!({"kind": kind, "name": name, "state": state, "counts": counts})
}

/// A line each, in columns.
fn text(all: &[Task]) -> String {
    let named: Vec<String> =
        all.iter().map(|task| format!("{}/{}", task.kind, task.name)).collect();
    let widest = named.iter().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    for (task, name) in all.iter().zip(named) {
        // Writing to a String does not fail.
        let _ = write!(text, "{name:widest$}  {}", task.state);
        for (name, count) in &task.counts {
            let _ = write!(text, " {name}={count}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_lines_in_columns_and_objects() {
        let (state, counts) = ("running".to_owned(), vec![("waiting", 2)]);
        let job = Task { kind: "controller", name: "job".to_owned(), state, counts };
        let api =
            Task { kind: "task", name: "api".to_owned(), state: "ended".to_owned(), ..job.clone() };
        let api = Task { counts: Vec::new(), ..api };
        let expected = "controller/job  running waiting=2\ntask/api        ended\n";
        assert_eq!(text(&[job.clone(), api]), expected);
        let expected = json!({"kind": "controller", "name": "job", "state": "running",
            "counts": {"waiting": 2}});
        assert_eq!(object(&job), expected);
    }
}
