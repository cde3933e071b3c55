//! What operators count by the resource, its namespace and the result, where users know it so.
//!
//! Namespaces are no closed set; the number of series is bounded instead.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Upper bounds of the buckets of reconciles, in seconds.
const RECONCILES: [f64; 13] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
/// Of reviews.
const REVIEWS: [f64; 11] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];
/// Series of one metric; what comes later is not counted.
const SERIES_MAX: usize = 10_000;

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Success,
    /// It asked to be looked at again after a time.
    Requeue,
    /// The type of the error.
    Error(&'static str),
}

/// An answer to a question that was asked before an object was written.
#[derive(Clone, Copy, Debug)]
pub struct Reviewed<'a> {
    pub kind: &'a str,
    pub operation: &'a str,
    pub took: Duration,
    /// Why it was refused, if it was.
    pub refusal: Option<&'a str>,
}

/// The counts of the operators that share a prefix.
#[derive(Debug, Default)]
pub struct ResourceMetrics(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    reconciles: BTreeMap<String, Durations>,
    errors: BTreeMap<String, u64>,
    resources: BTreeMap<&'static str, BTreeMap<String, usize>>,
    reviews: BTreeMap<String, Durations>,
    answers: BTreeMap<String, u64>,
    denials: BTreeMap<String, u64>,
}

#[derive(Debug, Default, Clone)]
struct Durations {
    buckets: Vec<u64>,
    count: u64,
    seconds: f64,
}

impl Durations {
    fn add(&mut self, took: Duration, bounds: &[f64]) {
        self.buckets.resize(bounds.len(), 0);
        let seconds = took.as_secs_f64();
        if let Some(at) = bounds.iter().position(|bound| seconds <= *bound) {
            self.buckets[at] += 1;
        }
        self.count += 1;
        self.seconds += seconds;
    }
}

/// A series that there is, or one more if there is room.
fn series<T: Default>(all: &mut BTreeMap<String, T>, labels: String) -> Option<&mut T> {
    if all.len() >= SERIES_MAX && !all.contains_key(&labels) {
        return None;
    }
    Some(all.entry(labels).or_default())
}

fn count(all: &mut BTreeMap<String, u64>, labels: String) {
    if let Some(count) = series(all, labels) {
        *count += 1;
    }
}

impl ResourceMetrics {
    pub fn reconciled(&self, kind: &str, namespace: &str, took: Duration, ended: Ended) {
        let result = match ended {
            Ended::Success => "success",
            Ended::Requeue => "requeue",
            Ended::Error(_) => "error",
        };
        let mut state = self.lock();
        let of = format!("resource_type=\"{kind}\",namespace=\"{namespace}\"");
        if let Some(durations) = series(&mut state.reconciles, format!("{of},result=\"{result}\""))
        {
            durations.add(took, &RECONCILES);
        }
        if let Ended::Error(class) = ended {
            count(&mut state.errors, format!("{of},error_type=\"{class}\""));
        }
    }

    pub fn reviewed(&self, reviewed: &Reviewed<'_>) {
        let Reviewed { kind, operation, took, refusal } = *reviewed;
        let mut state = self.lock();
        let of = format!("resource_type=\"{kind}\",operation=\"{operation}\"");
        if let Some(durations) = series(&mut state.reviews, of.clone()) {
            durations.add(took, &REVIEWS);
        }
        let result = if refusal.is_some() { "denied" } else { "allowed" };
        count(&mut state.answers, format!("{of},result=\"{result}\""));
        if let Some(reason) = refusal {
            count(&mut state.denials, format!("{of},reason=\"{reason}\""));
        }
    }

    /// How many objects of a kind there are, by namespace and status; what is not there any more is
    /// told as nothing once.
    pub fn set_resources(&self, kind: &'static str, counts: BTreeMap<(String, String), usize>) {
        let mut state = self.lock();
        let known = state.resources.entry(kind).or_default();
        known.retain(|_, count| *count > 0);
        known.values_mut().for_each(|count| *count = 0);
        for ((namespace, status), count) in counts {
            let labels =
                format!("resource_type=\"{kind}\",namespace=\"{namespace}\",status=\"{status}\"");
            if let Some(known) = series(known, labels) {
                *known = count;
            }
        }
    }

