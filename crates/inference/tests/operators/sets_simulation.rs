//! The operator for LeaderWorkerSets on trial: under every fault that its own trace offers, with
//! what must hold of groups (DY-1, DY-2, DY-4) checked over everything that was written.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use inference::kinds::{LEADER_WORKER_SET, POD};
use inference::leader_worker_set::labels;
use inference::value::text;
use reconcile::plan::Target;
use reconcile::{Context, Kind, Name, conditions};
use serde_json::{Value, json};
use testkit::Cluster;
use testkit::oracle::{Case, Check, Violation};
use testkit::simulation::{self, Also, Trial};

use crate::world::{image, install_bare, options, play, set};

/// Trials are named after the user that the operators are.
macro_rules! concat_name {
    ($what:literal) => {
        concat!("system:serviceaccount:dynamo-system:dynamo-operator-controller-manager/", $what)
    };
}

type Workload = fn(Arc<Cluster>, Context) -> Pin<Box<dyn Future<Output = ()> + Send>>;

const fn trial(name: &'static str, workload: Workload) -> Trial {
    Trial {
        name,
        seed: 1,
        component: |context| {
            Box::pin(async move {
                let mut running = inference::start(&context, &options());
                while running.join_next().await.is_some() {}
            })
        },
        workload,
        play: |context| Box::pin(play(context)),
    }
}

/// Pods that there are at a moment, by their names.
type Pods<'a> = BTreeMap<&'a str, &'a Value>;

/// Calls with what pods there are after every change.
fn replay<'a>(case: &'a Case<'_>, mut look: impl FnMut(&Pods<'a>)) {
    let mut pods: Pods<'a> = BTreeMap::new();
    for change in case.run.history.iter().filter(|change| change.key.starts_with("pods/")) {
        match &change.new {
            Some(new) => pods.insert(text(&new["metadata"]["name"]), new),
            None => change.old.as_ref().and_then(|old| pods.remove(text(&old["metadata"]["name"]))),
        };
        look(&pods);
    }
}

fn label<'a>(pod: &'a Value, name: &str) -> &'a str {
    text(&pod["metadata"]["labels"][name])
}

fn owner(object: &Value) -> &str {
    text(&object["metadata"]["ownerReferences"][0]["uid"])
}

/// The workers of each leader, by the UIDs of their StatefulSets.
fn sets_of<'a>(case: &'a Case<'_>) -> BTreeMap<&'a str, &'a str> {
    let changes = case.run.history.iter().filter(|change| change.key.contains("statefulsets"));
    let made = changes.filter_map(|change| change.new.as_ref());
    made.map(|set| (text(&set["metadata"]["uid"]), owner(set))).collect()
}

/// Never two revisions in one group.
fn groups_are_of_one_revision(case: &Case<'_>) -> Vec<Violation> {
    let leaders_of = sets_of(case);
    let mut leaders: BTreeMap<String, (String, Value)> = BTreeMap::new();
    let mut violations = Vec::new();
    replay(case, |pods| {
        for pod in pods.values() {
            let image = pod["spec"]["containers"][0]["image"].clone();
            let revision = label(pod, labels::REVISION).to_owned();
            if label(pod, labels::WORKER_INDEX) == labels::LEADER {
                let uid = text(&pod["metadata"]["uid"]).to_owned();
                leaders.insert(uid, (revision, image));
                continue;
            }
            let leader = leaders_of.get(owner(pod)).and_then(|uid| leaders.get(*uid));
            if leader.is_some_and(|leader| *leader != (revision, image)) {
                let name = text(&pod["metadata"]["name"]);
                violations.push(Violation::new("DY-4", format!("{name} is of another revision")));
            }
        }
    });
    violations
}

