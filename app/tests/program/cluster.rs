//! A cluster of simulated nodes, used through kubectl: rollouts, deletion, nodes, jobs, scheduling.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::sandbox::{Ended, Sandbox, Started};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

const WEB: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: 'web:1'}]}
";

/// A running cluster and its user.
struct Cluster {
    sandbox: Sandbox,
    kubeconfig: String,
    _started: Started,
}

impl Cluster {
    fn start(nodes: &str) -> Cluster {
        Cluster::start_with(Sandbox::new(), nodes)
    }

    fn start_with(sandbox: Sandbox, nodes: &str) -> Cluster {
        let arguments = ["--store", "memory", "--fake-nodes", nodes, "--fake-node-resources"];
        // A cluster without nodes has not even this machine.
        let parts = if nodes == "0" { "api,controllers,scheduler" } else { "all" };
        let more = ["cpu=4,memory=8Gi", "--components", parts];
        let started = sandbox.start(&[&arguments[..], &more].concat());
        let kubeconfig = sandbox.data().join("kubeconfig").display().to_string();
        Cluster { sandbox, kubeconfig, _started: started }
    }

    fn run(&self, line: &str, manifest: &str) -> Ended {
        let words: Vec<&str> = line.split(' ').collect();
        self.sandbox.kubectl(&[&["--kubeconfig", &self.kubeconfig], &words[..]].concat(), manifest)
    }

    /// What kubectl prints, which must go well.
    #[track_caller]
    fn kubectl(&self, line: &str) -> String {
        self.with(line, "")
    }

    #[track_caller]
    fn with(&self, line: &str, manifest: &str) -> String {
        let ended = self.run(line, manifest);
        assert_eq!(ended.code, Some(0), "kubectl {line}: {ended:?}");
        ended.stdout.trim_end().to_owned()
    }

    #[track_caller]
    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.kubectl(&format!("{line} -o json"))).expect("it must be JSON")
    }

    /// Waits until kubectl prints what is expected.
    #[track_caller]
    fn until(&self, line: &str, holds: impl Fn(&str) -> bool) -> String {
        #[expect(clippy::disallowed_methods, reason = "a test waits for a real process")]
        let began = Instant::now();
        loop {
            let ended = self.run(line, "");
            if holds(ended.stdout.trim_end()) {
                return ended.stdout;
            }
            assert!(began.elapsed() < PATIENCE, "kubectl {line}: {ended:?}");
            std::thread::sleep(LOOK);
        }
    }
}

#[test]
fn a_deployment_rolls_is_undone_paused_and_restarted() {
    let cluster = Cluster::start("3");
    cluster.with("create -f -", WEB);
    let rolled = "deployment \"web\" successfully rolled out";
    assert!(cluster.kubectl("rollout status deployment/web --timeout=60s").contains(rolled));
    cluster.kubectl("wait --for=condition=Available deployment/web --timeout=60s");
    cluster.kubectl("set image deployment/web main=web:2");
    assert!(cluster.kubectl("rollout status deployment/web --timeout=60s").contains(rolled));
    let images = "get pods -l app=web -o jsonpath={.items[*].spec.containers[0].image}";
    cluster.until(images, |images| images == "web:2 web:2 web:2");
    let history = cluster.kubectl("rollout history deployment/web");
    assert!(history.contains("1         <none>\n2         <none>"), "{history}");
    assert!(cluster.kubectl("rollout undo deployment/web").contains("rolled back"));
    assert!(cluster.kubectl("rollout status deployment/web --timeout=60s").contains(rolled));
    cluster.until(images, |images| images == "web:1 web:1 web:1");
    cluster.kubectl("rollout pause deployment/web");
    cluster.kubectl("set image deployment/web main=web:3");
    cluster.until("get deployment web -o jsonpath={.status.observedGeneration}", |seen| {
        seen == cluster.kubectl("get deployment web -o jsonpath={.metadata.generation}")
    });
    assert_eq!(cluster.kubectl(images), "web:1 web:1 web:1");
    cluster.kubectl("rollout resume deployment/web");
    assert!(cluster.kubectl("rollout status deployment/web --timeout=60s").contains(rolled));
    cluster.until(images, |images| images == "web:3 web:3 web:3");
    let names = || cluster.kubectl("get pods -l app=web -o name");
    let before = names();
    cluster.kubectl("rollout restart deployment/web");
    assert!(cluster.kubectl("rollout status deployment/web --timeout=60s").contains(rolled));
    cluster.until("get pods -l app=web -o name", |after| {
        after.lines().count() == 3 && after.lines().all(|name| !before.contains(name))
    });
    cluster.kubectl("scale deployment/web --replicas=5");
    cluster.until("get deployment web -o jsonpath={.status.readyReplicas}", |count| count == "5");
    assert_eq!(names().lines().count(), 5);
}

