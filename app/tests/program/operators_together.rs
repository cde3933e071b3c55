//! All operators in one process for a cluster that is not theirs, over the wire: what one of them
//! holds in its caches must not change what another creates.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::operator::{Cluster, NAMESPACE, Replica, decoded, until};

/// The controllers whose objects the test creates.
const CONTROLLERS: [&str; 6] = [
    "trainjob_controller",
    "jobset-controller",
    "leaderworkerset",
    "dynamographdeployment",
    "dynamocomponentdeployment",
    "wukong",
];
/// Built-in kinds that the operators write.
const CHILDREN: &str = "services,configmaps,secrets,serviceaccounts,roles,rolebindings,\
    persistentvolumeclaims,deployments,statefulsets,controllerrevisions,jobs";

/// One object of each kind that the operators reconcile, and a registry's secret.
fn objects() -> Value {
    let pod = |image: &str| json!({"spec": {"containers": [{"name": "main", "image": image}]}});
    let template = |pod: Value| json!({"template": pod});
    let registry = json!({"auths": {"registry.example": {"auth": "eDp5"}}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "reg"},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": registry.to_string()}});
    let train_job = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": {"name": "train"},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2}}});
    let mut job_pod = pod("x:1.0.0");
    job_pod["spec"]["restartPolicy"] = json!("Never");
    let job_set = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": "set"}, "spec": {"replicatedJobs": [
            {"name": "w", "replicas": 1, "template": {"spec": template(job_pod)}}]}});
    let groups = json!({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
        "metadata": {"name": "groups"}, "spec": {"replicas": 1, "leaderWorkerTemplate":
            {"size": 2, "workerTemplate": pod("x:1.0.0")}}});
    let wukong = json!({"apiVersion": "vm.novasphere.dev/v1alpha1", "kind": "Wukong",
        "metadata": {"name": "vm"}, "spec": {"cpu": 1, "memory": "1Gi",
            "disks": [{"name": "root", "size": "1Gi"}], "networks": [{"name": "default"}]}});
    let items = [secret, train_job, job_set, groups, wukong, graph("default")];
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// A graph with a frontend and a decoder that is two pods, which need keys and a script.
fn graph(namespace: &str) -> Value {
    let pod = |name: &str| {
        let image = "registry.example/dynamo:1.0.0";
        let mut main = json!({"name": name, "image": image});
        (main["command"], main["args"]) = (json!(["python3"]), json!(["-m", "dynamo.vllm"]));
        json!({"spec": {"containers": [main]}})
    };
    let components = json!([
        {"name": "Frontend", "type": "frontend", "podTemplate": pod("main")},
        {"name": "Decode", "type": "decode", "multinode": {"nodeCount": 2},
            "podTemplate": pod("main")},
    ]);
    json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"namespace": namespace, "name": "g"},
        "spec": {"backendFramework": "vllm", "components": components}})
}

/// The revision of every object that an operator may have written.
fn revisions(cluster: &Cluster) -> BTreeMap<String, String> {
    let all = cluster.kubectl(&format!("get {CHILDREN} -A -o json"), "");
    let all: Value = serde_json::from_str(&all).expect("a list");
    let items = all["items"].as_array().into_iter().flatten();
    let named = items.map(|item| {
        let meta = |field: &str| item["metadata"][field].as_str().unwrap_or_default().to_owned();
        let kind = item["kind"].as_str().unwrap_or_default();
        (format!("{kind} {}/{}", meta("namespace"), meta("name")), meta("resourceVersion"))
    });
    named.collect()
}

/// Number of reconciles of each controller.
fn reconciles(cluster: &Cluster, replica: &Replica) -> Vec<u64> {
    let authority = decoded(&cluster.secret("ca\\.crt"));
    let (code, metrics) = replica.secure("metrics", &authority, ("GET /metrics", "", ""));
    assert_eq!(code, 200);
    let count = |controller: &str| {
        let begin = format!("reconcile_total{{controller=\"{controller}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&begin));
        line.and_then(|count| count.parse().ok()).unwrap_or(0)
    };
    CONTROLLERS.map(count).to_vec()
}

/// Has every controller reconcile its objects.
fn reconcile_all(cluster: &Cluster, replica: &Replica, round: u32) {
    let before = reconciles(cluster, replica);
    for kinds in ["trainjobs,jobsets,leaderworkersets,wukongs", "dgd", "dcd"] {
        let line = format!("annotate {kinds} --all -A --overwrite test/round={round}");
        cluster.kubectl(&line, "");
    }
    until("every controller to reconcile", || {
        let now = reconciles(cluster, replica);
        let is_done = now.iter().zip(&before).all(|(now, before)| now > before);
        if is_done { Ok(String::new()) } else { Err(format!("{before:?} {now:?}")) }
    });
}

#[test]
fn operators_that_share_a_process_leave_each_others_objects_as_they_are() {
    let cluster = Cluster::start();
    let manifests = cluster.sandbox.run(&["operator", "manifests"]);
    assert_eq!(manifests.code, Some(0), "{manifests:?}");
    cluster.kubectl("apply -f -", &manifests.stdout);
    cluster.until("get crd -o name", |names| names.contains("wukongsnapshots"));
    cluster.write_account();
    let replica = cluster.replica(0, &["--enable", "all"]);
    replica.until_ready();
    cluster.kubectl("apply -f -", &objects().to_string());
    cluster.until("get deployments,leaderworkersets,jobs,pvc -o name", |names| {
        ["g-frontend", "g-decode", "/train-node-0", "/set-w-0", "vm-root"]
            .iter()
            .all(|name| names.contains(name))
    });

    // The keys are in the namespace of the operators, and copied with their content.
    cluster.kubectl("create namespace team", "");
    cluster.kubectl("apply -f -", &graph("team").to_string());
    let key = |namespace: &str| {
        let path = "jsonpath={.data.private\\.key}";
        cluster.until(&format!("-n {namespace} get secret mpi-run-ssh-secret -o {path}"), |key| {
            !key.is_empty()
        })
    };
    let source = key(NAMESPACE);
    assert_eq!((key("default"), key("team")), (source.clone(), source));

    // Nothing is written by a reconcile that finds everything in place.
    let mut round = 0;
    let mut before = revisions(&cluster);
    until("revisions that stay", || {
        round += 1;
        reconcile_all(&cluster, &replica, round);
        let now = revisions(&cluster);
        let changed: Vec<&String> =
            now.keys().filter(|name| before.get(*name) != now.get(*name)).collect();
        let seen = if changed.is_empty() { Ok(String::new()) } else { Err(format!("{changed:?}")) };
        before = now;
        seen
    });

    let labels = |kind: &str, name: &str| {
        cluster.kubectl(&format!("get {kind} {name} -o jsonpath={{.metadata.labels}}"), "")
    };
    let of_service = labels("service", "g-frontend");
    for label in ["nvidia.com/dynamo-component", "nvidia.com/dynamo-discovery-enabled"] {
        assert!(of_service.contains(label), "{of_service}");
    }
    let of_script = labels("configmap", "g-wait-leader-script");
    assert!(of_script.contains("\"nvidia.com/dynamo-graph-deployment-name\":\"g\""), "{of_script}");
    let secrets = "get deployment g-frontend -o \
                   jsonpath={.spec.template.spec.imagePullSecrets[*].name}";
    assert_eq!(cluster.kubectl(secrets, ""), "reg");
    let (code, stderr) = replica.started.stop();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(!stderr.contains("undeclared read") && !stderr.contains("panicked"), "{stderr}");
}
