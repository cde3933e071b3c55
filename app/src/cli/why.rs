//! `setpoint why`: explains an object's state and what it is waiting for.
//!
//! A cluster of others keeps no causes: there the story is told by who owns which fields since
//! when, by the events that are left, and by what our operators say in their log that they did.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use apiserver::history::why::state;
use clap::Args;
use serde_json::{Value, json};

use super::connect::Target;
use super::evidence::Reader;
use super::past::{self, Cluster, GROUP, Kind, Named, Printed, items, text};
use super::plan::verdicts;
use super::spans::{self, Span};
use super::train::cluster::python_of;
use super::{Context, small_runtime};
use crate::python;

const AFTER_HELP: &str = "\
Examples:
  setpoint why pod/web              the state, its cause and the last Warning events
  setpoint why trainjob/bert --all  with every change and event of the objects it owns
  setpoint why vm/debian -o json    for programs

On a cluster that is not Setpoint's the logs of its operators are read too: of their pods, or where
they run elsewhere of files:
  setpoint why trainjob/bert --operator-log operator.log

Exit codes:
  0  the object is running, waiting or finished
  4  it failed";

/// How far below an object its own are looked for.
const DEPTH_MAX: usize = 8;

/// Reasons for waiting, and nodes, that the short form prints.
const CAUSES_MAX: usize = 3;
/// Events and changes that the short form prints.
const LINES_MAX: usize = 5;
const SENTENCE_CHARS_MAX: usize = 200;
/// Kinds that the short form leaves out.
const NOISE: [&str; 3] = ["EndpointSlice", "Endpoints", "Lease"];

/// The exit code for what failed.
const EXIT_FAILED: u8 = 4;

/// Explain an object's state and what it is waiting for.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Why {
    #[command(flatten)]
    object: Named,

    /// A log of `setpoint operator`, for a cluster of others; may be given more than once.
    #[arg(long, value_name = "FILE")]
    operator_log: Vec<PathBuf>,

    /// Print every change and event, with exact times.
    #[arg(long)]
    all: bool,

    /// As if the cluster kept no past.
    #[arg(long, hide = true)]
    without_past: bool,

    #[command(flatten)]
    target: Target,
}

impl Why {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        small_runtime()?.block_on(async {
            let cluster = Cluster::connect(&self.target).await?;
            let (kind, _, path) = cluster.find(&self.object).await?;
            let trace = match !self.without_past && past::has_past(&cluster).await? {
                true => cluster.get(&format!("{GROUP}/why/{path}")).await?,
                false => {
                    let spans = spans::all(&cluster, &self.operator_log).await?;
                    without_history(&cluster, (&kind, &path), &spans).await?
                }
            };
            let is_failed = trace["state"] == "Failed";
            let mut shown = told(&trace, if self.all { Detail::All } else { Detail::Short });
            if is_failed && let Some(hint) = self.import_hint(&cluster, &path).await {
                shown += &format!("\n  hint: {hint}");
            }
            context.output.print(&Printed::new(trace, shown))?;
            Ok(if is_failed { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS })
        })
    }
}

impl Why {
    /// Returns what to do about a module that a failed container did not find.
    async fn import_hint(&self, cluster: &Cluster, path: &str) -> Option<String> {
        let object = cluster.get(path).await.ok()?;
        let namespace = object["metadata"]["namespace"].as_str()?.to_owned();
        let reader = Reader { client: &cluster.client, namespace: &namespace };
        let observation = reader.observe(object).await;
        let (_, lines) = reader.collect(&observation, None).await.output?;
        let named = |pod: &Value| {
            let command = &pod["spec"]["containers"][0]["command"][0];
            command.as_str().filter(|it| it.starts_with('/')).map(str::to_owned)
        };
        let of_server = || python_of(&self.target).ok().flatten().map(|python| python.executable);
        let python = observation.pods.iter().find_map(named);
        let python = python.or_else(|| of_server().map(|it| it.display().to_string()));
        python::import_hint(lines.iter().map(String::as_str), python.as_deref())
    }
}

/// Amount of a trace that is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    Short,
    All,
}

