//! `/metrics`: what the server does, as Prometheus reads it.
//!
//! Names and labels are those of upstream where the meaning is the same. Labels come from closed
//! sets: resources that are served, verbs and codes that are known. Counting is a look into a map
//! and two additions.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use store::Store;
use tokio::time::Instant;

use crate::beside::Beside;
use crate::traffic::Traffic;

const VERBS: [(&str, &str); 9] = [
    ("get", "GET"),
    ("list", "LIST"),
    ("watch", "WATCH"),
    ("create", "POST"),
    ("update", "PUT"),
    ("patch", "PATCH"),
    ("delete", "DELETE"),
    ("deletecollection", "DELETECOLLECTION"),
    ("", "OTHER"),
];
/// The last one stands for all others.
const CODES: [u16; 22] = [
    200, 201, 202, 206, 301, 304, 400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 429, 500,
    503, 504, 0,
];
/// The upper ends of the classes of durations, in microseconds.
const BUCKETS_MICROS: [u64; 11] = [
    1_000, 5_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 5_000_000, 15_000_000,
    60_000_000,
];
/// How many resources are told apart; custom ones come and go.
const SERIES_MAX: usize = 2_000;
/// What Linux counts processor time in, on every machine.
const TICKS_PER_SECOND: f64 = 100.0;
const PAGE_BYTES: u64 = 4_096;

/// All counters.
#[derive(Default)]
pub struct Metrics {
    series: RwLock<HashMap<String, Arc<Series>>>,
}

/// What is about one resource.
pub struct Subject<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
}

struct Series {
    labels: String,
    verbs: [OfVerb; VERBS.len()],
}

#[derive(Default)]
struct OfVerb {
    codes: [AtomicU64; CODES.len()],
    buckets: [AtomicU64; BUCKETS_MICROS.len() + 1],
    micros: AtomicU64,
}

/// A request that is under way.
pub struct Counted {
    series: Arc<Series>,
    verb: usize,
    began: Instant,
}

impl Metrics {
    /// A request begins; `None` is one about no resource.
    pub fn begin(&self, verb: &str, subject: Option<Subject<'_>>) -> Counted {
        let verb = VERBS.iter().position(|(known, _)| *known == verb);
        let series = self.series(subject.unwrap_or(Subject::NONE));
        Counted { series, verb: verb.unwrap_or(VERBS.len() - 1), began: Instant::now() }
    }

    fn series(&self, subject: Subject<'_>) -> Arc<Series> {
        let name = subject.name();
        let known = self.series.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(series) = known.get(&name) {
            return series.clone();
        }
        let is_full = known.len() >= SERIES_MAX;
        drop(known);
        let subject = if is_full { Subject::NONE } else { subject };
        let mut all = self.series.write().unwrap_or_else(PoisonError::into_inner);
        let make = || Arc::new(Series { labels: subject.labels(), verbs: Default::default() });
        all.entry(subject.name()).or_insert_with(make).clone()
    }

    /// Everything, as Prometheus reads it.
    pub fn text(&self, traffic: &Traffic, store: &dyn Store, beside: &Beside) -> String {
        let mut out = String::with_capacity(16 << 10);
        self.write_requests(&mut out);
        write_traffic(&mut out, traffic);
        write_store(&mut out, store);
        write_process(&mut out);
        out.push_str(&beside.metrics());
        out
    }

