//! `setpoint apply`: applies manifests to a cluster, by server-side apply.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, ValidationDirective};
use kube::core::GroupVersionKind;
use kube::discovery::{ApiResource, Scope, pinned_kind};
use serde::Serialize;
use serde_json::Value;

use super::connect::{self, Target};
use super::evidence::Reader;
use super::exit::{self, Failure};
use super::manifests;
use super::past::Cluster;
use super::plan;
use super::verdict::Observation;
use super::wait::{Waited, parse_duration};
use super::warnings;
use super::{Context, small_runtime};

/// Who owns the fields of what is applied.
const MANAGER: &str = "setpoint";

const AFTER_HELP: &str = "\
Examples:
  setpoint apply -f job.yaml                   a file of any number of objects
  setpoint apply -f manifests/ -n team         all .yaml, .yml and .json files of a directory
  cat job.yaml | setpoint apply -f -           what comes on standard input
  setpoint apply -f job.yaml --dry-run         what would happen
  setpoint apply -f job.yaml --dry-run=plan    and what would change, and where its pods would go
  setpoint apply -f site.yaml --wait           and wait until it is ready

Fields of other field managers are reported as conflicts, unless --force-conflicts is given.

Exit codes:
  0  all are as the files say
  1  one could not be applied; those before it were
  3  one was not ready within --timeout
  4  one failed
  6  others own fields that the files say
  7  it is not allowed
  130  interrupted while it waited; what was applied stays

The wait ends early with exit code 4 when a pod cannot recover by itself (CrashLoopBackOff after two
restarts, FailedMount, image and configuration errors, requests larger than every node). The last
Warning events and lines of output are shown.";

/// Apply manifests to the cluster.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Apply {
    /// A file in YAML or JSON, or a directory of such files; may be given more than once.
    #[arg(short, long = "filename", visible_alias = "file", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    target: Target,

    /// Take over fields that somebody else owns.
    #[arg(long)]
    force_conflicts: bool,

    /// Change nothing: ask the server what would happen (server), only read the files (client), or
    /// show what would change and where pods would go (plan).
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "none", default_missing_value = "server")]
    dry_run: DryRun,

    /// What becomes of fields that the server does not know: it refuses them (strict), warns of
    /// them (warn) or drops them (ignore).
    #[arg(long, value_name = "HOW", default_value = "strict")]
    validate: Validation,

    /// As kubectl calls what is always done here.
    #[arg(long, hide = true)]
    server_side: bool,

    /// Wait until all are ready, and say on stderr what they wait for.
    #[arg(long)]
    wait: bool,

    /// How long is waited with --wait, for each.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    timeout: Duration,
}

/// How much is only tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DryRun {
    None,
    Client,
    Server,
    Plan,
}

/// What becomes of fields that nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Validation {
    #[value(alias = "true")]
    Strict,
    Warn,
    #[value(alias = "false")]
    Ignore,
}

impl Validation {
    fn directive(self) -> ValidationDirective {
        match self {
            Validation::Strict => ValidationDirective::Strict,
            Validation::Warn => ValidationDirective::Warn,
            Validation::Ignore => ValidationDirective::Ignore,
        }
    }
}

/// What became of one object.
#[derive(Serialize)]
pub(super) struct Applied {
    kind: String,
    namespace: String,
    name: String,
    what: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let note = if self.dry_run { " (dry run)" } else { "" };
        write!(f, "{}/{} {}{note}", self.kind, self.name, self.what)
    }
}

impl Applied {
    /// The error for a wait that Ctrl-C ended.
    fn left_alone(&self) -> Failure {
        let what = format!("interrupted; {}/{} continues in the background", self.kind, self.name);
        Failure::new(exit::INTERRUPTED, what).hint("the same command waits again")
    }
}

