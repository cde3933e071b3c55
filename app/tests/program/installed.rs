//! What operators need is there when the program says that it is ready, and a later start neither
//! writes it again nor misses what somebody took from it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::sandbox::{Ended, Sandbox, Started};

/// All but the node, so that nothing is left running.
const PARTS: &str = "api,controllers,scheduler,training,inference,machines";
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(200);
const KINDS: &str = "customresourcedefinitions,clusterroles,clusterrolebindings,\
    mutatingwebhookconfigurations,validatingwebhookconfigurations,\
    clustertrainingruntimes.trainer.kubeflow.org";

struct Store {
    sandbox: Sandbox,
}

impl Store {
    fn start(&self) -> Started {
        self.sandbox.start(&["--store", "embedded", "--components", PARTS])
    }

    fn run(&self, line: &str, manifest: &str) -> Ended {
        let kubeconfig = self.sandbox.data().join("kubeconfig").display().to_string();
        let words: Vec<&str> = line.split(' ').collect();
        self.sandbox.kubectl(&[&["--kubeconfig", &kubeconfig], &words[..]].concat(), manifest)
    }

    fn kubectl(&self, line: &str, manifest: &str) -> String {
        let ended = self.run(line, manifest);
        assert_eq!(ended.code, Some(0), "kubectl {line}: {ended:?}");
        ended.stdout
    }

    /// The revisions of everything that is installed.
    fn revisions(&self) -> BTreeMap<String, String> {
        let columns = "custom-columns=KIND:.kind,NAME:.metadata.name,AT:.metadata.resourceVersion";
        let table = self.kubectl(&format!("get {KINDS} --no-headers -o {columns}"), "");
        let row = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (format!("{} {}", words[0], words[1]), words[2].to_owned())
        };
        table.lines().filter(|line| !line.trim().is_empty()).map(row).collect()
    }

    #[expect(clippy::disallowed_methods, reason = "a test waits for a real process")]
    fn until(&self, line: &str, holds: impl Fn(&Ended) -> bool) {
        let began = Instant::now();
        loop {
            let ended = self.run(line, "");
            if holds(&ended) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "kubectl {line}: {ended:?}");
            std::thread::sleep(LOOK);
        }
    }
}

const OBJECTS: &str = "
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: first}
spec: {runtimeRef: {name: torch-distributed}, suspend: true}
---
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: first}
spec:
  services:
    Frontend:
      componentType: frontend
      replicas: 0
      extraPodSpec: {mainContainer: {image: 'none:1.0.0'}}
---
apiVersion: vm.novasphere.dev/v1alpha1
kind: Wukong
metadata: {name: first}
spec: {cpu: 1, memory: 1Gi, disks: [{name: root, size: 1Gi}]}
";
const REFUSED: &str = "
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: second}
spec: {runtimeRef: {name: nobody-has-this}}
";

#[test]
fn ready_means_that_objects_of_every_operator_can_be_made() {
    let store = Store { sandbox: Sandbox::new() };
    let started = store.start();
    store.kubectl("apply -f -", OBJECTS);
    let refused = store.run("apply -f -", REFUSED);
    assert!(refused.stderr.contains("nobody-has-this"), "it is asked before: {refused:?}");
    assert_eq!(started.stop().0, Some(0));
}

#[test]
fn a_later_start_writes_nothing_and_puts_back_what_is_gone() {
    let store = Store { sandbox: Sandbox::new() };
    let started = store.start();
    for part in ["gangs", "training", "inference", "machines"] {
        let record = format!("get configmap -n kube-system setpoint-installed-{part}");
        store.until(&record, |ended| ended.code == Some(0));
    }
    let before = store.revisions();
    assert_eq!(started.stop().0, Some(0));
    let started = store.start();
    assert_eq!(store.revisions(), before);
    // The most that can be taken: a kind, and with it what was said of it.
    store.kubectl("delete crd wukongsnapshots.vm.novasphere.dev", "");
    let role = "clusterrole jobset-manager-role";
    store.kubectl(&format!("patch {role} --type=merge -p {{\"rules\":[]}}"), "");
    assert_eq!(started.stop().0, Some(0));
    let started = store.start();
    store.kubectl("get wukongsnapshots", "");
    let rules = format!("get {role} -o jsonpath={{.rules}}");
    store.until(&rules, |ended| ended.stdout.contains("jobsets"));
    assert_eq!(started.stop().0, Some(0));
}
