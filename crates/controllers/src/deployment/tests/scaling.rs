//! Other numbers of pods, with and without a rollout under way.

use super::*;

#[test]
fn a_deployment_at_rest_scales_its_replica_set() {
    check(
        &deployment("one", json!({"replicas": 4})),
        &[Set("one", "one", 10, 10)],
        &[
            "scale one to 4",
            "ScalingReplicaSet: Scaled down replica set one from 10 to 4",
            "Progressing=True FoundNewReplicaSet",
            "Available=True MinimumReplicasAvailable",
        ],
    );
}

/// Old and new sizes, replicas asked for now; the sizes that follow. The surge is 3 of 10.
#[test]
fn in_a_rollout_every_replica_set_gets_its_share() {
    let table: [(i64, i64, i64, &[&str]); 4] = [
        (8, 5, 20, &["scale one to 15", "scale two to 10"]),
        (8, 5, 5, &["scale one to 4", "scale two to 3"]),
        (8, 5, 0, &["scale one to 0", "scale two to 0"]),
        (10, 3, 30, &["scale one to 29", "scale two to 9"]),
    ];
    for (old, new, asked, expected) in table {
        let sets = [Set("one", "one", old, old), Set("two", "two", new, 0)];
        let plan = planned(&deployment("two", json!({"replicas": asked})), &observed(&sets));
        let steps: Vec<String> =
            plan.steps.iter().map(line).filter(|line| line.starts_with("scale")).collect();
        assert_eq!(steps, expected, "{old} {new} {asked}");
    }
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let paused = json!({"paused": true, "replicas": 12});
    check(
        &deployment("two", paused),
        &[Set("one", "one", 10, 10)],
        &[
            "scale one to 12",
            "ScalingReplicaSet: Scaled up replica set one from 10 to 12",
            "Progressing=Unknown DeploymentPaused",
            "Available=True MinimumReplicasAvailable",
        ],
    );
}

#[test]
fn less_than_nothing_is_nothing() {
    check(
        &deployment("one", json!({"replicas": -5})),
        &[Set("one", "one", 10, 10)],
        &[
            "scale one to 0",
            "ScalingReplicaSet: Scaled down replica set one from 10 to 0",
            "Progressing=True FoundNewReplicaSet",
            "Available=True MinimumReplicasAvailable",
        ],
    );
}