fn told(trace: &Value, detail: Detail) -> String {
    let mut lines = vec![format!("{}: {}", text(&trace["state"]), text(&trace["sentence"]))];
    let most = |shown: usize| if detail == Detail::All { usize::MAX } else { shown };
    let waiting = items(&trace["waitingFor"]);
    for waiting in waiting.iter().take(most(CAUSES_MAX)) {
        lines.push(format!("  waiting for {}", text(&waiting["sentence"])));
        let hint = text(&waiting["hint"]);
        lines.extend((!hint.is_empty()).then(|| format!("    hint: {hint}")));
    }
    let refused = verdicts(trace);
    if !refused.is_empty() {
        lines.push("  nodes that do not fit:".to_owned());
        lines.extend(refused.iter().take(most(CAUSES_MAX)).cloned());
    }
    let steps = items(&trace["steps"]);
    if detail == Detail::All {
        lines.extend(steps.iter().map(full_line));
        return lines.join("\n");
    }
    let shown = important(steps);
    lines.extend(shown.iter().map(|step| short_line(step)));
    let hidden = steps.len() - shown.len() + waiting.len().saturating_sub(CAUSES_MAX);
    if hidden > 0 {
        lines.push(format!("  {hidden} more lines with --all"));
    }
    lines.join("\n")
}

/// The steps of the short form, oldest first: distinct Warning events, then the newest changes.
fn important(steps: &[Value]) -> Vec<&Value> {
    let is_warning = |step: &Value| step["eventType"] == "Warning";
    let mut chosen: Vec<usize> = Vec::new();
    for wants_warning in [true, false] {
        for (at, step) in steps.iter().enumerate().rev() {
            let is_repeated = chosen.iter().any(|other| {
                let other = &steps[*other];
                other["sentence"] == step["sentence"] && other["object"] == step["object"]
            });
            let is_wanted = is_warning(step) == wants_warning && !is_noise(step) && !is_repeated;
            if is_wanted && chosen.len() < LINES_MAX {
                chosen.push(at);
            }
        }
    }
    chosen.sort_unstable();
    chosen.into_iter().map(|at| &steps[at]).collect()
}

/// True if a step is bookkeeping of controllers.
fn is_noise(step: &Value) -> bool {
    NOISE.iter().any(|kind| step["object"]["kind"] == *kind)
        || text(&step["sentence"]).contains("metadata.finalizers")
}

/// `10:00:05 pod/web: Warning FailedMount: denied`, with the time of the day.
fn short_line(step: &Value) -> String {
    let time = text(&step["time"]);
    let time = time.get(11..19).unwrap_or(time);
    let warning = if step["eventType"] == "Warning" { "Warning " } else { "" };
    let sentence = text(&step["sentence"]);
    let sentence = match sentence.char_indices().nth(SENTENCE_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &sentence[..end]),
        None => sentence.to_owned(),
    };
    format!("  {time} {}: {warning}{}", named(step), sentence.replace('\n', " "))
}

fn full_line(step: &Value) -> String {
    let depth = usize::try_from(step["depth"].as_u64().unwrap_or(0)).unwrap_or(0);
    let revision = match step["revision"].as_u64() {
        Some(revision) => format!("{revision:>8}"),
        None => String::new(),
    };
    let later = step["milliseconds"].as_u64().unwrap_or(0);
    format!(
        "{}{revision} {:>9} {:indent$}{}: {}",
        text(&step["time"]),
        format!("+{later}ms"),
        "",
        named(step),
        text(&step["sentence"]),
        indent = depth * 2,
    )
}

fn named(step: &Value) -> String {
    let object = &step["object"];
    format!("{}/{}", text(&object["kind"]).to_lowercase(), text(&object["name"]))
}

