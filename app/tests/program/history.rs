//! The past of a cluster, by its commands: reading, explaining, undoing, planning, taking along.

use std::fs;

use serde_json::Value;

use crate::sandbox::{Ended, Sandbox, Started, text};

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: good}]}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {password: hunter2-x9Qz}
";

/// A running cluster of one simulated node, and how its commands are called.
struct Cluster {
    sandbox: Sandbox,
    started: Started,
    kubeconfig: String,
}

impl Cluster {
    fn start() -> Cluster {
        Cluster::of_nodes("1")
    }

    fn of_nodes(count: &str) -> Cluster {
        let sandbox = Sandbox::new();
        let arguments = [
            "start",
            "--store",
            "memory",
            "--listen",
            "127.0.0.1:0",
            "--runtime",
            "none",
            "--fake-nodes",
            count,
            "--fake-node-resources",
            "cpu=4,memory=8Gi",
            "-o",
            "json",
        ];
        let started = sandbox.start_command(&arguments);
        let kubeconfig = text(&started.ready, "kubeconfig");
        Cluster { sandbox, started, kubeconfig }
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        let more = ["--kubeconfig", &self.kubeconfig];
        self.sandbox.run(&[arguments, &more[..]].concat())
    }

    fn well(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.code, Some(0), "{arguments:?} {ended:?}");
        ended.stdout
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        let more = ["--kubeconfig", &self.kubeconfig];
        let ended = self.sandbox.kubectl(&[&more[..], arguments].concat(), "");
        assert_eq!(ended.code, Some(0), "{arguments:?} {ended:?}");
        ended.stdout
    }

    fn rollout(&self) {
        self.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    }

    fn revision(&self) -> u64 {
        let told = self.kubectl(&["get", "--raw", "/apis/history.setpoint.dev/v1/timeline"]);
        let told: Value = serde_json::from_str(&told).expect("JSON");
        told["newest"]["revision"].as_u64().expect("a revision")
    }
}

