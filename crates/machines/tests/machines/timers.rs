//! Timers that look again where no change tells, on time that is paused: events are withheld, or
//! there are none.

use std::time::Duration;

use machines::kinds::{STORAGE_CLASS, WUKONG};
use machines::manifests;
use reconcile::Kind;
use serde_json::json;
use testkit::faults::{Fault, Planned};
use testkit::simulation::{self, Run, Trial};

use crate::simulation::{WHILE, Workload, change, trial};
use crate::world::{install_bare, install_these, wukong};

const NAME: &str = "system:serviceaccount:novasphere-system:novasphere-controller-manager/timers";
const HELD_SECONDS: u64 = 1_000;

fn one_machine() -> Trial {
    let workload: Workload = |cluster, _| {
        Box::pin(async move {
            install_bare(&cluster).await;
            let disks = json!({"disks": [{"name": "root", "size": "1Gi",
                "storageClassName": "later"}]});
            cluster.create(WUKONG, wukong("slowly", disks)).await;
        })
    };
    trial(NAME, workload)
}

/// Withholds what is told of a kind, from its first change on.
fn held(reference: &Run, plural: &str) -> Vec<Planned> {
    let event = reference.events.iter().find(|event| {
        event.kind == "MODIFIED" && event.sort.route.ends_with(&format!("/{plural}"))
    });
    let event = event.expect("it changes");
    let fault = Fault::Hold(HELD_SECONDS);
    vec![Planned { sort: event.sort.clone(), number: event.number, fault }]
}

/// When the operator made its first successful request of a sort.
fn when(run: &Run, method: &str, ends: &str) -> Duration {
    let found = run.made.iter().find(|made| {
        made.sort.method == method && made.sort.route.ends_with(ends) && made.is_success()
    });
    found.unwrap_or_else(|| panic!("no {method} of {ends}: {:#?}", run.made)).at
}

fn between(low: u64, high: u64, took: Duration) {
    let range = Duration::from_secs(low)..=Duration::from_secs(high);
    assert!(range.contains(&took), "{took:?}");
}

#[test]
fn volumes_are_looked_at_again_after_ten_seconds() {
    let reference = simulation::run(one_machine(), 1, Vec::new());
    let made = |run: &Run| {
        when(run, "POST", "/virtualmachines") - when(run, "POST", "/persistentvolumeclaims")
    };
    between(4, 6, made(&reference));
    let run = simulation::run(one_machine(), 1, held(&reference, "persistentvolumeclaims"));
    between(9, 11, made(&run));
}

#[test]
fn a_machine_is_looked_at_again_after_ten_seconds() {
    let reference = simulation::run(one_machine(), 1, Vec::new());
    let kinds = ["virtualmachineinstances", "virtualmachines"];
    let planned = kinds.iter().flat_map(|kind| held(&reference, kind)).collect();
    let run = simulation::run(one_machine(), 1, planned);
    let seconds = |run: &Run| {
        let runs = run.history.iter().find(|change| {
            let new = change.new.as_ref().filter(|new| new["kind"] == "Wukong");
            new.is_some_and(|new| new["status"]["phase"] == "Running")
        });
        let revision = runs.expect("it runs").revision;
        let made = run.made.iter().find(|made| made.revision == revision);
        made.expect("the operator said so").at - when(run, "POST", "/virtualmachines")
    };
    between(4, 6, seconds(&reference));
    between(9, 11, seconds(&run));
}