/// The story as far as a cluster of others tells it.
async fn without_history(
    cluster: &Cluster,
    (kind, path): (&Kind, &str),
    spans: &[Span],
) -> Result<Value> {
    let object = cluster.get(path).await?;
    let metadata = &object["metadata"];
    let reference = json!({"apiVersion": object["apiVersion"], "kind": kind.kind,
        "namespace": metadata["namespace"], "name": metadata["name"]});
    let step = |time: &str, actor: &str, sentence: String| {
        json!({"time": time, "revision": null, "milliseconds": 0, "depth": 0, "actor": actor,
            "object": reference, "sentence": sentence})
    };
    let mut steps = vec![step(text(&metadata["creationTimestamp"]), "", "it was created".into())];
    for owner in items(&metadata["managedFields"]) {
        let manager = text(&owner["manager"]);
        let part = match text(&owner["subresource"]) {
            "" => String::new(),
            part => format!(" of its {part}"),
        };
        let sentence = format!("{manager} last wrote fields{part}");
        steps.push(step(text(&owner["time"]), manager, sentence));
    }
    let namespace = match text(&metadata["namespace"]) {
        "" => "default",
        namespace => namespace,
    };
    let family = family_of(cluster, namespace, text(&metadata["uid"])).await;
    steps.extend(family.iter().map(|(own, depth)| made(own, *depth)));
    if let Ok(events) = cluster.get(&format!("api/v1/namespaces/{namespace}/events")).await {
        let own = (text(&metadata["uid"]), &reference, 0);
        let others = family.iter().map(|(own, depth)| (text(&own["metadata"]["uid"]), own, *depth));
        let known: Vec<(&str, &Value, usize)> = std::iter::once(own).chain(others).collect();
        steps.extend(items(&events["items"]).iter().filter_map(|event| said(event, &known)));
    }
    let members: Vec<Value> = family.into_iter().map(|(own, _)| own).collect();
    let is_own = |span: &&Span| is_about(span, &object, kind, &members);
    steps.extend(spans.iter().filter(is_own).map(Span::step));
    in_order(&mut steps);
    let is_pod = |object: &&Value| object["kind"] == "Pod";
    let pods: Vec<Value> = members.iter().filter(is_pod).cloned().collect();
    let judged = state::judge(&object, &pods);
    let waiting: Vec<Value> = judged.waiting.iter().map(state::Waiting::to_json).collect();
    Ok(json!({"kind": "Trace", "object": reference, "state": judged.state.name(),
        "sentence": judged.sentence, "waitingFor": waiting, "steps": steps, "verdicts": []}))
}

/// That something was made, and by whom: who has had fields of it for the longest time.
fn made(own: &Value, depth: usize) -> Value {
    let metadata = &own["metadata"];
    let first = items(&metadata["managedFields"]).iter().min_by_key(|one| text(&one["time"]));
    let manager = first.map_or("", |one| text(&one["manager"]));
    let sentence = match manager {
        "" => "it was created".to_owned(),
        manager => format!("{manager} created it"),
    };
    let object = json!({"apiVersion": own["apiVersion"], "kind": own["kind"],
        "namespace": metadata["namespace"], "name": metadata["name"]});
    json!({"time": metadata["creationTimestamp"], "revision": null, "milliseconds": 0,
        "depth": depth, "actor": manager, "object": object, "sentence": sentence})
}

/// What a component said of one of those who are known, by their uids.
fn said(event: &Value, known: &[(&str, &Value, usize)]) -> Option<Value> {
    let uid = text(&event["involvedObject"]["uid"]);
    let (_, about, depth) = known.iter().find(|(own, ..)| !uid.is_empty() && *own == uid)?;
    let metadata = match &about["metadata"] {
        Value::Null => *about,
        metadata => metadata,
    };
    let object = json!({"apiVersion": about["apiVersion"], "kind": about["kind"],
        "namespace": metadata["namespace"], "name": metadata["name"]});
    let first = |values: [&Value; 4]| {
        let texts = values.into_iter().map(text);
        texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default().to_owned()
    };
    let time = first([
        &event["series"]["lastObservedTime"],
        &event["lastTimestamp"],
        &event["eventTime"],
        &event["metadata"]["creationTimestamp"],
    ]);
    let none = &Value::Null;
    let from = first([&event["reportingComponent"], &event["source"]["component"], none, none]);
    let sentence = format!("{}: {}", text(&event["reason"]), text(&event["message"]).trim());
    Some(json!({"time": time, "revision": null, "milliseconds": 0, "depth": depth, "actor": from,
        "object": object, "eventType": event["type"], "sentence": sentence}))
}

