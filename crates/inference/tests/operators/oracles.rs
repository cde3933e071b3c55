//! What must hold of graphs and of groups whatever happens: DY-1 to DY-6, DY-9 and DY-10, each
//! judged over everything that was written in a run. DY-7 is in `requests.rs`, DY-8 in
//! `checkpoint_trials.rs`.

use std::collections::{BTreeMap, BTreeSet};

use inference::leader_worker_set::labels;
use inference::names;
use inference::value::{list, text};
use reconcile::conditions;
use serde_json::Value;
use testkit::faults::Pattern;
use testkit::oracle::{Case, Check, Violation};
use testkit::record::Change;

/// What no object but a secret may hold: a key, and how secrets keep it.
pub const KEY: &str = "not-for-your-eyes";
pub const KEPT_KEY: &str = "bm90LWZvci15b3VyLWV5ZXM=";

/// What holds of groups in every trial.
pub const GROUPS: &[Check] = &[groups];

pub fn groups(case: &Case<'_>) -> Vec<Violation> {
    const ALL: &[Check] = &[
        cascades_stay_in_their_incarnation,
        groups_end_whole,
        claims_are_of_whole_groups,
        groups_are_of_one_revision,
    ];
    ALL.iter().flat_map(|check| check(case)).collect()
}

/// What holds of graphs in every trial.
pub fn graphs(case: &Case<'_>) -> Vec<Violation> {
    const ALL: &[Check] = &[old_workers_are_drained_first, secrets_stay_secret];
    ALL.iter().flat_map(|check| check(case)).collect()
}

fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

fn uid(object: &Value) -> &str {
    text(&object["metadata"]["uid"])
}

fn label<'a>(pod: &'a Value, name: &str) -> &'a str {
    text(&pod["metadata"]["labels"][name])
}

fn owner(object: &Value) -> &str {
    text(&object["metadata"]["ownerReferences"][0]["uid"])
}

fn is_of(kind: &str) -> impl Fn(&&Change) -> bool + '_ {
    move |change| change.new.as_ref().or(change.old.as_ref()).is_some_and(|one| one["kind"] == kind)
}

fn goes(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn is_ready(pod: &Value) -> bool {
    !goes(pod) && conditions::is_true(&pod["status"], "Ready")
}

/// Whether this change begins the end of an object.
fn is_deletion(change: &Change) -> bool {
    let is_over = change.new.as_ref().is_none_or(goes);
    change.old.as_ref().is_some_and(|old| !goes(old)) && is_over
}

/// Whether what the component was shown may have been of another time.
fn is_shown_the_past(case: &Case<'_>) -> bool {
    let past = [Pattern::Stale, Pattern::Unobserved];
    case.run.planned.iter().any(|one| past.contains(&one.fault.pattern()))
}

/// Pods that there are at a moment, by their names.
type Pods<'a> = BTreeMap<&'a str, &'a Value>;

/// Calls with what pods there are after every change of one.
fn replay<'a>(case: &'a Case<'_>, mut look: impl FnMut(&Pods<'a>)) {
    let mut pods: Pods<'a> = BTreeMap::new();
    for change in case.run.history.iter().filter(is_of("Pod")) {
        update(&mut pods, change);
        look(&pods);
    }
}

fn update<'a>(pods: &mut Pods<'a>, change: &'a Change) {
    match &change.new {
        Some(new) => pods.insert(name(new), new),
        None => change.old.as_ref().and_then(|old| pods.remove(name(old))),
    };
}

/// The workers of each leader, by the UIDs of their StatefulSets.
fn sets_of<'a>(case: &'a Case<'_>) -> BTreeMap<&'a str, &'a str> {
    let made = case.run.history.iter().filter(is_of("StatefulSet"));
    made.filter_map(|change| change.new.as_ref()).map(|set| (uid(set), owner(set))).collect()
}

/// The leader whose life a pod shares: itself, or that of its set.
fn incarnation<'a>(pod: &'a Value, leaders_of: &BTreeMap<&'a str, &'a str>) -> &'a str {
    match label(pod, labels::WORKER_INDEX) {
        labels::LEADER => uid(pod),
        _ => leaders_of.get(owner(pod)).copied().unwrap_or_default(),
    }
}

