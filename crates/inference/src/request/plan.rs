//! What a request does next: it is looked at, measured for, generated, deployed, watched.
//!
//! Each phase is left by a write of the status alone, and everything that a phase makes has a name
//! that follows from the request: a crash between any two writes is just another look.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::conditions::{self, Truth};
use reconcile::plan::{Notice, Target};
use reconcile::{Error, Kind, Object, Plan, Wake, act, owners};
use serde_json::{Value, json};

use super::generate::{self, Generated};
use super::observe::{Observed, is_of};
use super::output::{self, End, Progress};
use super::status::{DEPLOYMENT_READY, PROFILING, SPEC_GENERATED, Status, VALIDATION};
use super::{GENERATED, OTHERS, OTHERS_BYTES_MAX, accounts, hardware, job};
use crate::kinds::{CONFIG_MAP, GRAPH, JOB, REQUEST};
use crate::names::FINALIZER;
use crate::settings::Settings;
use crate::sync_resource::Sync;
use crate::value::text;

/// The phases in which a request is what it was.
const FIXED: [&str; 4] = ["Profiling", "Deploying", "Ready", "Deployed"];

/// When a name that another has is looked at again.
const RETRY: Duration = Duration::from_secs(15);

/// What is said of profiling that is over.
const COMPLETED: (&str, &str) = ("ProfilingCompleted", "Profiling completed");

pub fn plan(settings: &Settings, request: &Object, observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::nothing();
    if request.is_terminating() {
        // Nothing is to be cleaned up: what was made either has an owner or outlives its request.
        if let Some(patch) = act::finalizer_patch(request, FINALIZER, false) {
            plan.patch(Target::unchanged(REQUEST, request), patch);
        }
        return plan;
    }
    let status = &request.value["status"];
    let (phase, seen) = (text(&status["phase"]), status["observedGeneration"].as_i64());
    let seen = seen.unwrap_or(0);
    if seen > 0 && seen != request.generation() && !may_change(request, phase) {
        let message = format!(
            "Cannot modify spec in phase '{phase}'. DynamoGraphDeploymentRequest is immutable once \
             profiling starts. Create a new resource with a different name instead."
        );
        plan.notices.push(Notice::warning("SpecChangeRejected", message));
        return plan;
    }
    let mut next = Status::of(request, now);
    let is_told = match phase {
        "" | "Pending" if seen == 0 => {
            begin(&mut plan, request, observed, &mut next);
            true
        }
        "" | "Pending" => prepare(&mut plan, (settings, request), observed, &mut next),
        "Profiling" => profile(&mut plan, request, observed, &mut next),
        "Ready" if applies(request) => {
            next.phase("Deploying");
            true
        }
        "Deploying" => deploy(&mut plan, request, observed, &mut next),
        "Deployed" => {
            watch(&mut plan, request, observed, &mut next);
            true
        }
        _ => true,
    };
    plan.status = is_told.then(|| next.value());
    plan
}

fn applies(request: &Object) -> bool {
    request.value["spec"]["autoApply"] != false
}

fn may_change(request: &Object, phase: &str) -> bool {
    let is_fixed = FIXED.contains(&phase);
    // A spec that is only looked at may be changed, and a ready one may be applied.
    !is_fixed || phase == "Ready" || (phase == "Profiling" && !applies(request))
}

/// A new request is judged before anything is made for it.
fn begin(plan: &mut Plan, request: &Object, observed: &Observed, next: &mut Status) {
    let spec = &request.value["spec"];
    let problem = if spec["searchStrategy"] == "thorough" && spec["backend"] == "auto" {
        Some("searchStrategy \"thorough\" needs a backend other than \"auto\"".to_owned())
    } else if !observed.has_claim {
        let claim = text(&spec["modelCache"]["pvcName"]);
        Some(format!("PersistentVolumeClaim \"{claim}\" of spec.modelCache does not exist"))
    } else if !hardware::is_said(spec) && observed.hardware.is_none() {
        let what = "no GPU was found on the nodes; set spec.hardware.gpuSku, vramMb and \
                    numGpusPerNode";
        Some(what.to_owned())
    } else {
        None
    };
    if let Some(problem) = problem {
        next.fail(VALIDATION, "ValidationFailed", &problem);
        plan.notices.push(Notice::failure("ValidationFailed", problem));
        return;
    }
    next.phase("Pending");
    next.condition(VALIDATION, Truth::True, "ValidationPassed", "DGDR spec validation passed");
    let message = "Discovering GPU hardware and preparing profiling job";
    next.condition(PROFILING, Truth::False, "DiscoveringHardware", message);
    plan.notices.push(Notice::normal("Initialized", "DGDR initialized successfully"));
}

