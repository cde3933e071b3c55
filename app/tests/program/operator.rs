//! `setpoint operator`: our operators as a process of their own, for a server that has none, with
//! the rights that their manifests give them and nothing else.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::node::Machine;
use crate::sandbox::{Ended, Sandbox, Started, text};
use crate::training::REPORTS;

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

const ENABLE: [&str; 2] = ["--enable", "trainer,jobset"];
pub const NAMESPACE: &str = "kubeflow-system";
const SERVICE: &str = "kubeflow-trainer-controller-manager";
const SECRET: &str = "kubeflow-trainer-webhook-cert";

/// A server without operators, and how to ask it.
pub struct Cluster {
    pub sandbox: Sandbox,
    server: Started,
}

/// One process of operators.
pub struct Replica {
    pub started: Started,
}

impl Cluster {
    pub fn start() -> Cluster {
        let sandbox = Sandbox::new();
        let parts = ["--store", "memory", "--components", "api,controllers"];
        let server = sandbox.start(&parts);
        Cluster { sandbox, server }
    }

    /// One that has what operators need, and an account of theirs in `account.json`.
    fn installed() -> Cluster {
        let cluster = Cluster::start();
        cluster.kubectl("apply -f -", &cluster.manifests(&[]));
        cluster.until("get crd -o name", |names| names.contains("trainjobs"));
        cluster.write_account();
        cluster
    }

    fn manifests(&self, more: &[&str]) -> String {
        let ended = self.sandbox.run(&[&["operator", "manifests"], &ENABLE[..], more].concat());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stdout
    }

    pub fn write_account(&self) {
        let token = self.kubectl(&format!("-n {NAMESPACE} create token {SERVICE}"), "");
        let view = self.kubectl("config view --raw -o json", "");
        let mut config: Value = serde_json::from_str(&view).expect("a kubeconfig");
        config["users"][0]["user"] = json!({"token": token});
        self.sandbox.write("account.json", &config.to_string());
    }

    fn run(&self, line: &str, manifest: &str) -> Ended {
        let kubeconfig = text(&self.server.ready, "kubeconfig");
        let words = line.split(' ').filter(|word| !word.is_empty());
        let words: Vec<&str> = ["--kubeconfig", &kubeconfig].into_iter().chain(words).collect();
        self.sandbox.kubectl(&words, manifest)
    }

    #[track_caller]
    pub fn kubectl(&self, line: &str, manifest: &str) -> String {
        let ended = self.run(line, manifest);
        assert_eq!(ended.code, Some(0), "kubectl {line}: {ended:?}");
        ended.stdout.trim_end().to_owned()
    }

    #[track_caller]
    pub fn until(&self, line: &str, holds: impl Fn(&str) -> bool) -> String {
        until(&format!("kubectl {line}"), || {
            let ended = self.run(line, "");
            let said = ended.stdout.trim_end().to_owned();
            if holds(&said) { Ok(said) } else { Err(format!("{ended:?}")) }
        })
    }

    /// Starts a process of operators, as their account. Of several each has a number.
    pub fn replica(&self, number: u16, more: &[&str]) -> Replica {
        let words = ["operator", "--kubeconfig", "account.json", "-o", "json"];
        let free = ["--health-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0"];
        let webhooks = ["--webhook-address", "0.0.0.0:0"];
        let enable = if more.contains(&"--enable") { &[][..] } else { &ENABLE };
        let all = [&words[..], enable, &free, &webhooks, more].concat();
        let replica = Replica { started: self.sandbox.start_command(&all) };
        self.lead_to(number, &replica);
        replica
    }

