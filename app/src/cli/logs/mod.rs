//! `setpoint logs`: output of pods, and the log of operators that run in the server.

mod operators;

use std::fmt;
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use futures::future::join_all;
use serde::Serialize;
use serde_json::Value;

use super::connect::{Target, connect};
use super::evidence::Reader;
use super::exit::{self, Failure, not_found};
use super::log_stream::Source;
use super::past::{self, encoded};
use super::wait::parse_duration;
use super::{Context, small_runtime};
use crate::output::{self, Format, Output};

const MANAGER: &str = "setpoint";
/// Word that selects the log of operators instead of pods.
const OPERATORS: &str = "operators";
/// Streams that are open at once.
const STREAMS_MAX: usize = 50;
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

const AFTER_HELP: &str = "\
Examples:
  setpoint logs web                          output of pod web
  setpoint logs web -f --tail 20             the last 20 lines, then new ones
  setpoint logs web -c proxy --previous      the run of a container before its last restart
  setpoint logs deployment/site --since 5m   all pods of a workload
  setpoint logs -l app=site                  all pods with a label
  setpoint logs operators dynamo -f          log of an operator that runs in the server
  setpoint logs --operator dynamo -o json    the same; one object per line

With several pods every line begins with its pod and container. `setpoint train logs NAME` shows the
output of all ranks of a training job. On your own cluster an operator is a Deployment:
`setpoint logs -n dynamo-system deployment/NAME`. Options of `kubectl logs` that are not listed here
are passed on to kubectl, if it is installed.

Exit codes:
  0  done
  1  the log could not be read
  5  no such pod, or no cluster is running";

/// Show the logs of pods or operators.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Logs {
    /// Pods or workloads: `web`, `pod/web`, `deployment/site`; or `operators [NAME]`.
    #[arg(value_name = "POD")]
    names: Vec<String>,

    /// Pods with these labels.
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "names")]
    selector: Option<String>,

    /// Continue with new lines.
    #[arg(short, long)]
    follow: bool,

    /// Container; by default the first, or the one that the pod declares as default.
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,

    /// All containers of the pods.
    #[arg(long, conflicts_with = "container")]
    all_containers: bool,

    /// The run before the last restart.
    #[arg(short, long)]
    previous: bool,

    /// Start with the last lines only.
    #[arg(long, value_name = "LINES", allow_negative_numbers = true)]
    tail: Option<i64>,

    /// Only lines of the last 5s, 2m or 3h.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    since: Option<std::time::Duration>,

    /// Begin each line with its time.
    #[arg(long)]
    timestamps: bool,

    /// An operator that runs in the server.
    #[arg(long, value_name = "NAME", value_parser = operators::known)]
    #[arg(conflicts_with_all = ["names", "selector"], help = operators::help())]
    operator: Option<String>,

    #[command(flatten)]
    target: Target,
}