/// How many groups are whole: a leader and all of its workers serve.
fn whole_groups(pods: &Pods<'_>, leaders_of: &BTreeMap<&str, &str>) -> usize {
    let is_whole = |leader: &&&Value| {
        let size = text(&leader["metadata"]["annotations"][labels::SIZE]);
        let is_worker = |pod: &&&Value| leaders_of.get(owner(pod)) == Some(&uid(leader));
        let workers = pods.values().filter(is_worker).filter(|pod| is_ready(pod)).count();
        is_ready(leader) && size.parse() == Ok(workers + 1)
    };
    let is_leader = |pod: &&&Value| label(pod, labels::WORKER_INDEX) == labels::LEADER;
    pods.values().filter(is_leader).filter(is_whole).count()
}

/// DY-1: pods are deleted for the sake of their group only where one of the very same group, by
/// its leader's UID, was lost, and never those of the group that took its place.
fn cascades_stay_in_their_incarnation(case: &Case<'_>) -> Vec<Violation> {
    let leaders_of = sets_of(case);
    let mut broken: BTreeSet<&str> = BTreeSet::new();
    let mut violations = Vec::new();
    for change in case.run.history.iter().filter(is_of("Pod")) {
        let Some(pod) = change.new.as_ref().or(change.old.as_ref()) else { continue };
        if label(pod, labels::NAME).is_empty() {
            continue;
        }
        let of = incarnation(pod, &leaders_of);
        if change.actor == case.run.actor && is_deletion(change) && !broken.contains(of) {
            let what = format!("{} was deleted though its group was whole", name(pod));
            violations.push(Violation::new("DY-1", what));
        }
        let restarts = list(&pod["status"]["containerStatuses"]).iter();
        let has_restarted = restarts.clone().any(|one| one["restartCount"].as_i64() > Some(0));
        let has_ended = matches!(text(&pod["status"]["phase"]), "Failed" | "Succeeded");
        if change.new.is_none() || goes(pod) || has_ended || has_restarted {
            broken.insert(of);
        }
    }
    violations
}

/// DY-2: a group that lost one of its pods is not served from: it is whole again, or it goes.
fn groups_end_whole(case: &Case<'_>) -> Vec<Violation> {
    let objects = &case.run.objects;
    let pods: Vec<&Value> = case
        .run
        .history
        .iter()
        .filter(is_of("Pod"))
        .fold(Pods::new(), |mut pods, change| {
            update(&mut pods, change);
            pods
        })
        .into_values()
        .collect();
    let leaders_of = sets_of(case);
    let mut violations = Vec::new();
    let workers = pods.iter().filter(|pod| !label(pod, labels::WORKER_INDEX).is_empty());
    for pod in workers.filter(|pod| label(pod, labels::WORKER_INDEX) != labels::LEADER) {
        let leader = leaders_of.get(owner(pod)).copied().unwrap_or_default();
        if !pods.iter().any(|one| uid(one) == leader) {
            let what = format!("{} has outlived its leader", name(pod));
            violations.push(Violation::new("DY-2", what));
        }
    }
    let sets = objects.values().filter(|one| one["kind"] == "LeaderWorkerSet");
    for set in sets.filter(|_| case.run.is_settled) {
        let size = set["spec"]["leaderWorkerTemplate"]["size"].as_i64().unwrap_or(1);
        let wanted = set["spec"]["replicas"].as_i64().unwrap_or(1) * size;
        let of_it = pods.iter().filter(|pod| label(pod, labels::NAME) == name(set));
        let serving = of_it.filter(|pod| is_ready(pod)).count();
        if i64::try_from(serving) != Ok(wanted) {
            let what = format!("{serving} of {wanted} pods of {} serve at the end", name(set));
            violations.push(Violation::new("DY-2", what));
        }
    }
    violations
}