    /// Has the service lead to a process of this machine, as it would lead to a pod.
    fn lead_to(&self, number: u16, replica: &Replica) {
        let port = replica.address("webhooks").port();
        let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"namespace": NAMESPACE, "name": format!("replica-{number}"),
                "labels": {"kubernetes.io/service-name": SERVICE}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [own_address()], "conditions": {"ready": true}}],
            "ports": [{"name": "webhook-server", "port": port}]});
        self.kubectl("apply -f -", &slice.to_string());
    }

    #[track_caller]
    fn train(&self, name: &str) {
        self.kubectl("create -f -", &job(name, "torch-distributed"));
        self.until("get jobset,job -o name", |names| {
            names.contains(&format!("jobset.jobset.x-k8s.io/{name}"))
                && names.contains(&format!("job.batch/{name}-node-0"))
        });
    }

    /// A job that cannot be is refused by the operators, over TLS.
    #[track_caller]
    fn refuses(&self) {
        let refused = self.run("create -f -", &job("bad", "nothing"));
        let by = "Error from server (Forbidden): error when creating \"STDIN\": admission webhook \
                  \"validator.trainjob.trainer.kubeflow.org\" denied the request: spec.RuntimeRef:";
        assert!(refused.stderr.starts_with(by), "{refused:?}");
    }

    fn holder(&self, lease: &str) -> String {
        let line = format!("-n {NAMESPACE} get lease {lease} -o jsonpath={{.spec.holderIdentity}}");
        self.run(&line, "").stdout
    }

    pub fn secret(&self, key: &str) -> String {
        let line = format!("-n {NAMESPACE} get secret {SECRET} -o jsonpath={{.data.{key}}}");
        self.run(&line, "").stdout
    }
}

impl Replica {
    fn address(&self, what: &str) -> SocketAddr {
        text(&self.started.ready, what).parse().expect("an address")
    }

    fn health(&self, path: &str) -> (u16, String) {
        let stream = TcpStream::connect(self.address("health")).expect("it listens");
        ask(stream, &format!("GET {path}"), "", "")
    }

    #[track_caller]
    pub fn until_ready(&self) {
        until("/readyz", || match self.health("/readyz") {
            (200, said) => Ok(said),
            other => Err(format!("{other:?}")),
        });
    }

    /// Asks over TLS; the certificate must hold for the name of the service.
    pub fn secure(
        &self,
        what: &str,
        authority: &str,
        request: (&str, &str, &str),
    ) -> (u16, String) {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(authority.as_bytes()).expect("PEM");
        roots.add(authority).expect("an authority");
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let name = format!("{SERVICE}.{NAMESPACE}.svc").try_into().expect("a name");
        let connection = ClientConnection::new(Arc::new(config), name).expect("TLS");
        let port = self.address(what).port();
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let (line, headers, body) = request;
        ask(StreamOwned::new(connection, stream), line, headers, body)
    }
}

fn ask(mut stream: impl Read + Write, line: &str, headers: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\
         {headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status"), body.to_owned())
}

#[track_caller]
pub fn until(what: &str, mut look: impl FnMut() -> Result<String, String>) -> String {
    let began = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(found) => assert!(began.elapsed() < PATIENCE, "{what}: {found}"),
        }
        std::thread::sleep(LOOK);
    }
}

/// An address of this machine by which it is not itself: servers ask no webhook on a loopback.
pub fn own_address() -> String {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    // Nothing is sent; the route says which address would be used.
    socket.connect("198.51.100.1:9").expect("the machine must have a network");
    socket.local_addr().expect("an address").ip().to_string()
}

fn job(name: &str, runtime: &str) -> String {
    json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {"runtimeRef": {"name": runtime}, "trainer": {"numNodes": 2}}})
    .to_string()
}

pub fn decoded(base64: &str) -> String {
    use base64::Engine;
    let bytes = base64::engine::general_purpose::STANDARD.decode(base64).expect("base64");
    String::from_utf8(bytes).expect("text")
}

#[test]
fn what_is_missing_is_said_and_waited_for() {
    let cluster = Cluster::start();
    let kubeconfig = text(&cluster.server.ready, "kubeconfig");
    let free = ["--health-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0"];
    let more = ["--webhook-address", "127.0.0.1:0", "--kubeconfig", &kubeconfig, "-o", "json"];
    let words = [&["operator"], &ENABLE[..], &free, &more].concat();
    let replica = Replica { started: cluster.sandbox.start_command(&words) };
    let remedy = "setpoint operator manifests --enable trainer,jobset | kubectl apply -f -";
    until("/readyz", || match replica.health("/readyz") {
        (500, said) if said.contains(remedy) => Ok(said),
        other => Err(format!("{other:?}")),
    });
    assert_eq!(replica.health("/healthz"), (200, "ok".to_owned()));
    assert_eq!(replica.health("/other").0, 404);
    // Without a Deployment of a server's own: ours is this one.
    cluster.kubectl("apply -f -", &cluster.manifests(&[]));
    replica.until_ready();
    cluster.until("get clustertrainingruntimes -o name", |names| names.lines().count() == 8);
    let (code, stderr) = replica.started.stop();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains(remedy), "{stderr}");
    assert!(stderr.contains("the cluster does not know TrainJob (trainer.kubeflow.org/v1alpha1)"));
}

