//! `setpoint import`: brings the objects of an export into a cluster.
//!
//! The file is read and checked whole, and its secrets are opened, before anything is written. What
//! controllers make is left to them, what is there already is left alone.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::{Value, json};

use super::connect::Target;
use super::export::{self, Who};
use super::history;
use super::past::{self, Cluster, GROUP, Kind, Printed, items, text};
use super::sealed::{self, Passphrase};
use super::{Context, small_runtime};

/// Kinds that every cluster makes for itself.
const LEFT_OUT: [&str; 14] = [
    "APIService",
    "CSINode",
    "CertificateSigningRequest",
    "ControllerRevision",
    "EndpointSlice",
    "Endpoints",
    "FlowSchema",
    "IPAddress",
    "Lease",
    "Node",
    "PodMetrics",
    "PriorityLevelConfiguration",
    "ServiceCIDR",
    "VolumeAttachment",
];
/// Who is noted as having written what is brought.
const MANAGER: &str = "setpoint-import";
/// Kinds that others need to be there before them.
const FIRST: [&str; 6] = [
    "Namespace",
    "CustomResourceDefinition",
    "PriorityClass",
    "StorageClass",
    "ServiceAccount",
    "ConfigMap",
];
/// What a server says of an object that another has to say anew.
const STRIPPED: [&str; 9] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "selfLink",
    "ownerReferences",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

const AFTER_HELP: &str = "\
Examples:
  SETPOINT_PASSPHRASE=... setpoint import cluster.setpoint
  setpoint import cluster.setpoint --without-secrets --dry-run

What is there already is left alone. What was made by controllers is not brought: they make it
again. What happened to the objects that are brought comes with them: `setpoint history` tells of it
behind what happened here. Of everything else the file tells: `setpoint history OBJECT --file FILE`.

Exit codes:
  0  all that was to be brought is there
  1  the file is not whole or not an export, and nothing was changed; or an object was refused";

/// Bring the objects of an export into a cluster.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Import {
    /// The file to read.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Ask the server what would happen, and change nothing.
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    passphrase: Passphrase,

    #[command(flatten)]
    target: Target,
}

/// How many became what.
#[derive(Default)]
struct Counts {
    created: usize,
    there: usize,
    left: usize,
    /// Changes of the past that came with objects.
    changes: usize,
    refused: Vec<String>,
}

/// What an export brings.
struct Brought {
    objects: Vec<Value>,
    /// What happened to each object.
    windows: BTreeMap<Who, Vec<Value>>,
}

impl Import {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let Brought { mut objects, windows } = self.read()?;
        objects.sort_by_key(|object| {
            let kind = text(&object["kind"]);
            FIRST.iter().position(|first| *first == kind).unwrap_or(FIRST.len())
        });
        small_runtime()?.block_on(async {
            let cluster = Cluster::connect(&self.target).await?;
            let mut kinds = cluster.kinds().await?;
            let mut counts = Counts::default();
            for object in objects {
                if object["kind"] != "CustomResourceDefinition"
                    && kind_of(&kinds, &object).is_none()
                {
                    // What was defined a moment ago is served by now.
                    kinds = cluster.kinds().await?;
                }
                self.bring(&cluster, (&kinds, &windows), object, &mut counts).await?;
            }
            context.output.print(&told(&counts, self.dry_run))?;
            let is_well = counts.refused.is_empty();
            Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        })
    }

    /// All objects of the file, its secrets opened.
    fn read(&self) -> Result<Brought> {
        let read = export::read(&self.file)?;
        let windows = export::windows(&read.changes);
        let mut objects = read.objects;
        if !read.secrets.is_empty()
            && let Some(passphrase) = self.passphrase.read()?
        {
            for sealed in &read.secrets {
                let opened = sealed::open(&passphrase, sealed)?;
                let secrets: Value =
                    serde_json::from_slice(&opened).context("the sealed secrets are no list")?;
                objects.extend(items(&secrets).iter().cloned());
            }
        }
        Ok(Brought { objects, windows })
    }

    async fn bring(
        &self,
        cluster: &Cluster,
        (kinds, windows): (&[Kind], &BTreeMap<Who, Vec<Value>>),
        mut object: Value,
        counts: &mut Counts,
    ) -> Result<()> {
        if is_left_out(&object) {
            counts.left += 1;
            return Ok(());
        }
        let name = format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]));
        let Some(kind) = kind_of(kinds, &object) else {
            counts.refused.push(format!("{name}: the cluster does not serve its kind"));
            return Ok(());
        };
        strip(&mut object);
        let namespace = text(&object["metadata"]["namespace"]).to_owned();
        let dry = if self.dry_run { "&dryRun=All" } else { "" };
        let path = format!("{}?fieldManager={MANAGER}{dry}", kind.path(&namespace, ""));
        match cluster.post(&path, object.to_string()).await {
            Ok(_) => {
                counts.created += 1;
                if let Some(window) = windows.get(&who_is(&object)).filter(|_| !self.dry_run) {
                    let name = text(&object["metadata"]["name"]);
                    let path = kind.path(&namespace, name);
                    counts.changes += bring_past(cluster, &path, window).await?;
                }
            }
            Err(error) => match past::code_of(&error) {
                Some(409) => counts.there += 1,
                Some(_) => counts.refused.push(format!("{name}: {error}")),
                None => return Err(error),
            },
        }
        Ok(())
    }
}