impl Apply {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let objects = manifests::read_all(&self.files)?;
        if self.wait && self.dry_run != DryRun::None {
            let what = "--wait with --dry-run: nothing is made that could be waited for";
            return Err(Failure::new(exit::USAGE, what).into());
        }
        small_runtime()?.block_on(async {
            if self.dry_run == DryRun::Plan {
                let cluster = Cluster::connect(&self.target).await?;
                let objects = objects.into_iter().map(|(_, object)| object).collect();
                return plan::show(context, &cluster, objects, "").await;
            }
            let client = connect::connect(&self.target, MANAGER).await?.client;
            let manner = Manner {
                namespace: &self.target.namespace(&client),
                is_forced: self.force_conflicts,
                dry_run: self.dry_run,
                validate: self.validate,
            };
            let mut all = Vec::new();
            for (path, object) in objects {
                let applied = apply(&client, object, &manner).await;
                let (applied, api) = applied.with_context(|| path.display().to_string())?;
                context.output.print(&applied)?;
                all.push((applied, api));
            }
            if self.wait {
                for (applied, api) in &all {
                    let waits = self.wait_for(applied, api, &client);
                    tokio::select! {
                        waited = waits => waited?,
                        _ = tokio::signal::ctrl_c() => return Err(applied.left_alone().into()),
                    }
                }
            }
            Ok(ExitCode::SUCCESS)
        })
    }

    async fn wait_for(
        &self,
        applied: &Applied,
        api: &Api<DynamicObject>,
        client: &kube::Client,
    ) -> Result<()> {
        let what = format!("{}/{}", applied.kind, applied.name);
        let hint = match applied.namespace.as_str() {
            "" => format!("setpoint why {what}"),
            namespace => format!("setpoint why {what} -n {namespace}"),
        };
        let reader = Reader { client, namespace: &applied.namespace };
        let observe = || async move {
            match api.get_opt(&applied.name).await.map_err(said)? {
                Some(object) => Ok(reader.observe(serde_json::to_value(object)?).await),
                None => anyhow::Ok(Observation::default()),
            }
        };
        let waited = Waited { what: &what, timeout: self.timeout, hint, reader };
        waited.until_ready(observe).await
    }
}

/// How an object is brought.
pub(super) struct Manner<'a> {
    /// Where it goes, unless it says so itself.
    pub namespace: &'a str,
    pub is_forced: bool,
    pub dry_run: DryRun,
    pub validate: Validation,
}

pub(super) async fn apply(
    client: &kube::Client,
    object: Value,
    manner: &Manner<'_>,
) -> Result<(Applied, Api<DynamicObject>)> {
    let (resource, scope) = resource_of(client, &object).await?;
    let mut object: DynamicObject =
        serde_json::from_value(object).context("not an object of Kubernetes")?;
    let name = object.metadata.name.clone().context("metadata.name is missing")?;
    let api: Api<DynamicObject> = match scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => {
            let meant = || manner.namespace.to_owned();
            let said = object.metadata.namespace.get_or_insert_with(meant);
            Api::namespaced_with(client.clone(), said, &resource)
        }
    };
    let revision = |object: &DynamicObject| object.metadata.resource_version.clone();
    let before = api.get_opt(&name).await.map_err(said)?.as_ref().and_then(revision);
    let mut parameters = PatchParams::apply(MANAGER);
    parameters.force = manner.is_forced;
    parameters.dry_run = manner.dry_run == DryRun::Server;
    parameters.field_validation = Some(manner.validate.directive());
    let request = kube::core::Request::new(api.resource_url());
    let request = request.patch(&name, &parameters, &Patch::Apply(&object))?;
    let after = match manner.dry_run {
        // What would change is the server's to say.
        DryRun::Client => None,
        _ => {
            let after = warnings::send(client, request).await?;
            after["metadata"]["resourceVersion"].as_str().map(str::to_owned)
        }
    };
    let what = match before {
        None => "created",
        before if before == after => "unchanged",
        _ => "configured",
    };
    let group = if resource.group.is_empty() { "" } else { "." };
    let applied = Applied {
        kind: format!("{}{group}{}", resource.kind.to_lowercase(), resource.group),
        namespace: object.metadata.namespace.unwrap_or_default(),
        name,
        what,
        dry_run: manner.dry_run != DryRun::None,
    };
    Ok((applied, api))
}

/// What the server said, in its own words.
fn said(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => exit::said(status.code, status.message),
        other => other.into(),
    }
}

/// What the server calls the kind of an object.
async fn resource_of(client: &kube::Client, object: &Value) -> Result<(ApiResource, Scope)> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if api_version.is_empty() || kind.is_empty() {
        bail!("an object says no apiVersion or no kind");
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let found = pinned_kind(client, &GroupVersionKind::gvk(group, version, kind)).await;
    let (resource, capabilities) = found.with_context(|| {
        format!("the cluster does not serve {kind} of {api_version}; see `setpoint api-resources`")
    })?;
    Ok((resource, capabilities.scope))
}