/// A group that lost one of its pods is not served from: it is whole again, or it goes.
fn groups_end_whole(case: &Case<'_>) -> Vec<Violation> {
    let objects = &case.run.objects;
    let pods: Vec<&Value> = objects.values().filter(|one| one["kind"] == "Pod").collect();
    let leaders_of = sets_of(case);
    let mut violations = Vec::new();
    for pod in &pods {
        if label(pod, labels::WORKER_INDEX) == labels::LEADER {
            continue;
        }
        let leader = leaders_of.get(owner(pod)).copied().unwrap_or_default();
        if !pods.iter().any(|one| text(&one["metadata"]["uid"]) == leader) {
            let name = text(&pod["metadata"]["name"]);
            violations.push(Violation::new("DY-2", format!("{name} has outlived its leader")));
        }
    }
    violations
}

/// While a set is updated, no more groups are missing than may be: one of two serves.
fn enough_groups_serve(case: &Case<'_>) -> Vec<Violation> {
    let leaders_of = sets_of(case);
    let is_ready = |pod: &Value| {
        pod["metadata"]["deletionTimestamp"].is_null()
            && conditions::is_true(&pod["status"], "Ready")
    };
    let (mut most, mut violations) = (0, Vec::new());
    replay(case, |pods| {
        let leaders = pods
            .values()
            .filter(|pod| label(pod, labels::WORKER_INDEX) == labels::LEADER && is_ready(pod));
        let serves = |leader: &&&Value| {
            let uid = text(&leader["metadata"]["uid"]);
            let of_it = |pod: &&&Value| leaders_of.get(owner(pod)) == Some(&uid) && is_ready(pod);
            pods.values().filter(of_it).count() == 1
        };
        let serving = leaders.filter(serves).count();
        most = most.max(serving);
        if most >= 2 && serving < 1 {
            violations.push(Violation::new("DY-4", format!("only {serving} groups serve")));
        }
    });
    violations
}

/// Plans of each trial in the default suite; the long one has more.
const SAMPLES_MAX: usize = 20;

fn try_everything(trial: Trial, oracles: &'static [Check], plans_min: usize) {
    let also = Also { oracles, samples_max: SAMPLES_MAX, ..Also::default() };
    let plans = simulation::try_with(trial, also);
    println!("{plans} plans");
    assert!(plans > plans_min, "{plans}");
}

const ALWAYS: &[Check] = &[groups_are_of_one_revision, groups_end_whole];

async fn change(context: &Context, kind: Kind, name: &str, patch: Value) {
    tokio::time::sleep(Duration::from_secs(1_800)).await;
    let requests = context.requests("test", Default::default());
    let found = requests.get(kind, &Name::new("default", name)).await.expect("readable");
    let target = Target::of(kind, &found.expect("it is there"));
    requests.patch(&target, &patch).await.expect("changed");
}

#[test]
fn no_fault_changes_how_a_group_begins_again() {
    let workload: Workload = |cluster, context| {
        Box::pin(async move {
            install_bare(&cluster).await;
            cluster.create(LEADER_WORKER_SET, set("s", 1, 2, json!({}))).await;
            tokio::time::sleep(Duration::from_secs(1_800)).await;
            let requests = context.requests("test", Default::default());
            let name = Name::new("default", "s-0-1");
            let worker = requests.get(POD, &name).await.expect("readable").expect("it is there");
            let target = Target::of(POD, &worker);
            requests.delete(&target, &Default::default()).await.expect("deleted");
        })
    };
    try_everything(trial(concat_name!("begins-again"), workload), ALWAYS, 30);
}

#[test]
fn no_fault_changes_how_an_update_walks_over_the_groups() {
    const ROLLING: &[Check] = &[groups_are_of_one_revision, groups_end_whole, enough_groups_serve];
    let workload: Workload = |cluster, context| {
        Box::pin(async move {
            install_bare(&cluster).await;
            cluster.create(LEADER_WORKER_SET, set("s", 2, 2, json!({}))).await;
            change(&context, LEADER_WORKER_SET, "s", image("two")).await;
        })
    };
    try_everything(trial(concat_name!("update"), workload), ROLLING, 50);
}
