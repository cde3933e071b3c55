//! The operator of graphs as its users know it: the commands of its documents against a Deployment
//! of its manifests, its file, and one namespace for itself.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use apiserver::identity::AlternativeName;
use apiserver::identity::certificates::Authority;
use apiserver::identity::key_files::{Directory, KeyFiles, Privacy};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reconcile::Environment;
use reconcile::environment::System;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::node::Machine;
use crate::operator::{Copy, own_address};
use crate::sandbox::Sandbox;

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);
pub const FILE: &str = "\
apiVersion: operator.config.dynamo.nvidia.com/v1alpha1
kind: OperatorConfiguration
server: {metrics: {bindAddress: 127.0.0.1, port: 0}, healthProbe: {bindAddress: 127.0.0.1, port: 0},
  webhook: {host: 0.0.0.0, port: 0}}
leaderElection: {enabled: false}
rbac: {plannerClusterRoleName: dynamo-operator-planner, eppClusterRoleName: dynamo-operator-epp,
  dgdrProfilingClusterRoleName: dynamo-operator-dgdr-profiling}
mpi: {sshSecretName: mpi-run-ssh-secret, sshSecretNamespace: dynamo-system}
infrastructure: {natsAddress: 'nats://there:4222'}
logging: {level: debug, format: json}
";

pub fn graph(namespace: &str, name: &str) -> String {
    let container = json!({"name": "main", "image": "x:1.0.0", "command": ["sleep", "1000"]});
    let pod = json!({"spec": {"containers": [container]}});
    json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"namespace": namespace, "name": name}, "spec": {"components": [
            {"name": "Frontend", "type": "frontend", "podTemplate": pod}]}})
    .to_string()
}

#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let began = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(why) if began.elapsed() >= PATIENCE => panic!("{what}: {why}"),
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

/// A program whose output is read as it comes, and which ends with this.
pub struct Followed(Child, BufReader<std::process::ChildStdout>);

impl Followed {
    pub fn start(mut command: Command) -> Followed {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        Followed(child, output)
    }

