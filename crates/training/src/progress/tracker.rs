//! Puts the lines of one run together: progress, remaining time and the last value of each metric.
//!
//! Pure: the time of a line is given with it.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use super::sample::{Bar, Counter, Sample};

/// Metrics of one job at most. Later names are ignored.
pub const METRICS_MAX: usize = 32;
/// Progress and time that must have passed before the remaining time is estimated.
const ESTIMATE_FRACTION_MIN: f64 = 0.01;
const ESTIMATE_SECONDS_MIN: f64 = 3.0;
/// Longest remaining time that is worth a number.
const REMAINING_SECONDS_MAX: f64 = 365.0 * 86_400.0;
/// Descriptions of bars that are about something else than training.
const OTHER_BARS: &[&str] = &[
    "map",
    "download",
    "load",
    "generat",
    "tokeniz",
    "fetch",
    "eval",
    "valid",
    "test",
    "predict",
    "sanity",
    "filter",
    "sav",
    "extract",
    "cach",
    "shard",
    "resolv",
    "writing",
    "upload",
    "materializ",
];

/// Values to be shown for a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// 0 to 100.
    pub percent: Option<u8>,
    pub remaining_seconds: Option<u64>,
    pub metrics: Vec<(String, String)>,
}

impl Report {
    pub fn is_empty(&self) -> bool {
        self.percent.is_none() && self.metrics.is_empty()
    }
}

/// State of one run: a container from its start to its end.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    metrics: BTreeMap<String, (usize, String)>,
    fraction: Option<f64>,
    remaining_seconds: Option<u64>,
    /// Progress and time of the first line that had progress.
    first: Option<(f64, Timestamp)>,
    epoch: Option<Epoch>,
    epochs_total: Option<f64>,
    steps_total: Option<f64>,
    steps: Steps,
    bar: Option<MainBar>,
    /// A line without results announced an epoch, so that bars without a description are its own.
    has_headings: bool,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    current: f64,
    /// Programs count from 0 or from 1.
    is_zero_based: bool,
}

/// Origin of a count of steps: the start of the job or of each epoch.
#[derive(Clone, Copy, Debug, Default)]
struct Steps {
    last: f64,
    last_epoch: f64,
    are_global: bool,
}

/// The bar that stands for the whole job.
#[derive(Clone, Debug)]
struct MainBar {
    total: f64,
    current: f64,
    /// It began again, so that it stands for a part of the job that repeats.
    is_repeating: bool,
    /// Metrics were printed while it ran, so that it is not one of the preparation.
    has_metrics: bool,
}

impl Tracker {
    /// Continues from values that were reported before, by an earlier process.
    pub fn continue_from(report: &Report, at: Timestamp) -> Tracker {
        let metrics = report.metrics.iter().take(METRICS_MAX).enumerate();
        let fraction = report.percent.map(|percent| f64::from(percent) / 100.0);
        Tracker {
            metrics: metrics
                .map(|(at, (name, value))| (name.clone(), (at, value.clone())))
                .collect(),
            fraction,
            remaining_seconds: report.remaining_seconds,
            first: fraction.map(|fraction| (fraction, at)),
            ..Tracker::default()
        }
    }

    /// Sets totals that are known before the program prints them, such as from its arguments.
    pub fn with_totals(mut self, totals: &Sample) -> Tracker {
        self.epochs_total = totals.epochs_total.or(self.epochs_total);
        self.steps_total = totals.steps_total.or(self.steps_total);
        self
    }

    pub fn report(&self) -> Report {
        let mut metrics: Vec<_> = self.metrics.iter().collect();
        metrics.sort_by_key(|(name, (order, _))| (!name.contains("loss"), *order));
        let metrics = metrics.into_iter().map(|(name, (_, value))| (name.clone(), value.clone()));
        Report {
            percent: self.fraction.map(|fraction| (fraction.clamp(0.0, 1.0) * 100.0) as u8),
            remaining_seconds: self.remaining_seconds.filter(|_| self.fraction.is_some()),
            metrics: metrics.collect(),
        }
    }

    pub fn add(&mut self, sample: &Sample, at: Timestamp) {
        if sample.is_empty() {
            return;
        }
        self.epochs_total = sample.epochs_total.or(self.epochs_total);
        self.steps_total = sample.steps_total.or(self.steps_total);
        self.add_metrics(sample);
        let progress = self.progress(sample);
        if let Some(bar) = &mut self.bar {
            bar.has_metrics |= !sample.metrics.is_empty();
        }
        let Progress::Known { fraction, remaining_seconds } = progress else {
            if matches!(progress, Progress::Withdrawn) {
                (self.fraction, self.remaining_seconds, self.first) = (None, None, None);
            }
            return;
        };
        // Whoever trains again from the start takes the same time again.
        if self.fraction.is_some_and(|before| fraction < before) {
            self.first = None;
        }
        self.fraction = Some(fraction);
        let first = *self.first.get_or_insert((fraction, at));
        self.remaining_seconds = sample
            .remaining_seconds
            .or(remaining_seconds)
            .or_else(|| estimate(first, fraction, at));
    }

    fn add_metrics(&mut self, sample: &Sample) {
        let counters = [("epoch", sample.epoch), ("step", sample.step)];
        let counters = counters.into_iter().filter_map(|(name, counter)| {
            counter.map(|counter| (name.to_owned(), counter.current.to_string()))
        });
        for (name, value) in sample.metrics.iter().cloned().chain(counters) {
            let order = self.metrics.len();
            match self.metrics.get_mut(&name) {
                Some(known) => known.1 = value,
                None if order < METRICS_MAX => {
                    self.metrics.insert(name, (order, value));
                }
                None => {}
            }
        }
    }

