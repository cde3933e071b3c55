//! What controllers count, in the text form that Prometheus reads. Labels are controllers' names
//! and classes of errors: closed sets.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::resource_metrics::ResourceMetrics;

/// Upper bounds of the buckets of durations, in seconds.
const BUCKETS: [f64; 10] = [0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

/// The counts of a process.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Put before every name: empty for built-in controllers, `trainer_` and the like for others.
    prefix: String,
    controllers: Mutex<BTreeMap<&'static str, Counts>>,
    /// What is counted by the resource, by the prefix of its names.
    resources: Mutex<BTreeMap<&'static str, Arc<ResourceMetrics>>>,
}

#[derive(Debug, Default, Clone)]
struct Counts {
    total: u64,
    errors: BTreeMap<&'static str, u64>,
    buckets: [u64; BUCKETS.len()],
    seconds: f64,
    queue_depth: usize,
    resources: usize,
    writes: u64,
    restarts: u64,
}

/// What a controller counts that is of use at a glance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Objects in its queue.
    pub waiting: u64,
    /// Objects of its kind.
    pub objects: u64,
    pub reconciles: u64,
    pub failures: u64,
    pub writes: u64,
    pub restarts: u64,
}

impl Metrics {
    /// By the controller.
    pub fn tallies(&self) -> BTreeMap<&'static str, Tally> {
        let controllers = self.controllers.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = |counts: &Counts| Tally {
            waiting: counts.queue_depth as u64,
            objects: counts.resources as u64,
            reconciles: counts.total,
            failures: counts.errors.values().sum(),
            writes: counts.writes,
            restarts: counts.restarts,
        };
        controllers.iter().map(|(name, counts)| (*name, tally(counts))).collect()
    }

    pub fn with_prefix(prefix: &str) -> Metrics {
        Metrics { prefix: prefix.to_owned(), ..Metrics::default() }
    }

    /// What is counted by the resource, under names with a prefix.
    pub fn by_resource(&self, prefix: &'static str) -> Arc<ResourceMetrics> {
        let mut resources = self.resources.lock().unwrap_or_else(PoisonError::into_inner);
        resources.entry(prefix).or_default().clone()
    }

    /// A reconcile ended; `failure` is the class of its error.
    pub fn reconciled(
        &self,
        controller: &'static str,
        took: Duration,
        failure: Option<&'static str>,
    ) {
        self.update(controller, |counts| {
            let seconds = took.as_secs_f64();
            counts.total += 1;
            counts.seconds += seconds;
            if let Some(at) = BUCKETS.iter().position(|bound| seconds <= *bound) {
                counts.buckets[at] += 1;
            }
            if let Some(class) = failure {
                *counts.errors.entry(class).or_default() += 1;
            }
        });
    }

    pub fn queue(&self, controller: &'static str, depth: usize, resources: usize) {
        self.update(controller, |counts| {
            counts.queue_depth = depth;
            counts.resources = resources;
        });
    }

    pub fn wrote(&self, controller: &'static str, writes: u64) {
        self.update(controller, |counts| counts.writes += writes);
    }

    /// A component panicked or ended and is started again.
    pub fn restarted(&self, controller: &'static str) {
        self.update(controller, |counts| counts.restarts += 1);
    }

    fn update(&self, controller: &'static str, change: impl FnOnce(&mut Counts)) {
        let mut controllers = self.controllers.lock().unwrap_or_else(PoisonError::into_inner);
        change(controllers.entry(controller).or_default());
    }

    /// The text that a scrape gets.
    pub fn text(&self) -> String {
        let controllers = self.controllers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut text = String::new();
        self.head(&mut text, "reconcile_total", "counter", "Reconciles that ended.");
        for (name, counts) in &controllers {
            self.line(&mut text, "reconcile_total", &label(name), counts.total);
        }
        self.head(&mut text, "reconcile_errors_total", "counter", "Reconciles that failed.");
        for (name, counts) in &controllers {
            for (class, count) in &counts.errors {
                let labels = format!("{},class=\"{class}\"", label(name));
                self.line(&mut text, "reconcile_errors_total", &labels, count);
            }
        }
        let what = "How long reconciles took.";
        self.head(&mut text, "reconcile_duration_seconds", "histogram", what);
        for (name, counts) in &controllers {
            self.durations(&mut text, name, counts);
        }
        let what = "Objects of the controller's kind.";
        self.head(&mut text, "resources_total", "gauge", what);
        for (name, counts) in &controllers {
            self.line(&mut text, "resources_total", &label(name), counts.resources);
        }
        self.head(&mut text, "reconcile_queue_depth", "gauge", "Objects that wait.");
        for (name, counts) in &controllers {
            self.line(&mut text, "reconcile_queue_depth", &label(name), counts.queue_depth);
        }
        self.head(&mut text, "reconcile_writes_total", "counter", "Writes that were made.");
        for (name, counts) in &controllers {
            self.line(&mut text, "reconcile_writes_total", &label(name), counts.writes);
        }
        self.head(&mut text, "controller_restarts_total", "counter", "Starts after a panic.");
        for (name, counts) in &controllers {
            self.line(&mut text, "controller_restarts_total", &label(name), counts.restarts);
        }
        let resources = self.resources.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (prefix, counts) in &resources {
            text.push_str(&counts.text(prefix));
        }
        text
    }

    fn durations(&self, text: &mut String, name: &str, counts: &Counts) {
        let mut below = 0;
        for (bound, count) in BUCKETS.iter().zip(counts.buckets) {
            below += count;
            let labels = format!("{},le=\"{bound}\"", label(name));
            self.line(text, "reconcile_duration_seconds_bucket", &labels, below);
        }
        let labels = format!("{},le=\"+Inf\"", label(name));
        self.line(text, "reconcile_duration_seconds_bucket", &labels, counts.total);
        self.line(text, "reconcile_duration_seconds_sum", &label(name), counts.seconds);
        self.line(text, "reconcile_duration_seconds_count", &label(name), counts.total);
    }

    fn head(&self, text: &mut String, name: &str, kind: &str, help: &str) {
        let prefix = &self.prefix;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {prefix}{name} {help}\n# TYPE {prefix}{name} {kind}");
    }

    fn line(&self, text: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = writeln!(text, "{}{name}{{{labels}}} {value}", self.prefix);
    }
}

fn label(controller: &str) -> String {
    format!("controller=\"{controller}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_shows_counts_by_controller_and_class() {
        let metrics = Metrics::with_prefix("x_");
        metrics.reconciled("job", Duration::from_millis(2), None);
        metrics.reconciled("job", Duration::from_secs(90), Some("conflict"));
        let text = metrics.text();
        for line in [
            "x_reconcile_total{controller=\"job\"} 2",
            "x_reconcile_errors_total{controller=\"job\",class=\"conflict\"} 1",
            "x_reconcile_duration_seconds_bucket{controller=\"job\",le=\"0.005\"} 1",
            "x_reconcile_duration_seconds_bucket{controller=\"job\",le=\"+Inf\"} 2",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
