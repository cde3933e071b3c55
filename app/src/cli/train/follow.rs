//! Follows a training job until it ends: its state, and the output of all ranks.

use std::collections::BTreeSet;
use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, anyhow};
use reconcile::{Error, Object, conditions};
use serde::Serialize;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::cluster::{Cluster, FAILED_JOBS};
use super::failure::{Failure, Failures, never_began};
use super::progress::Trend;
use super::python;
use super::show::{reported, state};
use crate::cli::Context;
use crate::cli::evidence::Evidence;
use crate::cli::exit;
use crate::cli::interrupted;
use crate::cli::log_stream::Source;
use crate::cli::verdict::{Observation, Seen, Verdict, decide};
use crate::cli::wait::timed_out;
use crate::output::{self, Output};

/// How often the job is looked at.
const POLL: Duration = Duration::from_millis(500);
/// Lines of a failed rank that are shown.
const LAST_LINES: u64 = 20;
/// How long output may still come after the end.
const REST_MAX: Duration = Duration::from_secs(5);
/// How long a cluster may not answer before it is given up: it may be starting again.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Looks at a job that waits before anybody is told why.
const LOOKS_BEFORE_ASKING: u32 = 4;

/// What is told while a job is followed: a line, or an object.
#[derive(Serialize)]
#[serde(rename_all = "lowercase", untagged)]
enum Told<'a> {
    State {
        job: &'a str,
        state: &'a str,
        progress: &'a Value,
        #[serde(skip)]
        trend: &'a Trend,
    },
    Line {
        rank: &'a str,
        line: &'a str,
    },
    Waits {
        job: &'a str,
        waits: &'a str,
    },
    Failed {
        job: &'a str,
        failed: Ended<'a>,
    },
    Gone {
        job: &'a str,
        detached: bool,
    },
}

#[derive(Serialize)]
struct Ended<'a> {
    reason: &'a str,
    message: &'a str,
    #[serde(flatten)]
    first: Option<&'a Failure>,
}

impl fmt::Display for Told<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Told::State { job, state, progress, trend } => {
                write!(formatter, "[{job}] {state}{}{trend}", reported(progress, state))
            }
            Told::Line { rank, line } => write!(formatter, "[{rank}] {line}"),
            Told::Waits { job, waits } => write!(formatter, "[{job}] waiting: {waits}"),
            Told::Failed { job, failed: Ended { reason, message, first } } => {
                // The message of failed Jobs names a Job, which reads like another rank.
                if first.is_none() || *reason != FAILED_JOBS {
                    write!(formatter, "[{job}] failed: {reason}: {message}")?;
                    formatter.write_str(if first.is_some() { "\n" } else { "" })?;
                }
                match first {
                    Some(first) if first.has_output() => {
                        write!(formatter, "[{job}] {first}; its last lines:")
                    }
                    Some(first) => write!(formatter, "[{job}] {first}"),
                    None => Ok(()),
                }
            }
            Told::Gone { job, .. } => {
                write!(
                    formatter,
                    "[{job}] continues in the background; see `setpoint train show {job}` or \
                     `setpoint train logs -f {job}`"
                )
            }
        }
    }
}

/// What is shown of a job, and for how long.
#[derive(Clone, Copy)]
pub struct Manner {
    /// With the output of the ranks, on stdout; else only how it goes, on stderr.
    pub shows_output: bool,
    pub timeout: Option<Duration>,
    /// Who made the job, and may cancel it.
    pub is_ours: bool,
}

impl Manner {
    pub const WITH_OUTPUT: Manner = Manner { shows_output: true, timeout: None, is_ours: false };
}

/// Shows everything until the job has ended, or until the user has seen enough.
pub async fn follow(
    cluster: &Cluster,
    name: &str,
    manner: Manner,
    context: &Context,
) -> Result<ExitCode> {
    let output = context.output;
    let enough = tokio::signal::ctrl_c();
    tokio::select! {
        ended = until_ended(cluster, name, manner, output) => ended,
        () = over(manner.timeout) => {
            Err(late(cluster, name, manner.timeout.unwrap_or_default()).await)
        }
        _ = enough => {
            // The reader of the output may have been interrupted too.
            let _ = output.print(&Told::Gone { job: name, detached: true });
            let does = "suspends it, as `setpoint train stop` does";
            if manner.is_ours && interrupted::comes_again(does).await {
                cluster.suspend(name, true, context).await?;
            }
            Ok(ExitCode::from(exit::INTERRUPTED))
        }
    }
}