#[test]
fn operators_work_for_a_cluster_of_others_with_the_rights_of_their_manifests() {
    let cluster = Cluster::installed();
    let replica = cluster.replica(0, &[]);
    replica.until_ready();
    cluster.refuses();
    cluster.train("good");
    // Applying again changes nothing, whatever the operators added.
    for form in ["yaml", "json"] {
        let again = cluster.kubectl("apply -f -", &cluster.manifests(&["-o", form]));
        assert!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");
    }
    let runtimes = cluster.manifests(&["--runtimes"]);
    assert_eq!(runtimes.matches("kind: ClusterTrainingRuntime").count(), 8);

    let authority = decoded(&cluster.secret("ca\\.crt"));
    let (code, metrics) = replica.secure("metrics", &authority, ("GET /metrics", "", ""));
    assert_eq!(code, 200);
    for line in [
        "reconcile_total{controller=\"trainjob_controller\"}",
        "leader_election_master_status{name=\"trainer.kubeflow.org\"} 1",
        "serving_certificate_expiration_seconds ",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    report_progress(&cluster, &replica);
    let (code, stderr) = replica.started.stop();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(!stderr.contains("WARN") && !stderr.contains("orbidden"), "{stderr}");
    assert_eq!(cluster.holder("trainer.kubeflow.org"), "", "a lease is given up");
}

/// As a trainer does: what it needs is told to its pods.
fn report_progress(cluster: &Cluster, replica: &Replica) {
    let set = cluster.kubectl("get jobset good -o json", "");
    let path = "apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/good/status";
    let url = format!("https://{SERVICE}.{NAMESPACE}.svc:10443/{path}");
    assert!(set.contains(&url), "{set}");
    let authority =
        cluster.kubectl("get configmap good-tls-config -o jsonpath={.data.ca\\.crt}", "");
    let audience = path.trim_start_matches("apis/");
    cluster.until("get serviceaccount default -o name", |name| !name.is_empty());
    let token = cluster.kubectl(&format!("create token default --audience {audience}"), "");
    let line = format!("POST /{path}");
    let report = json!({"trainerStatus": {"progressPercentage": 40,
        "lastUpdatedTime": "2026-01-01T00:00:00Z"}});
    let report = report.to_string();
    let send = |token: &str, body: &str| {
        let headers = format!("Authorization: Bearer {token}\r\n");
        replica.secure("webhooks", &authority, (&line, &headers, body)).0
    };
    assert_eq!(send(&token, &report), 200);
    assert_eq!(send("x", &report), 403);
    assert_eq!(send(&token, "["), 422);
    assert_eq!(send(&token, &" ".repeat(70_000)), 413);
    let told = "get trainjob good -o jsonpath={.status.trainerStatus.progressPercentage}";
    assert_eq!(cluster.kubectl(told, ""), "40");
}

#[test]
fn when_the_replica_that_leads_dies_another_takes_over() {
    let cluster = Cluster::installed();
    let first = cluster.replica(0, &[]);
    first.until_ready();
    let leader = text(&first.started.ready, "identity");
    for lease in ["trainer.kubeflow.org", "jobset.x-k8s.io"] {
        assert_eq!(cluster.holder(lease), leader);
    }
    let second = cluster.replica(1, &[]);
    second.until_ready();
    cluster.train("before");
    let authority = decoded(&cluster.secret("ca\\.crt"));
    let (_, metrics) = second.secure("metrics", &authority, ("GET /metrics", "", ""));
    let follows = "leader_election_master_status{name=\"trainer.kubeflow.org\"} 0";
    assert!(metrics.contains(follows), "{metrics}");

    first.started.signal("KILL");
    // Whoever is left answers at once, and leads when the lease is over.
    cluster.refuses();
    cluster.kubectl("create -f -", &job("after", "torch-distributed"));
    let next = text(&second.started.ready, "identity");
    until("the lease", || match cluster.holder("jobset.x-k8s.io") {
        holder if holder == next => Ok(holder),
        other => Err(other),
    });
    cluster.until("get job -o name", |names| names.contains("job.batch/after-node-0"));
    assert_eq!(second.started.stop().0, Some(0));
}

#[test]
fn certificates_are_renewed_and_made_again_while_they_are_used() {
    let cluster = Cluster::installed();
    let replica = cluster.replica(0, &["--certificate-seconds", "6"]);
    replica.until_ready();
    cluster.refuses();
    let (first, authority) = (cluster.secret("tls\\.crt"), cluster.secret("ca\\.crt"));
    until("another certificate", || match cluster.secret("tls\\.crt") {
        next if !next.is_empty() && next != first => Ok(next),
        same => Err(same),
    });
    assert_eq!(cluster.secret("ca\\.crt"), authority, "the authority stays");
    cluster.refuses();
    // Somebody deletes everything: it is made again, and told to whoever asks.
    cluster.kubectl(&format!("-n {NAMESPACE} delete secret {SECRET}"), "");
    let webhooks = "get validatingwebhookconfiguration validator.trainer.kubeflow.org -o \
                    jsonpath={.webhooks[0].clientConfig.caBundle}";
    cluster.until(webhooks, |bundle| !bundle.is_empty() && bundle != authority);
    until("a refusal", || {
        let refused = cluster.run("create -f -", &job("bad", "nothing"));
        let is_ours = refused.stderr.contains("denied the request: spec.RuntimeRef");
        if is_ours { Ok(refused.stderr) } else { Err(refused.stderr) }
    });
    let (code, stderr) = replica.started.stop();
    assert_eq!(code, Some(0), "{stderr}");
}

#[test]
fn operators_beside_a_cluster_install_what_they_need_and_are_asked_by_url() {
    let cluster = Cluster::start();
    let kubeconfig = text(&cluster.server.ready, "kubeconfig");
    let address = own_address();
    // Whoever is told the URL before it is served has to choose the port.
    let port = TcpListener::bind("0.0.0.0:0").and_then(|it| it.local_addr()).expect("one").port();
    let (listen, url) = (format!("0.0.0.0:{port}"), format!("https://{address}:{port}"));
    let free = ["--health-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0"];
    let more = ["--webhook-address", &listen, "--webhook-url", &url, "--leader-elect=false"];
    let words = ["operator", "--install", "--kubeconfig", &kubeconfig, "-o", "json"];
    let words = [&words[..], &ENABLE, &free, &more].concat();
    let replica = Replica { started: cluster.sandbox.start_command(&words) };
    replica.until_ready();
    cluster.refuses();
    cluster.train("good");
    let set = cluster.kubectl("get jobset good -o json", "");
    assert!(set.contains(&format!("{url}/apis/trainer.kubeflow.org/v1alpha1/")), "{set}");
    let leases = cluster.kubectl(&format!("-n {NAMESPACE} get leases -o name"), "");
    assert_eq!(leases, "", "nobody stands for election");
    let (code, stderr) = replica.started.stop();
    assert_eq!(code, Some(0), "{stderr}");
}

/// Whatever operators there are, their manifests can be applied and they start with the rights that
/// these give them.
#[test]
fn the_operators_of_every_family_start_with_the_rights_of_their_manifests() {
    let cluster = Cluster::start();
    let manifests = || {
        let ended = cluster.sandbox.run(&["operator", "manifests"]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stdout
    };
    cluster.kubectl("apply -f -", &manifests());
    let again = cluster.kubectl("apply -f -", &manifests());
    assert!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");
    cluster.write_account();
    let replica = cluster.replica(0, &["--enable", "all"]);
    replica.until_ready();
    // What is written in one version is read in another, as the operators convert it over TLS.
    let pod = json!({"spec": {"containers": [{"name": "main", "image": "x:1.0.0"}]}});
    let graph = json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": "g"}, "spec": {"components": [
            {"name": "Frontend", "type": "frontend", "podTemplate": pod}]}});
    cluster.kubectl("create -f -", &graph.to_string());
    let older = "get dynamographdeployments.v1alpha1.nvidia.com g -o jsonpath={.spec.services}";
    assert!(cluster.kubectl(older, "").contains("\"componentType\":\"frontend\""));
    cluster.until("get deployment -o name", |names| names.contains("g-frontend"));
    let (code, stderr) = replica.started.stop();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(!stderr.contains("orbidden"), "{stderr}");
}

