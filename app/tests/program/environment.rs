//! The environment of pods that run as processes: nothing of the server's user reaches them, client
//! libraries find the cluster they run in, and `pip` writes into a directory of the pod.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::node::Machine;
use crate::operator::own_address;
use crate::sandbox::Sandbox;

/// Tells this test binary that it runs in a pod.
const INSIDE: &str = "SETPOINT_TEST_INSIDE_A_POD";
const NOBODY: u32 = 65_534;

/// A server that counts its connections, and a user whose configuration leads to it. It listens at
/// an address of the host that pods reach from their network.
struct Poison {
    address: String,
    requests: Arc<AtomicUsize>,
}

impl Poison {
    fn start() -> Poison {
        let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let address = format!("{}:{port}", own_address());
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = requests.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::Relaxed);
                let _ = stream.read(&mut [0; 1024]);
            }
        });
        Poison { address, requests }
    }

    /// Variables of a user that no pod may see.
    fn variables(&self) -> Vec<(&'static str, String)> {
        let proxy = format!("http://{}", self.address);
        let mut all = vec![("KUBECONFIG", "poison-kubeconfig".to_owned())];
        let secrets = [
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AZURE_CLIENT_SECRET",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "GITHUB_TOKEN",
            "HF_TOKEN",
            "SSH_AUTH_SOCK",
        ];
        all.extend(secrets.map(|name| (name, "poison".to_owned())));
        all.extend(["ALL_PROXY", "HTTP_PROXY", "https_proxy"].map(|name| (name, proxy.clone())));
        all
    }

    /// Puts the configuration into a home directory, and the variables into everything run there.
    fn spread(&self, sandbox: &mut Sandbox) {
        let home = sandbox.work().join("../home");
        fs::create_dir_all(home.join(".kube")).expect("a directory");
        let config = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: prod\n\
             clusters: [{{name: prod, cluster: {{server: 'http://{}'}}}}]\n\
             contexts: [{{name: prod, context: {{cluster: prod, user: prod}}}}]\n\
             users: [{{name: prod, user: {{token: PROD-TOKEN}}}}]\n",
            self.address
        );
        fs::write(home.join(".kube/config"), config).expect("a kubeconfig");
        for (name, value) in self.variables() {
            sandbox.set(name, value);
        }
    }

    #[track_caller]
    fn is_untouched(&self) {
        assert_eq!(self.requests.load(Ordering::Relaxed), 0, "requests reached the user's cluster");
    }

    /// Shows that no requests were counted because none were sent, not because none can arrive.
    #[track_caller]
    fn is_reachable_from(&self, machine: &Machine, pod: &str) {
        let script = format!("import urllib.request as r; r.urlopen('http://{}')", self.address);
        let line = ["exec", pod, "-c", "shell", "--", "python3", "-c", &script];
        // The server closes the connection without an answer.
        machine.run(&line, "");
        assert_eq!(self.requests.load(Ordering::Relaxed), 1, "pods reach the user's cluster");
    }
}

fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("target/tmp is in target")
}

fn apply(machine: &Machine, manifest: &str) {
    machine.kubectl(&["apply", "-f", "-"], manifest);
}

fn pod(name: &str, containers: &[(&str, &[&str])], more: &str) -> String {
    let containers: Vec<String> = containers
        .iter()
        .map(|(name, command)| format!("{{name: {name}, image: x, command: {command:?}}}"))
        .collect();
    let containers = containers.join(", ");
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{\
         terminationGracePeriodSeconds: 1, restartPolicy: Never, containers: [{containers}]{more}\
         }}}}\n"
    )
}

fn value<'a>(environment: &'a str, name: &str) -> Option<&'a str> {
    environment.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

/// The program of the test that `a_pod_sees_nothing...` starts in a pod.
#[tokio::test]
async fn kube_rs_finds_the_cluster_of_its_pod() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    let config = kube::Config::infer().await.expect("a configuration");
    let client = kube::Client::try_from(config).expect("a client");
    let version = client.apiserver_version().await.expect("an answer");
    println!("kube-rs reached {}", version.git_version);
}

const PYTHON: &str = "\
from kubernetes import client, config
config.load_config()
print('python reached', client.VersionApi().get_code().git_version)
";