#[test]
fn what_is_owned_goes_with_its_owner_or_stays_as_the_user_says() {
    let cluster = Cluster::start("2");
    for cascade in ["background", "foreground"] {
        cluster.with("create -f -", WEB);
        cluster.kubectl("rollout status deployment/web --timeout=60s");
        cluster.kubectl(&format!("delete deployment web --cascade={cascade} --timeout=60s"));
        cluster.until("get replicasets,pods -l app=web -o name", str::is_empty);
    }
    cluster.with("create -f -", WEB);
    cluster.kubectl("rollout status deployment/web --timeout=60s");
    cluster.kubectl("delete deployment web --cascade=orphan --timeout=60s");
    let sets = "get replicasets -l app=web -o jsonpath={.items[*].metadata.ownerReferences}";
    cluster.until(sets, str::is_empty);
    assert_eq!(cluster.kubectl("get pods -l app=web -o name").lines().count(), 3);
    cluster.kubectl("create namespace gone");
    cluster.with("create -n gone -f -", WEB);
    cluster.kubectl("rollout status -n gone deployment/web --timeout=60s");
    cluster.kubectl("delete namespace gone --timeout=60s");
    assert!(cluster.run("get namespace gone", "").stderr.contains("NotFound"));
}

#[test]
fn nodes_are_cordoned_tainted_and_drained() {
    let cluster = Cluster::start("2");
    cluster.with("create -f -", WEB);
    cluster.kubectl("rollout status deployment/web --timeout=60s");
    cluster.kubectl("cordon fake-0");
    assert!(cluster.kubectl("get node fake-0").contains("Ready,SchedulingDisabled"));
    cluster.kubectl("drain fake-0 --force --ignore-daemonsets --timeout=60s");
    let nodes = "get pods -l app=web -o jsonpath={.items[*].spec.nodeName}";
    cluster.until(nodes, |nodes| nodes == "fake-1 fake-1 fake-1");
    cluster.kubectl("uncordon fake-0");
    cluster.kubectl("taint node fake-1 broken=yes:NoExecute");
    cluster.until(nodes, |nodes| nodes == "fake-0 fake-0 fake-0");
    cluster.kubectl("taint node fake-1 broken-");
    cluster.kubectl("rollout status deployment/web --timeout=60s");
}

#[test]
fn a_budget_holds_up_a_drain() {
    let cluster = Cluster::start("1");
    cluster.with("create -f -", WEB);
    cluster.kubectl("rollout status deployment/web --timeout=60s");
    cluster.kubectl("create poddisruptionbudget web --selector=app=web --min-available=3");
    let allowed = "get pdb web -o jsonpath={.status.disruptionsAllowed}:{.status.currentHealthy}";
    cluster.until(allowed, |allowed| allowed == "0:3");
    let drained = cluster.run("drain fake-0 --force --ignore-daemonsets --timeout=2s", "");
    assert_ne!(drained.code, Some(0), "{drained:?}");
    assert!(drained.stderr.contains("would violate the pod's disruption budget"), "{drained:?}");
}