    /// Reads until a line says something; what never comes is ended by the suite's own limit.
    #[track_caller]
    pub fn until_says(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.1.read_line(&mut line).expect("readable");
            assert!(read > 0, "it ended before it said {word}");
            if line.contains(word) {
                return line;
            }
        }
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn shell(machine: &Machine, line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", line]).env("KUBECONFIG", machine.sandbox.data().join("kubeconfig"));
    command
}

/// Runs a line as the documents write it.
fn said(machine: &Machine, line: &str) -> String {
    let ended = shell(machine, line).output().expect("sh runs");
    String::from_utf8_lossy(&ended.stdout).into_owned()
}

#[test]
fn the_commands_of_the_documents_answer_for_the_deployment_of_the_manifests() {
    let program = Copy::make("commands");
    let sandbox = Sandbox::new();
    let parts = "api,controllers,scheduler,node";
    let started = Some(sandbox.start(&["--store", "embedded", "--components", parts]));
    let machine = Machine { sandbox, started };
    machine.until("get nodes", |nodes| nodes.contains(" Ready "));
    let words = ["operator", "manifests", "-o", "json", "--enable", "dynamo,lws"];
    let mut manifests = machine.sandbox.run(&words).json();
    for one in manifests["items"].as_array_mut().into_iter().flatten() {
        if one["kind"] == "Deployment" {
            // Images are names only here, so the container says its program.
            let container = &mut one["spec"]["template"]["spec"]["containers"][0];
            container["command"] = json!([program.0.join("setpoint")]);
        }
    }
    machine.kubectl(&["apply", "-f", "-"], &manifests.to_string());
    let ready = "-n dynamo-system get deployment dynamo-operator-controller-manager -o \
                 jsonpath={.status.readyReplicas}";
    machine.until(ready, |count| count == "1");
    let logs = "kubectl logs -n dynamo-system -l control-plane=controller-manager -c manager";
    let mut follow = Followed::start(shell(&machine, &format!("{logs} -f")));
    machine.kubectl(&["create", "-f", "-"], &graph("default", "g"));
    machine.until("get deployment -o name", |names| names.contains("g-frontend"));

    // The log of one controller, its errors, and what it says from now on.
    let of_kind = format!("{logs} | grep \"DynamoComponentDeployment\"");
    until(&of_kind, || match said(&machine, &of_kind) {
        lines if lines.contains("default/g-frontend") => Ok(()),
        lines => Err(lines),
    });
    // Not before: kubectl shows the last ten lines, and what fails says so again and again.
    machine.kubectl(&["create", "-f", "-"], &stray_adapter().to_string());
    let errors = format!("{logs} | grep -i \"error\"");
    until(&errors, || match said(&machine, &errors) {
        lines if lines.contains("DynamoGraphDeploymentScalingAdapter") => Ok(()),
        lines => Err(lines),
    });
    follow.until_says("DynamoGraphDeployment");
    // One of several leads, by a lease that its users know.
    let lease = "get lease -n dynamo-system dynamo.nvidia.com -o jsonpath={.spec.holderIdentity}";
    machine.until(lease, |holder| !holder.is_empty());
    // The controller itself.
    let expected = [
        ("kubectl get pods -n dynamo-system -l control-plane=controller-manager", "1/1"),
        (
            "kubectl get deployment -n dynamo-system dynamo-operator-controller-manager",
            "dynamo-operator-controller-manager   1/1",
        ),
        (
            "kubectl get svc dynamo-operator-controller-manager-metrics-service -n dynamo-system",
            "8443/TCP",
        ),
        ("kubectl get dynamocomponentdeployments -A", "g-frontend"),
        ("kubectl get dynamographdeployments -A", "default     g"),
    ];
    for (line, word) in expected {
        let lines = said(&machine, line);
        assert!(lines.contains(word), "{line}: {lines}");
    }
    machine.kubectl(&["create", "-f", "-"], &model().to_string());
    let models = said(&machine, "kubectl get dynamomodels -A");
    assert!(models.contains("tiny"), "{models}");
    machine.kubectl(&["delete", "dgd,dgdsa,dm", "--all"], "");
    machine.kubectl(&["delete", "namespace", "dynamo-system"], "");
    machine.until("get pods -A -o name", str::is_empty);
}

/// One whose graph nobody has: looking at it fails.
fn stray_adapter() -> Value {
    json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentScalingAdapter",
        "metadata": {"name": "stray"}, "spec": {"replicas": 1,
            "dgdRef": {"name": "nothing", "componentName": "decode"}}})
}

fn model() -> Value {
    json!({"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoModel", "metadata": {"name": "m"},
        "spec": {"modelName": "org/tiny", "baseModelName": "tiny", "modelType": "base"}})
}

#[test]
fn a_namespace_with_an_operator_of_its_own_is_left_to_it() {
    let sandbox = Sandbox::new();
    let parts = ["--store", "memory", "--components", "api,controllers,inference"];
    let server = sandbox.start(&parts);
    let kubeconfig = crate::sandbox::text(&server.ready, "kubeconfig");
    let kubectl = |line: &str, manifest: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        sandbox.kubectl(&[&["--kubeconfig", &kubeconfig], &words[..]].concat(), manifest)
    };
    let until_said = |line: &str, word: &str| {
        until(line, || match kubectl(line, "") {
            ended if ended.stdout.contains(word) => Ok(()),
            ended => Err(format!("{ended:?}")),
        });
    };
    until_said("get validatingwebhookconfigurations -o name", "dynamo-operator-validating");
    assert_eq!(kubectl("create namespace team", "").code, Some(0));
    let port = TcpListener::bind("0.0.0.0:0").and_then(|it| it.local_addr()).expect("one").port();
    let (listen, url) = (format!("0.0.0.0:{port}"), format!("https://{}:{port}", own_address()));
    let line = format!(
        "operator --enable dynamo --watch-namespace team --namespace team-system --install \
         --kubeconfig {kubeconfig} --webhook-address {listen} --webhook-url {url} \
         --health-address 127.0.0.1:0 --metrics-address 127.0.0.1:0 -o json"
    );
    let words: Vec<&str> = line.split(' ').collect();
    let own = sandbox.start_command(&words);
    let holder = "-n team get lease dynamo-operator-namespace-scope -o \
                  jsonpath={.spec.holderIdentity}";
    until_said(holder, "namespace-restricted-operator-");
    until_said("get validatingwebhookconfigurations -o name", "-team");
    until("a graph that is made", || match kubectl("create -f -", &graph("team", "theirs")) {
        ended if ended.code == Some(0) => Ok(()),
        ended => Err(format!("{ended:?}")),
    });
    until_said("-n team get deployment -o name", "theirs-frontend");
    assert_eq!(kubectl("create -f -", &graph("default", "ours")).code, Some(0));
    until_said("-n default get deployment -o name", "ours-frontend");
    let lines = sandbox.run(&["logs", "--operator", "dynamo"]).stdout;
    assert!(lines.contains("object=default/ours"), "{lines}");
    assert!(!lines.contains("object=team/theirs"), "{lines}");
    // It goes, and gives the namespace back at once.
    let (code, stderr) = own.stop();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("team/theirs") && !stderr.contains("default/ours"), "{stderr}");
    assert_eq!(kubectl("-n team get leases -o name", "").stdout, "");
    for configuration in ["mutating", "validating"] {
        let line = format!("delete {configuration}webhookconfigurations --all");
        assert_eq!(kubectl(&line, "").code, Some(0));
    }
    assert_eq!(kubectl("create -f -", &graph("team", "later")).code, Some(0));
    until_said("-n team get deployment -o name", "later-frontend");
}