impl Logs {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        if let Some(name) = self.operator_names()? {
            return operators::run(self, &name, context);
        }
        if self.names.is_empty() && self.selector.is_none() {
            let what = "name a pod, such as `setpoint logs web`";
            let hint = "`-l LABELS` selects pods, `setpoint logs operators` shows the operators";
            bail!(Failure::new(exit::USAGE, what).hint(hint));
        }
        small_runtime()?.block_on(self.show(context.output))
    }

    /// Names of operators, if their log is meant.
    fn operator_names(&self) -> Result<Option<Vec<String>>> {
        if let Some(name) = &self.operator {
            return Ok(Some(vec![name.clone()]));
        }
        match &self.names[..] {
            [first] if first == OPERATORS => Ok(Some(operators::names())),
            [first, rest @ ..] if first == OPERATORS => {
                let known = rest.iter().map(|name| operators::known(name));
                let known = known.collect::<Result<Vec<_>, String>>();
                Ok(Some(known.map_err(|what| anyhow!(Failure::new(exit::NOT_FOUND, what)))?))
            }
            _ => Ok(None),
        }
    }

    async fn show(&self, output: Output) -> Result<ExitCode> {
        let client = connect(&self.target, MANAGER).await?.client;
        let namespace = self.target.namespace(&client);
        let pods = self.pods(&client, &namespace).await?;
        let mut sources = Vec::new();
        for pod in &pods {
            sources.extend(self.sources(pod, &namespace)?);
        }
        if sources.is_empty() {
            let labels = self.selector.as_deref().unwrap_or_default();
            bail!(not_found(format!(
                "no pods with the labels {labels:?} in namespace {namespace}"
            )));
        }
        if self.follow && sources.len() > STREAMS_MAX {
            let what = format!("{} streams are more than {STREAMS_MAX}", sources.len());
            bail!(Failure::new(exit::FAILED, what).hint("select fewer pods with -l"));
        }
        let printer = Printer { output, named: sources.len() > 1, timed: self.timestamps };
        if self.follow {
            let all = sources.iter().map(|source| printer.follow(&client, source));
            join_all(all).await.into_iter().collect::<Result<Vec<()>>>()?;
            return Ok(ExitCode::SUCCESS);
        }
        for source in &sources {
            printer.read(&client, source).await?;
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn pods(&self, client: &kube::Client, namespace: &str) -> Result<Vec<Value>> {
        let cluster = past::Cluster::connect(&self.target).await?;
        if let Some(selector) = &self.selector {
            let path =
                format!("api/v1/namespaces/{namespace}/pods?labelSelector={}", encoded(selector));
            let mut found = cluster.get(&path).await?;
            return Ok(found["items"].as_array_mut().map(std::mem::take).unwrap_or_default());
        }
        let mut pods = Vec::new();
        for name in &self.names {
            let (kind, name) = name.split_once('/').unwrap_or(("pod", name));
            if matches!(kind, "pod" | "pods" | "po") {
                let pod = cluster.get(&format!("api/v1/namespaces/{namespace}/pods/{name}")).await;
                pods.push(pod.map_err(|error| no_pod(error, name, namespace))?);
                continue;
            }
            let kind = cluster.kind(kind).await?;
            let mut object = cluster.get(&kind.path(namespace, name)).await?;
            object["kind"] = Value::from(kind.kind.as_str());
            let found = Reader { client, namespace }.pods(&object).await;
            if found.is_empty() {
                bail!(not_found(format!("{}/{name} has no pods", kind.singular)));
            }
            pods.extend(found);
        }
        Ok(pods)
    }

    /// The containers of a pod whose output is read.
    fn sources(&self, pod: &Value, namespace: &str) -> Result<Vec<Source>> {
        let name = past::text(&pod["metadata"]["name"]);
        let of = |field: &str| pod["spec"][field].as_array().cloned().unwrap_or_default();
        let (init, main) = (of("initContainers"), of("containers"));
        let all: Vec<&str> = init.iter().chain(&main).map(|one| past::text(&one["name"])).collect();
        let chosen: Vec<&str> = match &self.container {
            Some(container) if all.contains(&container.as_str()) => vec![container],
            Some(container) => {
                let what = format!("pod {name} has no container {container:?}");
                let hint = format!("its containers: {}", all.join(", "));
                bail!(Failure::new(exit::NOT_FOUND, what).hint(hint));
            }
            None if self.all_containers => all.clone(),
            None => {
                let default = past::text(&pod["metadata"]["annotations"][DEFAULT_CONTAINER]);
                let first = main.first().map_or("", |one| past::text(&one["name"]));
                let chosen = if all.contains(&default) { default } else { first };
                if all.len() > 1 {
                    output::remark(format!(
                        "pod {name}: showing container {chosen}; the others are selected with -c \
                         or --all-containers: {}",
                        all.join(", ")
                    ));
                }
                vec![chosen]
            }
        };
        let source = |container: &&str| Source {
            namespace: namespace.to_owned(),
            pod: name.to_owned(),
            container: (*container).to_owned(),
            previous: self.previous,
            tail: self.tail.and_then(|count| u64::try_from(count).ok()),
            since_seconds: self.since.map(|since| since.as_secs().max(1)),
        };
        Ok(chosen.iter().map(source).collect())
    }
}

fn no_pod(error: anyhow::Error, name: &str, namespace: &str) -> anyhow::Error {
    match past::code_of(&error) {
        Some(404) => {
            let what = format!("pod {name:?} not found in namespace {namespace}");
            let hint = "`setpoint get pods` lists the pods; a workload is `deployment/NAME`";
            anyhow!(Failure::new(exit::NOT_FOUND, what).hint(hint))
        }
        _ => error,
    }
}

/// Prints lines of one or several containers.
#[derive(Clone, Copy)]
struct Printer {
    output: Output,
    /// Each line begins with its pod and container.
    named: bool,
    timed: bool,
}

impl Printer {
    fn sink<'a>(self, source: &'a Source) -> impl FnMut(&str, &str) + use<'a> {
        move |time: &str, line: &str| {
            let Source { pod, container, .. } = source;
            let printed = Printed { pod, container, time, line, printer: self };
            // A closed pipe ends the program at its next request.
            if self.output.print(&printed).is_err() {
                std::process::exit(0);
            }
        }
    }

    async fn read(self, client: &kube::Client, source: &Source) -> Result<()> {
        source.read(client, self.sink(source)).await
    }

    async fn follow(self, client: &kube::Client, source: &Source) -> Result<()> {
        source.follow(client, self.sink(source)).await
    }
}

#[derive(Serialize)]
struct Printed<'a> {
    pod: &'a str,
    container: &'a str,
    time: &'a str,
    line: &'a str,
    #[serde(skip)]
    printer: Printer,
}

impl fmt::Display for Printed<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Printed { pod, container, time, line, printer } = self;
        if printer.named {
            write!(formatter, "[{pod}/{container}] ")?;
        }
        if printer.timed || printer.output.format == Format::Wide {
            write!(formatter, "{time} ")?;
        }
        formatter.write_str(line)
    }
}