/// A server that refuses is asked again after half a minute, not at once and not much later.
#[test]
fn what_was_refused_is_tried_again_after_half_a_minute() {
    let workload: Workload = |cluster, _| {
        Box::pin(async move {
            install_bare(&cluster).await;
            let quota = Kind::namespaced("", "v1", "ResourceQuota", "resourcequotas");
            let hard = json!({"persistentvolumeclaims": "0"});
            let made = json!({"metadata": {"namespace": "default", "name": "q"},
                "spec": {"hard": hard}});
            let made = cluster.create(quota, made).await;
            let told = json!({"status": {"hard": hard, "used": hard}});
            let context = cluster.context();
            let requests = context.requests("test", Default::default());
            let target = reconcile::plan::Target::of(quota, &made).part("status");
            requests.patch(&target, &told).await.expect("told");
            cluster.create(WUKONG, wukong("w", json!({}))).await;
            tokio::time::sleep(Duration::from_secs(100)).await;
            let target = reconcile::plan::Target::of(quota, &made);
            requests.delete(&target, &Default::default()).await.expect("deleted");
        })
    };
    let run = simulation::run(trial(NAME, workload), 1, Vec::new());
    let tries = run.made.iter().filter(|made| {
        made.sort.method == "POST" && made.sort.route.ends_with("/persistentvolumeclaims")
    });
    let tries: Vec<Duration> = tries.map(|made| made.at).collect();
    // Its own report wakes it once; from then on nothing does.
    let later: Vec<&Duration> =
        tries.iter().filter(|at| **at > tries[0] + Duration::from_secs(1)).collect();
    between(29, 46, *later[0] - tries[0]);
    assert!(tries.len() <= 8, "{tries:?}");
    let last = run.objects.iter().find(|(key, _)| key.ends_with("default/w"));
    assert!(last.is_some_and(|(_, one)| one["status"]["phase"] == "Running"), "{last:?}");
}

/// A disk without a class waits for the cluster to have a default.
#[test]
fn a_default_class_that_comes_is_used() {
    let workload: Workload = |cluster, context| {
        Box::pin(async move {
            install_bare(&cluster).await;
            let mark = |is: &str| {
                json!({"metadata": {"annotations":
                {"storageclass.kubernetes.io/is-default-class": is}}})
            };
            mark_class(&context, mark("false")).await;
            let disks = json!({"disks": [{"name": "root", "size": "1Gi"}]});
            cluster.create(WUKONG, wukong("w", disks)).await;
            tokio::time::sleep(WHILE).await;
            mark_class(&context, mark("true")).await;
        })
    };
    let run = simulation::run(trial(NAME, workload), 1, Vec::new());
    let wukong = run.objects.iter().find(|(key, _)| key.ends_with("default/w"));
    assert_eq!(wukong.expect("there").1["status"]["phase"], "Running");
}

async fn mark_class(context: &reconcile::Context, patch: serde_json::Value) {
    let name = reconcile::Name::new("", "fast");
    let found = context.get_live(STORAGE_CLASS, &name).await.expect("readable").expect("there");
    let requests = context.requests("test", Default::default());
    let target = reconcile::plan::Target::of(STORAGE_CLASS, &found);
    requests.patch(&target, &patch).await.expect("marked");
}

/// Add-ons that come later are found, and what waited for them goes on.
#[test]
fn add_ons_that_come_later_are_used() {
    let workload: Workload = |cluster, context| {
        Box::pin(async move {
            let own: Vec<_> = api::wukong::definitions().into();
            install_these(&cluster, &own).await;
            install_these(&cluster, &manifests::roles()).await;
            let class = json!({"metadata": {"name": "fast"}, "provisioner": "played"});
            cluster.create(STORAGE_CLASS, class).await;
            cluster.create(WUKONG, wukong("w", json!({}))).await;
            tokio::time::sleep(WHILE).await;
            change(&context, WUKONG, "w", json!({"metadata": {"labels": {"a": "b"}}})).await;
            install_these(&cluster, &manifests::add_ons()).await;
        })
    };
    let component = |context: reconcile::Context| {
        let work = async move {
            let mut running = machines::start(&context, &machines::Options::default());
            while running.join_next().await.is_some() {}
        };
        Box::pin(work) as std::pin::Pin<Box<dyn Future<Output = ()> + Send>>
    };
    let asks = Trial { component, ..trial(NAME, workload) };
    let run = simulation::run(asks, 1, Vec::new());
    let missing = run.history.iter().any(|change| {
        let new = change.new.as_ref().map(|new| new["status"].to_string()).unwrap_or_default();
        new.contains("the cluster does not have virtualmachines.kubevirt.io")
    });
    assert!(missing, "it was said");
    let wukong = run.objects.iter().find(|(key, _)| key.ends_with("default/w"));
    assert_eq!(wukong.expect("there").1["status"]["phase"], "Running");
}