#[test]
fn a_pod_sees_nothing_of_the_user_and_its_clients_find_its_own_cluster() {
    let poison = Poison::start();
    let mut machine = Machine { sandbox: Sandbox::new(), started: None };
    poison.spread(&mut machine.sandbox);
    machine.sandbox.set("PASSED_ON", "from-the-server");
    let config = "pod_environment: {GIVEN: \"1\", PASSED_ON: , NOT_SET: }\n";
    machine.sandbox.write(".config.yaml", config);
    machine.begin();
    let python = servers::python_client(target()).expect("the Python client");
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/go_config");
    let go = servers::go_program(target(), "config", &module).expect("a Go program");
    let own = std::env::current_exe().expect("a program").display().to_string();
    let (python, go) = (python.display().to_string(), go.display().to_string());
    let test = "environment::kube_rs_finds_the_cluster_of_its_pod";
    let inside = format!("{INSIDE}=1");
    let containers: [(&str, &[&str]); 5] = [
        ("shell", &["sh", "-c", "env; ls -A \"$HOME\"; touch \"$HOME/mine\"; exec sleep 1000"]),
        ("kubectl", &["kubectl", "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"]),
        ("go", &[&go]),
        ("python", &[&python, "-c", PYTHON]),
        ("rust", &["env", &inside, &own, "--exact", test, "--nocapture"]),
    ];
    let probe = "readinessProbe: {exec: {command: [sh, -c, 'env > $HOME/of-probe']}}";
    let manifest = pod("probe", &containers, "");
    apply(&machine, &manifest.replacen("name: shell,", &format!("name: shell, {probe},"), 1));
    let account = "system:serviceaccount:default:default";
    for (container, expected) in [
        ("kubectl", account),
        ("go", "go reached v"),
        ("python", "python reached v"),
        ("rust", "kube-rs reached v"),
    ] {
        machine.until(&format!("logs probe -c {container}"), |log| log.contains(expected));
    }
    let log = machine.until("logs probe -c shell", |log| value(log, "HOME").is_some());
    let exec = machine.kubectl(&["exec", "probe", "-c", "shell", "--", "env"], "");
    let line = "exec probe -c shell -- sh -c cat<$HOME/of-probe";
    let of_probe = machine.until(line, |found| value(found, "HOME").is_some());
    for environment in [&log, &exec, &of_probe] {
        for (name, _) in poison.variables() {
            assert_eq!(value(environment, name), None, "{environment}");
        }
        assert!(!environment.contains("poison") && !environment.contains(&poison.address));
        assert_eq!(value(environment, "GIVEN"), Some("1"));
        assert_eq!(value(environment, "PASSED_ON"), Some("from-the-server"));
        assert_eq!(value(environment, "TERM"), None);
        assert_eq!(value(environment, "HOSTNAME"), Some("probe"));
        let cache = value(environment, "XDG_CACHE_HOME").expect("a cache");
        assert!(cache.ends_with("/node/caches/default"), "{cache}");
        assert_eq!(value(environment, "HF_HOME"), Some(&*format!("{cache}/huggingface")));
        assert_eq!(value(environment, "TORCH_HOME"), Some(&*format!("{cache}/torch")));
    }
    let home = PathBuf::from(value(&log, "HOME").expect("a home"));
    assert!(home.starts_with(machine.sandbox.data()) && home.join("mine").exists(), "{home:?}");
    poison.is_untouched();
    poison.is_reachable_from(&machine, "probe");
    machine.kubectl(&["delete", "pod", "probe"], "");
    assert!(!home.exists(), "{home:?}");
    // A cache stays when its pods go, and goes with its namespace.
    machine.kubectl(&["create", "namespace", "team"], "");
    let cached = ["sh", "-c", "touch $XDG_CACHE_HOME/model"];
    let cached = pod("cached", &[("main", &cached)], "");
    machine.kubectl(&["apply", "-n", "team", "-f", "-"], &cached);
    machine.until("get pod cached -n team -o jsonpath={.status.phase}", |it| it == "Succeeded");
    let directory = machine.sandbox.data().join("node/caches/team");
    machine.kubectl(&["delete", "pod", "cached", "-n", "team"], "");
    assert!(directory.join("model").exists());
    machine.kubectl(&["delete", "namespace", "team"], "");
    machine.until("get namespaces", |_| !directory.exists());
    assert!(machine.sandbox.data().join("node/caches/default").exists());
}