/// A copy of the program that everybody may run: the original may be where only its owner may go.
pub struct Copy(pub PathBuf);

impl Copy {
    /// Of several in one suite each has a name.
    pub fn make(what: &str) -> Copy {
        let name = format!("setpoint-{what}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("a directory");
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&directory, open).expect("it is ours");
        std::fs::copy(env!("CARGO_BIN_EXE_setpoint"), directory.join("setpoint")).expect("copied");
        Copy(directory)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Trains with whatever the nodes have.
fn plain_runtime() -> Value {
    let container = json!({"name": "node", "image": "none"});
    let pod = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
    let labels = json!({"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"});
    json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "plain", "labels": {"trainer.kubeflow.org/framework": "plain"}},
        "spec": {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [
            {"name": "node", "template": {"metadata": {"labels": labels},
                "spec": {"backoffLimit": 0, "template": pod}}}]}}}})
}

#[test]
fn the_deployment_of_the_manifests_serves_the_cluster_that_it_runs_in() {
    let program = Copy::make("operator");
    let sandbox = Sandbox::new();
    let parts = "api,controllers,scheduler,node";
    let started = Some(sandbox.start(&["--store", "embedded", "--components", parts]));
    let machine = Machine { sandbox, started };
    machine.until("get nodes", |nodes| nodes.contains(" Ready "));
    let words = [&["operator", "manifests", "-o", "json"], &ENABLE[..]].concat();
    let printed = machine.sandbox.run(&words);
    let mut manifests = printed.json();
    for one in manifests["items"].as_array_mut().into_iter().flatten() {
        if one["kind"] == "Deployment" {
            // Images are names only here, so the container says its program.
            let container = &mut one["spec"]["template"]["spec"]["containers"][0];
            container["command"] = json!([program.0.join("setpoint")]);
        }
    }
    machine.kubectl(&["apply", "-f", "-"], &manifests.to_string());
    let ready = "-n kubeflow-system get deployment -o jsonpath={.items[0].status.readyReplicas}";
    machine.until(ready, |count| count == "1");
    let refused = machine.run(&["create", "-f", "-"], &job("bad", "nothing"));
    assert!(refused.stderr.contains("denied the request: spec.RuntimeRef:"), "{refused:?}");

    // A pod finds the operators by the name of their service, and is known by its token.
    machine.kubectl(&["create", "-f", "-"], &plain_runtime().to_string());
    let reports = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": {"name": "reports"}, "spec": {"runtimeRef": {"name": "plain"},
            "trainer": {"command": ["python3", "-c", REPORTS]}}});
    machine.kubectl(&["create", "-f", "-"], &reports.to_string());
    let state = "get trainjob reports -o jsonpath={.status.conditions[*].type}";
    machine.until(state, |types| types.contains("Complete"));
    let log = machine.kubectl(&["logs", "job/reports-node-0"], "");
    let expected = "good 200\nempty 200\nbroken 422\nlarge 413\nwrong 422\nnobody 403\nother 403";
    assert_eq!(log, expected);
    let told = "get trainjob reports -o jsonpath={.status.trainerStatus.progressPercentage}";
    assert_eq!(machine.until(told, |told| !told.is_empty()), "40");
    // A cluster that keeps no causes is told them by the log of the operators.
    let why = machine.sandbox.run(&["why", "trainjob/reports", "--without-past", "--all"]);
    assert!(why.stdout.contains("trainjob_controller looked for "), "{why:?}");
    assert!(why.stdout.contains("applied JobSet default/reports"), "{why:?}");
    assert!(why.stdout.contains("because of revision "), "{why:?}");
    for told in ["last wrote fields", "job/reports-node-0: ", "SuccessfulCreate"] {
        assert!(why.stdout.contains(told), "{told}: {why:?}");
    }
    machine.kubectl(&["delete", "namespace", "kubeflow-system"], "");
    machine.kubectl(&["delete", "trainjob", "reports", "--wait=false"], "");
    machine.until("get pods -A -o name", str::is_empty);
}
