//! Deployments, sets, jobs.

use super::{check, check_changed, check_changes, check_changes_of, check_created};

#[test]
fn deployments() {
    check_created(
        "apps/Deployment",
        r#"
        => spec.replicas = 1 ; spec.revisionHistoryLimit = 10 ; spec.progressDeadlineSeconds = 600 ; spec.strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}} ; status = {} ; metadata.generation = 1
        => spec.template.spec.restartPolicy = "Always" ; spec.template.spec.containers[0].imagePullPolicy = "Always" ; spec.template.spec.enableServiceLinks = null
        spec.replicas = 0 => spec.replicas = 0
        spec.strategy.type = "Recreate" => spec.strategy = {"type": "Recreate"}
        "#,
    );
    check(
        "apps/Deployment",
        r#"
        => ok
        spec.replicas = -1 => spec.replicas: Invalid value: -1: must be greater than or equal to 0
        spec.selector - => spec.selector: Required value
        spec.selector = {} => spec.selector: Invalid value: {}: empty selector is invalid for deployment
        spec.selector.matchLabels = {"a": "c"} => spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`
        spec.selector = {"matchExpressions": [{"key": "a", "operator": "X"}]} => spec.selector.matchExpressions[0].operator: Invalid value: "X": not a valid selector operator...
        spec.template.spec.restartPolicy = "Never" => spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"
        spec.template.spec.activeDeadlineSeconds = 5 => spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported
        spec.template.spec.containers = [] => spec.template.spec.containers: Required value
        spec.template.metadata.labels{a b} = "c" => spec.template.metadata.labels: Invalid value: "a b": name part must consist...
        spec.strategy = {"type": "Recreate", "rollingUpdate": {}} => spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'
        spec.strategy.type = "X" => spec.strategy.type: Unsupported value: "X": supported values: "Recreate", "RollingUpdate"
        spec.strategy.rollingUpdate = {"maxSurge": 0, "maxUnavailable": 0} => spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0
        spec.strategy.rollingUpdate = {"maxUnavailable": "101%"} => spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%
        spec.strategy.rollingUpdate = {"maxSurge": "x"} => spec.strategy.rollingUpdate.maxSurge: Invalid value: "x": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')
        spec.minReadySeconds = 600 => spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds
        "#,
    );
    check_changes(
        "apps/Deployment",
        r#"
        spec.replicas = 3 => ok
        spec.selector.matchLabels = {"c": "d"} ; spec.template.metadata.labels = {"c": "d"} => spec.selector: Invalid value: {"matchLabels":{"c":"d"}}: field is immutable
        spec.template.spec.containers[0].image = "x" => ok
        "#,
    );
    check_changed(
        "apps/Deployment",
        "",
        "",
        r#"
        spec.replicas = 3 => metadata.generation = 2
        metadata.labels = {"a": "b"} => metadata.generation = 1
        metadata.annotations = {"a": "b"} => metadata.generation = 2
        metadata.generation = 9 => metadata.generation = 1
        status.replicas = 5 => status = {} ; metadata.generation = 1
        "#,
    );
    check_changed(
        "apps/Deployment",
        "status",
        "",
        r#"
        status.replicas = 5 ; spec.replicas = 9 => status.replicas = 5 ; spec.replicas = 1 ; metadata.generation = 1
        metadata.labels = {"a": "b"} => metadata.labels = null
        "#,
    );
    check_changes_of(
        "apps/Deployment",
        "status",
        "",
        r#"
        status = {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1} => ok
        status = {"replicas": -1} => status.replicas: Invalid value: -1: must be greater than or equal to 0
        status = {"replicas": 1, "readyReplicas": 2} => status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas
        "#,
    );
}

#[test]
fn sets_and_controllers() {
    check_created("apps/ReplicaSet", r#"=> spec.replicas = 1 ; status = {"replicas": 0}"#);
    check(
        "apps/ReplicaSet",
        r#"
        => ok
        spec.selector.matchLabels = {"x": "y"} => spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`
        "#,
    );
    check_created(
        "/ReplicationController",
        r#"=> spec.selector = {"a": "b"} ; metadata.labels = {"a": "b"} ; spec.replicas = 1"#,
    );
    check(
        "/ReplicationController",
        r#"
        => ok
        spec.selector = {"a": "c"} => spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`
        spec.template - => spec.selector: Required value && spec.template: Required value
        "#,
    );
    check_created(
        "apps/DaemonSet",
        r#"
        => spec.updateStrategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}} ; spec.revisionHistoryLimit = 10 ; metadata.annotations{deprecated.daemonset.template.generation} = "1"
        "#,
    );
    check(
        "apps/DaemonSet",
        r#"
        => ok
        spec.updateStrategy.type = "X" => spec.updateStrategy.type: Unsupported value: "X": supported values: "OnDelete", "RollingUpdate"
        spec.updateStrategy.rollingUpdate = {"maxUnavailable": 0, "maxSurge": 0} => spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0
        spec.updateStrategy.rollingUpdate = {"maxUnavailable": 1, "maxSurge": 1} => spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero
        "#,
    );
    check_changed(
        "apps/DaemonSet",
        "",
        "",
        r#"
        spec.template.spec.containers[0].image = "x" => metadata.annotations{deprecated.daemonset.template.generation} = "2" ; metadata.generation = 2
        spec.minReadySeconds = 5 => metadata.annotations{deprecated.daemonset.template.generation} = "1" ; metadata.generation = 2
        "#,
    );
    check(
        "/PodTemplate",
        r#"template.spec.containers = [] => template.spec.containers: Required value"#,
    );
    check(
        "apps/ControllerRevision",
        "revision = -1 => revision: Invalid value: -1: must be greater than or equal to 0",
    );
    check_changes(
        "apps/ControllerRevision",
        r#"data = {"a": 2} => data: Invalid value: {"a":2}: field is immutable"#,
    );
}

#[test]
fn stateful_sets() {
    check_created(
        "apps/StatefulSet",
        r#"
        => spec.podManagementPolicy = "OrderedReady" ; spec.updateStrategy.type = "RollingUpdate" ; spec.updateStrategy.rollingUpdate.partition = 0 ; spec.persistentVolumeClaimRetentionPolicy = {"whenDeleted": "Retain", "whenScaled": "Retain"} ; spec.replicas = 1 ; spec.revisionHistoryLimit = 10
        => spec.volumeClaimTemplates[0].kind = "PersistentVolumeClaim" ; spec.volumeClaimTemplates[0].spec.volumeMode = "Filesystem" ; spec.volumeClaimTemplates[0].status.phase = "Pending"
        "#,
    );
    check(
        "apps/StatefulSet",
        r#"
        => ok
        spec.podManagementPolicy = "X" => spec.podManagementPolicy: Invalid value: "X": must be 'OrderedReady' or 'Parallel'
        spec.updateStrategy = {"type": "OnDelete", "rollingUpdate": {"partition": 1}} => spec.updateStrategy.rollingUpdate: Invalid value: {"partition":1}: only allowed for updateStrategy 'RollingUpdate'
        spec.updateStrategy.rollingUpdate.partition = -1 => spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0
        spec.selector = {} => spec.selector: Invalid value: {}: empty selector is invalid for statefulset
        spec.template.spec.containers[0].volumeMounts[0].name = "other" => spec.template.spec.containers[0].volumeMounts[0].name: Not found: "other"
        "#,
    );
    check_changes(
        "apps/StatefulSet",
        r#"
        spec.replicas = 3 => ok
        spec.template.spec.containers[0].image = "x" => ok
        spec.minReadySeconds = 3 => ok
        spec.serviceName = "other" => spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden
        spec.podManagementPolicy = "Parallel" => spec: Forbidden: updates to statefulset spec...
        "#,
    );
}

#[test]
fn jobs() {
    check_created(
        "batch/Job",
        r#"
        => spec.completions = 1 ; spec.parallelism = 1 ; spec.backoffLimit = 6 ; spec.completionMode = "NonIndexed" ; spec.suspend = false ; spec.podReplacementPolicy = "TerminatingOrFailed"
        => spec.selector = {"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}} ; spec.template.metadata.labels = {"batch.kubernetes.io/controller-uid": "u-1", "batch.kubernetes.io/job-name": "a", "controller-uid": "u-1", "job-name": "a"}
        spec.parallelism = 3 => spec.completions = null
        spec.completions = 3 => spec.parallelism = 1
        spec.completionMode = "Indexed" ; spec.completions = 3 ; spec.backoffLimitPerIndex = 1 => spec.backoffLimit = 2147483647
        spec.manualSelector = true ; spec.selector = {"matchLabels": {"x": "y"}} => spec.selector = {"matchLabels": {"x": "y"}} ; spec.template.metadata = null
        spec.podFailurePolicy = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "X"}]}]} => spec.podFailurePolicy.rules[0].onPodConditions[0].status = "True" ; spec.podReplacementPolicy = "Failed"
        "#,
    );
    check(
        "batch/Job",
        r#"
        => ok
        spec.template.spec.restartPolicy - => spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"
        spec.parallelism = -1 => spec.parallelism: Invalid value: -1: must be greater than or equal to 0
        spec.completionMode = "X" => spec.completionMode: Unsupported value: "X": supported values: "Indexed", "NonIndexed"
        spec.completionMode = "Indexed" ; spec.parallelism = 2 => spec.completions: Required value: when completion mode is Indexed
        spec.completionMode = "Indexed" ; spec.completions = 5 ; spec.parallelism = 100001 => spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed
        spec.selector = {"matchLabels": {"a": "b"}} => spec.selector: Invalid value: {"matchLabels":{"a":"b","batch.kubernetes.io/controller-uid":"u-1"}}: `selector` not auto-generated...
        spec.manualSelector = true ; spec.selector = {"matchLabels": {"x": "y"}} => spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`
        spec.backoffLimitPerIndex = 1 => spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode
        spec.maxFailedIndexes = 1 => spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified
        spec.template.spec.restartPolicy = "OnFailure" ; spec.podFailurePolicy = {"rules": []} => spec.template.spec.restartPolicy: Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified
        spec.podFailurePolicy = {"rules": [{"action": "X", "onExitCodes": {"operator": "In", "values": [1]}}]} => spec.podFailurePolicy.rules[0].action: Unsupported value: "X": supported values: "Count", "FailIndex", "FailJob", "Ignore"
        spec.podFailurePolicy = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [0]}}]} => spec.podFailurePolicy.rules[0].onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator
        spec.successPolicy = {"rules": [{"succeededCount": 1}]} => spec.successPolicy: Invalid value: {"rules":[{"succeededCount":1}]}: requires indexed completion mode
        spec.managedBy = "x" => spec.managedBy: Invalid value: "x": must be a domain-prefixed path (such as "acme.io/foo")
        "#,
    );
    check_changes(
        "batch/Job",
        r#"
        spec.parallelism = 5 => ok
        spec.suspend = true => ok
        spec.completions = 5 => spec.completions: Invalid value: 5: field is immutable
        spec.template.spec.containers[0].image = "x" => spec.template: Invalid value: {...
        spec.selector = {"matchLabels": {"a": "b"}} => spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: field is immutable
        "#,
    );
    check_changes_of(
        "batch/Job",
        "",
        "spec.suspend = true",
        r#"
        spec.template.spec.nodeSelector = {"a": "b"} => ok
        spec.template.spec.containers[0].image = "x" => spec.template: Invalid value: {...
        "#,
    );
    check_changes_of(
        "batch/Job",
        "status",
        r#"status.conditions = [{"type": "Complete", "status": "True"}]"#,
        r#"
        => ok
        status.conditions = [] => status.conditions: Invalid value: []: cannot disable the terminal Complete condition
        "#,
    );
}

#[test]
fn cron_jobs() {
    check_created(
        "batch/CronJob",
        r#"
        => spec.concurrencyPolicy = "Allow" ; spec.suspend = false ; spec.successfulJobsHistoryLimit = 3 ; spec.failedJobsHistoryLimit = 1 ; spec.jobTemplate.spec.completions = null ; spec.jobTemplate.spec.template.spec.dnsPolicy = "ClusterFirst"
        "#,
    );
    check(
        "batch/CronJob",
        r#"
        => ok
        spec.schedule = "" => spec.schedule: Required value
        spec.schedule = "x" => spec.schedule: Invalid value: "x": expected exactly 5 fields, found 1: [x]
        spec.schedule = "CRON_TZ=UTC * * * * *" => spec.schedule: Invalid value: "CRON_TZ=UTC * * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead
        spec.timeZone = "" => spec.timeZone: Invalid value: "": timeZone must be nil or non-empty string
        spec.timeZone = "local" => spec.timeZone: Invalid value: "local": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones
        spec.timeZone = "a b" => spec.timeZone: Invalid value: "a b": unknown time zone a b
        spec.timeZone = "Europe/Zurich" => ok
        spec.concurrencyPolicy = "X" => spec.concurrencyPolicy: Unsupported value: "X": supported values: "Allow", "Forbid", "Replace"
        spec.startingDeadlineSeconds = -1 => spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0
        spec.jobTemplate.spec.template.spec.restartPolicy = "Always" => spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"
        spec.jobTemplate.spec.manualSelector = true => spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "false", "nil"
        "#,
    );
    let name = "a".repeat(53);
    check(
        "batch/CronJob",
        &format!(
            "metadata.name = {name:?} => metadata.name: Invalid value: {name:?}: must be no more \
             than 52 characters"
        ),
    );
}
