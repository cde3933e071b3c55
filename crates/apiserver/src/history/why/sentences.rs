//! Changes as sentences: who did what, in the words of the kind where it has some.

use serde_json::Value;
use store::Provenance;

use crate::history::diff;
use crate::object;
use crate::resources::Resource;

/// Fields that are named in one sentence.
const FIELDS_MAX: usize = 3;
/// Text that is quoted from elsewhere is cut after this.
const QUOTED_CHARS_MAX: usize = 300;
/// Counts of a status that tell how far it is.
const COUNTS: [&str; 8] = [
    "readyReplicas",
    "availableReplicas",
    "updatedReplicas",
    "numberReady",
    "active",
    "ready",
    "succeeded",
    "failed",
];
/// Single words of a status.
const WORDS: [&str; 5] = ["phase", "state", "printableStatus", "terminalState", "currentRevision"];

/// A change of one object.
pub struct Told<'a> {
    pub resource: &'a Resource,
    pub before: &'a Value,
    pub after: &'a Value,
    pub actor: &'a str,
    /// Of owners only what somebody wanted is told.
    pub is_owner: bool,
}

/// Who wrote, in a word: a user with the program that it used, or a component.
pub fn actor(provenance: &Provenance) -> String {
    let name = &*provenance.actor;
    let manager = &*provenance.manager;
    if let Some(component) = name.strip_prefix("system:") {
        return component.rsplit(':').next().unwrap_or(component).to_owned();
    }
    match manager {
        "" => name.to_owned(),
        manager if manager == name => name.to_owned(),
        manager => format!("{name} ({manager})"),
    }
}

impl Told<'_> {
    /// `None` where nothing happened that is worth a sentence.
    pub fn sentence(&self) -> Option<String> {
        let (kind, actor) = (&self.resource.kind, self.actor);
        let shown = if self.after.is_null() { self.before } else { self.after };
        let name = object::name(shown);
        match (self.before.is_null(), self.after.is_null()) {
            (true, true) => return None,
            (true, false) => return Some(format!("{actor} created {kind} {name}")),
            (false, true) => return Some(format!("{actor} removed {kind} {name}")),
            (false, false) => {}
        }
        let mut parts = Vec::new();
        self.deletion(&mut parts);
        self.node(&mut parts);
        self.wanted(&mut parts);
        if !self.is_owner {
            self.words(&mut parts);
            self.conditions(&mut parts);
            self.containers(&mut parts);
            self.counts(&mut parts);
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    fn deletion(&self, parts: &mut Vec<String>) {
        if object::is_terminating(self.after) && !object::is_terminating(self.before) {
            parts.push(format!("{} asked for its deletion", self.actor));
        }
    }

    fn node(&self, parts: &mut Vec<String>) {
        let node = |object: &Value| object["spec"]["nodeName"].as_str().unwrap_or("").to_owned();
        let (before, after) = (node(self.before), node(self.after));
        if self.resource.kind == "Pod" && before.is_empty() && !after.is_empty() {
            parts.push(format!("{} placed it on node {after}", self.actor));
        }
    }

    /// What somebody wanted to be otherwise.
    fn wanted(&self, parts: &mut Vec<String>) {
        let changes = diff::of(self.resource, self.before, self.after);
        let is_told = |change: &&diff::Change| {
            change.is_wanted() && !(self.resource.kind == "Pod" && change.path == "spec.nodeName")
        };
        let wanted: Vec<&diff::Change> = changes.iter().filter(is_told).collect();
        if wanted.is_empty() {
            return;
        }
        let named = wanted.iter().take(FIELDS_MAX).map(|change| match (&change.from, &change.to) {
            (Value::Null, _) => format!("set {} to {}", change.path, quote(&change.to)),
            (_, Value::Null) => format!("removed {}", change.path),
            (from, to) => format!("changed {} from {} to {}", change.path, quote(from), quote(to)),
        });
        let named: Vec<String> = named.collect();
        let more = match wanted.len().saturating_sub(FIELDS_MAX) {
            0 => String::new(),
            more => format!(" and {more} more fields"),
        };
        parts.push(format!("{} {}{more}", self.actor, named.join(", ")));
    }

    fn words(&self, parts: &mut Vec<String>) {
        for word in WORDS {
            let of = |object: &Value| object["status"][word].as_str().map(str::to_owned);
            match (of(self.before), of(self.after)) {
                (before, Some(after)) if before.as_ref() != Some(&after) && !after.is_empty() => {
                    parts.push(format!("its {word} became {after}"));
                }
                _ => {}
            }
        }
    }

    fn conditions(&self, parts: &mut Vec<String>) {
        let before = list(&self.before["status"]["conditions"]);
        for condition in list(&self.after["status"]["conditions"]) {
            let old = before.iter().find(|one| one["type"] == condition["type"]);
            let is_same = old.is_some_and(|old| old["status"] == condition["status"]);
            let is_new_no = old.is_none() && condition["status"] != "True";
            if is_same || is_new_no && condition["message"].as_str().unwrap_or("").is_empty() {
                continue;
            }
            let text = |field: &str| condition[field].as_str().unwrap_or_default();
            let mut part = format!("{} became {}", text("type"), text("status"));
            if !text("reason").is_empty() {
                part.push_str(&format!(" ({})", text("reason")));
            }
            if text("status") != "True" && !text("message").is_empty() {
                part.push_str(&format!(": {}", cut(text("message"))));
            }
            parts.push(part);
        }
    }

    fn containers(&self, parts: &mut Vec<String>) {
        for field in ["initContainerStatuses", "containerStatuses"] {
            let before = list(&self.before["status"][field]);
            for container in list(&self.after["status"][field]) {
                let old = before.iter().find(|one| one["name"] == container["name"]);
                let old = old.map_or(&Value::Null, |old| &old["state"]);
                let state = &container["state"];
                let name = container["name"].as_str().unwrap_or_default();
                if let Some(part) = container_part(name, old, state) {
                    parts.push(part);
                }
            }
        }
    }

    fn counts(&self, parts: &mut Vec<String>) {
        for count in COUNTS {
            let of = |object: &Value| object["status"][count].as_i64().unwrap_or(0);
            let (before, after) = (of(self.before), of(self.after));
            if before != after {
                parts.push(format!("{count} went from {before} to {after}"));
            }
        }
    }
}

fn container_part(name: &str, old: &Value, state: &Value) -> Option<String> {
    let reason = |state: &Value| state["reason"].as_str().unwrap_or_default().to_owned();
    if state["running"].is_object() && !old["running"].is_object() {
        return Some(format!("container {name} runs"));
    }
    let ended = &state["terminated"];
    if ended.is_object() && !old["terminated"].is_object() {
        let code = ended["exitCode"].as_i64().unwrap_or_default();
        return Some(format!("container {name} ended with code {code} ({})", reason(ended)));
    }
    let (waiting, waited) = (reason(&state["waiting"]), reason(&old["waiting"]));
    (!waiting.is_empty() && waiting != waited).then(|| {
        let message = state["waiting"]["message"].as_str().unwrap_or_default();
        let message =
            if message.is_empty() { String::new() } else { format!(": {}", cut(message)) };
        format!("container {name} waits: {waiting}{message}")
    })
}

/// The items of a list.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn quote(value: &Value) -> String {
    cut(&value.to_string())
}

/// A text that others wrote, at a length that can be read.
pub fn cut(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