#[test]
fn jobs_complete_and_cron_jobs_make_them() {
    let cluster = Cluster::start("1");
    cluster.kubectl("create job once --image=web");
    cluster.kubectl("wait --for=condition=complete job/once --timeout=60s");
    assert!(cluster.kubectl("get job once").contains("Complete   1/1"));
    cluster.kubectl("create cronjob often --image=web --schedule=@hourly");
    cluster.kubectl("create job now --from=cronjob/often");
    cluster.kubectl("wait --for=condition=complete job/now --timeout=60s");
}

#[test]
fn a_pod_that_fits_nowhere_says_why_and_runs_when_there_is_room() {
    let cluster = Cluster::start("2");
    let pod = |name: &str, cpu: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{\
             name: a, image: b, resources: {{requests: {{cpu: '{cpu}'}}}}}}]}}\n"
        )
    };
    cluster.with("create -f -", &pod("one", "3"));
    cluster.with("create -f -", &pod("two", "3"));
    cluster.kubectl("wait --for=condition=Ready pod/one pod/two --timeout=60s");
    cluster.with("create -f -", &pod("three", "3"));
    let why = "0/2 nodes are available: 2 Insufficient cpu.";
    cluster.until("describe pod three", |text| text.contains(why));
    let pod = cluster.json("get pod three");
    assert_eq!(pod["status"]["conditions"][0]["reason"], "Unschedulable", "{pod}");
    cluster.kubectl("delete pod one");
    cluster.kubectl("wait --for=condition=Ready pod/three --timeout=60s");
}

#[test]
fn a_gang_starts_together_or_not_at_all() {
    let cluster = Cluster::start("2");
    let group = "apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: gang}\n\
                 spec: {minMember: 3}\n";
    let member = |index: u32| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: member-{index}, labels: \
             {{scheduling.x-k8s.io/pod-group: gang}}}}\nspec: {{containers: [{{name: a, image: b, \
             resources: {{requests: {{cpu: '3'}}}}}}]}}\n"
        )
    };
    cluster.until("get crd podgroups.scheduling.x-k8s.io -o name", |name| !name.is_empty());
    cluster.with("create -f -", &format!("{group}{}{}{}", member(0), member(1), member(2)));
    let nodes = "get pods -o jsonpath={.items[*].spec.nodeName}";
    cluster.until("get pod member-0 -o jsonpath={.status.conditions[0].reason}", |reason| {
        reason == "Unschedulable"
    });
    assert_eq!(cluster.kubectl(nodes), "");
    cluster.kubectl(
        "patch podgroups.scheduling.x-k8s.io gang --type=merge -p {\"spec\":{\"minMember\":2}}",
    );
    cluster.until(nodes, |nodes| nodes.split_whitespace().count() == 2);
}

#[test]
fn an_idle_pod_is_not_written_again() {
    let cluster = Cluster::start("1");
    cluster.with("create -f -", WEB);
    cluster.kubectl("rollout status deployment/web --timeout=60s");
    let revisions =
        "get pods,replicasets,deployments -o jsonpath={.items[*].metadata.resourceVersion}";
    // What nobody writes for two seconds, nobody writes in a loop; the last report may be late.
    let last = RefCell::new(cluster.kubectl(revisions));
    cluster.until(revisions, |now| {
        std::thread::sleep(Duration::from_secs(2));
        let before = last.replace(now.to_owned());
        before == now && cluster.kubectl(revisions) == now
    });
}

#[test]
fn in_the_mission_profile_a_pod_begins_with_its_conditions() {
    let sandbox = Sandbox::new();
    sandbox.write(".config.yaml", "profile: mission\nscheduler: {policy: first-ready}\n");
    let cluster = Cluster::start_with(sandbox, "0");
    cluster.kubectl("run web --image=web");
    let reasons = "get pod web -o jsonpath={.status.conditions[*].type}";
    cluster.until(reasons, |types| types.contains("PodScheduled Initialized Ready"));
    let waiting = "get pod web -o jsonpath={.status.containerStatuses[0].state.waiting.reason}";
    assert_eq!(cluster.kubectl(waiting), "ContainerCreating");
}