/// The error for a job that has not ended in time, with its newest event or line of output.
async fn late(cluster: &Cluster, name: &str, limit: Duration) -> anyhow::Error {
    let found = cluster.look(name).await.ok().flatten();
    let (why, evidence) = match found {
        Some((job, pods)) => {
            let reader = cluster.reader();
            let observation = reader.observe_pods(job.value.clone(), pods).await;
            let evidence = reader.collect(&observation, None).await;
            (format!("it is {}", state(&job.value)), evidence)
        }
        None => ("the cluster does not answer".to_owned(), Evidence::default()),
    };
    let what = format!("{name} {}; it continues", timed_out(limit, &why, &evidence));
    let hint = format!("setpoint train logs -f {name}");
    let failure = exit::Failure::new(exit::TIMED_OUT, what).hint(hint);
    anyhow!(exit::Failure { shown: evidence.text(), ..failure })
}

/// The error for a job whose pods cannot run, if that is so.
async fn stuck(
    cluster: &Cluster,
    name: &str,
    observation: &Observation,
    seen: &mut Seen,
) -> Option<anyhow::Error> {
    let Verdict::Failed(cause) = decide(observation, seen, Instant::now()) else { return None };
    let evidence = cluster.reader().collect(observation, cause.container).await;
    let what = format!("{name} cannot run: {}", cause.why);
    let hint = format!("setpoint why trainjob/{name}; `setpoint train rm {name}` deletes it");
    let failure = exit::Failure::new(exit::WORKLOAD_FAILED, what).hint(hint);
    Some(anyhow!(exit::Failure { shown: evidence.text(), ..failure }))
}