#[test]
fn an_operator_is_configured_by_the_file_that_its_users_have() {
    let sandbox = Sandbox::new();
    let server = sandbox.start(&["--store", "memory", "--components", "api,controllers"]);
    let kubeconfig = crate::sandbox::text(&server.ready, "kubeconfig");
    sandbox.write("wrong.yaml", &FILE.replace("level: debug", "level: loud"));
    let run = ["operator", "--enable", "dynamo", "--kubeconfig", &kubeconfig, "--config"];
    let wrong = sandbox.run(&[&run[..], &["wrong.yaml"]].concat());
    let expected = "logging.level must be one of debug, info, warn, error";
    assert!(wrong.code == Some(1) && wrong.stderr.contains(expected), "{wrong:?}");
    sandbox.write("other.yaml", "apiVersion: v1\nkind: ConfigMap\n");
    let other = sandbox.run(&[&run[..], &["other.yaml"]].concat());
    assert!(other.stderr.contains("is for none of the operators"), "{other:?}");
    sandbox.write("file.yaml", FILE);
    let more = ["file.yaml", "--install", "-o", "json"];
    let started = sandbox.start_command(&[&run[..], &more].concat());
    let kubectl = |line: &str, manifest: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        sandbox.kubectl(&[&["--kubeconfig", &kubeconfig], &words[..]].concat(), manifest)
    };
    until("a graph that is made", || match kubectl("create -f -", &graph("default", "g")) {
        ended if ended.code == Some(0) => Ok(()),
        ended => Err(format!("{ended:?}")),
    });
    // What the file says of where things are reaches the pods.
    let line = "get deployment g-frontend -o jsonpath={.spec.template.spec.containers[0].env}";
    until(line, || match kubectl(line, "") {
        ended if ended.stdout.contains("nats://there:4222") => Ok(()),
        ended => Err(format!("{ended:?}")),
    });
    // Nobody stands for election.
    let leases = kubectl("-n dynamo-system get leases -o name", "").stdout;
    assert_eq!(leases, "");
    let (code, stderr) = started.stop();
    assert_eq!(code, Some(0), "{stderr}");
}

/// The definition of a kind that takes anything.
fn definition(group: &str, kind: &str, plural: &str) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")}, "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true,
                "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}}]}})
}

