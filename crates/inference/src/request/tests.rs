//! A request from its first look to its end, as data: what there is in, steps and status out.

use serde_json::{Value, json};

use super::*;
use crate::value::{list, text};

const DOCUMENTS: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: curves}
data: {a: b}
---
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: whatever, uid: x}
spec:
  components: [{name: Frontend, type: frontend}, {name: decode, type: decode, replicas: 2}]
";

fn request(more: Value) -> Object {
    let mut request = json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentRequest",
        "metadata": {"namespace": "n", "name": "r", "uid": "u", "resourceVersion": "5",
            "generation": 1},
        "spec": {"model": "m", "backend": "vllm", "image": "i:1.0.0", "autoApply": true,
            "hardware": {"gpuSku": "l4", "vramMb": 24_000, "numGpusPerNode": 1}},
    });
    reconcile::plan::merge(&mut request, &more);
    Object::new(request)
}

fn in_phase(phase: &str, more: Value) -> Object {
    let mut whole =
        json!({"status": {"phase": phase, "observedGeneration": 1, "dgdName": "r-dgd"}});
    reconcile::plan::merge(&mut whole, &more);
    request(whole)
}

fn job(condition: Option<&str>) -> Option<Arc<Object>> {
    let conditions = condition.map(|kind| {
        json!([{"type": kind, "status": "True",
        "message": "Job has reached the specified backoff limit"}])
    });
    Some(Arc::new(Object::new(json!({"metadata": {"namespace": "n", "name": "profile-r"},
        "status": {"conditions": conditions}}))))
}

fn output(data: Value) -> Option<Arc<Object>> {
    Some(Arc::new(Object::new(json!({"metadata": {"namespace": "n", "name": "dgdr-output-r",
        "uid": "o"}, "data": data}))))
}

fn graph(state: &str) -> Option<Arc<Object>> {
    Some(Arc::new(Object::new(json!({
        "metadata": {"namespace": "n", "name": "r-dgd", "uid": "g",
            "labels": {NAME_LABEL: "r", NAMESPACE_LABEL: "n"}},
        "spec": {"components": [{"name": "a"}, {"name": "b", "replicas": 2}]},
        "status": {"state": state, "components": {"a": {"readyReplicas": 1},
            "b": {"readyReplicas": 1}}}}))))
}

fn observed() -> Observed {
    Observed { has_claim: true, ..Observed::default() }
}

fn planned(request: &Object, observed: &Observed) -> Plan {
    plan::plan(&Settings::default(), request, observed, Timestamp::UNIX_EPOCH)
}

/// Steps in short, the phase, and the reason and message of the end.
fn outcome(request: &Object, observed: &Observed) -> Vec<String> {
    let plan = planned(request, observed);
    let short = |step: &reconcile::Step| match step {
        reconcile::Step::Patch { target, .. } => format!("patch {}", target.name.name),
        step => step.to_string(),
    };
    let mut all: Vec<String> = plan.steps.iter().map(short).collect();
    all.extend(plan.notices.iter().map(|notice| notice.reason.to_owned()));
    if let Some(status) = &plan.status {
        let end = list(&status["conditions"]).iter().find(|one| one["type"] == "Succeeded");
        let end = end.expect("how it stands");
        let (reason, message) = (text(&end["reason"]), text(&end["message"]));
        all.push(format!("{} {reason}: {message}", text(&status["phase"])));
    }
    all
}

#[test]
fn a_new_request_is_judged_first() {
    let good = ["Initialized", "Pending Pending: DGDR is pending"];
    assert_eq!(outcome(&request(json!({})), &observed()), good);
    let bad = |request: Object, observed: Observed| outcome(&request, &observed).remove(1);
    let thorough = json!({"spec": {"searchStrategy": "thorough", "backend": "auto"}});
    let why = bad(request(thorough), observed());
    assert!(why.starts_with("Failed ValidationFailed: Validation failed: searchStrategy"), "{why}");
    let cache = json!({"spec": {"modelCache": {"pvcName": "models"}}});
    let why = bad(request(cache), Observed { has_claim: false, ..observed() });
    assert!(why.contains("\"models\""), "{why}");
    let why = bad(request(json!({"spec": {"hardware": null}})), observed());
    assert!(why.contains("no GPU was found"), "{why}");
}

