//! Plans of models, as data: a model and what its servers said in; status and notices out.

use std::time::Duration;

use serde_json::{Value, json};

use super::candidates::{Candidate, Found};
use super::lora::Outcome;
use super::*;
use crate::names::FINALIZER;
use crate::value::list;

fn model(kind: &str, more: Value) -> Object {
    let mut model = json!({
        "metadata": {"namespace": "n", "name": "m", "uid": "u", "resourceVersion": "5",
            "generation": 2, "finalizers": [FINALIZER]},
        "spec": {"modelName": "a", "baseModelName": "base", "modelType": kind,
            "source": {"uri": "file:///x"}},
    });
    reconcile::plan::merge(&mut model, &more);
    Object::new(model)
}

fn candidate(pod: &str, fallback: Option<&str>) -> Candidate {
    Candidate {
        uid: pod.to_owned(),
        pod: pod.to_owned(),
        address: format!("http://{pod}:9090"),
        is_ready: true,
        restarts: 0,
        fallback: fallback.map(str::to_owned),
    }
}

fn observed(candidates: Vec<Candidate>, outcomes: Vec<Outcome>) -> Observed {
    let services = std::iter::once("s".to_owned()).collect();
    let services = if candidates.is_empty() { Default::default() } else { services };
    let found = Found { services, candidates };
    Observed { found, outcomes, is_fresh: true, retry: Duration::from_secs(30) }
}

fn outcome(model: &Object, observed: &Observed) -> Vec<String> {
    let plan = plan::plan(model, observed, Timestamp::UNIX_EPOCH);
    let mut all: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
    if let Some(status) = &plan.status {
        for one in list(&status["conditions"]) {
            let field = |name: &str| text(&one[name]).to_owned();
            let (kind, truth, reason) = (field("type"), field("status"), field("reason"));
            all.push(format!("{kind}={truth} {reason}: {}", field("message")));
        }
        all.push(format!("{} of {}", status["readyEndpoints"], status["totalEndpoints"]));
    }
    let notices = plan.notices.iter();
    all.extend(notices.map(|one| format!("{} {}", one.severity.name(), one.reason)));
    if let reconcile::Wake::After(after) = plan.wake {
        all.push(format!("wake after {after:?}"));
    }
    all
}

#[test]
fn a_base_model_lists_its_servers() {
    let two = observed(vec![candidate("a", None), candidate("b", None)], Vec::new());
    let expected = [
        "ServicesFound=True ServicesFound: Found 1 service(s)",
        "EndpointsReady=True EndpointsDiscovered: Found 2 endpoint(s) for base model",
        "0 of 2",
        "Normal EndpointsDiscovered",
    ];
    assert_eq!(outcome(&model("base", json!({})), &two), expected);
    let expected = [
        "ServicesFound=False NoServicesFound: No endpoint slices found for base model base",
        "EndpointsReady=False NoEndpoints: No endpoint slices found for base model base",
        "0 of 0",
        "Warning NoEndpointsFound",
    ];
    assert_eq!(outcome(&model("base", json!({})), &observed(Vec::new(), Vec::new())), expected);
}

#[test]
fn an_adapter_is_ready_when_all_servers_have_it_or_are_stood_in_for() {
    let lora = model("lora", json!({}));
    let two = || vec![candidate("a", None), candidate("b", None)];
    let failed = Outcome::Failed("status 404".to_owned());
    let all = outcome(&lora, &observed(two(), vec![Outcome::Done, Outcome::Done]));
    let ready = "EndpointsReady=True AllEndpointsReady: All 2 endpoint(s) are ready or covered \
                 by a capable prefill";
    assert_eq!(all[1..], [ready, "2 of 2", "Normal EndpointsReady"]);
    let half = outcome(&lora, &observed(two(), vec![Outcome::Done, failed]));
    let not = "EndpointsReady=False NotReady: Found 1 ready endpoint(s) and 0 fallback-covered \
               endpoint(s) out of 2 total";
    let warnings = ["Warning NotReady", "Warning PartialEndpointFailure", "wake after 30s"];
    assert_eq!(half[1..], [&[not, "1 of 2"][..], &warnings].concat());
    let prefill = || vec![candidate("a", Some("g")), candidate("b", Some("g"))];
    let stood_in = observed(prefill(), vec![Outcome::Done, Outcome::Unable]);
    assert_eq!(outcome(&lora, &stood_in)[2], "1 of 2");
    let status = plan::plan(&lora, &stood_in, Timestamp::UNIX_EPOCH).status.expect("a status");
    assert_eq!(status["loraFallbackCoveredEndpoints"], 1);
    assert_eq!(status["endpoints"][1]["loraFallbackCovered"], true);
    assert!(reconcile::conditions::is_true(&status, "EndpointsReady"));
    let nobody = observed(prefill(), vec![Outcome::Unable, Outcome::Unable]);
    assert_eq!(outcome(&lora, &nobody)[2], "0 of 2");
}

#[test]
fn a_model_is_held_first_and_let_go_whatever_servers_say() {
    let bare = model("lora", json!({"metadata": {"finalizers": null}}));
    let hold = "patch nvidia.com/v1alpha1 DynamoModel n/m \
                {\"metadata\":{\"finalizers\":[\"nvidia.com/finalizer\"]}}";
    assert_eq!(outcome(&bare, &Observed::default()), [hold]);
    let going = json!({"metadata": {"deletionTimestamp": "1970-01-01T00:00:00Z"}});
    let going = model("lora", going);
    let let_go = "patch nvidia.com/v1alpha1 DynamoModel n/m {\"metadata\":{\"finalizers\":[]}}";
    let two = vec![candidate("a", None), candidate("b", None)];
    let outcomes = vec![Outcome::Done, Outcome::Failed("no answer".to_owned())];
    let expected = [let_go, "Normal LoRAUnloaded", "Warning LoRAUnloadFailed"];
    assert_eq!(outcome(&going, &observed(two, outcomes)), expected);
    assert_eq!(outcome(&going, &observed(Vec::new(), Vec::new())), [let_go]);
}

#[test]
fn what_was_told_is_not_told_again() {
    let two = || observed(vec![candidate("a", None)], vec![Outcome::Done]);
    let first = plan::plan(&model("lora", json!({})), &two(), Timestamp::UNIX_EPOCH);
    let told = model("lora", json!({"status": first.status.expect("a status")}));
    let again = Observed { is_fresh: false, ..two() };
    assert!(plan::plan(&told, &again, Timestamp::UNIX_EPOCH).notices.is_empty());
}