    fn write_requests(&self, out: &mut String) {
        let mut all: Vec<_> = {
            let series = self.series.read().unwrap_or_else(PoisonError::into_inner);
            series.values().cloned().collect()
        };
        all.sort_by(|one, other| one.labels.cmp(&other.labels));
        head(
            out,
            "apiserver_request_total",
            "counter",
            "Requests, by what was asked and answered.",
        );
        for series in &all {
            for ((_, verb), counts) in VERBS.iter().zip(&series.verbs) {
                for (code, count) in CODES.iter().zip(&counts.codes) {
                    let count = count.load(Ordering::Relaxed);
                    if count > 0 {
                        let labels = &series.labels;
                        let name = "apiserver_request_total";
                        line(
                            out,
                            name,
                            &format!("{labels},verb=\"{verb}\",code=\"{code}\""),
                            count,
                        );
                    }
                }
            }
        }
        let name = "apiserver_request_duration_seconds";
        head(out, name, "histogram", "How long requests took until their answer began.");
        for series in &all {
            for ((_, verb), counts) in VERBS.iter().zip(&series.verbs) {
                counts.write(out, name, &format!("{},verb=\"{verb}\"", series.labels));
            }
        }
    }
}

impl Subject<'_> {
    const NONE: Subject<'static> =
        Subject { group: "", version: "", resource: "", subresource: "" };

    fn name(&self) -> String {
        [self.group, self.version, self.resource, self.subresource].join("/")
    }

    fn labels(&self) -> String {
        format!(
            "group=\"{}\",version=\"{}\",resource=\"{}\",subresource=\"{}\"",
            self.group, self.version, self.resource, self.subresource
        )
    }
}

impl Counted {
    /// The answer begins.
    pub fn end(self, code: u16) {
        let known = CODES.iter().position(|known| *known == code);
        let counts = &self.series.verbs[self.verb];
        counts.codes[known.unwrap_or(CODES.len() - 1)].fetch_add(1, Ordering::Relaxed);
        counts.add(self.began.elapsed());
    }
}

