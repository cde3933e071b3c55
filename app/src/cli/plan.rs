//! `setpoint plan`: what files would change, and where their pods would go.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use super::connect::Target;
use super::past::{self, Cluster, GROUP, Printed, difference, encoded, items, text};
use super::{Context, manifests, small_runtime};

const AFTER_HELP: &str = "\
Examples:
  setpoint plan -f job.yaml                                 what would change, and where pods go
  setpoint plan -f job.yaml --what-if nodes=+2              with two nodes more
  setpoint plan -f job.yaml --what-if nodes=+1,nvidia.com/gpu=8

Nothing is changed. Admission and the scheduler are those of the cluster.

Exit codes:
  0  all can be applied, and every pod has a place
  1  something is refused, or a pod fits nowhere";

/// What files would change in a cluster, without changing it.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Plan {
    /// A file in YAML or JSON, or a directory of such files; may be given more than once.
    #[arg(short, long = "filename", visible_alias = "file", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// With nodes that are not there: `nodes=+2`, and what each has: `nvidia.com/gpu=8`.
    #[arg(long, value_name = "WHAT", default_value = "")]
    what_if: String,

    #[command(flatten)]
    target: Target,
}

impl Plan {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let objects = manifests::read_all(&self.files)?;
        let objects = objects.into_iter().map(|(_, object)| object).collect();
        small_runtime()?.block_on(async {
            let cluster = Cluster::connect(&self.target).await?;
            show(context, &cluster, objects, &self.what_if).await
        })
    }
}

/// Asks what would come of objects, and prints it.
pub(super) async fn show(
    context: &Context,
    cluster: &Cluster,
    objects: Vec<Value>,
    what_if: &str,
) -> Result<ExitCode> {
    let namespace = encoded(&cluster.namespace);
    let path = format!("{GROUP}/plan?namespace={namespace}&whatIf={}", encoded(what_if));
    let body = json!({"kind": "List", "apiVersion": "v1", "items": objects}).to_string();
    let plan = cluster.post(&path, body).await.map_err(past::without_past)?;
    let is_well = is_well(&plan);
    let shown = told(&plan);
    context.output.print(&Printed::new(plan, shown))?;
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn is_well(plan: &Value) -> bool {
    items(&plan["objects"]).iter().all(|object| object["action"] != "invalid")
        && items(&plan["placements"]).iter().all(|placement| placement["node"].is_string())
}

fn told(plan: &Value) -> String {
    let mut lines = Vec::new();
    for planned in items(&plan["objects"]) {
        let object = &planned["object"];
        let message = match text(&planned["message"]) {
            "" => String::new(),
            message => format!("   ({message})"),
        };
        let (kind, name) = (text(&object["kind"]), text(&object["name"]));
        lines.push(format!("{:<9} {kind} {name}{message}", text(&planned["action"])));
        let changes = items(&planned["changes"]).iter();
        lines.extend(changes.map(|change| format!("    {}", difference(change))));
    }
    for placement in items(&plan["placements"]) {
        let pod = text(&placement["pod"]);
        match placement["node"].as_str() {
            Some(node) => lines.push(format!("pod {pod} -> {node}")),
            None => {
                lines.push(format!("pod {pod} fits on no node:"));
                lines.extend(verdicts(placement));
            }
        }
    }
    lines.extend(plan["message"].as_str().map(str::to_owned));
    lines.join("\n")
}

/// Why not, node by node.
pub fn verdicts(of: &Value) -> Vec<String> {
    let line =
        |verdict: &Value| format!("    {}: {}", text(&verdict["node"]), text(&verdict["reason"]));
    items(&of["verdicts"]).iter().map(line).collect()
}