#[test]
fn a_bad_edit_is_seen_explained_and_undone() {
    let cluster = Cluster::start();
    cluster.sandbox.write("web.yaml", WEB);
    cluster.well(&["apply", "-f", "web.yaml"]);
    cluster.rollout();
    let good = cluster.revision().to_string();
    let bad =
        r#"{"spec": {"replicas": 5, "template": {"spec": {"nodeSelector": {"no": "where"}}}}}"#;
    cluster.kubectl(&["patch", "deployment", "web", "-p", bad]);
    // The scheduler has said why when the trace names the node.
    let mut why = String::new();
    for _ in 0..600 {
        why = cluster.well(&["why", "deployment/web"]);
        if why.contains("nodes that do not fit") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    for told in
        ["Waiting: Deployment web", "fake-0: node(s) didn't match Pod's node affinity", "hint:"]
    {
        assert!(why.contains(told), "{told}: {why}");
    }
    let history = cluster.well(&["history", "deploy/web"]);
    assert!(history.contains("~ spec.replicas: 2 -> 5"), "{history}");
    assert!(history.contains("with kubectl-patch"), "{history}");
    let differs = cluster.run(&["diff", "deployment.apps/web", "--at", &good]);
    assert_eq!(differs.code, Some(1), "{differs:?}");
    assert!(differs.stdout.contains("spec.replicas: 2 -> 5"), "{differs:?}");
    let then = cluster.well(&["get", "deployments", "--at", &good]);
    assert!(then.contains("web") && then.contains("2/2"), "{then}");
    let would = cluster.well(&["undo", "deployment/web", "--dry-run"]);
    assert!(would.contains("spec.replicas: 5 -> 2"), "{would}");
    let undone = cluster.well(&["undo", "deployment/web"]);
    assert!(undone.starts_with("deployment.apps/web undone"), "{undone}");
    cluster.rollout();
    let same = cluster.run(&["diff", "deployment.apps/web", "--at", &good]);
    // How often it was rolled out is not taken back.
    let is_count = |line: &str| line.contains("[deployment.kubernetes.io/revision]");
    assert!(same.stdout.lines().all(is_count), "{same:?}");
    let pods = cluster.kubectl(&["get", "pods", "-l", "app=web", "-o", "name"]);
    let pod = pods.lines().next().expect("a pod");
    let trace: Value =
        serde_json::from_str(&cluster.well(&["why", pod, "-o", "json"])).expect("JSON");
    assert_eq!(trace["state"], "Running", "{trace}");
    let steps = trace["steps"].as_array().expect("steps");
    let said: Vec<&str> = steps.iter().filter_map(|step| step["sentence"].as_str()).collect();
    for told in ["created Deployment web", "created ReplicaSet", "placed it on node fake-0"] {
        assert!(said.iter().any(|said| said.contains(told)), "{told}: {said:?}");
    }
    assert!(cluster.well(&["events", pod]).contains("Scheduled"));
    for (arguments, told) in [
        (&["history", "pod/none"][..], "not found"),
        (&["get", "pod/none", "--at", "-9000d"], "this cluster began later"),
        (&["get", "pods", "--at", "soon"], "expected a revision"),
        (&["undo", "rocket/a"], "no kind"),
        (&["why", "web"], "KIND/NAME"),
    ] {
        let refused = cluster.run(arguments);
        assert!(matches!(refused.code, Some(1 | 5)), "{arguments:?} {refused:?}");
        assert!(refused.stderr.contains(told), "{arguments:?} {refused:?}");
    }
    check_before_the_beginning(&cluster);
    assert_eq!(cluster.started.stop().0, Some(0));
}

/// Nothing was forgotten, so before the cluster there was nothing, and that is an answer.
fn check_before_the_beginning(cluster: &Cluster) {
    let unborn = cluster.well(&["get", "pods", "--at", "-9000d"]);
    assert!(unborn.starts_with("No resources found: this cluster began later, at 20"), "{unborn}");
    let new = cluster.run(&["diff", "deployment/web", "--at", "-9000d"]);
    assert_eq!(new.code, Some(1), "{new:?}");
    assert!(new.stdout.starts_with("deployment.apps/web was not there then\n"), "{new:?}");
    assert_eq!(cluster.run(&["diff", "deployment/none", "--at", "-1s"]).code, Some(2));
}

/// A runtime whose pods start together or not at all, and a job of three nodes.
const GANG: &str = "
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata:
  name: together
  labels: {trainer.kubeflow.org/framework: torch}
spec:
  mlPolicy: {numNodes: 1, torch: {}}
  podGroupPolicy: {coscheduling: {scheduleTimeoutSeconds: 60}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              spec:
                containers: [{name: node, image: torch, resources: {requests: {cpu: 1500m}}}]
";
const JOB: &str = "
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: bert}
spec:
  runtimeRef: {name: together}
  trainer: {numNodes: 3}
";
/// Whatever else makes pods, each of them half a processor.
const WORKLOADS: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: base}
spec:
  replicas: 2
  serviceName: base
  selector: {matchLabels: {app: base}}
  template:
    metadata: {labels: {app: base}}
    spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 500m}}}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: sum}
spec:
  parallelism: 3
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: x, resources: {requests: {cpu: 500m}}}]
---
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: pair}
spec:
  replicas: 2
  leaderWorkerTemplate:
    size: 2
    workerTemplate:
      spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 500m}}}]}
";

