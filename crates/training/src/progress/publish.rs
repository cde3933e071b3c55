//! Writes derived values to `status.trainerStatus` of a TrainJob.
//!
//! They are applied under a separate field manager and without force: fields that the job itself
//! reports belong to the status endpoint (`status_server.rs`), and stay as they are.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;
use reconcile::requests::Requests;
use reconcile::{Error, Name, Object};
use serde_json::{Value, json};

use super::tracker::Report;
use crate::kinds::TRAIN_JOB;
use crate::value::{list, text};

/// Field manager of derived values.
pub const MANAGER: &str = "trainer-output";

const PERCENT: &str = "progressPercentage";
const REMAINING: &str = "estimatedRemainingSeconds";
const METRICS: &str = "metrics";
const UPDATED: &str = "lastUpdatedTime";
const FIELDS: [&str; 4] = [PERCENT, REMAINING, METRICS, UPDATED];

/// Writer of the status of one job.
pub struct Publisher {
    requests: Requests,
    job: Name,
    uid: String,
    /// Fields that other managers own.
    foreign: BTreeSet<&'static str>,
    written: Option<Report>,
}

/// Values that this component wrote before, with their time.
pub struct Earlier {
    pub report: Report,
    pub at: Timestamp,
}

impl Publisher {
    /// Begins with the job as the server has it, and returns what was derived of it before.
    pub fn new(requests: Requests, job: &Object) -> (Publisher, Option<Earlier>) {
        let mut publisher = Publisher {
            requests,
            job: job.name.clone(),
            uid: job.uid.clone(),
            foreign: foreign_fields(job),
            written: None,
        };
        let earlier = earlier(job);
        publisher.written = earlier.as_ref().map(|earlier| earlier.report.clone());
        (publisher, earlier)
    }

    /// True if the job reports everything itself.
    pub fn is_superseded(&self) -> bool {
        [PERCENT, METRICS].iter().all(|field| self.foreign.contains(field))
    }

    pub fn is_news(&self, report: &Report) -> bool {
        !report.is_empty() && self.written.as_ref() != Some(report)
    }

    /// Writes a report as of a time. Fields that others have taken are left to them.
    pub async fn publish(&mut self, report: &Report, at: Timestamp) -> Result<(), Error> {
        match self.apply(report, at).await {
            Err(error) if error.is_conflict() => {}
            done => return done.map(|()| self.written = Some(report.clone())),
        }
        let Some(live) = self.requests.get(TRAIN_JOB, &self.job).await? else { return Ok(()) };
        if live.uid != self.uid {
            return Ok(());
        }
        self.foreign = foreign_fields(&live);
        if self.is_superseded() {
            return Ok(());
        }
        let done = self.apply(report, at).await;
        done.map(|()| self.written = Some(report.clone()))
    }

    async fn apply(&self, report: &Report, at: Timestamp) -> Result<(), Error> {
        let mut status = status(report, at);
        if let Some(fields) = status.as_object_mut() {
            fields.retain(|field, _| !self.foreign.contains(field.as_str()));
        }
        let object = json!({
            "metadata": {"namespace": &*self.job.namespace, "name": &*self.job.name,
                "uid": self.uid},
            "status": {"trainerStatus": status},
        });
        self.requests.apply_own_part(TRAIN_JOB, &object, "status").await.map(|_| ())
    }
}

fn status(report: &Report, at: Timestamp) -> Value {
    let mut status = json!({UPDATED: at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()});
    if let Some(percent) = report.percent {
        status[PERCENT] = json!(percent);
    }
    if let Some(seconds) = report.remaining_seconds {
        status[REMAINING] = json!(seconds.min(i32::MAX as u64));
    }
    if !report.metrics.is_empty() {
        let metric = |(name, value): &(String, String)| json!({"name": name, "value": value});
        status[METRICS] = report.metrics.iter().map(metric).collect();
    }
    status
}

/// Fields of the status of the trainer that other managers than this component own.
fn foreign_fields(job: &Object) -> BTreeSet<&'static str> {
    let owners = list(&job.value["metadata"]["managedFields"]).iter();
    let others = owners.filter(|owner| owner["manager"] != MANAGER);
    let owned = |owner: &Value, field: &str| {
        !owner["fieldsV1"]["f:status"]["f:trainerStatus"][format!("f:{field}")].is_null()
    };
    let fields = |owner| FIELDS.into_iter().filter(move |field| owned(owner, field));
    others.flat_map(fields).collect()
}

/// Reads what this component wrote, if it did.
fn earlier(job: &Object) -> Option<Earlier> {
    let mut owners = list(&job.value["metadata"]["managedFields"]).iter();
    owners.find(|owner| owner["manager"] == MANAGER)?;
    let status = &job.value["status"]["trainerStatus"];
    let foreign = foreign_fields(job);
    let own = |field: &str| match foreign.contains(field) {
        true => &Value::Null,
        false => &status[field],
    };
    let metric = |one: &Value| (text(&one["name"]).to_owned(), text(&one["value"]).to_owned());
    Some(Earlier {
        at: text(&status[UPDATED]).parse().ok()?,
        report: Report {
            percent: own(PERCENT).as_u64().and_then(|percent| u8::try_from(percent).ok()),
            remaining_seconds: own(REMAINING).as_u64(),
            metrics: list(own(METRICS)).iter().map(metric).collect(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(owners: &[(&str, &[&str])]) -> Object {
        let owner = |(manager, fields): &(&str, &[&str])| {
            let fields: serde_json::Map<String, Value> =
                fields.iter().map(|field| (format!("f:{field}"), json!({}))).collect();
            json!({"manager": manager, "fieldsV1": {"f:status": {"f:trainerStatus": fields}}})
        };
        let owners: Vec<Value> = owners.iter().map(owner).collect();
        Object::new(json!({"metadata": {"name": "a", "managedFields": owners},
            "status": {"trainerStatus": {"progressPercentage": 40,
                "metrics": [{"name": "loss", "value": "0.5"}],
                "lastUpdatedTime": "2026-01-01T00:00:00.25Z"}}}))
    }

    #[test]
    fn fields_of_other_managers_are_not_derived() {
        let own = (MANAGER, &[PERCENT, UPDATED][..]);
        let posted = job(&[("trainer-status", &[METRICS]), own]);
        assert_eq!(foreign_fields(&posted), BTreeSet::from([METRICS]));
        let earlier = earlier(&posted).unwrap();
        assert_eq!((earlier.report.percent, earlier.report.metrics.len()), (Some(40), 0));
        assert!(super::earlier(&job(&[("trainer-status", &[METRICS, PERCENT])])).is_none());
        assert!(super::earlier(&Object::new(json!({}))).is_none());
    }

    #[test]
    fn a_report_says_only_what_is_known() {
        let at = "2026-01-01T00:00:00.25Z".parse().unwrap();
        let report = Report { metrics: vec![("loss".into(), "1".into())], ..Report::default() };
        let expected = json!({"lastUpdatedTime": "2026-01-01T00:00:00.250000Z",
            "metrics": [{"name": "loss", "value": "1"}]});
        assert_eq!(status(&report, at), expected);
    }
}
