//! Kubernetes' own control plane: the operators of the program, all in one process, do on it what
//! they do on ours, and leave its objects alone afterwards.
//!
//! The scenario is data (`app/tests/scenarios/operators`), so that it can run on any cluster.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use servers::Etcd;

use super::daemon::{Daemon, Waiting, free_port, wait_for};
use super::go::{Cgo, Module, Program};
use super::{Cache, output};
use crate::kubectl;

/// The version that the API server of the program implements.
pub const KUBERNETES: Module = Module {
    name: "kubernetes",
    path: "k8s.io/kubernetes",
    version: "v1.36.4",
    staging_version: "v0.36.4",
    link_flags: "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.4",
    replacements: &[],
};
const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../app/tests/scenarios/operators");
const START_MAX: Duration = Duration::from_secs(120);
const EXPECTED_MAX: Duration = Duration::from_secs(120);
/// Longer than the interval at which operators reconcile everything.
const QUIET: Duration = Duration::from_secs(40);
const TOKEN: &str = "peer-administrator";

pub fn run(cache: &Cache) -> Result<()> {
    let cluster = ControlPlane::start(&cache.directory)?;
    let mut operators = start_operators(&cache.program, &cluster)?;
    let ran = run_scenario(&cluster, &mut operators);
    ran.with_context(|| operators.log_tail())
}

/// Creates the objects, waits for what operators make of them, and checks that operators then stop
/// writing to it.
fn run_scenario(cluster: &ControlPlane, operators: &mut Daemon) -> Result<()> {
    let scenario = Path::new(SCENARIO);
    let objects = scenario.join("objects.yaml").display().to_string();
    cluster.kubectl(&["create", "-f", &objects])?;
    let expected = fs::read_to_string(scenario.join("expected.txt")).context("no scenario")?;
    let expected = parse_expected(&expected)?;
    for (arguments, text) in &expected {
        let what = format!("kubectl {}", arguments.join(" "));
        operators.wait_for(&what, EXPECTED_MAX, || {
            let printed = cluster.kubectl(arguments)?;
            ensure!(printed.contains(text), "expected {text:?} in {printed:?}");
            Ok(())
        })?;
    }
    let before = cluster.revisions()?;
    thread::sleep(QUIET);
    let after = cluster.revisions()?;
    ensure!(before == after, "operators write without need:\n{before}\nbecame\n{after}");
    for (arguments, text) in &expected {
        let printed = cluster.kubectl(arguments)?;
        ensure!(printed.contains(text), "{arguments:?} lost {text:?}: {printed:?}");
    }
    println!("xtask: {} expectations hold, and nothing is rewritten", expected.len());
    Ok(())
}

/// Reads lines such as `get pods -o name => pod/a`.
fn parse_expected(text: &str) -> Result<Vec<(Vec<&str>, &str)>> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let row = |line| {
        let (arguments, text) = str::split_once(line, " => ").context("a line needs ` => `")?;
        Ok((arguments.split(' ').collect(), text))
    };
    lines.map(row).collect()
}

fn start_operators(program: &Path, cluster: &ControlPlane) -> Result<Daemon> {
    let (webhooks, health) = (free_port()?, free_port()?);
    let mut command = Command::new(program);
    command.args(["operator", "--install", "--kubeconfig"]).arg(&cluster.kubeconfig);
    command.args(["--webhook-url", &format!("https://127.0.0.1:{webhooks}")]);
    command.args(["--webhook-address", &format!("127.0.0.1:{webhooks}")]);
    command.args(["--health-address", &format!("127.0.0.1:{health}")]);
    command.args(["--metrics-address", "127.0.0.1:0"]).current_dir(&cluster.directory);
    command.env("HOME", &cluster.directory).env_remove("KUBECONFIG");
    let log = cluster.directory.join("operators.log");
    let mut operators = Daemon::start("operators", command, log)?;
    let url = format!("http://127.0.0.1:{health}/readyz");
    operators.wait_for("operators are ready", START_MAX, || {
        output(Command::new("curl").args(["-fsS", &url]))?;
        cluster.kubectl(&["get", "clustertrainingruntime", "torch-distributed"]).map(|_| ())
    })?;
    Ok(operators)
}

/// A control plane without nodes. Dropping it ends everything.
pub struct ControlPlane {
    kubectl: PathBuf,
    pub kubeconfig: PathBuf,
    _daemons: Vec<Daemon>,
    _etcd: Etcd,
    pub directory: PathBuf,
}