#[test]
fn a_home_belongs_to_the_user_of_its_container() {
    let machine = Machine::start();
    let script = "id -u; touch \"$HOME/a\" \"$XDG_CACHE_HOME/b\" && echo written; exec sleep 1000";
    let more = format!(", securityContext: {{runAsUser: {NOBODY}}}");
    apply(&machine, &pod("other", &[("main", &["sh", "-c", script])], &more));
    machine.until("logs other", |log| log == format!("{NOBODY}\nwritten"));
    let cached = machine.sandbox.data().join("node/caches/default/b");
    assert_eq!(fs::metadata(cached).expect("a file").uid(), NOBODY);
}

#[test]
fn the_demo_does_not_use_the_kubeconfig_of_the_user() {
    let poison = Poison::start();
    let mut sandbox = Sandbox::new();
    poison.spread(&mut sandbox);
    // With the frontend and a worker of Dynamo, which find their cluster by a kubeconfig.
    let python = servers::python_dynamo(target()).expect("Dynamo");
    let programs = python.parent().expect("a directory").display();
    sandbox.set("PATH", format!("{programs}:{}", std::env::var("PATH").unwrap_or_default()));
    let ended = sandbox.run(&["demo", "--only", "training,inference", "-o", "json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("Dynamo 1.6.1"), "{ended:?}");
    poison.is_untouched();
}

#[test]
fn a_program_that_cannot_start_fails_once_while_another_runs() {
    let machine = Machine::start();
    let containers: [(&str, &[&str]); 2] =
        [("broken", &["/no/such/program"]), ("main", &["sleep", "1000"])];
    apply(&machine, &pod("half", &containers, ""));
    let field = |path: &str| format!("get pod half -o jsonpath={{{path}}}");
    let broken = ".status.containerStatuses[?(@.name==\"broken\")]";
    let reason = field(&format!("{broken}.state.terminated.reason"));
    machine.until(&reason, |found| found == "StartError");
    machine.phase("half", "Running");
    let version = machine.until(&field(".metadata.resourceVersion"), |found| !found.is_empty());
    // Another pod comes and goes meanwhile.
    apply(&machine, &pod("other", &[("main", &["true"])], ""));
    machine.phase("other", "Succeeded");
    assert_eq!(machine.until(&field(".metadata.resourceVersion"), |_| true), version);
    let restarts = field(&format!("{broken}.restartCount"));
    assert_eq!(machine.until(&restarts, |_| true), "0");
    machine.kubectl(&["delete", "pod", "half"], "");
}

#[test]
fn an_ordinary_user_runs_pods_with_a_group_of_their_files() {
    let machine = Machine::start_as(NOBODY);
    let more = ", securityContext: {fsGroup: 4711}, volumes: [{name: data, emptyDir: {}}]";
    let main = [("main", &["sh", "-c", "sleep 1000"][..])];
    apply(&machine, &pod("grouped", &main, more));
    machine.phase("grouped", "Running");
    let events = machine.until("get events", |events| events.contains("FSGroupNotApplied"));
    assert_eq!(events.matches("FSGroupNotApplied").count(), 1, "{events}");
    assert!(events.contains("fsGroup 4711 was not applied to volumes data"), "{events}");
    assert!(!events.contains("FailedMount"), "{events}");
}

/// Writes a wheel with the module `added`, which needs neither an index nor a build.
const MAKE_WHEEL: &str = r"
import sys, zipfile
info = 'added-1.0.dist-info/'
with zipfile.ZipFile(sys.argv[1], 'w') as wheel:
    wheel.writestr('added.py', '')
    wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\nName: added\nVersion: 1.0\n')
    wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
    wheel.writestr(info + 'RECORD', '')
";

#[test]
fn the_configured_python_is_used_and_pip_does_not_change_it() {
    let mut machine = Machine { sandbox: Sandbox::new(), started: None };
    let venv = machine.sandbox.work().join("venv");
    let made = Command::new("python3").args(["-m", "venv"]).arg(&venv).status();
    assert!(made.expect("python3 runs").success());
    let wheel = machine.sandbox.work().join("added-1.0-py3-none-any.whl");
    let made = Command::new("python3").args(["-c", MAKE_WHEEL]).arg(&wheel).status();
    assert!(made.expect("python3 runs").success());
    let path = venv.display().to_string();
    let refused = machine.sandbox.run(&["start", "--python", "/no/such/venv"]);
    assert_ne!(refused.code, Some(0));
    assert!(refused.error().contains("python: /no/such/venv does not exist"), "{refused:?}");
    machine.started = Some(machine.sandbox.start(&["--store", "embedded", "--python", &path]));
    machine.until("get nodes", |nodes| nodes.contains(" Ready "));
    let status = machine.sandbox.run(&["status", "-o", "json"]).json();
    assert_eq!(status["python"]["executable"], format!("{path}/bin/python3"), "{status}");
    let status = machine.sandbox.run(&["status"]).stdout;
    assert!(status.contains(&format!("python   {path}/bin/python3")), "{status}");
    let packages = || {
        let find = Command::new("find").arg(venv.join("lib")).args(["-name", "added*"]).output();
        String::from_utf8_lossy(&find.expect("find runs").stdout).into_owned()
    };
    let script = format!(
        "echo $VIRTUAL_ENV; command -v python3; echo $UV_PYTHON; pip install -q --no-index {}; \
         python3 -c 'import added; print(added.__file__)'",
        wheel.display()
    );
    apply(&machine, &pod("pip", &[("main", &["sh", "-c", &script])], ""));
    machine.phase("pip", "Succeeded");
    let log = machine.kubectl(&["logs", "pip"], "");
    let lines: Vec<&str> = log.lines().filter(|line| line.starts_with('/')).collect();
    assert_eq!(lines[..2], [path.clone(), format!("{path}/bin/python3")], "{log}");
    assert!(lines[2].ends_with("/own/main/python/bin/python3"), "{log}");
    assert!(lines[3].contains("/own/main/python/lib/"), "{log}");
    assert_eq!(packages(), "");
    // It is deleted while the server runs.
    fs::remove_dir_all(&venv).expect("it is there");
    apply(&machine, &pod("late", &[("main", &["true"])], ""));
    machine.phase("late", "Succeeded");
    machine.until("get events", |events| {
        events.contains("PythonNotFound") && events.contains("setpoint up --python PATH")
    });
}

#[test]
fn a_job_gets_variables_and_a_missing_module_names_the_interpreter() {
    let mut machine = Machine { sandbox: Sandbox::new(), started: None };
    machine.sandbox.set("PATH", std::env::var("PATH").unwrap_or_default());
    machine.sandbox.set("FROM_SHELL", "shell");
    machine.begin();
    machine.sandbox.write("ok.py", "import os; print(os.environ['A'], os.environ['FROM_SHELL'])");
    let train = ["train", "-e", "A=1", "-e", "FROM_SHELL", "--watch", "ok.py"];
    let ended = machine.sandbox.run(&train);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("1 shell"), "{ended:?}");
    let unset = machine.sandbox.run(&["train", "-e", "NOT_SET", "ok.py"]);
    assert_eq!(unset.code, Some(2), "{unset:?}");
    assert!(unset.stderr.contains("NOT_SET is not set in your shell"), "{unset:?}");
    machine.sandbox.write("bad.py", "import no_such_module");
    let failed = machine.sandbox.run(&["train", "--watch", "bad.py"]);
    assert_ne!(failed.code, Some(0), "{failed:?}");
    assert!(failed.stderr.contains("/python3; install the module there"), "{failed:?}");
    assert!(failed.stderr.contains("setpoint up --python PATH"), "{failed:?}");
    let jobs = machine.kubectl(&["get", "trainjobs", "-o", "name"], "");
    let failed = jobs.lines().find(|job| job.contains("bad")).expect("the job is kept");
    let why = machine.sandbox.run(&["why", failed]);
    assert!(why.stdout.contains("/python3; install the module there"), "{why:?}");
}