impl OfVerb {
    fn add(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS_MICROS.partition_point(|end| *end < micros);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn write(&self, out: &mut String, name: &str, labels: &str) {
        let counts: Vec<_> = self.buckets.iter().map(|one| one.load(Ordering::Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        if total == 0 {
            return;
        }
        let bucket = format!("{name}_bucket");
        let mut so_far = 0;
        for (end, count) in BUCKETS_MICROS.iter().zip(&counts) {
            so_far += count;
            let end = *end as f64 / 1e6;
            line(out, &bucket, &format!("{labels},le=\"{end}\""), so_far);
        }
        line(out, &bucket, &format!("{labels},le=\"+Inf\""), total);
        let seconds = self.micros.load(Ordering::Relaxed) as f64 / 1e6;
        line(out, &format!("{name}_sum"), labels, seconds);
        line(out, &format!("{name}_count"), labels, total);
    }
}

fn write_traffic(out: &mut String, traffic: &Traffic) {
    let name = "apiserver_current_inflight_requests";
    head(out, name, "gauge", "Requests in flight that do not last by nature.");
    line(out, name, "request_kind=\"readOnly\"", traffic.reads.busy());
    line(out, name, "request_kind=\"mutating\"", traffic.writes.busy());
    let name = "apiserver_longrunning_requests";
    head(out, name, "gauge", "Open watches.");
    line(out, name, "verb=\"WATCH\"", traffic.watches.busy());
}

fn write_store(out: &mut String, store: &dyn Store) {
    plain(out, "setpoint_store_revision", "gauge", "The newest revision.", store.revision().0);
    let help = "The oldest revision that can be read.";
    plain(out, "setpoint_store_compacted_revision", "gauge", help, store.compacted().0);
    let help = "Whether commits are possible.";
    plain(out, "setpoint_store_healthy", "gauge", help, u8::from(store.health().is_ok()));
    let name = "kubernetes_build_info";
    head(out, name, "gauge", "The version that is spoken, and ours.");
    let ours = env!("CARGO_PKG_VERSION");
    let labels = format!("major=\"1\",minor=\"36\",git_version=\"v1.36.4\",setpoint=\"{ours}\"");
    line(out, name, &labels, 1);
}

/// What the system knows of this process; left out where it does not tell.
fn write_process(out: &mut String) {
    let Some(process) = Process::read() else { return };
    let help = "Processor time used, in seconds.";
    plain(out, "process_cpu_seconds_total", "counter", help, process.processor_seconds);
    let help = "Memory in use, in bytes.";
    plain(out, "process_resident_memory_bytes", "gauge", help, process.resident_bytes);
    let help = "Address space in use, in bytes.";
    plain(out, "process_virtual_memory_bytes", "gauge", help, process.virtual_bytes);
    plain(out, "process_threads", "gauge", "Threads.", process.threads);
    let help = "When the process began, in seconds since 1970.";
    plain(out, "process_start_time_seconds", "gauge", help, process.began_seconds);
    plain(out, "process_open_fds", "gauge", "Open files.", process.open_files);
    if let Some(max) = process.open_files_max {
        plain(out, "process_max_fds", "gauge", "How many files may be open.", max);
    }
}

struct Process {
    processor_seconds: f64,
    resident_bytes: u64,
    virtual_bytes: u64,
    threads: u64,
    began_seconds: f64,
    open_files: usize,
    open_files_max: Option<u64>,
}

impl Process {
    fn read() -> Option<Process> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The name may have spaces and parentheses; what follows it is plain.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let system = std::fs::read_to_string("/proc/stat").ok()?;
        let booted = system.lines().find_map(|line| line.strip_prefix("btime "))?;
        let booted: f64 = booted.trim().parse().ok()?;
        let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
        let open_files_max = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
        let open_files_max = open_files_max.and_then(|rest| rest.split_whitespace().next());
        Some(Process {
            processor_seconds: (number(11)? + number(12)?) as f64 / TICKS_PER_SECOND,
            threads: number(17)?,
            began_seconds: booted + number(19)? as f64 / TICKS_PER_SECOND,
            virtual_bytes: number(20)?,
            resident_bytes: number(21)? * PAGE_BYTES,
            open_files: std::fs::read_dir("/proc/self/fd").ok()?.count(),
            open_files_max: open_files_max.and_then(|text| text.parse().ok()),
        })
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(out: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let _ = writeln!(out, "{name}{{{labels}}} {value}");
}

fn plain(out: &mut String, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
    head(out, name, kind, help);
    let _ = writeln!(out, "{name} {value}");
}

#[cfg(test)]
mod tests {
    use store::{Retention, System, backends};

    use super::*;

    fn text(metrics: &Metrics) -> String {
        let store = backends::memory::open(Retention::default(), Arc::new(System));
        metrics.text(&Traffic::default(), &*store, &Beside::default())
    }

    #[tokio::test]
    async fn requests_are_counted_by_what_was_asked_and_answered() {
        let metrics = Metrics::default();
        let pods = || Subject { group: "", version: "v1", resource: "pods", subresource: "" };
        metrics.begin("list", Some(pods())).end(200);
        metrics.begin("list", Some(pods())).end(200);
        metrics.begin("get", Some(pods())).end(418);
        let text = text(&metrics);
        let labels = "group=\"\",version=\"v1\",resource=\"pods\",subresource=\"\"";
        for line in [
            format!("apiserver_request_total{{{labels},verb=\"LIST\",code=\"200\"}} 2\n"),
            format!("apiserver_request_total{{{labels},verb=\"GET\",code=\"0\"}} 1\n"),
            format!("apiserver_request_duration_seconds_count{{{labels},verb=\"LIST\"}} 2\n"),
        ] {
            assert!(text.contains(&line), "{line}\n{text}");
        }
    }

    #[tokio::test]
    async fn every_line_is_a_comment_or_a_sample_of_a_described_name() {
        let metrics = Metrics::default();
        metrics.begin("list", None).end(200);
        let text = text(&metrics);
        let mut described = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                described.push(rest.split(' ').next().unwrap().to_owned());
            } else if !line.starts_with('#') {
                let (name, value) = line.rsplit_once(' ').unwrap();
                value.parse::<f64>().unwrap();
                let name = name.split('{').next().unwrap();
                assert!(described.iter().any(|known| name.starts_with(known)), "{line}");
            }
        }
        assert!(described.iter().any(|name| name == "process_resident_memory_bytes"));
    }
}