/// Puts steps in order, each with how long after the one before it was.
fn in_order(steps: &mut [Value]) {
    let micros = |step: &Value| {
        let parsed = apiserver::timestamp::parse_micro(text(&step["time"]));
        parsed.map(|(seconds, micros)| seconds * 1_000_000 + i64::from(micros))
    };
    steps.sort_by_key(|step| (micros(step), text(&step["time"]).to_owned()));
    let mut before = None;
    for step in steps {
        let now = micros(step);
        let since = before.zip(now).map_or(0, |(before, now): (i64, i64)| (now - before).max(0));
        step["milliseconds"] = json!(since / 1_000);
        before = now.or(before);
    }
}

/// Whether a look was at the object, or at something that is its own.
fn is_about(span: &Span, object: &Value, kind: &Kind, family: &[Value]) -> bool {
    let is = |own: &Value, kind: &str| {
        let metadata = &own["metadata"];
        let name = match text(&metadata["namespace"]) {
            "" => text(&metadata["name"]).to_owned(),
            namespace => format!("{namespace}/{}", text(&metadata["name"])),
        };
        span.kind == kind && span.object == name
    };
    is(object, &kind.kind) || family.iter().any(|own| is(own, text(&own["kind"])))
}

/// What others make of objects: kind, group and version, plural.
const MADE: [(&str, &str, &str); 13] = [
    ("VirtualMachine", "apis/kubevirt.io/v1", "virtualmachines"),
    ("VirtualMachineInstance", "apis/kubevirt.io/v1", "virtualmachineinstances"),
    ("DataVolume", "apis/cdi.kubevirt.io/v1beta1", "datavolumes"),
    ("PersistentVolumeClaim", "api/v1", "persistentvolumeclaims"),
    ("DynamoComponentDeployment", "apis/nvidia.com/v1beta1", "dynamocomponentdeployments"),
    ("JobSet", "apis/jobset.x-k8s.io/v1alpha2", "jobsets"),
    ("LeaderWorkerSet", "apis/leaderworkerset.x-k8s.io/v1", "leaderworkersets"),
    ("Deployment", "apis/apps/v1", "deployments"),
    ("Job", "apis/batch/v1", "jobs"),
    ("ReplicaSet", "apis/apps/v1", "replicasets"),
    ("StatefulSet", "apis/apps/v1", "statefulsets"),
    ("Service", "api/v1", "services"),
    ("Pod", "api/v1", "pods"),
];

/// What an object owns, through any owner in between, and how far below it; nothing that may not be
/// read.
async fn family_of(cluster: &Cluster, namespace: &str, uid: &str) -> Vec<(Value, usize)> {
    let mut all = Vec::new();
    for (kind, root, plural) in MADE {
        let list = format!("{root}/namespaces/{namespace}/{plural}");
        let Ok(found) = cluster.get(&list).await else { continue };
        for object in items(&found["items"]) {
            let mut object = object.clone();
            object["apiVersion"] = found["apiVersion"].clone();
            object["kind"] = json!(kind);
            all.push(object);
        }
    }
    below(all, uid)
}

