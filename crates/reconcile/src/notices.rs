//! Records notices as Kubernetes Events: one object per fact, counted when it repeats.
//!
//! The name of an Event follows from what it says, so that a repeat is found after a restart too.
//! An object that makes too many is held back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::Error;
use crate::conditions::time;
use crate::kind::Kind;
use crate::names;
use crate::object::{Name, Object};
use crate::plan::{About, Notice, Repeat, Target};
use crate::requests::Requests;

pub const EVENT: Kind = Kind::namespaced("", "v1", "Event", "events");
/// Notices about one object at once.
const BURST_MAX: u32 = 25;
/// How often an object that used up its burst may make another.
const REFILL: Duration = Duration::from_secs(300);
/// Objects whose bursts are remembered.
const OBJECTS_MAX: usize = 4_096;
/// The longest message; the API refuses longer ones.
const MESSAGE_BYTES_MAX: usize = 1_024;

/// How much a component has said about an object, and since when.
type Spent = BTreeMap<(&'static str, String), (u32, Instant)>;

/// Remembers how much each object has said lately.
#[derive(Debug, Default)]
pub struct Recorder {
    spent: Mutex<Spent>,
    /// What is told once.
    told: Mutex<BTreeSet<(String, &'static str)>>,
}

impl Recorder {
    /// Records a notice about an object. That it cannot be recorded is only logged: an event never
    /// decides anything.
    pub async fn record(
        &self,
        requests: &Requests,
        (kind, object): (Kind, &Object),
        notice: &Notice,
        now: Timestamp,
    ) {
        if !self.may(requests.manager, &object.uid) {
            return;
        }
        let event = event(requests.manager, kind, object, notice, now);
        if let Err(error) = record(requests, &event, now).await {
            tracing::debug!(object = %object.name, error = %error.chain(), "event not recorded");
        }
    }

    /// Records a notice about another object: one that was seen, or one that was made just now.
    pub async fn record_about(
        &self,
        requests: &Requests,
        about: &About,
        made: &BTreeMap<(Kind, Name), String>,
        now: Timestamp,
    ) {
        let About { kind, name, uid, notice, repeat } = about;
        let found = uid.as_ref().or_else(|| made.get(&(*kind, name.clone())));
        // It was there before, or went meanwhile: there is nothing to tell.
        let Some(uid) = found else { return };
        if *repeat == Repeat::Never && !self.is_news(uid, notice.reason) {
            return;
        }
        let object = Object::new(json!({"metadata": {"namespace": &*name.namespace,
            "name": &*name.name, "uid": uid}}));
        self.record(requests, (*kind, &object), notice, now).await;
    }

    fn is_news(&self, uid: &str, reason: &'static str) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= OBJECTS_MAX {
            told.clear();
        }
        told.insert((uid.to_owned(), reason))
    }

    fn may(&self, component: &'static str, uid: &str) -> bool {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if spent.len() >= OBJECTS_MAX {
            spent.retain(|_, (_, since)| now.duration_since(*since) < REFILL);
        }
        if spent.len() >= OBJECTS_MAX {
            spent.clear();
        }
        let (count, since) = spent.entry((component, uid.to_owned())).or_insert((0, now));
        let refilled = now.duration_since(*since).as_secs() / REFILL.as_secs();
        if refilled > 0 {
            *count = count.saturating_sub(u32::try_from(refilled).unwrap_or(u32::MAX));
            *since = now;
        }
        let may = *count < BURST_MAX;
        *count += u32::from(may);
        may
    }
}

async fn record(requests: &Requests, event: &Value, now: Timestamp) -> Result<(), Error> {
    match requests.create(EVENT, event).await {
        Ok(_) => return Ok(()),
        Err(error) if error.is_conflict() => {}
        Err(error) => return Err(error),
    }
    // Nobody may read events, but a patch tells what it changed.
    let (uid, revision, subresource) = (String::new(), None, "");
    let name = Object::new(event.clone()).name;
    let target = Target { kind: EVENT, name, uid, revision, subresource };
    let latest = json!({"lastTimestamp": time(now)});
    let found = requests.patch(&target, &latest).await?;
    let count = found.value["count"].as_i64().unwrap_or(1) + 1;
    let count = json!({"count": count});
    requests.patch(&Target::unchanged(EVENT, &found), &count).await.map(|_| ())
}

fn event(component: &str, kind: Kind, object: &Object, notice: &Notice, now: Timestamp) -> Value {
    let severity = notice.severity.name();
    let message = cut(&notice.message);
    let parts = [component, &object.uid, severity, notice.reason, message];
    let name = format!("{}.{}", object.name.name, names::digest(&parts));
    let namespace = match &*object.name.namespace {
        "" => "default",
        namespace => namespace,
    };
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": namespace, "name": name},
        "involvedObject": {
            "apiVersion": kind.api_version(),
            "kind": kind.kind,
            "namespace": &*object.name.namespace,
            "name": &*object.name.name,
            "uid": object.uid,
            "resourceVersion": object.revision.to_string(),
        },
        "type": severity,
        "reason": notice.reason,
        "message": message,
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": component,
        "firstTimestamp": time(now),
        "lastTimestamp": time(now),
        "count": 1,
    })
}

fn cut(message: &str) -> &str {
    let mut end = message.len().min(MESSAGE_BYTES_MAX);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    &message[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_object_that_says_too_much_is_held_back() {
        let recorder = Recorder::default();
        let said = (0..40).filter(|_| recorder.may("job", "uid")).count();
        assert_eq!(said, 25);
        assert!(recorder.may("job", "another"));
        tokio::time::advance(REFILL).await;
        assert!(recorder.may("job", "uid"));
        assert!(!recorder.may("job", "uid"));
    }

    #[test]
    fn the_same_fact_has_the_same_name() {
        let object = Object::new(json!({"metadata": {"namespace": "a", "name": "b", "uid": "u"}}));
        let now = Timestamp::UNIX_EPOCH;
        let made = |message: &str| {
            let notice = Notice::normal("Created", message);
            event("job", EVENT, &object, &notice, now)["metadata"]["name"].clone()
        };
        assert_eq!(made("x"), made("x"));
        assert_ne!(made("x"), made("y"));
    }
}
