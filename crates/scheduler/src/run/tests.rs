//! The loop's state without the loop: news in, work out.

use std::sync::Arc;
use std::time::Duration;

use reconcile::{Name, Object};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::fixtures::{asks, pod, with};
use crate::kinds::{CLAIM, CLASS, GROUP, NODE, POD};
use crate::profile::Profile;
use crate::run::state::State;
use crate::run::work::{Bound, Done, Work};

struct Stage {
    state: State,
    now: Instant,
    revision: u64,
}

impl Stage {
    fn new() -> Stage {
        let profiles = vec![Profile::named("default-scheduler")];
        Stage { state: State::new(profiles, Arc::default()), now: Instant::now(), revision: 0 }
    }

    fn news(&mut self, kind: reconcile::Kind, mut object: Value) -> Arc<Object> {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let object = Arc::new(Object::new(object));
        let news = vec![(kind, object.name.clone(), Some(object.clone()))];
        self.state.take_in(news, self.now);
        object
    }

    fn gone(&mut self, kind: reconcile::Kind, name: Name) {
        self.state.take_in(vec![(kind, name, None)], self.now);
    }

    fn node(&mut self, name: &str) {
        self.news(
            NODE,
            json!({"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4",
                "memory": "8Gi", "pods": "110"}}}),
        );
    }

    fn pod(&mut self, name: &str, beside: Value) {
        self.news(POD, pod(name, beside));
    }

    /// What is to be done, and what pods are told, as text.
    fn decide(&mut self) -> Vec<String> {
        self.state.queue.tick(self.now);
        let mut work = self.state.decide(100, self.now);
        work.extend(self.state.check_reservations(self.now));
        // Pods are told after a while, and at once.
        let later = self.now + Duration::from_secs(1);
        work.extend(self.state.take_reports(100, later));
        self.state.reporting.clear();
        work.iter().map(text).collect()
    }

    fn bound(&mut self, name: &str, node: &str, ended: Bound) -> Vec<String> {
        let pod = self.state.snapshot.place_of(name).expect("it is assumed").1.clone();
        let done = Done::Bind { pod, node: node.into(), ended };
        self.state.settle(done, self.now).iter().map(text).collect()
    }

    fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }
}

