//! New templates.

use super::*;
use crate::options::Match;

#[test]
fn the_first_replica_set_has_all_pods_at_once() {
    let mut made = deployment("one", json!({}));
    made.value["metadata"]["annotations"] = json!({"kubernetes.io/change-cause": "begin"});
    let plan = planned(&made, &Observed::default());
    let name = template::set_name(&made);
    let expected = [
        "create a set of 10 revision \"1\"".to_owned(),
        "update apps/v1 Deployment a/web/status \
         {\"annotations\":{\"deployment.kubernetes.io/revision\":\"1\"}}"
            .to_owned(),
        format!("ScalingReplicaSet: Scaled up replica set {name} from 0 to 10"),
        "Progressing=True NewReplicaSetCreated".to_owned(),
        "Available=False MinimumReplicasUnavailable".to_owned(),
    ];
    assert_eq!(lines(&plan), expected);
    let Step::Create { object, .. } = &plan.steps[0] else { panic!("{plan}") };
    assert_eq!(
        object["metadata"]["annotations"],
        json!({"deployment.kubernetes.io/revision": "1",
            "deployment.kubernetes.io/desired-replicas": "10",
            "deployment.kubernetes.io/max-replicas": "13",
            "kubernetes.io/change-cause": "begin"})
    );
    let hash = object["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
    assert_eq!(name, format!("web-{hash}"));
    assert_eq!(object["spec"]["selector"]["matchLabels"]["pod-template-hash"], hash);
    assert_eq!(object["spec"]["template"]["metadata"]["labels"]["pod-template-hash"], hash);
}

#[test]
fn the_hash_follows_from_the_template_and_not_from_how_it_is_written() {
    let plain = deployment("one", json!({}));
    let spelled = deployment(
        "one",
        json!({"template": {"metadata": {"annotations": {}}, "spec": {"volumes": []}}}),
    );
    assert_eq!(template::hash(&plain), template::hash(&spelled));
    assert_ne!(template::hash(&plain), template::hash(&deployment("two", json!({}))));
}

#[test]
fn a_new_template_begins_with_what_the_surge_allows() {
    let moved = deployment("two", json!({}));
    let name = template::set_name(&moved);
    let scaled = format!("ScalingReplicaSet: Scaled up replica set {name} from 0 to 3");
    check(
        &moved,
        &[Set("one", "one", 10, 10)],
        &[
            "create a set of 3 revision \"2\"",
            "update apps/v1 Deployment a/web/status \
             {\"annotations\":{\"deployment.kubernetes.io/revision\":\"2\"}}",
            &scaled,
            "Progressing=True ReplicaSetUpdated",
            "Available=True MinimumReplicasAvailable",
        ],
    );
}

/// Every state of a rolling update from one to two: what it asks for next.
#[test]
fn a_rolling_update_moves_within_its_bounds() {
    // Old asked and available, new asked and available; next sizes of old and new.
    let table: [(i64, i64, i64, i64, &[&str]); 7] = [
        (10, 10, 3, 0, &["scale one to 8"]),
        (8, 8, 3, 0, &["scale two to 5"]),
        (8, 8, 5, 0, &[]),
        (8, 8, 5, 5, &["scale one to 3"]),
        (3, 3, 10, 7, &["scale one to 1"]),
        (0, 0, 10, 9, &[]),
        // Old pods that do not serve go whatever the new ones do.
        (10, 2, 3, 0, &["scale one to 8"]),
    ];
    for (old, old_available, new, new_available, expected) in table {
        let sets = [Set("one", "one", old, old_available), Set("two", "two", new, new_available)];
        let plan = planned(&deployment("two", json!({})), &observed(&sets));
        let steps: Vec<String> =
            plan.steps.iter().map(line).filter(|line| line.starts_with("scale")).collect();
        assert_eq!(steps, expected, "{old} {old_available} {new} {new_available}");
    }
}

#[test]
fn pods_that_are_yet_to_be_deleted_take_up_room() {
    let sets = [Set("one", "one", 8, 8), Set("two", "two", 3, 0)];
    let mut slow = observed(&sets);
    let mut behind = slow.sets.owned[0].value.clone();
    behind["status"]["replicas"] = json!(10);
    slow.sets.owned[0] = Arc::new(Object::new(behind));
    let plan = planned(&deployment("two", json!({})), &slow);
    assert!(plan.steps.iter().all(|step| !line(step).starts_with("scale")), "{plan}");
}

#[test]
fn pods_that_are_yet_to_be_deleted_do_not_count_as_available() {
    let sets = [Set("one", "one", 8, 8), Set("two", "two", 5, 2)];
    let mut slow = observed(&sets);
    let mut behind = slow.sets.owned[0].value.clone();
    behind["status"]["availableReplicas"] = json!(10);
    slow.sets.owned[0] = Arc::new(Object::new(behind));
    let plan = planned(&deployment("two", json!({})), &slow);
    let steps: Vec<String> =
        plan.steps.iter().map(line).filter(|line| line.starts_with("scale")).collect();
    assert_eq!(steps, ["scale one to 6"]);
}

#[test]
fn bounds_that_allow_nothing_allow_one() {
    let stiff = json!({"replicas": 1, "strategy": {"rollingUpdate":
        {"maxSurge": "0%", "maxUnavailable": "0%"}}});
    let spec = spec::Spec::read(&deployment("one", stiff), 0);
    assert_eq!(spec.strategy, spec::Strategy::Rolling { surge: 0, unavailable: 1 });
    let odd = json!({"replicas": -3, "strategy": {"rollingUpdate":
        {"maxSurge": -1, "maxUnavailable": "x"}}});
    let spec = spec::Spec::read(&deployment("one", odd), 0);
    assert_eq!((spec.replicas, spec.surge(), spec.unavailable()), (0, 0, 0));
}

#[test]
fn going_back_finds_the_old_replica_set_and_gives_it_the_newest_revision() {
    let plan = planned(
        &deployment("one", json!({})),
        &observed(&[Set("one", "one", 0, 0), Set("two", "two", 10, 10)]),
    );
    let Step::Patch { target, patch } = &plan.steps[0] else { panic!("{plan}") };
    assert_eq!(&*target.name.name, "one");
    assert_eq!(patch["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
    assert_eq!(patch["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"], "1");
    assert_eq!(patch["spec"]["replicas"], 3);
    assert_eq!(
        line(&plan.steps[1]),
        "update apps/v1 Deployment a/web/status \
         {\"annotations\":{\"deployment.kubernetes.io/revision\":\"3\"}}"
    );
}

#[test]
fn recreating_ends_every_old_pod_first() {
    let strategy = json!({"strategy": {"type": "Recreate", "rollingUpdate": null}});
    let moved = deployment("two", strategy);
    let steps = |observed: &Observed| -> Vec<String> {
        planned(&moved, observed).steps.iter().map(line).collect()
    };
    assert_eq!(steps(&observed(&[Set("one", "one", 10, 10)])), ["scale one to 0"]);
    let mut going = observed(&[Set("one", "one", 0, 0)]);
    going.running.insert("one".to_owned(), 1);
    assert!(steps(&going).is_empty());
    going.running.insert("one".to_owned(), 0);
    assert_eq!(steps(&going)[0], "create a set of 10 revision \"2\"");
}

#[test]
fn old_replica_sets_beyond_the_history_go_the_oldest_first() {
    let mut done = deployment("four", json!({"revisionHistoryLimit": 1}));
    done.value["status"] = json!({"replicas": 10, "updatedReplicas": 10,
        "availableReplicas": 10, "observedGeneration": 1});
    let sets = [
        Set("one", "one", 0, 0),
        Set("two", "two", 0, 0),
        Set("three", "three", 0, 0),
        Set("four", "four", 10, 10),
    ];
    let plan = planned(&done, &observed(&sets));
    let deleted: Vec<String> = plan.steps.iter().map(line).take(2).collect();
    assert_eq!(deleted, ["delete apps/v1 ReplicaSet a/one", "delete apps/v1 ReplicaSet a/two"]);
}

#[test]
fn a_name_that_another_has_is_counted_as_a_collision() {
    let mut observed = observed(&[Set("one", "one", 10, 10)]);
    observed.is_name_taken = true;
    let moved = deployment("two", json!({}));
    let plan = planned(&moved, &observed);
    assert!(plan.steps.is_empty(), "{plan}");
    assert_eq!(plan.status.expect("a status")["collisionCount"], 1);
    let mut again = deployment("two", json!({}));
    again.value["status"] = json!({"collisionCount": 1});
    assert_ne!(template::hash(&moved), template::hash(&again));
}

#[test]
fn an_orphan_is_adopted_before_anything_else() {
    let mut orphans = observed(&[Set("one", "one", 10, 10)]);
    orphans.sets.orphans = std::mem::take(&mut orphans.sets.owned);
    let plan = planned(&deployment("two", json!({})), &orphans);
    assert_eq!(plan.steps.len(), 1, "{plan}");
    let Step::Patch { target, patch } = &plan.steps[0] else { panic!("{plan}") };
    assert_eq!((&*target.name.name, target.revision), ("one", Some(7)));
    assert!(patch["metadata"]["ownerReferences"][1]["uid"] == "d", "{patch}");
}

#[test]
fn a_selector_of_everything_selects_nothing() {
    let all = deployment("one", json!({"selector": {"matchLabels": null}}));
    check(
        &all,
        &[],
        &["SelectingAll: This deployment is selecting all pods. \
           A non-empty selector is required."],
    );
}

#[test]
fn a_deployment_that_is_going_only_reports() {
    let mut going = deployment("two", json!({}));
    going.value["metadata"]["deletionTimestamp"] = json!("2025-01-01T00:00:00Z");
    check(&going, &[Set("one", "one", 10, 10)], &["Available=True MinimumReplicasAvailable"]);
}

fn loose(count: usize) -> Observed {
    let pod = |at: usize| {
        Arc::new(Object::new(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "a", "name": format!("p{at}"), "uid": format!("p{at}"),
                "resourceVersion": "9", "labels": {"app": "web"}},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        })))
    };
    Observed { loose: (0..count).map(pod).collect(), ..Observed::default() }
}

#[test]
fn pods_that_only_match_by_labels_count_where_that_is_asked_for() {
    let made = deployment("one", json!({"replicas": 2}));
    let now = Timestamp::from_second(NOW).expect("a time");
    let plan = plan::plan(&made, &loose(1), Match::Labels, now).expect("a plan");
    assert_eq!(line(&plan.steps[0]), "create a set of 1 revision \"1\"");
    assert_eq!(plan.status.expect("a status")["replicas"], 1);
    let plan = plan::plan(&made, &loose(3), Match::Labels, now).expect("a plan");
    assert_eq!(line(&plan.steps[0]), "create a set of 0 revision \"1\"");
}

#[test]
fn pods_that_match_get_the_label_of_the_template_where_that_is_asked_for() {
    let made = deployment("one", json!({"replicas": 2}));
    let now = Timestamp::from_second(NOW).expect("a time");
    let plan = plan::plan(&made, &loose(1), Match::Adopt, now).expect("a plan");
    let hash = template::hash(&made);
    let label = format!("update v1 Pod a/p0 {{\"labels\":{{\"pod-template-hash\":\"{hash}\"}}}}");
    assert_eq!(plan.steps.iter().map(line).collect::<Vec<_>>(), [label]);
}
