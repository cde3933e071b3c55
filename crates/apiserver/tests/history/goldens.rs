//! History, causes and undoing of one seeded cluster, as they are told. Revisions are counted from
//! the first of the story, times are left out: all else must be as the file says.
//!
//! `UPDATE_GOLDEN=1` writes the file anew.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::api::{Api, pod};
use crate::{PODS, ROOT, SETS, deployment, revision};

const GOLDEN: &str = include_str!("past.golden");

/// Somebody's deployment, its pod as controllers make it, a bad edit, and a status in between.
async fn seed(api: &Api) -> u64 {
    let set = api.admin(&format!("POST {SETS}"), deployment("web", 2, "good:1")).await;
    let first = revision(&set);
    let mut child = pod("web-a", json!({}));
    child["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment",
        "name": "web", "uid": set["metadata"]["uid"], "controller": true}]);
    let cause = first.to_string();
    let says = [("x-setpoint-cause", cause.as_str()), ("user-agent", "deployment-controller/1")];
    assert_eq!(api.ask_saying(&format!("POST {PODS}"), &says, &child).await.0, 201);
    let binding = json!({"metadata": {"name": "web-a"}, "target": {"kind": "Node", "name": "n1"}});
    api.admin(&format!("POST {PODS}/web-a/binding"), binding).await;
    let running = json!({"status": {"phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}]}});
    api.admin(&format!("PATCH {PODS}/web-a/status"), running).await;
    let status = json!({"status": {"observedGeneration": 1, "replicas": 2, "readyReplicas": 1}});
    api.admin(&format!("PATCH {SETS}/web/status"), status).await;
    let bad = json!({"metadata": {"labels": {"stage": "test"}}, "spec": {"replicas": 0,
        "template": {"spec": {"containers": [{"name": "web", "image": "bad:2"}]}}}});
    api.admin(&format!("PATCH {SETS}/web"), bad).await;
    first
}

/// What was asked, and the answer in few words.
struct Story {
    first: u64,
    text: String,
}

impl Story {
    fn title(&mut self, title: &str) {
        let _ = writeln!(self.text, "\n# {title}");
    }

    fn line(&mut self, line: String) {
        let _ = writeln!(self.text, "{}", line.trim_end());
    }

    fn at(&self, revision: &Value) -> String {
        let number = revision.as_u64().map(|revision| revision.saturating_sub(self.first));
        number.map(|number| format!("+{number}")).unwrap_or_default()
    }

    fn changes(&mut self, changes: &Value) {
        for change in changes.as_array().into_iter().flatten() {
            let (from, to) = (&change["from"], &change["to"]);
            let line = format!("    {} {from} -> {to}", change["path"].as_str().unwrap());
            self.line(without_times(&line));
        }
    }

    fn revisions(&mut self, list: &Value) {
        for item in list["items"].as_array().unwrap() {
            let text = |field: &str| item[field].as_str().unwrap_or_default();
            let cause = self.at(&item["cause"]["revision"]);
            let because = if cause.is_empty() { cause } else { format!(" because of {cause}") };
            let at = self.at(&item["revision"]);
            let (kind, user, manager) = (text("type"), text("user"), text("manager"));
            self.line(format!("{at} {kind} by {user} with {manager}{because}"));
            self.changes(&item["changes"]);
        }
    }

    fn trace(&mut self, trace: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.line(format!("{}: {}", text(&trace["state"]), text(&trace["sentence"])));
        for waiting in trace["waitingFor"].as_array().unwrap() {
            let (sentence, hint) = (text(&waiting["sentence"]), text(&waiting["hint"]));
            self.line(format!("  waits for {sentence} ({hint})"));
        }
        for step in trace["steps"].as_array().unwrap() {
            let (at, cause) = (self.at(&step["revision"]), self.at(&step["cause"]));
            let because = if cause.is_empty() { cause } else { format!(" because of {cause}") };
            let depth = step["depth"].as_u64().unwrap_or(0) as usize;
            let who =
                format!("{} {}", text(&step["object"]["kind"]), text(&step["object"]["name"]));
            let sentence = text(&step["sentence"]);
            self.line(format!("{at} {:indent$}{who}: {sentence}{because}", "", indent = 2 * depth));
        }
    }
}

/// Times as they are written in objects, left out.
fn without_times(line: &str) -> String {
    const PATTERN: &str = "2000-00-00T00:00:00Z";
    let is_time = |text: &str| {
        let fits = |(one, other): (char, char)| match other {
            '0'..='9' => one.is_ascii_digit(),
            other => one == other,
        };
        text.is_ascii() && text.chars().zip(PATTERN.chars()).all(fits)
    };
    let mut out = String::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        match rest.get(..PATTERN.len()).filter(|text| is_time(text)) {
            Some(_) => {
                out.push_str("TIME");
                rest = &rest[PATTERN.len()..];
            }
            None => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}

#[tokio::test]
async fn the_past_of_a_seeded_cluster_is_told_as_written() {
    let (api, _scratch) = Api::start().await;
    let first = seed(&api).await;
    let mut story = Story { first, text: String::new() };
    let get = async |path: String| api.admin(&format!("GET {ROOT}/{path}"), Value::Null).await;
    story.title("history deployment/web");
    story.revisions(&get(format!("revisions{SETS}/web")).await);
    story.title("history pod/web-a");
    story.revisions(&get(format!("revisions{PODS}/web-a")).await);
    story.title("why deployment/web");
    story.trace(&get(format!("why{SETS}/web")).await);
    story.title("why pod/web-a");
    story.trace(&get(format!("why{PODS}/web-a")).await);
    let undo = format!("POST {ROOT}/undo{SETS}/web");
    story.title("undo deployment/web --dry-run");
    let would = api.admin(&format!("{undo}?dryRun=All"), Value::Null).await;
    story.changes(&would["changes"]);
    story.title("undo deployment/web");
    api.admin(&undo, Value::Null).await;
    story.revisions(&get(format!("revisions{SETS}/web?limit=1")).await);
    story.title("plan of the bad edit again");
    let mut bad = deployment("web", 0, "bad:2");
    bad["apiVersion"] = json!("apps/v1");
    bad["kind"] = json!("Deployment");
    let plan = api.admin(&format!("POST {ROOT}/plan"), bad).await;
    for planned in plan["objects"].as_array().unwrap() {
        let object = &planned["object"];
        let action = planned["action"].as_str().unwrap();
        story.line(format!("{action} {} {}", object["kind"], object["name"]));
        story.changes(&planned["changes"]);
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/history/past.golden");
        std::fs::write(file, &story.text).unwrap();
        return;
    }
    assert_eq!(story.text, GOLDEN, "{}", story.text);
}