impl ControlPlane {
    pub fn start(cache: &Path) -> Result<ControlPlane> {
        let command = |name, package| {
            KUBERNETES.build(cache, Program { name, package, tags: "", cgo: Cgo::Off })
        };
        let server = command("kube-apiserver", "cmd/kube-apiserver")?;
        let manager = command("kube-controller-manager", "cmd/kube-controller-manager")?;
        let scheduler = command("kube-scheduler", "cmd/kube-scheduler")?;
        let kubectl = match kubectl::build_missing()? {
            Some(directory) => directory.join("kubectl"),
            None => PathBuf::from("kubectl"),
        };
        let name = format!("setpoint-peer-kubernetes-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).context("could not create a directory")?;
        let etcd = Etcd::start()?;
        let port = free_port()?;
        let kubeconfig = directory.join("kubeconfig");
        let mut cluster =
            ControlPlane { kubectl, kubeconfig, _daemons: Vec::new(), _etcd: etcd, directory };
        cluster.write_files(port)?;
        let command = cluster.server_command(&server, port);
        let log = cluster.directory.join("kube-apiserver.log");
        let mut daemon = Daemon::start("kube-apiserver", command, log)?;
        daemon.wait_for("kube-apiserver is ready", START_MAX, || {
            cluster.kubectl(&["get", "--raw", "/readyz"]).map(|_| ())
        })?;
        cluster._daemons.push(daemon);
        for (name, program) in [("kube-controller-manager", manager), ("kube-scheduler", scheduler)]
        {
            let mut command = Command::new(program);
            command.arg("--kubeconfig").arg(&cluster.kubeconfig);
            command.args(["--leader-elect=false", "--secure-port=0"]);
            if name == "kube-controller-manager" {
                command.arg("--service-account-private-key-file").arg(cluster.key());
            }
            let log = cluster.directory.join(format!("{name}.log"));
            cluster._daemons.push(Daemon::start(name, command, log)?);
        }
        wait_for("the namespace has an account", START_MAX, || {
            let account = cluster.kubectl(&["get", "serviceaccount", "default"]);
            account.map(|_| ()).map_err(Waiting::Retry)
        })?;
        Ok(cluster)
    }

    fn key(&self) -> PathBuf {
        self.directory.join("accounts.pem")
    }

    fn write_files(&self, port: u16) -> Result<()> {
        output(Command::new("openssl").args(["genrsa", "-out"]).arg(self.key()).arg("2048"))?;
        let token = format!("{TOKEN},administrator,administrator,system:masters\n");
        fs::write(self.directory.join("tokens.csv"), token).context("could not write a token")?;
        let authority = self.directory.join("certificates/apiserver.crt");
        let config = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: peer\n\
             clusters: [{{name: peer, cluster: {{server: 'https://127.0.0.1:{port}', \
             certificate-authority: {}}}}}]\n\
             contexts: [{{name: peer, context: {{cluster: peer, user: peer}}}}]\n\
             users: [{{name: peer, user: {{token: {TOKEN}}}}}]\n",
            authority.display()
        );
        fs::write(&self.kubeconfig, config).context("could not write a kubeconfig")
    }

    fn server_command(&self, program: &Path, port: u16) -> Command {
        let mut command = Command::new(program);
        let file = |name: &str| self.directory.join(name).display().to_string();
        let key = self.key().display().to_string();
        command.args([
            format!("--etcd-servers={}", self._etcd.endpoint()),
            format!("--secure-port={port}"),
            format!("--cert-dir={}", file("certificates")),
            format!("--token-auth-file={}", file("tokens.csv")),
            format!("--service-account-key-file={key}"),
            format!("--service-account-signing-key-file={key}"),
        ]);
        command.args([
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.0.0.0/24",
        ]);
        command
    }

    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.kubectl);
        output(command.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments))
    }

    /// Returns the revisions of the objects that operators keep for others.
    fn revisions(&self) -> Result<String> {
        let path = "jsonpath={range .items[*]}{.kind}/{.metadata.name} \
                    {.metadata.resourceVersion}{\"\\n\"}{end}";
        self.kubectl(&["-n", "team", "get", "services,configmaps,secrets", "-o", path])
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self._daemons.clear();
        drop(fs::remove_dir_all(&self.directory));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scenario_of_operators_can_be_read() {
        let text = fs::read_to_string(Path::new(SCENARIO).join("expected.txt")).unwrap();
        let rows = parse_expected(&text).unwrap();
        assert!(rows.len() > 10 && rows.iter().all(|(arguments, _)| arguments.contains(&"team")));
        assert!(parse_expected("get pods").is_err());
    }
}