fn text(work: &Work) -> String {
    match work {
        Work::Bind { pod, node, .. } => format!("bind {} to {node}", pod.name().name),
        Work::Volumes { steps, .. } => format!("volumes {}", steps.len()),
        Work::Report { pod, report } => format!("tell {}: {}", pod.name().name, report.message),
        Work::Preempt { pod, victims, report } => {
            let victims: Vec<&str> = victims.iter().map(|one| &*one.name().name).collect();
            format!("{} on {} for {}", victims.join(" "), report.nominated, pod.name().name)
        }
        Work::Group { key, .. } => format!("status of {}", key.name),
        Work::Notice { notice, .. } => notice.message.clone(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_as_soon_as_a_node_comes() {
    let mut stage = Stage::new();
    stage.pod("a", json!({}));
    assert_eq!(stage.decide(), ["tell a: no nodes available to schedule pods"]);
    stage.wait(1);
    stage.node("n1");
    assert_eq!(stage.decide(), ["bind a to n1"]);
    assert_eq!(stage.decide(), Vec::<String>::new());
    stage.bound("a", "n1", Bound::Done);
    let told: Vec<String> = stage.state.take_notices(9).iter().map(text).collect();
    assert_eq!(told, ["Successfully assigned a/a to n1"]);
}

#[tokio::test(start_paused = true)]
async fn room_that_was_assumed_is_given_back_when_binding_fails() {
    let mut stage = Stage::new();
    stage.node("n1");
    stage.pod("a", asks(json!({"cpu": "4"})));
    assert_eq!(stage.decide(), ["bind a to n1"]);
    stage.pod("b", asks(json!({"cpu": "4"})));
    assert_eq!(stage.decide().len(), 1, "b waits");
    stage.bound("a", "n1", Bound::Not);
    stage.wait(1);
    // Both have waited; a came first.
    assert_eq!(stage.decide().first().map(String::as_str), Some("bind a to n1"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_bound_elsewhere_takes_its_room_there() {
    let mut stage = Stage::new();
    stage.node("n1");
    stage.pod("a", asks(json!({"cpu": "4"})));
    stage.decide();
    stage.node("n2");
    let mut seen = pod("a", asks(json!({"cpu": "4"})));
    seen["spec"]["nodeName"] = json!("n2");
    seen["metadata"]["resourceVersion"] = json!("99");
    stage.bound("a", "n1", Bound::Elsewhere(Arc::new(Object::new(seen))));
    stage.pod("b", asks(json!({"cpu": "4"})));
    assert_eq!(stage.decide(), ["bind b to n1"]);
    assert!(stage.state.assumed.len() == 1);
}

#[tokio::test(start_paused = true)]
async fn pods_of_other_schedulers_and_gated_ones_are_left_alone() {
    let mut stage = Stage::new();
    stage.node("n1");
    stage.pod("other", json!({"spec": {"schedulerName": "another"}}));
    stage.pod("gated", json!({"spec": {"schedulingGates": [{"name": "g"}]}}));
    assert_eq!(stage.decide(), Vec::<String>::new());
    stage.pod("gated", json!({}));
    assert_eq!(stage.decide(), ["bind gated to n1"]);
}

fn member(cpu: &str) -> Value {
    with(
        asks(json!({"cpu": cpu})),
        json!({"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}}),
    )
}

fn group(least: u32) -> Value {
    json!({"metadata": {"namespace": "a", "name": "g", "uid": "g"},
        "spec": {"minMember": least, "scheduleTimeoutSeconds": 30}})
}

#[tokio::test(start_paused = true)]
async fn a_gang_starts_together_or_not_at_all() {
    let mut stage = Stage::new();
    stage.node("n1");
    stage.pod("a", member("3"));
    let missing = "0/1 nodes are available: PodGroup not found.";
    assert_eq!(stage.decide(), [format!("tell a: {missing}")]);
    stage.news(GROUP, group(2));
    stage.wait(9);
    assert_eq!(
        stage.decide(),
        ["tell a: 0/1 nodes are available: pre-filter pod a cannot find enough sibling pods, \
          current pods number: 1, minMember of group: 2."]
    );
    stage.pod("b", member("3"));
    stage.wait(9);
    let told = stage.decide();
    assert!(told.iter().all(|one| one.contains("1 Insufficient cpu")), "{told:?}");
    assert_eq!(told.len(), 2);
    assert_eq!(stage.state.snapshot.placed_count(), 0);
    stage.wait(11);
    stage.node("n2");
    assert_eq!(stage.decide(), ["bind a to n1", "bind b to n2"]);
    // A member that could not be bound keeps its room for a while, then gives it back.
    assert_eq!(stage.bound("b", "n2", Bound::Not), ["bind b to n2"]);
    stage.wait(31);
    assert_eq!(stage.bound("b", "n2", Bound::Not), Vec::<String>::new());
    assert!(stage.state.snapshot.place_of("b").is_none());
    assert!(stage.state.snapshot.place_of("a").is_some());
}

#[tokio::test(start_paused = true)]
async fn room_waits_for_volumes_and_is_given_back_in_time() {
    let mut stage = Stage::new();
    stage.node("n1");
    let class = json!({"metadata": {"name": "local"}, "provisioner": "x",
        "volumeBindingMode": "WaitForFirstConsumer"});
    stage.news(CLASS, class);
    let claim = json!({"metadata": {"namespace": "a", "name": "c", "uid": "c"},
        "spec": {"storageClassName": "local"}});
    stage.news(CLAIM, claim.clone());
    let uses = with(
        asks(json!({"cpu": "4"})),
        json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}}),
    );
    stage.pod("a", uses);
    assert_eq!(stage.decide(), ["volumes 1"]);
    // Whoever makes volumes gives up.
    let mut marked = claim.clone();
    marked["metadata"]["annotations"] = json!({"volume.kubernetes.io/selected-node": "n1"});
    stage.news(CLAIM, marked.clone());
    assert_eq!(stage.decide(), Vec::<String>::new());
    stage.news(CLAIM, claim);
    assert_eq!(stage.decide(), Vec::<String>::new());
    assert!(stage.state.snapshot.place_of("a").is_none());
    // It is asked again, and this time there is a volume.
    stage.wait(10);
    assert_eq!(stage.decide(), ["volumes 1"]);
    marked["spec"]["volumeName"] = json!("p");
    marked["status"] = json!({"phase": "Bound"});
    stage.news(CLAIM, marked);
    assert_eq!(stage.decide(), ["bind a to n1"]);
}

#[tokio::test(start_paused = true)]
async fn who_is_in_the_way_goes_and_the_room_is_kept() {
    let mut stage = Stage::new();
    stage.node("n1");
    let mut old = pod("old", asks(json!({"cpu": "4"})));
    old["spec"]["nodeName"] = json!("n1");
    stage.news(POD, old);
    let important = |cpu: &str, priority: i32| {
        with(asks(json!({"cpu": cpu})), json!({"spec": {"priority": priority}}))
    };
    stage.pod("vip", important("3", 9));
    assert_eq!(stage.decide(), ["old on n1 for vip"]);
    stage.pod("low", important("3", 0));
    assert_eq!(stage.decide().len(), 1, "low is told");
    stage.gone(POD, Name::new("a", "old"));
    stage.wait(2);
    assert_eq!(stage.decide().first().map(String::as_str), Some("bind vip to n1"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_the_same_name_is_another_pod() {
    let mut stage = Stage::new();
    stage.node("n1");
    stage.pod("a", asks(json!({"cpu": "4"})));
    assert_eq!(stage.decide(), ["bind a to n1"]);
    let mut again = pod("a", asks(json!({"cpu": "4"})));
    again["metadata"]["uid"] = json!("another");
    stage.news(POD, again);
    assert_eq!(stage.decide(), ["bind a to n1"]);
    assert_eq!(stage.state.snapshot.placed_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn why_is_remembered_until_the_pod_has_its_node() {
    let mut stage = Stage::new();
    stage.node("n1");
    stage.pod("a", asks(json!({"cpu": "9"})));
    stage.decide();
    let name = Name::new("a", "a");
    let why = stage.state.verdicts.why(&name).expect("it was refused");
    let (unfit, refused) = why.refused.first_key_value().expect("a reason");
    assert_eq!(unfit.reasons, ["Insufficient cpu"]);
    assert_eq!(*refused.names[0], *"n1");
    stage.gone(POD, name.clone());
    assert!(stage.state.verdicts.why(&name).is_none());
}