/// Makes what measures; whether the status is to be written.
fn prepare(
    plan: &mut Plan,
    (settings, request): (&Settings, &Object),
    observed: &Observed,
    next: &mut Status,
) -> bool {
    let spec = &request.value["spec"];
    let found = observed.hardware.as_ref();
    if let Some(patch) = found.and_then(|found| hardware::missing(spec, found)) {
        plan.patch(Target::unchanged(REQUEST, request), patch);
        return false;
    }
    if observed.job.is_some() {
        next.phase("Profiling");
        next.set("profilingPhase", json!("Initializing"));
        next.set("profilingJobName", json!(job::job_name(request)));
        next.condition(PROFILING, Truth::False, "Initializing", "Profiling job created");
        plan.notices.push(Notice::normal("ProfilingJobCreated", "Profiling job created"));
        return true;
    }
    if let Some(stranger) = &observed.stranger {
        let message = format!("Job {} of another is still there", stranger.name);
        next.condition(PROFILING, Truth::False, "WaitingForJobName", &message);
        plan.notices.push(Notice::warning("WaitingForJobName", message));
        plan.wake = Wake::After(RETRY);
        return true;
    }
    // What an earlier Job left must not be taken for what this one will.
    if let Some(stale) = observed.output.as_ref().or(observed.stale.as_ref()) {
        plan.delete(Target::of(CONFIG_MAP, stale));
        return false;
    }
    accounts::make(plan, settings, request, observed);
    let wanted = job::job(request, settings);
    Sync::new(plan, Some((REQUEST, request))).keep(JOB, None, wanted);
    false
}

/// Looks at what measures; whether the status is to be written.
fn profile(plan: &mut Plan, request: &Object, observed: &Observed, next: &mut Status) -> bool {
    let progress = output::read(observed.output.as_deref());
    tell_progress(plan, next, &progress);
    let job = observed.job.as_ref().map(|job| &job.value["status"]);
    let has = |kind: &str| job.is_some_and(|status| conditions::is_true(status, kind));
    let failure = match (&progress.end, job) {
        (Some(End::Failed(error)), _) => Some(format!("profiling failed: {error}")),
        // A Job that has done its work may be cleared away.
        (Some(End::Succeeded(_)), None) => None,
        (_, None) => Some("profiling failed: the profiling job is gone".to_owned()),
        (_, Some(status)) if has("Failed") => {
            let why = conditions::find(status, "Failed").map(|one| text(&one["message"]));
            Some(format!("profiling failed: {}", why.unwrap_or_default()))
        }
        _ => None,
    };
    if let Some(failure) = failure {
        let phase = progress.phase.unwrap_or_else(|| known(request));
        let reason = if phase.is_empty() { "Profiling" } else { phase };
        next.fail(PROFILING, &format!("{reason}Failed"), &failure);
        plan.notices.push(Notice::failure("ProfilingCheckFailed", failure));
        return true;
    }
    match (&progress.end, has("Complete") || job.is_none()) {
        (Some(End::Succeeded(documents)), true) => match generate::read(request, documents) {
            Ok(generated) => hand_over(plan, (request, observed), &generated, next),
            Err(problem) => not_generated(plan, next, problem),
        },
        _ => true,
    }
}

/// Ends a request of whose output no graph can be made; the status is to be written.
fn not_generated(plan: &mut Plan, next: &mut Status, problem: String) -> bool {
    next.condition(PROFILING, Truth::True, COMPLETED.0, COMPLETED.1);
    next.fail(SPEC_GENERATED, "GenerationFailed", &problem);
    plan.notices.push(Notice::failure("GenerationFailed", problem));
    true
}

/// The phase that was last told.
fn known(request: &Object) -> &'static str {
    let said = text(&request.value["status"]["profilingPhase"]);
    let known = api::dynamo_request::PROFILING_PHASES.into_iter().find(|known| *known == said);
    known.unwrap_or_default()
}