fn who_is(object: &Value) -> Who {
    let metadata = &object["metadata"];
    export::who(&object["apiVersion"], &object["kind"], &metadata["namespace"], &metadata["name"])
}

/// Tells what happened to an object before it was brought; what only its status said is left out.
/// Answers how many changes are kept.
async fn bring_past(cluster: &Cluster, path: &str, window: &[Value]) -> Result<usize> {
    let items: Vec<&Value> = window.iter().filter(|item| history::is_wanted(item)).collect();
    let body = json!({"items": items}).to_string();
    match cluster.post(&format!("{GROUP}/imported/{path}"), body).await {
        Ok(answer) => Ok(answer["items"].as_u64().and_then(|it| it.try_into().ok()).unwrap_or(0)),
        // A cluster of others keeps no past, and who may make objects may not tell of theirs.
        Err(error) if past::code_of(&error).is_some() => Ok(0),
        Err(error) => Err(error),
    }
}

fn kind_of<'a>(kinds: &'a [Kind], object: &Value) -> Option<&'a Kind> {
    let api_version = text(&object["apiVersion"]);
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    kinds.iter().find(|kind| {
        kind.group == group && kind.version == version && kind.kind == text(&object["kind"])
    })
}

/// What the cluster, or somebody in it, makes by itself.
fn is_left_out(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let kind = text(&object["kind"]);
    let is_owned = items(&metadata["ownerReferences"]).iter().any(|one| one["controller"] == true);
    let is_built_in = metadata["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults";
    let name = text(&metadata["name"]);
    let is_known = matches!(
        (kind, name),
        ("ConfigMap", "kube-root-ca.crt")
            | ("ServiceAccount", "default")
            | ("Service", "kubernetes")
    );
    let is_token = object["type"] == "kubernetes.io/service-account-token";
    let is_ending = metadata["deletionTimestamp"].is_string();
    is_owned || is_built_in || is_known || is_token || is_ending || LEFT_OUT.contains(&kind)
}

/// An object without what another server said of it.
fn strip(object: &mut Value) {
    for field in STRIPPED {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove(field);
        }
    }
    let Some(members) = object.as_object_mut() else { return };
    members.remove("status");
    let kind = members.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(spec) = members.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let given: &[&str] = match kind.as_str() {
        "Service" if spec.get("clusterIP") == Some(&json!("None")) => &[],
        "Service" => &["clusterIP", "clusterIPs", "healthCheckNodePort"],
        "Pod" => &["nodeName"],
        "PersistentVolume" => &["claimRef"],
        "PersistentVolumeClaim" => &["volumeName"],
        _ => &[],
    };
    given.iter().for_each(|field| drop(spec.remove(*field)));
    if kind == "Namespace" {
        spec.remove("finalizers");
    }
    if kind == "Job" && spec.get("manualSelector") != Some(&json!(true)) {
        spec.remove("selector");
        let labels = spec.get_mut("template").and_then(|it| it.pointer_mut("/metadata/labels"));
        if let Some(labels) = labels.and_then(Value::as_object_mut) {
            labels.retain(|key, _| !key.ends_with("controller-uid") && !key.ends_with("job-name"));
        }
    }
}

fn told(counts: &Counts, is_dry: bool) -> Printed {
    let note = if is_dry { " (dry run)" } else { "" };
    let mut lines = vec![format!(
        "{} created with {} changes of their history, {} there already, {} left to the cluster, \
         {} refused{note}",
        counts.created,
        counts.changes,
        counts.there,
        counts.left,
        counts.refused.len()
    )];
    lines.extend(counts.refused.iter().map(|line| format!("    {line}")));
    let value = json!({"created": counts.created, "changes": counts.changes,
        "there": counts.there, "left": counts.left, "refused": counts.refused, "dryRun": is_dry});
    Printed::new(value, lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_controllers_make_is_left_to_them() {
        let owned = json!({"kind": "Pod", "metadata": {"ownerReferences": [{"controller": true}]}});
        assert!(is_left_out(&owned));
        assert!(is_left_out(&json!({"kind": "Node", "metadata": {"name": "n"}})));
        assert!(!is_left_out(&json!({"kind": "Pod", "metadata": {"name": "p"}})));
    }

    #[test]
    fn what_a_server_said_is_not_said_to_another() {
        let mut service = json!({"kind": "Service", "metadata": {"name": "s", "uid": "u"},
            "spec": {"clusterIP": "10.0.0.1", "ports": []}, "status": {}});
        strip(&mut service);
        let expected = json!({"kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": []}});
        assert_eq!(service, expected);
    }
}