impl Cluster {
    /// Runs a command until what it prints holds.
    fn until(&self, arguments: &[&str], holds: impl Fn(&str) -> bool) -> String {
        for _ in 0..600 {
            let ended = self.run(arguments);
            if holds(&ended.stdout) {
                return ended.stdout;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("{arguments:?}: {:?}", self.run(arguments));
    }
}

#[test]
fn a_plan_knows_what_operators_make_and_that_gangs_go_together() {
    let cluster = Cluster::start();
    cluster.until(&["get", "clustertrainingruntimes"], |names| names.contains("torch"));
    cluster.sandbox.write("runtime.yaml", GANG);
    cluster.sandbox.write("job.yaml", JOB);
    let early = cluster.run(&["plan", "-f", "job.yaml"]);
    assert_eq!(early.code, Some(1), "{early:?}");
    assert!(early.stdout.contains("together"), "the runtime is missing: {early:?}");
    // What is planned together is seen together.
    cluster.sandbox.write("both.yaml", &format!("{JOB}\n---\n{GANG}"));
    let both = cluster.run(&["plan", "-f", "both.yaml"]);
    assert!(both.stdout.contains("fake-0: Insufficient cpu"), "{both:?}");
    cluster.well(&["apply", "-f", "runtime.yaml"]);
    // Four processors hold two of them, so none of three has a place.
    let none = cluster.run(&["plan", "-f", "job.yaml"]);
    assert_eq!(none.code, Some(1), "{none:?}");
    for told in [
        "create    TrainJob bert",
        "pod bert-node-0-0 fits on no node:",
        "pod bert-node-0-2 fits on no node:",
        "fake-0: Insufficient cpu",
    ] {
        assert!(none.stdout.contains(told), "{told}: {none:?}");
    }
    assert!(!none.stdout.contains("->"), "{none:?}");
    let more = cluster.well(&["plan", "-f", "job.yaml", "--what-if", "nodes=+1"]);
    for pod in ["pod bert-node-0-0 -> ", "pod bert-node-0-1 -> ", "pod bert-node-0-2 -> "] {
        assert!(more.contains(pod), "{pod}: {more}");
    }
    assert!(more.contains("fake-0") && more.contains("what-if-0"), "{more}");
    // Eight halves fill four processors, and a ninth has no place.
    cluster.until(&["get", "crd"], |names| names.contains("leaderworkersets"));
    cluster.sandbox.write("workloads.yaml", WORKLOADS);
    let fits = cluster.well(&["plan", "-f", "workloads.yaml"]);
    let pods = fits.lines().filter_map(|line| line.strip_suffix(" -> fake-0"));
    let pods: Vec<&str> = pods.map(|line| line.trim_start_matches("pod ")).collect();
    let all = ["base-0", "base-1", "sum-0", "sum-1", "pair-0", "pair-1", "pair-0-1", "pair-1-1"];
    assert_eq!(pods, all, "{fits}");
    let third = WORKLOADS.replace("completions: 2", "completions: 3");
    cluster.sandbox.write("workloads.yaml", &third);
    let full = cluster.run(&["plan", "-f", "workloads.yaml"]);
    assert!(full.stdout.contains("pod pair-1-1 fits on no node:"), "{full:?}");
    assert_eq!(cluster.kubectl(&["get", "trainjobs,jobsets,pods", "-A", "-o", "name"]), "");
    assert_eq!(cluster.started.stop().0, Some(0));
}

#[test]
fn a_plan_says_where_pods_would_go() {
    let cluster = Cluster::start();
    cluster.sandbox.write("web.yaml", WEB);
    let before = cluster.kubectl(&["get", "deployments", "-o", "name"]);
    let plan = cluster.well(&["plan", "-f", "web.yaml"]);
    for told in ["create    Deployment web", "pod web-0 -> fake-0", "pod web-1 -> fake-0"] {
        assert!(plan.contains(told), "{told}: {plan}");
    }
    assert!(!plan.contains("hunter2"), "{plan}");
    assert_eq!(cluster.kubectl(&["get", "deployments", "-o", "name"]), before);
    let large = WEB.replace("image: good}", "image: good, resources: {requests: {cpu: \"3\"}}}");
    cluster.sandbox.write("web.yaml", &large);
    let full = cluster.run(&["plan", "-f", "web.yaml"]);
    assert_eq!(full.code, Some(1), "{full:?}");
    assert!(full.stdout.contains("fake-0: Insufficient cpu"), "{full:?}");
    let more = cluster.well(&["plan", "-f", "web.yaml", "--what-if", "nodes=+1"]);
    assert!(more.contains("what-if-0"), "{more}");
    let wrong = cluster.run(&["plan", "-f", "web.yaml", "--what-if", "nodes=many"]);
    assert!(wrong.code == Some(1) && wrong.stderr.contains("nodes=+N"), "{wrong:?}");
    assert_eq!(cluster.started.stop().0, Some(0));
}

/// A daemon that wants half of a node.
const DAEMON: &str = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: log}
spec:
  selector: {matchLabels: {app: log}}
  template:
    metadata: {labels: {app: log}}
    spec:
      containers: [{name: log, image: good, resources: {requests: {cpu: 2}}}]
";

/// What fills one node of three.
const BUSY: &str = "
apiVersion: v1
kind: Pod
metadata: {name: busy}
spec:
  nodeName: fake-1
  containers: [{name: main, image: x, resources: {requests: {cpu: '3'}}}]
";

#[test]
fn a_plan_of_daemons_tells_of_each_node() {
    let cluster = Cluster::of_nodes("3");
    cluster.sandbox.write("busy.yaml", BUSY);
    cluster.well(&["apply", "-f", "busy.yaml"]);
    cluster.kubectl(&["taint", "node", "fake-2", "team=a:NoSchedule"]);
    cluster.sandbox.write("log.yaml", DAEMON);
    let plan = cluster.run(&["plan", "-f", "log.yaml"]);
    assert_eq!(plan.code, Some(1), "one of the nodes is full: {plan:?}");
    let lines: Vec<&str> = plan.stdout.lines().collect();
    assert_eq!(
        lines,
        [
            "create    DaemonSet log   (not for 1 of 3 nodes: fake-2)",
            "pod log-fake-0 -> fake-0",
            "pod log-fake-1 fits on no node:",
            "    fake-1: Insufficient cpu",
        ]
    );
    cluster.kubectl(&["delete", "pod", "busy", "--grace-period=0", "--force"]);
    cluster.well(&["apply", "-f", "log.yaml"]);
    cluster.kubectl(&["rollout", "status", "daemonset/log", "--timeout=60s"]);
    // What is there is not placed again, and a node more has one more.
    let same = cluster.well(&["plan", "-f", "log.yaml"]);
    assert!(same.starts_with("unchanged DaemonSet log") && !same.contains("->"), "{same}");
    let more = cluster.well(&["plan", "-f", "log.yaml", "--what-if", "nodes=+1"]);
    let placed: Vec<&str> = more.lines().filter(|line| line.contains("->")).collect();
    assert_eq!(placed, ["pod log-what-if-0 -> what-if-0"], "{more}");
    // Its own pods make room for those that replace them.
    cluster.sandbox.write("log.yaml", &DAEMON.replace("cpu: 2", "cpu: 3"));
    let anew = cluster.well(&["plan", "-f", "log.yaml"]);
    for told in ["2 -> 3", "pod log-fake-0 -> fake-0", "pod log-fake-1 -> fake-1"] {
        assert!(anew.contains(told), "{told}: {anew}");
    }
    assert_eq!(cluster.started.stop().0, Some(0));
}

/// A pod of a namespace and a claim that are not there, in no order.
const TEAM: &str = "
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: team}
spec:
  containers: [{name: main, image: x, resources: {limits: {cpu: '1'}}}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c, namespace: team}