fn tell_progress(plan: &mut Plan, next: &mut Status, progress: &Progress) {
    if let Some(unknown) = &progress.unknown {
        // What was told last stands.
        let message = format!("the profiler says that its phase is {unknown:?}: nobody knows it");
        plan.notices.push(Notice::warning("UnknownProfilingPhase", message));
        return;
    }
    let Some(phase) = progress.phase else {
        next.condition(PROFILING, Truth::False, "ProfilingRunning", "Profiling is in progress");
        return;
    };
    next.set("profilingPhase", json!(phase));
    let reason = if phase == "Done" { "Completed" } else { phase };
    let message = match progress.message.as_str() {
        "" => "Profiling is in progress",
        message => message,
    };
    next.condition(PROFILING, Truth::False, reason, message);
}

/// Keeps what was generated on the request, and then says so; whether the status is to be written.
fn hand_over(
    plan: &mut Plan,
    (request, observed): (&Object, &Observed),
    generated: &Generated,
    next: &mut Status,
) -> bool {
    let graph = serde_saphyr::to_string(&generated.graph).unwrap_or_default();
    let others: Vec<String> =
        generated.others.iter().filter_map(|one| serde_saphyr::to_string(one).ok()).collect();
    let mut others = others.join("---\n");
    if others.len() > OTHERS_BYTES_MAX {
        others.clear();
    }
    let is_kept = request.annotation(GENERATED) == Some(&graph)
        && request.annotation(OTHERS).unwrap_or_default() == others;
    if !is_kept {
        let annotations = json!({GENERATED: graph, OTHERS: others});
        let patch = json!({"metadata": {"annotations": annotations}});
        plan.patch(Target::unchanged(REQUEST, request), patch);
        return false;
    }
    for map in generate::config_maps(request, &generated.others) {
        // A status that was refused has the same done again.
        let name = text(&map["metadata"]["name"]);
        if !observed.config_maps.iter().any(|one| &*one.name.name == name) {
            plan.create(CONFIG_MAP, map);
        }
    }
    next.set("profilingResults", json!({"selectedConfig": generated.graph}));
    next.set("dgdName", json!(generate::graph_name(request)));
    next.clear("profilingPhase");
    next.condition(PROFILING, Truth::True, COMPLETED.0, COMPLETED.1);
    let message = format!("Generated spec is available in annotation {GENERATED}");
    next.condition(SPEC_GENERATED, Truth::True, "SpecGenerated", &message);
    next.phase(if applies(request) { "Deploying" } else { "Ready" });
    plan.notices.push(Notice::normal("SpecGenerated", message));
    true
}

/// Makes the graph, once; whether the status is to be written.
fn deploy(plan: &mut Plan, request: &Object, observed: &Observed, next: &mut Status) -> bool {
    let yaml = request.annotation(GENERATED).unwrap_or_default();
    let Some(graph) = &observed.graph else {
        if yaml.is_empty() {
            deleted(plan, request, next);
            return true;
        }
        let made = match generate::graph(request, yaml) {
            Ok(made) => made,
            Err(problem) => return not_generated(plan, next, problem),
        };
        let name = text(&made["metadata"]["name"]).to_owned();
        plan.create(version_of(&made), made);
        let message = format!("DynamoGraphDeployment {name} created successfully");
        plan.notices.push(Notice::normal("DeploymentCreated", message));
        return false;
    };
    let name = &graph.name.name;
    if !is_of(graph, request) {
        let message = format!(
            "DynamoGraphDeployment {name} exists and was not made for this DGDR; delete it, or \
             name another in spec.overrides.dgd.metadata.name of a new DGDR"
        );
        next.condition(DEPLOYMENT_READY, Truth::False, "DeploymentInProgress", &message);
        plan.notices.push(Notice::warning("DeploymentNameTaken", message));
        plan.wake = Wake::After(RETRY);
        return true;
    }
    if !yaml.is_empty() {
        // From here on a graph that is not there was deleted by somebody.
        let blank = json!({"metadata": {"annotations": {GENERATED: ""}}});
        plan.patch(Target::unchanged(REQUEST, request), blank);
        return false;
    }
    adopt(plan, observed, graph);
    tell_replicas(next, graph);
    for image in &observed.unpulled {
        plan.notices.push(Notice::warning("ImagePullFailed", image.clone()));
    }
    match text(&graph.value["status"]["state"]) {
        "successful" => {
            let message = format!("DynamoGraphDeployment {name} is ready");
            next.phase("Deployed");
            next.condition(DEPLOYMENT_READY, Truth::True, "DeploymentReady", &message);
            plan.notices.push(Notice::normal("DeploymentReady", message));
        }
        state => {
            let message = format!("DGD {name} is in {state} state");
            next.condition(DEPLOYMENT_READY, Truth::False, "DeploymentInProgress", &message);
        }
    }
    true
}

