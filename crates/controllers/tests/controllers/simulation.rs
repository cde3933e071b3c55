//! What the simulation itself promises: one seed is one trace, a failing plan is told with its
//! seed, and what was changed and changed back leaves nothing behind.

use std::time::Duration;

use controllers::kinds::REPLICA_SET;
use controllers::replica_set::Controller;
use reconcile::plan::Target;
use reconcile::{Name, run};
use serde_json::json;
use testkit::oracle::{self, Case, Violation};
use testkit::pods;
use testkit::simulation::{self, Also, Trial};

/// A set of two pods that get ready late and take long to go, scaled to three.
const DISTURBED: Trial = Trial {
    name: "replicaset-controller/disturbed",
    seed: 7,
    component: |context| Box::pin(run::run(context, Controller)),
    workload: |cluster, context| {
        Box::pin(async move {
            let set = json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet",
                "metadata": {"namespace": "default", "name": "web"},
                "spec": {"replicas": 2, "minReadySeconds": 30,
                    "selector": {"matchLabels": {"app": "web"}},
                    "template": {
                        "metadata": {"labels": {"app": "web"},
                            "annotations": {"play/ready-after": "5", "play/grace": "10"}},
                        "spec": {"containers": [{"name": "main", "image": "web"}]}}},
            });
            let set = cluster.create(REPLICA_SET, set).await;
            tokio::time::sleep(Duration::from_secs(1_300)).await;
            let requests = context.requests("test", Default::default());
            let patch = json!({"spec": {"replicas": 3}});
            requests.patch(&Target::of(REPLICA_SET, &set), &patch).await.expect("scaled");
        })
    },
    play: |context| Box::pin(pods::play(context)),
};

#[test]
fn no_fault_changes_where_a_disturbed_set_ends() {
    // A set ends alike however long it is held up, and whatever the clock says.
    let plans = simulation::try_with(DISTURBED, Also { incomparable: &[], ..Also::default() });
    assert!(plans > 100, "{plans}");
}

#[test]
fn two_runs_of_a_seed_are_one_trace() {
    let reference = simulation::run(DISTURBED, 7, Vec::new());
    let again = simulation::run(DISTURBED, 7, Vec::new());
    assert_eq!(reference.hash(), again.hash());
    let plans = simulation::plans(&reference);
    for plan in plans.iter().step_by(plans.len() / 5) {
        let [one, other] =
            [(); 2].map(|()| simulation::run(DISTURBED, 7, vec![plan.planned.clone()]).hash());
        assert_eq!(one, other, "{}", plan.planned);
    }
}

#[test]
fn another_seed_is_another_trace() {
    let [one, other] = [7, 8].map(|seed| simulation::run(DISTURBED, seed, Vec::new()));
    assert_ne!(one.hash(), other.hash());
    assert_eq!(one.objects.len(), other.objects.len());
}

#[test]
fn a_value_that_was_changed_back_leaves_nothing_behind() {
    let name = Name::new("default", "web");
    let [bad, good] = [9, 3].map(|replicas| json!({"spec": {"replicas": replicas}}));
    simulation::roll_back(DISTURBED, REPLICA_SET, name, [bad, good]);
}

/// An oracle that a component brings itself, and that is never content.
fn never_content(case: &Case<'_>) -> Vec<Violation> {
    vec![Violation::new("XX-1", format!("{} requests", case.run.made.len()))]
}

#[test]
fn a_component_may_bring_oracles_of_its_own() {
    let reference = simulation::run(DISTURBED, 7, Vec::new());
    let also = Also { oracles: &[never_content], ..Also::default() };
    let case = Case { reference: &reference, run: &reference, also };
    let found: Vec<&str> = oracle::check(&case).iter().map(|violation| violation.id).collect();
    assert_eq!(found, ["XX-1"]);
}