async fn until_ended(
    cluster: &Cluster,
    name: &str,
    manner: Manner,
    output: Output,
) -> Result<ExitCode> {
    let mut following = BTreeSet::new();
    let mut readers = JoinSet::new();
    let mut failures = Failures::default();
    let mut obstacles = Obstacles::default();
    let mut silence = Silence::default();
    let (mut said, mut seen) = (Said::default(), Seen::default());
    let voice = Voice { output, is_aside: !manner.shows_output };
    loop {
        let (job, pods) = match cluster.look(name).await {
            Ok(found) => found.ok_or_else(|| cluster.no_job(name))?,
            Err(error) => {
                if !silence.is_borne(&error) {
                    return Err(cluster.explained(&error));
                }
                silence.report(name);
                tokio::time::sleep(POLL).await;
                continue;
            }
        };
        silence = Silence::default();
        say_state(&mut said, (name, &job), voice)?;
        for pod in &pods {
            failures.look_at(pod);
            if manner.shows_output && has_started(pod) && following.insert(start_of(pod)) {
                let (cluster, pod) = (cluster.clone(), RankOutput::new(cluster, pod));
                readers.spawn(async move { pod.follow(&cluster, output).await });
            }
        }
        let ended = |kind: &str| conditions::is_true(&job.value["status"], kind);
        if ended("Complete") || ended("Failed") {
            let rest = async { while readers.join_next().await.is_some() {} };
            // The output of a rank whose node is lost may never end.
            let _ = tokio::time::timeout(REST_MAX, rest).await;
            if ended("Complete") {
                return Ok(ExitCode::SUCCESS);
            }
            explain(cluster, (name, &job.value), &failures, output).await?;
            return Ok(ExitCode::from(exit::WORKLOAD_FAILED));
        }
        obstacles.tell(cluster, (name, &job.value), &pods, voice).await?;
        let observation = cluster.reader().observe_pods(job.value.clone(), pods).await;
        if let Some(error) = stuck(cluster, name, &observation, &mut seen).await {
            return Err(error);
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Time since the cluster last answered.
#[derive(Default)]
struct Silence {
    since: Option<Instant>,
    is_reported: bool,
}

impl Silence {
    /// Reports once that the connection is lost.
    fn report(&mut self, name: &str) {
        if !std::mem::replace(&mut self.is_reported, true) {
            output::remark(format!("[{name}] connection to the cluster lost, reconnecting"));
        }
    }

    /// True if an error may pass by itself: the server is starting, stopping or overloaded.
    fn is_borne(&mut self, error: &Error) -> bool {
        let is_refusal = matches!(error.code(), Some(400..=499)) && error.code() != Some(429);
        let since = *self.since.get_or_insert_with(Instant::now);
        !is_refusal && since.elapsed() < SILENCE_MAX
    }
}

/// Where it is said how it goes: among the results, or beside them.
#[derive(Clone, Copy)]
struct Voice {
    output: Output,
    is_aside: bool,
}

impl Voice {
    fn say(self, told: &Told<'_>) -> Result<()> {
        match self.is_aside {
            true => output::remark(told),
            false => self.output.print(told)?,
        }
        Ok(())
    }
}

/// Returns when the time is over, if there is one.
async fn over(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

/// State that was printed last, with the trend of the loss until then.
#[derive(Default)]
struct Said {
    line: String,
    trend: Trend,
}

/// Prints the state of the job if it changed.
fn say_state(said: &mut Said, (name, job): (&str, &Object), voice: Voice) -> Result<()> {
    let progress = &job.value["status"]["trainerStatus"];
    said.trend.add(progress);
    let told = Told::State { job: name, state: state(&job.value), progress, trend: &said.trend };
    let now = told.to_string();
    if now != said.line {
        voice.say(&told)?;
        said.line = now;
    }
    Ok(())
}

/// What stands in the way of a job, each told once.
#[derive(Default)]
struct Obstacles {
    looks: u32,
    told: BTreeSet<String>,
}

impl Obstacles {
    async fn tell(
        &mut self,
        cluster: &Cluster,
        (name, job): (&str, &Value),
        pods: &[Value],
        voice: Voice,
    ) -> Result<()> {
        if !matches!(state(job), "waiting" | "starting") {
            self.looks = 0;
            return Ok(());
        }
        self.looks += 1;
        if self.looks < LOOKS_BEFORE_ASKING {
            return Ok(());
        }
        // Who cannot be asked now is asked at the next look.
        for line in cluster.obstacles(name, pods).await.unwrap_or_default() {
            self.say(name, &line, voice)?;
        }
        Ok(())
    }

    fn say(&mut self, name: &str, line: &str, voice: Voice) -> Result<()> {
        match self.told.insert(line.to_owned()) {
            true => voice.say(&Told::Waits { job: name, waits: line }),
            false => Ok(()),
        }
    }
}

/// Prints the output that there is, rank after rank.
pub async fn print_logs(cluster: &Cluster, name: &str, context: &Context) -> Result<ExitCode> {
    cluster.job(name).await?;
    for pod in cluster.pods(name).await?.iter().filter(|pod| has_started(pod)) {
        RankOutput::new(cluster, pod).read(cluster, context.output).await;
    }
    Ok(ExitCode::SUCCESS)
}

/// Output of a rank.
struct RankOutput {
    rank: String,
    source: Source,
}

impl RankOutput {
    fn new(cluster: &Cluster, pod: &Value) -> RankOutput {
        let source = cluster.source(&text(&pod["metadata"]["name"]), &container_of(pod));
        RankOutput { rank: rank(pod), source }
    }

    async fn read(&self, cluster: &Cluster, output: Output) {
        let read = self.source.read(&cluster.requests.client, self.sink(output)).await;
        self.report(read, output);
    }

    async fn follow(&self, cluster: &Cluster, output: Output) {
        let read = self.source.follow(&cluster.requests.client, self.sink(output)).await;
        self.report(read, output);
    }

    fn sink(&self, output: Output) -> impl FnMut(&str, &str) {
        // The caller notices a closed pipe.
        move |_: &str, line: &str| {
            let _ = output.print(&Told::Line { rank: &self.rank, line });
        }
    }

    fn report(&self, read: Result<()>, output: Output) {
        if let Err(error) = read {
            let line = format!("(no output: {})", output::one_line(&error));
            let _ = output.print(&Told::Line { rank: &self.rank, line: &line });
        }
    }
}

/// Prints which rank failed first, how, and its last lines.
async fn explain(
    cluster: &Cluster,
    (name, job): (&str, &Value),
    failures: &Failures,
    output: Output,
) -> Result<()> {
    let failed = conditions::find(&job["status"], "Failed").unwrap_or(&Value::Null);
    let first = failures.first();
    let (reason, message) = (text(&failed["reason"]), text(&failed["message"]));
    let failed = Ended { reason: &reason, message: &message, first };
    output.print(&Told::Failed { job: name, failed })?;
    let with_output = first.filter(|first| first.has_output()).cloned();
    if let Some(Failure { pod, rank, container, is_previous, .. }) = with_output {
        let source = cluster.source(&pod, &container);
        let source = Source { previous: is_previous, tail: Some(LAST_LINES), ..source };
        RankOutput { rank, source }.read(cluster, output).await;
    }
    if let Some(first) = first.filter(|first| first.has_output())
        && let Some(hint) = python::import_hint(cluster, job, first).await
    {
        output::remark(format_args!("hint: {hint}"));
    }
    Ok(())
}

/// `node-0`: which job of the set, and which of its pods.
pub fn rank(pod: &Value) -> String {
    let labels = &pod["metadata"]["labels"];
    let job = text(&labels["jobset.sigs.k8s.io/replicatedjob-name"]);
    let index = text(&labels["batch.kubernetes.io/job-completion-index"]);
    format!("{job}-{index}")
}

/// The container that does the work of a step: `node`, or that of its own name, or the first.
fn container_of(pod: &Value) -> String {
    let step = text(&pod["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"]);
    let containers = pod["spec"]["containers"].as_array().map_or(&[][..], Vec::as_slice);
    let named = |name: &str| containers.iter().find(|one| one["name"] == name);
    let found = named("node").or_else(|| named(&step)).or(containers.first());
    found.map(|one| text(&one["name"])).unwrap_or_default()
}

/// Which start of its container a pod is at: one that is started again in its place has output of
/// its own.
fn start_of(pod: &Value) -> (String, i64) {
    let container = container_of(pod);
    let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    let mut own = statuses.filter(|one| one["name"] == container.as_str());
    let restarts = own.next().and_then(|one| one["restartCount"].as_i64());
    (text(&pod["metadata"]["name"]), restarts.unwrap_or(0))
}

fn has_started(pod: &Value) -> bool {
    let container = container_of(pod);
    let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    let mut own = statuses.filter(|one| one["name"] == container.as_str());
    if own.next().is_some_and(never_began) {
        return false;
    }
    matches!(pod["status"]["phase"].as_str(), Some("Running" | "Succeeded" | "Failed"))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_that_is_started_again_in_its_place_is_followed_again() {
        let pod = |restarts: i64| {
            json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "node"}]},
                "status": {"containerStatuses": [{"name": "beside", "restartCount": 7},
                    {"name": "node", "restartCount": restarts}]}})
        };
        assert_eq!(start_of(&pod(0)), ("p".to_owned(), 0));
        assert_eq!(start_of(&pod(2)), ("p".to_owned(), 2));
        assert_eq!(start_of(&json!({"metadata": {"name": "p"}})), ("p".to_owned(), 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_may_be_silent_for_a_while_but_what_it_refuses_is_refused() {
        let answer = |code: u16| {
            let status = json!({"status": "Failure", "message": "m", "reason": "", "code": code});
            let status = serde_json::from_value(status).expect("a status");
            Error::request("read".to_owned(), kube::Error::Api(Box::new(status)))
        };
        let mut silence = Silence::default();
        assert!(!silence.is_borne(&answer(403)));
        assert!(silence.is_borne(&answer(503)));
        assert!(silence.is_borne(&answer(429)));
        tokio::time::advance(SILENCE_MAX).await;
        assert!(!silence.is_borne(&answer(503)));
        assert!(Silence::default().is_borne(&Error::Other { reason: "broken".to_owned() }));
    }
}