/// The kind of a graph in the version that it is written in.
fn version_of(graph: &Value) -> Kind {
    match text(&graph["apiVersion"]).rsplit_once('/') {
        Some((_, version)) if version == api::dynamo::SPOKE => {
            Kind { version: api::dynamo::SPOKE, ..GRAPH }
        }
        _ => GRAPH,
    }
}

/// What was made beside a graph goes with it.
fn adopt(plan: &mut Plan, observed: &Observed, graph: &Object) {
    for map in observed.config_maps.iter().filter(|map| map.controller().is_none()) {
        let owners = json!([owners::controller_reference(GRAPH, graph)]);
        let patch = json!({"metadata": {"ownerReferences": owners}});
        plan.patch(Target::unchanged(CONFIG_MAP, map), patch);
    }
}

fn tell_replicas(next: &mut Status, graph: &Object) {
    let (replicas, available) = generate::replicas(graph);
    next.set("deploymentInfo", json!({"replicas": replicas, "availableReplicas": available}));
}

/// Watches the graph that was made.
fn watch(plan: &mut Plan, request: &Object, observed: &Observed, next: &mut Status) {
    let own = observed.graph.as_ref().filter(|graph| is_of(graph, request));
    let Some(graph) = own else {
        return deleted(plan, request, next);
    };
    tell_replicas(next, graph);
    let state = text(&graph.value["status"]["state"]);
    if state != "successful" {
        let message = format!("DGD {} is in {state} state", graph.name.name);
        next.phase("Deploying");
        next.condition(DEPLOYMENT_READY, Truth::False, "DeploymentDegraded", &message);
        plan.notices.push(Notice::warning("DeploymentDegraded", message));
    }
}

fn deleted(plan: &mut Plan, request: &Object, next: &mut Status) {
    let name = text(&request.value["status"]["dgdName"]);
    let message = format!("DynamoGraphDeployment {name} was deleted");
    next.fail(DEPLOYMENT_READY, "DeploymentDeleted", &message);
    next.clear("dgdName");
    plan.notices.push(Notice::warning("DeploymentDeleted", message));
}

/// What is reported when a step was refused: what cannot be made ends a request, what goes beside
/// the graph does not.
pub fn refused(
    settings: &Settings,
    request: &Object,
    observed: &Observed,
    (error, now): (&Error, Timestamp),
) -> Option<Plan> {
    let said = error.said();
    let (what, is_map) = match error {
        Error::Request { what, .. } => {
            (what.as_str(), what.starts_with(&format!("create {CONFIG_MAP} ")))
        }
        Error::Other { reason } => ("", reason.starts_with(&format!("{CONFIG_MAP} "))),
        _ => return None,
    };
    if is_map {
        let plan = plan(settings, request, observed, now);
        let mut notices = plan.notices;
        notices.push(Notice::warning("ConfigMapCreationFailed", said));
        return Some(Plan { notices, status: plan.status, ..Plan::nothing() });
    }
    if let Error::Other { .. } = error {
        let notices = vec![Notice::warning("ReconcileError", said)];
        return Some(Plan { notices, ..Plan::nothing() });
    }
    let mut next = Status::of(request, now);
    if !error.is_refusal() {
        return None;
    }
    let notice = if what.starts_with(&format!("create {JOB} ")) {
        next.fail(PROFILING, "JobCreationFailed", &said);
        Notice::failure("ProfilingJobFailed", said)
    } else if what.contains(" DynamoGraphDeployment ") {
        next.fail(DEPLOYMENT_READY, "DeploymentRejected", &said);
        Notice::failure("DeploymentRejected", said)
    } else {
        return None;
    };
    Some(Plan { notices: vec![notice], status: Some(next.value()), ..Plan::nothing() })
}