    /// Decides how far the job is after a line.
    fn progress(&mut self, sample: &Sample) -> Progress {
        if let Some(fraction) = sample.fraction {
            return known(Some(fraction));
        }
        if let Some(counter) = sample.epoch {
            return known(self.by_epoch(counter, sample));
        }
        let within = sample.within_epoch.and_then(|within| within.fraction(None));
        if let Some(step) = sample.step {
            return known(self.by_step(step));
        }
        let bar = sample.bar.as_ref().filter(|bar| !is_other(&bar.description));
        let within = within.or_else(|| bar.map(|bar| bar.current / bar.total));
        if !self.has_headings {
            return bar.map_or(Progress::Unchanged, |bar| self.by_bar(bar));
        }
        let (Some(epoch), Some(total), Some(within)) = (self.epoch, self.epochs_total, within)
        else {
            return Progress::Unchanged;
        };
        known(epoch.fraction(within, total))
    }

    fn by_epoch(&mut self, counter: Counter, sample: &Sample) -> Option<f64> {
        let was_zero_based = self.epoch.is_some_and(|epoch| epoch.is_zero_based);
        let is_zero_based = counter.current < 1.0 && counter.current.fract() == 0.0;
        let epoch =
            Epoch { current: counter.current, is_zero_based: was_zero_based || is_zero_based };
        self.epoch = Some(epoch);
        self.epochs_total = counter.total.or(self.epochs_total);
        self.has_headings |= sample.metrics.is_empty() && sample.bar.is_none();
        if let Some(step) = sample.step {
            self.steps.see(step.current, epoch.current);
        }
        let Some(total) = self.epochs_total else {
            return sample.step.and_then(|step| step.fraction(self.steps_total));
        };
        let position = sample.within_epoch.or(sample.step.filter(|_| !self.steps.are_global));
        let bar = sample.bar.as_ref().filter(|bar| !is_other(&bar.description));
        let within = position.and_then(|position| position.fraction(None));
        match within.or_else(|| bar.map(|bar| bar.current / bar.total)) {
            Some(within) => epoch.fraction(within, total),
            // A trainer that reports parts of epochs says how much is done.
            None if counter.current.fract() != 0.0 => {
                Counter { current: counter.current, total: Some(total) }.fraction(None)
            }
            // A line with results ends its epoch, a line without them begins it.
            None if !sample.metrics.is_empty() => epoch.fraction(1.0, total),
            None => epoch.fraction(0.0, total),
        }
    }

    fn by_step(&mut self, step: Counter) -> Option<f64> {
        let epoch = self.epoch;
        self.steps.see(step.current, epoch.map_or(0.0, |epoch| epoch.current));
        match (epoch, self.epochs_total) {
            (Some(epoch), Some(total)) if !self.steps.are_global && step.total.is_some() => {
                epoch.fraction(step.fraction(None)?, total)
            }
            (Some(_), None) if !self.steps.are_global => {
                step.fraction(self.steps_total).filter(|_| step.total.is_none())
            }
            _ => step.fraction(self.steps_total),
        }
    }

    fn by_bar(&mut self, bar: &Bar) -> Progress {
        let (current, total) = (bar.current, bar.total);
        let next = MainBar { total, current, is_repeating: false, has_metrics: false };
        let main = match self.bar.take() {
            Some(main) if main.total == total => {
                let is_repeating = main.is_repeating || current < main.current;
                MainBar { current, is_repeating, ..main }
            }
            // Evaluation has fewer steps; preparation has no metrics and ends before.
            Some(main) if total < main.total && (main.has_metrics || main.current < main.total) => {
                self.bar = Some(main);
                return Progress::Unchanged;
            }
            _ => next,
        };
        let is_repeating = main.is_repeating;
        self.bar = Some(main);
        match is_repeating {
            true => Progress::Withdrawn,
            false => Progress::Known {
                fraction: current / total,
                remaining_seconds: bar.remaining_seconds,
            },
        }
    }
}

enum Progress {
    Unchanged,
    /// The progress so far was that of a part of the job.
    Withdrawn,
    Known {
        fraction: f64,
        remaining_seconds: Option<u64>,
    },
}

fn known(fraction: Option<f64>) -> Progress {
    match fraction {
        Some(fraction) => Progress::Known { fraction, remaining_seconds: None },
        None => Progress::Unchanged,
    }
}

impl Epoch {
    /// Part of the job that is done when so much of this epoch is.
    fn fraction(self, within: f64, total: f64) -> Option<f64> {
        let before = if self.is_zero_based { self.current } else { self.current - 1.0 };
        let is_possible = total > 0.0 && self.current <= total && before >= 0.0;
        is_possible.then(|| ((before + within) / total).min(1.0))
    }
}

impl Steps {
    /// Steps that go on counting in the next epoch are steps of the job.
    fn see(&mut self, step: f64, epoch: f64) {
        if epoch > self.last_epoch && self.last_epoch > 0.0 && step > self.last {
            self.are_global = true;
        }
        (self.last, self.last_epoch) = (step, epoch);
    }
}

fn is_other(description: &str) -> bool {
    let description = description.to_lowercase();
    OTHER_BARS.iter().any(|other| description.contains(other))
}

fn estimate(first: (f64, Timestamp), fraction: f64, at: Timestamp) -> Option<u64> {
    let done = fraction - first.0;
    let passed = at.duration_since(first.1).as_secs_f64();
    if done < ESTIMATE_FRACTION_MIN || passed < ESTIMATE_SECONDS_MIN {
        return None;
    }
    let remaining = passed / done * (1.0 - fraction);
    (remaining <= REMAINING_SECONDS_MAX).then_some(remaining.round() as u64)
}

#[cfg(test)]
mod tests;