#[test]
fn what_measures_is_made_and_waited_for() {
    let pending = in_phase("Pending", json!({}));
    let stale = Observed { output: output(json!({})), ..observed() };
    assert_eq!(outcome(&pending, &stale), ["delete v1 ConfigMap n/dgdr-output-r"]);
    let made = [
        "create v1 ServiceAccount n/dgdr-profiling-job",
        "create rbac.authorization.k8s.io/v1 RoleBinding n/dgdr-profiling-job-binding",
        "create batch/v1 Job n/profile-r",
    ];
    assert_eq!(outcome(&pending, &observed()), made);
    // A request of the same name went: what it left is waited for, not taken.
    let other = Observed { stranger: Some(Name::new("n", "profile-r")), ..observed() };
    let waits = ["WaitingForJobName", "Pending Pending: DGDR is pending"];
    assert_eq!(outcome(&pending, &other), waits);
    assert!(matches!(planned(&pending, &other).wake, reconcile::Wake::After(_)));
    let stale = Observed { stale: output(json!({})), ..observed() };
    assert_eq!(outcome(&pending, &stale), ["delete v1 ConfigMap n/dgdr-output-r"]);
    let there = Observed { job: job(None), ..observed() };
    let expected = ["ProfilingJobCreated", "Profiling Profiling: Profiling is in progress"];
    assert_eq!(outcome(&pending, &there), expected);
    let found = hardware::Hardware {
        gpu: "l4",
        memory_mb: 1.0,
        gpus_per_node: 1,
        gpus: 1,
        ..Default::default()
    };
    let found = Observed { hardware: Some(found), ..observed() };
    let bare = in_phase("Pending", json!({"spec": {"hardware": null}}));
    assert_eq!(outcome(&bare, &found), ["patch r"]);
}

#[test]
fn the_job_of_a_request_is_what_profilers_expect() {
    let made = job::job(&request(json!({})), &Settings::default());
    let pod = &made["spec"]["template"]["spec"];
    let profiler = &pod["containers"][0];
    assert_eq!(profiler["command"], json!(["python", "-m", "dynamo.profiler"]));
    let args = list(&profiler["args"]);
    let config: Value = serde_json::from_str(text(&args[1])).expect("JSON");
    assert_eq!(config["model"], "m");
    assert_eq!((&args[2], &args[3]), (&json!("--output-dir"), &json!("/data")));
    assert_eq!(made["metadata"]["labels"]["app"], "dynamo-profiler");
    assert_eq!(
        (&pod["restartPolicy"], &made["spec"]["backoffLimit"]),
        (&json!("Never"), &json!(0))
    );
    assert_eq!(pod["containers"][1]["name"], "output-copier");
}

#[test]
fn progress_and_failure_are_told() {
    let profiling = in_phase("Profiling", json!({}));
    let at = |job: Option<Arc<Object>>, data: Value| {
        let observed = Observed { job, output: output(data), ..observed() };
        let plan = planned(&profiling, &observed);
        let status = plan.status.expect("a status");
        let condition = reconcile::conditions::find(&status, "Profiling").expect("one");
        let (reason, message) = (text(&condition["reason"]), text(&condition["message"]));
        format!("{} {reason}: {message}", text(&status["phase"]))
    };
    let sweeping = json!({"phase": "SweepingPrefill", "message": "2 of 9"});
    assert_eq!(at(job(None), json!({})), "Profiling ProfilingRunning: Profiling is in progress");
    assert_eq!(at(job(None), sweeping.clone()), "Profiling SweepingPrefill: 2 of 9");
    let failed = at(job(Some("Failed")), sweeping);
    assert!(failed.starts_with("Failed SweepingPrefillFailed: profiling failed: Job has"));
    let said = json!({"profiler_status": "failed", "profiler_error": "out of memory"});
    assert_eq!(at(job(None), said), "Failed ProfilingFailed: profiling failed: out of memory");
    assert!(at(None, json!({})).starts_with("Failed ProfilingFailed"));
    // A phase that nobody knows is warned of; what was told last stands.
    let told = json!({"status": {"profilingPhase": "SweepingDecode", "conditions": [
        {"type": "Profiling", "status": "False", "reason": "SweepingDecode", "message": "m"}]}});
    let sweeping = in_phase("Profiling", told);
    let odd = Observed { job: job(None), output: output(json!({"phase": "Odd"})), ..observed() };
    let plan = planned(&sweeping, &odd);
    assert_eq!(plan.notices[0].reason, "UnknownProfilingPhase");
    let status = plan.status.expect("a status");
    assert_eq!(status["profilingPhase"], "SweepingDecode");
    let condition = reconcile::conditions::find(&status, "Profiling").expect("one");
    assert_eq!(condition["reason"], "SweepingDecode");
    // Measured, but nothing is there yet: it is waited for.
    assert!(at(job(Some("Complete")), json!({})).starts_with("Profiling "));
}