    /// The text that a scrape gets.
    pub fn text(&self, prefix: &str) -> String {
        let state = self.lock();
        let mut text = String::new();
        let mut page = Page { prefix, text: &mut text };
        let what = "How long reconciles took.";
        page.durations("reconcile_duration_seconds", what, &state.reconciles, &RECONCILES);
        let totals = state.reconciles.iter().map(|(labels, one)| (labels, one.count));
        page.lines("reconcile_total", ("counter", "Reconciles that ended."), totals);
        let errors = state.errors.iter().map(|(labels, count)| (labels, *count));
        page.lines("reconcile_errors_total", ("counter", "Reconciles that failed."), errors);
        let resources = state.resources.values().flatten();
        let resources = resources.map(|(labels, count)| (labels, *count as u64));
        page.lines("resources_total", ("gauge", "Objects by their status."), resources);
        let what = "How long answers to reviews took.";
        page.durations("webhook_duration_seconds", what, &state.reviews, &REVIEWS);
        let answers = state.answers.iter().map(|(labels, count)| (labels, *count));
        page.lines("webhook_requests_total", ("counter", "Reviews that were answered."), answers);
        let denials = state.denials.iter().map(|(labels, count)| (labels, *count));
        page.lines("webhook_denials_total", ("counter", "Reviews that were refused."), denials);
        text
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A page for a scrape, while it is written; writing to a string cannot fail.
struct Page<'a> {
    prefix: &'a str,
    text: &'a mut String,
}

impl Page<'_> {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let prefix = self.prefix;
        let _ = writeln!(self.text, "# HELP {prefix}{name} {help}\n# TYPE {prefix}{name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.text, "{}{name}{{{labels}}} {value}", self.prefix);
    }

    fn lines<'a>(
        &mut self,
        name: &str,
        (kind, help): (&str, &str),
        lines: impl Iterator<Item = (&'a String, u64)>,
    ) {
        self.head(name, kind, help);
        for (labels, value) in lines {
            self.line(name, labels, value);
        }
    }

    fn durations(
        &mut self,
        name: &str,
        help: &str,
        all: &BTreeMap<String, Durations>,
        bounds: &[f64],
    ) {
        self.head(name, "histogram", help);
        for (labels, one) in all {
            let mut below = 0;
            for (bound, count) in bounds.iter().zip(&one.buckets) {
                below += count;
                let labels = format!("{labels},le=\"{bound}\"");
                self.line(&format!("{name}_bucket"), &labels, below);
            }
            let every = format!("{labels},le=\"+Inf\"");
            self.line(&format!("{name}_bucket"), &every, one.count);
            self.line(&format!("{name}_sum"), labels, one.seconds);
            self.line(&format!("{name}_count"), labels, one.count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_shows_counts_by_resource_namespace_and_result() {
        let metrics = ResourceMetrics::default();
        let soon = Duration::from_millis(20);
        metrics.reconciled("DynamoModel", "n", soon, Ended::Success);
        metrics.reconciled("DynamoModel", "n", soon, Ended::Requeue);
        metrics.reconciled("DynamoModel", "n", soon, Ended::Error("conflict"));
        let ready =
            |count: usize| std::iter::once((("n".to_owned(), "ready".to_owned()), count)).collect();
        metrics.set_resources("DynamoModel", ready(3));
        let of = Reviewed { kind: "DynamoModel", operation: "CREATE", took: soon, refusal: None };
        metrics.reviewed(&of);
        metrics.reviewed(&Reviewed { refusal: Some("Invalid"), ..of });
        let text = metrics.text("d_");
        let model = "resource_type=\"DynamoModel\"";
        for line in [
            format!("d_reconcile_total{{{model},namespace=\"n\",result=\"success\"}} 1"),
            format!("d_reconcile_total{{{model},namespace=\"n\",result=\"requeue\"}} 1"),
            format!(
                "d_reconcile_errors_total{{{model},namespace=\"n\",error_type=\"conflict\"}} 1"
            ),
            format!(
                "d_reconcile_duration_seconds_bucket{{{model},namespace=\"n\",result=\"error\",\
                 le=\"0.025\"}} 1"
            ),
            format!("d_resources_total{{{model},namespace=\"n\",status=\"ready\"}} 3"),
            format!("d_webhook_requests_total{{{model},operation=\"CREATE\",result=\"denied\"}} 1"),
            format!("d_webhook_denials_total{{{model},operation=\"CREATE\",reason=\"Invalid\"}} 1"),
            format!("d_webhook_duration_seconds_count{{{model},operation=\"CREATE\"}} 2"),
        ] {
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
        let bounds = |of: &str| -> Vec<&str> {
            let lines = text.lines().filter(|line| line.starts_with(of));
            let bounds = lines.filter_map(|line| line.split("le=\"").nth(1)?.split('"').next());
            bounds.collect()
        };
        let success = format!(
            "d_reconcile_duration_seconds_bucket{{{model},namespace=\"n\",result=\"success\""
        );
        let expected = "0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 30 60 +Inf";
        assert_eq!(bounds(&success).join(" "), expected);
        let expected = "0.001 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 +Inf";
        assert_eq!(bounds("d_webhook_duration_seconds_bucket").join(" "), expected);
        // What is gone is told as nothing, and then not any more.
        metrics.set_resources("DynamoModel", BTreeMap::new());
        assert!(metrics.text("d_").contains("status=\"ready\"} 0"));
        metrics.set_resources("DynamoModel", BTreeMap::new());
        assert!(!metrics.text("d_").contains("status=\"ready\""));
    }
}
