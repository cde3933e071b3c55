//! The level of isolation of a namespace: whose pods see the host, and who decides.

use std::fs;

use crate::node::Machine;

const NOBODY: u32 = 65_534;
const LABEL: &str = "setpoint.dev/isolation";

/// A user with every right in one namespace and on the namespace itself, but on no other.
const TENANT: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: tenant, labels: {setpoint.dev/isolation: isolated}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: tenant, namespace: tenant}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenant, namespace: tenant}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: ServiceAccount, name: tenant, namespace: tenant}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: own-namespace}
rules:
- {apiGroups: [''], resources: [namespaces], verbs: [get, patch, update],
   resourceNames: [tenant]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: own-namespace}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: own-namespace}
subjects: [{kind: ServiceAccount, name: tenant, namespace: tenant}]
";

/// Reads and writes what no tenant may, with an annotation that claims another level.
const ATTACKER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: attacker, namespace: tenant, annotations: {setpoint.dev/isolation: host}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: host
    command:
    - sh
    - -c
    - |
      cat WORK/secret /etc/shadow DATA/kubeconfig 2>/dev/null
      ls -A /root /home 2>/dev/null | grep -v :
      touch WORK/planted /etc/planted /usr/planted 2>/dev/null && echo planted
      touch \"$HOME/file\" \"$XDG_CACHE_HOME/file\" /tmp/file /data/file && echo own
      grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status | cut -f2
      echo done
      exec sleep 1000
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, emptyDir: {}}]
";

fn attack(machine: &Machine) {
    let work = fs::canonicalize(machine.sandbox.work()).expect("it is there");
    fs::write(work.join("secret"), "secret\n").expect("a file");
    machine.kubectl(&["apply", "-f", "-"], TENANT);
    let data = machine.sandbox.data().display().to_string();
    let pod = ATTACKER.replace("WORK", &work.display().to_string()).replace("DATA", &data);
    let tenant = "--as=system:serviceaccount:tenant:tenant";
    machine.kubectl(&["apply", "-f", "-", tenant], &pod);
    let log = machine.until("logs -n tenant attacker", |log| log.contains("done"));
    let lines: Vec<&str> = log.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines, ["own", "1", "2", "done"], "{log}");
    let exec = ["exec", "-n", "tenant", "attacker", "--", "sh", "-c"];
    let read = format!("cat {}/secret 2>/dev/null; echo read", work.display());
    assert_eq!(machine.kubectl(&[&exec[..], &[&read]].concat(), ""), "read");

    // Only who may change all namespaces changes the level.
    for label in [format!("{LABEL}=host"), format!("{LABEL}-")] {
        let command = ["label", "namespace", "tenant", "--overwrite", &label, tenant];
        let refused = machine.run(&command, "");
        assert!(refused.stderr.contains("decides how much of the host pods see"), "{refused:?}");
    }
    let unknown = ["label", "namespace", "tenant", "--overwrite", &format!("{LABEL}=none")];
    let refused = machine.run(&unknown, "");
    let expected = format!(
        "metadata.labels[{LABEL}]: Unsupported value: \"none\": supported values: \"host\", \
         \"isolated\""
    );
    assert!(refused.stderr.contains(&expected), "{refused:?}");
    let annotate = ["annotate", "pod", "-n", "tenant", "attacker", "--overwrite"];
    machine.run(&[&annotate[..], &[&format!("{LABEL}=host"), tenant]].concat(), "");
    let level = "jsonpath={.metadata.annotations.setpoint\\.dev/isolation}";
    let get = ["get", "pod", "-n", "tenant", "attacker", "-o", level];
    assert_eq!(machine.kubectl(&get, ""), "isolated");

    // A running pod keeps its level; a new one has that of its namespace.
    machine.kubectl(&["label", "namespace", "tenant", "--overwrite", &format!("{LABEL}=host")], "");
    assert_eq!(machine.kubectl(&get, ""), "isolated");
    machine.kubectl(&["delete", "pod", "-n", "tenant", "attacker"], "");
    let script = format!("cat {}/secret", work.display());
    let run = ["run", "new", "-n", "tenant", "--image=host", "--restart=Never", "--command", "--"];
    machine.kubectl(&[&run[..], &["sh", "-c", &script]].concat(), "");
    machine.until("logs -n tenant new", |log| log == "secret");
    machine.kubectl(&["delete", "pod", "-n", "tenant", "new"], "");
}

#[test]
fn isolated_pods_see_nothing_of_the_host_where_the_program_runs_as_root() {
    attack(&Machine::start());
}

#[test]
fn isolated_pods_see_nothing_of_the_host_where_a_user_runs_the_program() {
    attack(&Machine::start_as(NOBODY));
}

const SCRIPT: &str = "import os
print('beside:', open(os.path.dirname(os.path.abspath(__file__)) + '/beside.txt').read())
try:
    open(os.path.dirname(os.path.abspath(__file__)) + '/planted', 'w')
except OSError as error:
    print('written:', type(error).__name__, error.errno)
print('outside:', os.path.exists('OUTSIDE'))
";

/// Trains in an isolated namespace, with a script in a directory that pods do not see otherwise.
fn train_isolated(machine: &Machine) {
    let work = fs::canonicalize(machine.sandbox.work()).expect("it is there");
    machine.sandbox.write("outside.txt", "outside");
    machine.sandbox.write("project/beside.txt", "read");
    let outside = work.join("outside.txt").display().to_string();
    machine.sandbox.write("project/script.py", &SCRIPT.replace("OUTSIDE", &outside));
    machine.until("get clustertrainingruntimes -o name", |names| names.contains("torch-local"));
    machine.kubectl(&["label", "namespace", "default", &format!("{LABEL}=isolated")], "");
    machine.kubectl(&["create", "namespace", "other"], "");
    machine.kubectl(&["label", "namespace", "other", &format!("{LABEL}=isolated")], "");
    let submitted = ["train", "project/script.py", "--name", "isolated", "--wait"];
    let ended = machine.sandbox.run(&submitted);
    let log = machine.sandbox.run(&["train", "logs", "isolated"]);
    assert_eq!(ended.code, Some(0), "{ended:?} {log:?}");
    for line in ["beside: read", "written: OSError 30", "outside: False"] {
        assert!(log.stdout.contains(line), "{log:?}");
    }
    // What was added for one namespace is not there in another.
    let script = format!("ls {}/project 2>/dev/null; echo done", work.display());
    let run = ["run", "other", "-n", "other", "--image=host", "--restart=Never", "--command", "--"];
    machine.kubectl(&[&run[..], &["sh", "-c", &script]].concat(), "");
    machine.until("logs -n other other", |log| log == "done");
    machine.kubectl(&["delete", "trainjob", "isolated"], "");
    machine.until("get pods -o name", str::is_empty);
}

#[test]
fn train_shows_isolated_pods_the_directory_of_the_script_where_the_program_runs_as_root() {
    train_isolated(&Machine::start());
}

#[test]
fn train_shows_isolated_pods_the_directory_of_the_script_where_a_user_runs_the_program() {
    train_isolated(&Machine::start_as(NOBODY));
}