/// DY-3: what a set says of groups that serve were whole groups at some moment since it last said
/// otherwise, and are at the end; a component says the same at the end.
fn claims_are_of_whole_groups(case: &Case<'_>) -> Vec<Violation> {
    let leaders_of = sets_of(case);
    let mut pods = Pods::new();
    let (mut whole, mut violations) = (0, Vec::new());
    // The most whole groups since each set last changed what it says.
    let mut most: BTreeMap<&str, usize> = BTreeMap::new();
    let claim = |set: &Value| set["status"]["readyReplicas"].as_u64().unwrap_or(0);
    for change in &case.run.history {
        let Some(new) = change.new.as_ref().or(change.old.as_ref()) else { continue };
        match text(&new["kind"]) {
            "Pod" => {
                update(&mut pods, change);
                whole = whole_groups(&pods, &leaders_of);
                most.values_mut().for_each(|most| *most = whole.max(*most));
            }
            "LeaderWorkerSet" => {
                let before = change.old.as_ref().map_or(0, claim);
                let after = claim(new);
                let seen = most.entry(&change.key).or_insert(whole);
                if after > before && after > *seen as u64 && !is_shown_the_past(case) {
                    let what = format!("{} claims {after} groups of {seen}", change.key);
                    violations.push(Violation::new("DY-3", what));
                }
                if after != before {
                    *seen = whole;
                }
            }
            _ => {}
        }
    }
    for object in case.run.objects.values().filter(|_| case.run.is_settled) {
        let component = &object["status"]["component"];
        let said = match text(&object["kind"]) {
            "LeaderWorkerSet" => claim(object),
            "DynamoComponentDeployment" if component["componentKind"] == "LeaderWorkerSet" => {
                component["readyReplicas"].as_u64().unwrap_or(0)
            }
            _ => continue,
        };
        if said != whole as u64 {
            let what = format!("{} says {said} groups serve, {whole} do", name(object));
            violations.push(Violation::new("DY-3", what));
        }
    }
    violations
}

/// DY-4: never two revisions in one group.
fn groups_are_of_one_revision(case: &Case<'_>) -> Vec<Violation> {
    let leaders_of = sets_of(case);
    let mut leaders: BTreeMap<&str, (&str, &Value)> = BTreeMap::new();
    let mut violations = Vec::new();
    for change in case.run.history.iter().filter(is_of("Pod")) {
        let Some(pod) = &change.new else { continue };
        let form = (label(pod, labels::REVISION), &pod["spec"]["containers"][0]["image"]);
        if label(pod, labels::WORKER_INDEX) == labels::LEADER {
            leaders.insert(uid(pod), form);
            continue;
        }
        let leader = leaders_of.get(owner(pod)).and_then(|uid| leaders.get(*uid));
        if leader.is_some_and(|leader| *leader != form) {
            let what = format!("{} is of another revision", name(pod));
            violations.push(Violation::new("DY-4", what));
        }
    }
    violations
}

/// DY-4: while a set is updated, no more groups are missing than may be: one of two serves.
pub fn enough_groups_serve(case: &Case<'_>) -> Vec<Violation> {
    let leaders_of = sets_of(case);
    let (mut most, mut violations) = (0, Vec::new());
    replay(case, |pods| {
        let serving = whole_groups(pods, &leaders_of);
        most = most.max(serving);
        if most >= 2 && serving < 1 {
            violations.push(Violation::new("DY-4", format!("only {serving} groups serve")));
        }
    });
    violations
}

/// DY-4: from when so many pods serve, never fewer do.
pub fn enough_serve(case: &Case<'_>, least: usize) -> Vec<Violation> {
    enough_of_those_serve(case, least, |_| true)
}

/// The same of the pods of one component.
pub fn enough_of_component_serve(case: &Case<'_>, component: &str, least: usize) -> Vec<Violation> {
    enough_of_those_serve(case, least, |pod| label(pod, names::COMPONENT) == component)
}

fn enough_of_those_serve(
    case: &Case<'_>,
    least: usize,
    is_meant: impl Fn(&Value) -> bool,
) -> Vec<Violation> {
    let mut is_whole = false;
    let mut violations = Vec::new();
    replay(case, |pods| {
        let serving = pods.values().filter(|pod| is_meant(pod) && is_ready(pod)).count();
        is_whole |= serving >= least;
        if is_whole && serving < least {
            violations.push(Violation::new("DY-4", format!("only {serving} workers serve")));
        }
    });
    violations
}

/// How many pods of an image were ever made.
pub fn made_of(case: &Case<'_>, image: &str) -> usize {
    let pods = case.run.history.iter().filter(is_of("Pod")).filter(|change| change.old.is_none());
    pods.filter_map(|change| change.new.as_ref())
        .filter(|pod| pod["spec"]["containers"][0]["image"] == image)
        .count()
}