spec: {accessModes: [ReadWriteOnce], storageClassName: later, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: team}
";

const LATER: &str = "
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: later}
provisioner: example.com/none
volumeBindingMode: WaitForFirstConsumer
";

#[test]
fn a_plan_knows_the_namespaces_and_claims_that_it_makes() {
    let cluster = Cluster::start();
    cluster.sandbox.write("later.yaml", LATER);
    cluster.well(&["apply", "-f", "later.yaml"]);
    cluster.sandbox.write("team.yaml", TEAM);
    let plan = cluster.well(&["plan", "-f", "team.yaml"]);
    for told in [
        "create    Pod p",
        "create    Namespace team",
        "admission was not asked",
        "pod p -> fake-0",
    ] {
        assert!(plan.contains(told), "{told}: {plan}");
    }
    assert_eq!(cluster.started.stop().0, Some(0));
}

#[test]
fn a_cluster_is_taken_along_in_one_file() {
    let mut cluster = Cluster::start();
    cluster.sandbox.set("SETPOINT_PASSPHRASE", "correct horse");
    cluster.sandbox.write("web.yaml", WEB);
    cluster.well(&["apply", "-f", "web.yaml"]);
    cluster.rollout();
    cluster.kubectl(&["scale", "deployment/web", "--replicas=3"]);
    cluster.rollout();
    cluster.sandbox.write("all.partial", "somebody's own");
    let told = cluster.well(&["export", "all.setpoint"]);
    assert!(told.contains("secrets sealed"), "{told}");
    let own = fs::read_to_string(cluster.sandbox.work().join("all.partial")).expect("the file");
    assert_eq!(own, "somebody's own");
    let names = fs::read_dir(cluster.sandbox.work()).expect("a directory").flatten();
    let mut names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    assert!(names.all(|name| !name.contains(".partial-")), "nothing is left of the writing");
    let file = cluster.sandbox.work().join("all.setpoint");
    let bytes = fs::read(&file).expect("the export");
    for secret in ["hunter2-x9Qz", "aHVudGVyMi14OVF6"] {
        let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!found, "{secret} is in the export");
    }
    for named in ["deployment/web", "deploy/web", "deployments.apps/web"] {
        let history = cluster.well(&["history", named, "--file", "all.setpoint"]);
        assert!(history.contains("Created"), "{named}: {history}");
    }
    let unknown = cluster.run(&["history", "rocket/web", "--file", "all.setpoint"]);
    assert!(
        unknown.code == Some(1) && unknown.stderr.contains("no kind \"rocket\""),
        "{unknown:?}"
    );
    assert_eq!(cluster.started.stop().0, Some(0));

    let mut other = Cluster::start();
    fs::copy(&file, other.sandbox.work().join("all.setpoint")).expect("a copy");
    other.sandbox.write("half.setpoint", &String::from_utf8_lossy(&bytes[..bytes.len() / 2]));
    other.sandbox.write("foreign.setpoint", "apiVersion: v1\n");
    let before = other.kubectl(&["get", "deployments,secrets", "-A", "-o", "name"]);
    other.sandbox.set("SETPOINT_PASSPHRASE", "wrong");
    for (name, told) in [
        ("half.setpoint", "is broken"),
        ("foreign.setpoint", "is no export"),
        ("none.setpoint", "could not read"),
        ("all.setpoint", "passphrase"),
    ] {
        let refused = other.run(&["import", name]);
        assert_eq!(refused.code, Some(1), "{name} {refused:?}");
        assert!(refused.stderr.contains(told), "{name} {refused:?}");
    }
    assert_eq!(other.kubectl(&["get", "deployments,secrets", "-A", "-o", "name"]), before);
    other.sandbox.set("SETPOINT_PASSPHRASE", "correct horse");
    let brought = other.well(&["import", "all.setpoint"]);
    assert!(brought.contains("0 refused"), "{brought}");
    other.rollout();
    let password = ["get", "secret", "key", "-o", "jsonpath={.data.password}"];
    assert_eq!(other.kubectl(&password), "aHVudGVyMi14OVF6");
    // The past came with it, behind what happened here.
    let history = other.well(&["history", "deployment/web"]);
    let lines: Vec<&str> = history.lines().collect();
    let own = lines.iter().position(|line| line.contains("   Created   "));
    let brought = lines.iter().position(|line| line.starts_with("imported:"));
    assert!(own < brought && brought.is_some(), "{history}");
    assert!(history.contains("~ spec.replicas: 2 -> 3"), "{history}");
    let secret = other.well(&["history", "secret/key"]);
    assert!(!secret.contains("hunter2") && !secret.contains("aHVudGVyMi14OVF6"), "{secret}");
    let again = other.well(&["import", "all.setpoint"]);
    assert!(again.starts_with("0 created"), "{again}");
    assert_eq!(other.started.stop().0, Some(0));
}
