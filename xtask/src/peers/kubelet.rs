//! Kubernetes' own node agent: it registers with the API server of the program and runs the pods
//! that its scheduler binds to the node, through containerd.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::daemon::{Daemon, check_file, free_port};
use super::go::{Cgo, Program};
use super::kubernetes::KUBERNETES;
use super::runtimes::{Containerd, Directory, SANDBOX};
use super::{Cache, output};
use crate::kubectl;

const NODE: &str = "peer";
const IMAGE: &str = "setpoint.test/shell:1";
const START_MAX: Duration = Duration::from_secs(120);
/// Makes the network count as ready. The pod uses that of the host.
const CNI: &str =
    r#"{"cniVersion": "1.0.0", "name": "loopback", "plugins": [{"type": "loopback"}]}"#;
const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: hello}
spec:
  hostNetwork: true
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: 'setpoint.test/shell:1'
    imagePullPolicy: Never
    command: [sh, -c, 'echo from the kubelet > /dev/termination-log']
";

pub fn run(cache: &Cache) -> Result<()> {
    let program = Program { name: "kubelet", package: "cmd/kubelet", tags: "", cgo: Cgo::Off };
    let kubelet = KUBERNETES.build(&cache.directory, program)?;
    let containerd = Containerd::start(&cache.directory)?;
    fs::write(containerd.directory.path.join("cni/loopback.conflist"), CNI).context("no CNI")?;
    [SANDBOX, IMAGE].iter().try_for_each(|image| containerd.import_shell(image))?;
    let directory = Directory::create("kubelet")?;
    let server = start_server(&cache.program, &directory.path)?;
    let cluster = Cluster { kubeconfig: directory.path.join("data/kubeconfig") };
    let configuration = directory.path.join("kubelet.yaml");
    fs::write(&configuration, settings(&containerd.socket, &directory.path)?)
        .context("could not write the configuration")?;
    let mut command = Command::new(kubelet);
    command.arg("--kubeconfig").arg(&cluster.kubeconfig).arg("--config").arg(configuration);
    command.arg("--root-dir").arg(directory.path.join("root"));
    command.arg("--cert-dir").arg(directory.path.join("certificates"));
    command.args(["--hostname-override", NODE]);
    let mut kubelet = Daemon::start("kubelet", command, directory.path.join("kubelet.log"))?;
    let ran = check(&cluster, &mut kubelet);
    ran.with_context(|| server.log_tail())
}

fn check(cluster: &Cluster, kubelet: &mut Daemon) -> Result<()> {
    let expect = |words: &[&str], text: &str| {
        let printed = cluster.kubectl(words)?;
        ensure!(printed.contains(text), "expected {text:?} in {printed:?}");
        Ok(())
    };
    kubelet.wait_for("the node is ready", START_MAX, || expect(&["get", "nodes"], " Ready "))?;
    expect(&["get", "node", NODE, "-o", "jsonpath={.status.nodeInfo}"], "v1.36.4")?;
    kubelet.wait_for("the node has a lease", START_MAX, || {
        expect(&["get", "leases", "-n", "kube-node-lease", "-o", "name"], NODE)
    })?;
    cluster.apply(POD)?;
    let state = "jsonpath={.status.phase} {.status.containerStatuses[0].state.terminated.message}";
    kubelet.wait_for("the pod ran", START_MAX, || {
        expect(&["get", "pod", "hello", "-o", state], "Succeeded from the kubelet")
    })?;
    cluster.kubectl(&["delete", "pod", "hello"])?;
    println!("xtask: node {NODE} registered and ran a pod");
    Ok(())
}

/// Starts everything but a node of the program's own.
fn start_server(program: &Path, directory: &Path) -> Result<Daemon> {
    let data = directory.join("data");
    let mut command = Command::new(program);
    command.args(["start", "--listen", "127.0.0.1:0", "--components", "api,controllers,scheduler"]);
    command.arg("--data-dir").arg(&data).env("HOME", directory).env_remove("KUBECONFIG");
    command.current_dir(directory);
    let mut server = Daemon::start("setpoint", command, directory.join("setpoint.log"))?;
    let kubeconfig = data.join("kubeconfig");
    server.wait_for("the server listens", START_MAX, || check_file(&kubeconfig))?;
    Ok(server)
}

/// Settings for a host on which other things run: the kubelet keeps to its own directory and does
/// not evict.
fn settings(socket: &Path, directory: &Path) -> Result<String> {
    let (port, health) = (free_port()?, free_port()?);
    let (socket, place) = (socket.display(), directory.display());
    Ok(format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
         address: 127.0.0.1\nport: {port}\nhealthzPort: {health}\n\
         authentication: {{anonymous: {{enabled: false}}, webhook: {{enabled: false}}}}\n\
         authorization: {{mode: AlwaysAllow}}\n\
         containerRuntimeEndpoint: unix://{socket}\n\
         failCgroupV1: false\ncgroupDriver: cgroupfs\ncgroupsPerQOS: false\nenforceNodeAllocatable: []\n\
         failSwapOn: false\nevictionHard: {{memory.available: 1Mi}}\n\
         imageGCHighThresholdPercent: 100\nlocalStorageCapacityIsolation: false\n\
         podLogsDir: {place}/logs\nresolvConf: ''\nvolumePluginDir: {place}/plugins\n"
    ))
}

struct Cluster {
    kubeconfig: PathBuf,
}

impl Cluster {
    fn command(&self) -> Result<Command> {
        let mut command = match kubectl::build_missing()? {
            Some(directory) => Command::new(directory.join("kubectl")),
            None => Command::new("kubectl"),
        };
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        Ok(command)
    }

    fn kubectl(&self, words: &[&str]) -> Result<String> {
        output(self.command()?.args(words))
    }

    fn apply(&self, manifest: &str) -> Result<()> {
        let file = self.kubeconfig.with_file_name("manifest.yaml");
        fs::write(&file, manifest).context("could not write a manifest")?;
        output(self.command()?.args(["apply", "-f"]).arg(&file)).map(|_| ())
    }
}