#[test]
fn what_a_cluster_learns_later_is_used_without_a_start() {
    let sandbox = Sandbox::new();
    let parts = ["--store", "memory", "--components", "api,controllers,inference"];
    let server = sandbox.start(&parts);
    let kubeconfig = crate::sandbox::text(&server.ready, "kubeconfig");
    let kubectl = |line: &str, manifest: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        sandbox.kubectl(&[&["--kubeconfig", &kubeconfig], &words[..]].concat(), manifest)
    };
    until("a graph that is made", || match kubectl("create -f -", &graph("default", "early")) {
        ended if ended.code == Some(0) => Ok(()),
        ended => Err(format!("{ended:?}")),
    });
    for (kind, plural) in [
        ("PodCliqueSet", "podcliquesets"),
        ("PodClique", "podcliques"),
        ("PodCliqueScalingGroup", "podcliquescalinggroups"),
    ] {
        let ended = kubectl("create -f -", &definition("grove.io", kind, plural).to_string());
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    // Graphs that are made from some moment on are cliques; those from before stay what they are.
    let mut number = 0;
    until("a graph that Grove starts", || {
        number += 1;
        kubectl("create -f -", &graph("default", &format!("late-{number}")));
        match kubectl("get podcliquesets.grove.io -o name", "") {
            ended if ended.stdout.contains("/late-") => Ok(()),
            ended => Err(format!("{ended:?}")),
        }
    });
    let line = "get dgd early -o jsonpath={.metadata.annotations.nvidia\\.com/workload-provider}";
    assert_eq!(kubectl(line, "").stdout, "component");
}

/// Certificates as somebody else would have made and mounted them.
fn mount(directory: &Path) -> String {
    let now = System.now().as_second();
    let files = Directory { path: directory.to_owned() };
    let authority = Authority::load_or_create(&files, now).expect("an authority");
    let names = [AlternativeName::Address(own_address().parse().expect("an address"))];
    let issued = authority.issue_serving(&names, now).expect("a certificate");
    for (name, text) in [
        ("tls.crt", issued.certificate_pem()),
        ("tls.key", issued.key_pem()),
        ("ca.crt", authority.bundle_pem()),
    ] {
        files.write(name, text.as_bytes(), Privacy::Private).expect("written");
    }
    STANDARD.encode(authority.bundle_pem())
}

#[test]
fn certificates_that_others_mount_are_served_and_told_to_who_converts() {
    let sandbox = Sandbox::new();
    let server = sandbox.start(&["--store", "memory", "--components", "api,controllers"]);
    let kubeconfig = crate::sandbox::text(&server.ready, "kubeconfig");
    let kubectl = |line: &str, manifest: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        sandbox.kubectl(&[&["--kubeconfig", &kubeconfig], &words[..]].concat(), manifest)
    };
    let directory = sandbox.work().join("certificates");
    let port = TcpListener::bind("0.0.0.0:0").and_then(|it| it.local_addr()).expect("one").port();
    let url = format!("https://{}:{port}", own_address());
    let webhook =
        format!("port: {port}, certProvisionMode: manual, certDir: '{}'", directory.display());
    sandbox.write("file.yaml", &FILE.replace("host: 0.0.0.0, port: 0", &webhook));
    let line = format!(
        "operator --enable dynamo --kubeconfig {kubeconfig} --config file.yaml --install \
         --webhook-url {url} -o json"
    );
    let words: Vec<&str> = line.split(' ').collect();
    let own = sandbox.start_command(&words);
    let bundle = mount(&directory);
    let line = "get crd dynamographdeployments.nvidia.com -o \
                jsonpath={.spec.conversion.webhook.clientConfig.caBundle}";
    until("a definition that is told", || match kubectl(line, "") {
        ended if ended.stdout == bundle => Ok(()),
        ended => Err(format!("{ended:?}")),
    });
    // Who is asked before objects are written is for those who made the certificates to tell.
    let line = "get validatingwebhookconfigurations dynamo-operator-validating -o \
                jsonpath={.webhooks[0].clientConfig.caBundle}";
    assert_eq!(kubectl(line, "").stdout, "");
    for configuration in ["mutating", "validating"] {
        let line = format!("delete {configuration}webhookconfigurations --all");
        assert_eq!(kubectl(&line, "").code, Some(0));
    }
    // What is stored in one version is read in the other: over TLS, with what was mounted.
    until("a graph that is made", || match kubectl("create -f -", &graph("default", "g")) {
        ended if ended.code == Some(0) => Ok(()),
        ended => Err(format!("{ended:?}")),
    });
    let line = "get dynamographdeployments.v1alpha1.nvidia.com g -o jsonpath={.spec.services}";
    until("a graph that is converted", || match kubectl(line, "") {
        ended if ended.stdout.contains("Frontend") => Ok(()),
        ended => Err(format!("{ended:?}")),
    });
    let (code, stderr) = own.stop();
    assert_eq!(code, Some(0), "{stderr}");
}