/// DY-5: what the replicas of a component are changes no more often than somebody asked for it.
pub fn scales_no_more_than(case: &Case<'_>, stimuli: usize) -> Vec<Violation> {
    let replicas = |object: &Value| object["spec"]["components"][0]["replicas"].as_i64();
    let graphs = case.run.history.iter().filter(is_of("DynamoGraphDeployment"));
    let moves = graphs.filter(|change| match (&change.old, &change.new) {
        (Some(old), Some(new)) => replicas(old) != replicas(new),
        _ => false,
    });
    let moves = moves.count();
    match moves > stimuli {
        true => vec![Violation::new("DY-5", format!("replicas changed {moves} times"))],
        false => Vec::new(),
    }
}

/// DY-6: a form of workers is deleted only when none of its pods serves, unless its graph goes.
fn old_workers_are_drained_first(case: &Case<'_>) -> Vec<Violation> {
    let mut pods = Pods::new();
    let mut graphs: BTreeMap<&str, &Value> = BTreeMap::new();
    let mut violations = Vec::new();
    for change in &case.run.history {
        let Some(object) = change.new.as_ref().or(change.old.as_ref()) else { continue };
        match text(&object["kind"]) {
            "Pod" => update(&mut pods, change),
            "DynamoGraphDeployment" => {
                match change.new.as_ref().filter(|graph| !goes(graph)) {
                    Some(graph) => graphs.insert(uid(graph), graph),
                    None => graphs.remove(uid(object)),
                };
            }
            "DynamoComponentDeployment" if is_deletion(change) => {
                let is_left = graphs.contains_key(owner(object));
                let serves =
                    |pod: &&&Value| label(pod, names::SELECTOR) == name(object) && is_ready(pod);
                let serving = pods.values().filter(serves).count();
                if change.actor == case.run.actor && is_left && serving > 0 {
                    let what = format!("{} went while {serving} served", name(object));
                    violations.push(Violation::new("DY-6", what));
                }
            }
            _ => {}
        }
    }
    violations
}

/// DY-9: the model `m` lists every server that was there all the time, and at the end those alone
/// that are.
pub fn lists_who_is_there(case: &Case<'_>) -> Vec<Violation> {
    let addresses = |slice: &Value| -> BTreeSet<String> {
        let all = list(&slice["endpoints"]).iter().flat_map(|one| list(&one["addresses"]));
        all.map(|address| format!("http://{}:9090", text(address))).collect()
    };
    let listed = |model: &Value| -> BTreeSet<String> {
        let all = list(&model["status"]["endpoints"]).iter();
        all.map(|one| text(&one["address"]).to_owned()).collect()
    };
    let slices = case.run.history.iter().filter(is_of("EndpointSlice"));
    let forms: Vec<_> = slices.filter_map(|change| change.new.as_ref()).map(addresses).collect();
    let always =
        forms.iter().skip(1).fold(forms.first().cloned().unwrap_or_default(), |all, one| {
            all.intersection(one).cloned().collect()
        });
    let mut violations = Vec::new();
    let mut last = BTreeSet::new();
    for change in case.run.history.iter().filter(is_of("DynamoModel")) {
        let Some(model) = change.new.as_ref().filter(|model| name(model) == "m") else { continue };
        let told = listed(model);
        if !last.is_empty() && !always.is_subset(&told) {
            violations.push(Violation::new("DY-9", "a server that is there went off the list"));
        }
        last = told;
    }
    let is_over = forms.last().is_some_and(|last_form| *last_form == last);
    if case.run.is_settled && !is_over {
        violations.push(Violation::new("DY-9", format!("{last:?} are listed at the end")));
    }
    violations
}

/// DY-10: what secrets hold is in no other object: no status, no event, no pod.
fn secrets_stay_secret(case: &Case<'_>) -> Vec<Violation> {
    let changes = case.run.history.iter().filter(|change| !is_of("Secret")(change));
    let tells = |change: &&Change| {
        let told = change.new.as_ref().map(Value::to_string).unwrap_or_default();
        [KEY, KEPT_KEY].iter().any(|secret| told.contains(secret))
    };
    let telling = changes.filter(tells);
    telling.map(|change| Violation::new("DY-10", format!("{} tells", change.key))).collect()
}