#[test]
fn what_was_measured_becomes_a_spec_and_then_a_graph_once() {
    let done =
        json!({"phase": "Done", "profiler_status": "success", "final_config.yaml": DOCUMENTS});
    let done =
        || Observed { job: job(Some("Complete")), output: output(done.clone()), ..observed() };
    let profiling = in_phase("Profiling", json!({}));
    assert_eq!(outcome(&profiling, &done()), ["patch r"]);
    let plan = planned(&profiling, &done());
    let reconcile::Step::Patch { patch, .. } = &plan.steps[0] else { panic!("{plan}") };
    let kept = |apply: bool| {
        in_phase(
            "Profiling",
            json!({"metadata": patch["metadata"].clone(),
        "spec": {"autoApply": apply}}),
        )
    };
    let made = "create v1 ConfigMap n/curves";
    let ready = [made, "SpecGenerated", "Ready SpecGenerated: Profiling complete, spec available"];
    assert_eq!(outcome(&kept(false), &done()), ready);
    let deploying = [made, "SpecGenerated", "Deploying Deploying: Deployment is in progress"];
    assert_eq!(outcome(&kept(true), &done()), deploying);
    let status = planned(&kept(true), &done()).status.expect("a status");
    assert_eq!(status["dgdName"], "r-dgd");
    let selected = &status["profilingResults"]["selectedConfig"];
    assert_eq!(selected["metadata"], json!({"name": "r-dgd", "namespace": "n"}));
    let deploying = in_phase("Deploying", json!({"metadata": patch["metadata"].clone()}));
    let create = ["create nvidia.com/v1beta1 DynamoGraphDeployment n/r-dgd", "DeploymentCreated"];
    assert_eq!(outcome(&deploying, &observed()), create);
    let plan = planned(&deploying, &observed());
    let reconcile::Step::Create { object, .. } = &plan.steps[0] else { panic!("{plan}") };
    assert_eq!(object["metadata"]["ownerReferences"], Value::Null);
    assert_eq!(object["metadata"]["labels"][NAME_LABEL], "r");
    assert_eq!(object["metadata"]["annotations"][UID], "u");
    // One that was made for an earlier request of the name is nobody's to take.
    let mut earlier = graph("successful").expect("one").value.clone();
    earlier["metadata"]["annotations"] = json!({UID: "before"});
    let earlier = Observed { graph: Some(Arc::new(Object::new(earlier))), ..observed() };
    let taken = ["DeploymentNameTaken", "Deploying Deploying: Deployment is in progress"];
    assert_eq!(outcome(&deploying, &earlier), taken);
    // It is there: from now on nobody makes it again.
    let there = || Observed { graph: graph("pending"), ..observed() };
    assert_eq!(outcome(&deploying, &there()), ["patch r"]);
    let blank = in_phase("Deploying", json!({"metadata": {"annotations": {GENERATED: ""}}}));
    let waits = ["Deploying Deploying: Deployment is in progress"];
    assert_eq!(outcome(&blank, &there()), waits);
    let info = planned(&blank, &there()).status.expect("a status")["deploymentInfo"].clone();
    assert_eq!(info, json!({"replicas": 3, "availableReplicas": 2}));
    let serves = Observed { graph: graph("successful"), ..observed() };
    let expected = ["DeploymentReady", "Deployed Deployed: Deployment is healthy"];
    assert_eq!(outcome(&blank, &serves), expected);
    let gone = [
        "DeploymentDeleted",
        "Failed DeploymentDeleted: Deployment failed: \
        DynamoGraphDeployment r-dgd was deleted",
    ];
    assert_eq!(outcome(&blank, &observed()), gone);
}

#[test]
fn a_graph_that_serves_is_watched() {
    let deployed = in_phase("Deployed", json!({}));
    let worse = Observed { graph: graph("pending"), ..observed() };
    let expected = ["DeploymentDegraded", "Deploying Deploying: Deployment is in progress"];
    assert_eq!(outcome(&deployed, &worse), expected);
    assert!(outcome(&deployed, &observed())[1].starts_with("Failed DeploymentDeleted"));
    let ready = in_phase("Ready", json!({}));
    let expected = ["Deploying Deploying: Deployment is in progress"];
    assert_eq!(outcome(&ready, &observed()), expected);
}

#[test]
fn bad_output_ends_a_request_and_says_why() {
    let profiling = in_phase("Profiling", json!({}));
    for (documents, why) in [
        ("a: [", "no YAML"),
        ("kind: ConfigMap\napiVersion: v1\n", "exactly one DynamoGraphDeployment"),
    ] {
        let data = json!({"profiler_status": "success", "final_config.yaml": documents});
        let observed = Observed { job: job(Some("Complete")), output: output(data), ..observed() };
        let said = outcome(&profiling, &observed).remove(1);
        assert!(said.starts_with("Failed GenerationFailed: Spec generation failed: "), "{said}");
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn a_job_that_was_cleared_away_after_it_succeeded_is_not_missed() {
    let data = json!({"profiler_status": "success", "final_config.yaml": DOCUMENTS});
    let done = Observed { output: output(data), ..observed() };
    assert_eq!(outcome(&in_phase("Profiling", json!({})), &done), ["patch r"]);
}

#[test]
fn a_kept_spec_that_nobody_can_read_ends_its_request_and_says_why() {
    let broken = json!({"metadata": {"annotations": {GENERATED: "a: ["}}});
    let said = outcome(&in_phase("Deploying", broken), &observed());
    assert_eq!(said[0], "GenerationFailed");
    assert!(said[1].starts_with("Failed GenerationFailed: Spec generation failed: "), "{said:?}");
}

#[test]
fn a_request_that_is_measured_for_is_what_it_was() {
    let changed = in_phase("Deploying", json!({"metadata": {"generation": 2}}));
    assert_eq!(outcome(&changed, &observed()), ["SpecChangeRejected"]);
    let pending = in_phase("Pending", json!({"metadata": {"generation": 2}}));
    assert_eq!(outcome(&pending, &observed()).len(), 3);
}