/// Those of them that belong to somebody, level by level: a pod may own what has pods again.
fn below(mut others: Vec<Value>, uid: &str) -> Vec<(Value, usize)> {
    let mut owners = vec![uid.to_owned()];
    let mut family = Vec::new();
    for depth in 1..=DEPTH_MAX {
        let is_owned = |object: &Value| {
            let references = items(&object["metadata"]["ownerReferences"]);
            references.iter().any(|one| owners.iter().any(|owner| one["uid"] == owner.as_str()))
        };
        let (level, rest): (Vec<Value>, Vec<Value>) = others.into_iter().partition(is_owned);
        owners = level.iter().map(|object| text(&object["metadata"]["uid"]).to_owned()).collect();
        family.extend(level.into_iter().map(|object| (object, depth)));
        others = rest;
        if owners.is_empty() {
            break;
        }
    }
    family
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_form_has_the_verdict_the_cause_and_at_most_five_lines() {
        let step = |kind: &str, sentence: &str, event: Option<&str>| {
            json!({"time": "2026-01-02T10:00:05.123456Z", "revision": 7, "milliseconds": 1,
                "depth": 1, "object": {"kind": kind, "name": "web"}, "eventType": event,
                "sentence": sentence})
        };
        let mut steps = vec![step("Pod", "FailedMount: denied", Some("Warning")); 3];
        steps.extend((0..9).map(|at| step("Pod", &format!("change {at}"), None)));
        steps.push(step("EndpointSlice", "set endpoints to [{\"addresses\"}]", None));
        steps.push(step("Pod", "controller set metadata.finalizers to []", None));
        let waiting = json!([{"sentence": "container main: ContainerCreating", "hint": "h"}]);
        let trace = json!({"state": "Waiting", "sentence": "Pod web is Pending",
            "waitingFor": waiting, "verdicts": [], "steps": steps});
        let short = told(&trace, Detail::Short);
        let expected = [
            "Waiting: Pod web is Pending",
            "  waiting for container main: ContainerCreating",
            "    hint: h",
            "  10:00:05 pod/web: Warning FailedMount: denied",
            "  10:00:05 pod/web: change 5",
            "  10:00:05 pod/web: change 6",
            "  10:00:05 pod/web: change 7",
            "  10:00:05 pod/web: change 8",
            "  9 more lines with --all",
        ];
        assert_eq!(short.lines().collect::<Vec<_>>(), expected, "{short}");
        let all = told(&trace, Detail::All);
        assert_eq!(all.lines().count(), 3 + 14, "{all}");
        assert!(all.contains("05.123456Z") && all.contains("endpointslice/web"), "{all}");
    }

    #[test]
    fn a_family_is_found_level_by_level() {
        let owned = |uid: &str, owner: &str| {
            let references = json!([{"uid": owner}]);
            json!({"metadata": {"uid": uid, "ownerReferences": references}})
        };
        // A leader is a pod, and owns the set of its workers.
        let all = ["worker set", "set leader", "leader top", "other none", "group top"];
        let all = all.iter().filter_map(|pair| pair.split_once(' '));
        let all = all.map(|(uid, owner)| owned(uid, owner)).collect();
        let told: Vec<String> = below(all, "top")
            .iter()
            .map(|(object, depth)| format!("{depth} {}", text(&object["metadata"]["uid"])))
            .collect();
        assert_eq!(told, ["1 leader", "1 group", "2 set", "3 worker"]);
        let round = ["a b", "b a"].iter().filter_map(|pair| pair.split_once(' '));
        assert_eq!(below(round.map(|(uid, owner)| owned(uid, owner)).collect(), "a").len(), 2);
    }

    #[test]
    fn a_cluster_of_others_tells_of_the_whole_family_and_of_the_time_between() {
        let reference = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "j"});
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "j-1", "namespace": "a", "uid": "p"}});
        let known = [("j", &reference, 0), ("p", &pod, 1)];
        let event = |uid: &str, time: &str, reason: &str| {
            json!({"involvedObject": {"uid": uid}, "lastTimestamp": time, "reason": reason,
                "message": "m", "source": {"component": "kubelet"}})
        };
        let events = [
            event("p", "2026-01-02T03:04:07Z", "Started"),
            event("j", "2026-01-02T03:04:05Z", "SuccessfulCreate"),
            event("x", "2026-01-02T03:04:05Z", "Other"),
            event("p", "2026-01-02T03:04:05.250000Z", "Scheduled"),
        ];
        let mut steps: Vec<Value> = events.iter().filter_map(|event| said(event, &known)).collect();
        in_order(&mut steps);
        let told: Vec<String> = steps
            .iter()
            .map(|step| {
                let name = text(&step["object"]["name"]);
                format!(
                    "+{} {} {name} {}",
                    step["milliseconds"],
                    step["depth"],
                    text(&step["sentence"])
                )
            })
            .collect();
        assert_eq!(
            told,
            ["+0 0 j SuccessfulCreate: m", "+250 1 j-1 Scheduled: m", "+1750 1 j-1 Started: m"]
        );
    }
}
