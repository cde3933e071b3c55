//! What our operators did, as they tell it in their log: on a cluster of others nobody else knows
//! because of what they wrote.
//!
//! The lines are those of `reconcile::lines`. Where the operators are pods, the cluster itself
//! gives the log to whoever may read it; where they run elsewhere, a file does.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::past::{Cluster, encoded, items, text};
use crate::operators;

/// Lines of a log that are read, the last ones.
const LINES_MAX: usize = 5_000;
/// Bytes of a file that are read, the last ones.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// One look at an object that wrote something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub time: String,
    pub controller: String,
    /// `TrainJob`.
    pub kind: String,
    /// `namespace/name`.
    pub object: String,
    /// The revision of the change that it was a reaction to.
    pub cause: String,
    pub milliseconds: u64,
    /// What it wrote, for people.
    pub steps: String,
}

impl Span {
    /// A line of the log, as text or as JSON; nothing where it tells of something else.
    pub fn read(line: &str) -> Option<Span> {
        match line.starts_with('{') {
            true => Span::of_json(&serde_json::from_str(line).ok()?),
            false => Span::of_text(line),
        }
    }

    fn of_json(line: &Value) -> Option<Span> {
        if line["msg"] != reconcile::lines::WROTE {
            return None;
        }
        let word = |field: &str| match &line[field] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Some(Span {
            time: text(&line["ts"]).to_owned(),
            controller: word("controller"),
            kind: word("kind"),
            object: word("object"),
            cause: word("cause"),
            milliseconds: line["milliseconds"].as_u64().unwrap_or(0),
            steps: word("steps"),
        })
    }

    fn of_text(line: &str) -> Option<Span> {
        let (time, rest) = line.split_once(' ')?;
        let (_, fields) = rest.split_once(reconcile::lines::WROTE)?;
        // What was written has spaces in it, and comes last.
        let (fields, steps) = fields.split_once(" steps=")?;
        let word = |name: &str| {
            let found =
                fields.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            found.unwrap_or_default().trim_matches('"').to_owned()
        };
        Some(Span {
            time: time.to_owned(),
            controller: word("controller"),
            kind: word("kind"),
            object: word("object"),
            cause: word("cause"),
            milliseconds: word("milliseconds").parse().unwrap_or(0),
            steps: steps.to_owned(),
        })
    }

    /// As a step of a story.
    pub fn step(&self) -> Value {
        let (namespace, name) = self.object.split_once('/').unwrap_or(("", &self.object));
        let Span { controller, steps, cause, milliseconds, .. } = self;
        let because = match cause.as_str() {
            "" => String::new(),
            cause => format!(", because of revision {cause}"),
        };
        json!({"time": self.time, "revision": null, "milliseconds": 0, "depth": 1,
            "actor": controller,
            "object": {"kind": self.kind, "namespace": namespace, "name": name},
            "sentence": format!("{controller} looked for {milliseconds} ms and {steps}{because}")})
    }
}

/// Everything that operators tell: those that are pods of the cluster, and those of files.
pub async fn all(cluster: &Cluster, files: &[PathBuf]) -> Result<Vec<Span>> {
    let mut spans = Vec::new();
    for file in files {
        spans.extend(end_of(file)?.lines().filter_map(Span::read));
    }
    for log in logs(cluster).await {
        spans.extend(log.lines().filter_map(Span::read));
    }
    Ok(spans)
}

/// The logs of our operators, as far as they may be read.
async fn logs(cluster: &Cluster) -> Vec<String> {
    let mut logs = Vec::new();
    for family in operators::ALL {
        let home = family.home();
        let labels: Vec<String> =
            home.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let pods = format!("api/v1/namespaces/{}/pods", home.namespace);
        let list = format!("{pods}?labelSelector={}", encoded(&labels.join(",")));
        let Ok(found) = cluster.get(&list).await else { continue };
        for pod in items(&found["items"]) {
            let name = text(&pod["metadata"]["name"]);
            let path = format!("{pods}/{name}/log?tailLines={LINES_MAX}");
            logs.extend(cluster.text(&path).await.ok());
        }
    }
    logs.dedup();
    logs
}

fn end_of(file: &Path) -> Result<String> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let failed = || format!("could not read {}", file.display());
    let mut open = std::fs::File::open(file).with_context(failed)?;
    let size = open.metadata().with_context(failed)?.len();
    open.seek(SeekFrom::Start(size.saturating_sub(FILE_BYTES_MAX))).with_context(failed)?;
    let mut bytes = Vec::new();
    open.take(FILE_BYTES_MAX).read_to_end(&mut bytes).with_context(failed)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_read_from_a_line_of_the_log_in_both_forms() {
        let span = Span {
            time: "2026-01-02T03:04:05.000006Z".to_owned(),
            controller: "trainjob_controller".to_owned(),
            kind: "TrainJob".to_owned(),
            object: "team/bert".to_owned(),
            cause: "17".to_owned(),
            milliseconds: 12,
            steps: "applied JobSet team/bert; wrote its status".to_owned(),
        };
        let line = "2026-01-02T03:04:05.000006Z  INFO wrote controller=\"trainjob_controller\" \
            kind=\"TrainJob\" object=team/bert cause=17 reconcile=\"0a\" milliseconds=12 \
            steps=applied JobSet team/bert; wrote its status";
        assert_eq!(Span::read(line).as_ref(), Some(&span));
        let line = json!({"ts": span.time, "level": "INFO", "target": "reconcile",
            "msg": "wrote", "controller": "trainjob_controller", "kind": "TrainJob",
            "object": "team/bert", "cause": 17, "reconcile": "0a", "milliseconds": 12,
            "steps": "applied JobSet team/bert; wrote its status"});
        assert_eq!(Span::read(&line.to_string()).as_ref(), Some(&span));
        for other in ["", "{", "{}", "2026-01-02T03:04:05Z  INFO wrote", "a wrote b"] {
            assert_eq!(Span::read(other), None, "{other}");
        }
    }
}
