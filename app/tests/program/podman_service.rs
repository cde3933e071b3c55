//! Podman without a service of its own: the node starts one. The image lies in the directory of
//! images, packed, and is loaded from there.

use std::fs;
use std::path::Path;
use std::process::Command;

use servers::Engine;

use crate::engines::{IMAGE, pod};
use crate::node::Machine;
use crate::sandbox::Sandbox;

/// Where others would answer.
const USUAL: &str = "/run/podman/podman.sock";

/// Settings for data of its own, and for a machine that allows little.
fn configure(sandbox: &mut Sandbox) {
    let place = sandbox.work().join("podman").display().to_string();
    let limits = "\"nofile=1024:1024\", \"nproc=1024:1024\"";
    sandbox.write(
        "containers.conf",
        &format!(
            "[containers]\ndefault_ulimits = [{limits}]\n[engine]\nruntime = \"runc\"\n\
             cgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\ntmp_dir = \"{place}/tmp\"\n"
        ),
    );
    sandbox.write(
        "storage.conf",
        &format!(
            "[storage]\ndriver = \"vfs\"\ngraphroot = \"{place}/root\"\n\
             runroot = \"{place}/run\"\n"
        ),
    );
    let below = |name: &str| sandbox.work().join(name).display().to_string();
    let files = [below("containers.conf"), below("storage.conf")];
    for (name, value) in ["CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF"].iter().zip(files) {
        sandbox.set(name, value);
    }
    sandbox.set("PATH", std::env::var("PATH").unwrap_or_default());
    sandbox.set("SETPOINT_RUNTIME", "podman");
}

/// The number of the process that listens for Podman.
fn service(sandbox: &Sandbox) -> Option<String> {
    let socket = sandbox.data().join("node/podman.sock").display().to_string();
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let mut numbers = processes.filter_map(|entry| entry.file_name().into_string().ok());
    numbers.find(|number| {
        let line = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains("service") && line.contains(&socket)
    })
}

#[test]
fn podman_needs_no_service_of_the_machine() {
    if !Engine::is_possible() || Path::new(USUAL).exists() {
        return;
    }
    let mut sandbox = Sandbox::new();
    configure(&mut sandbox);
    let archive = servers::shell_archive(&sandbox.work().join("image"), (IMAGE, ""));
    let images = sandbox.data().join("images");
    fs::create_dir_all(&images).expect("a directory");
    let packed = fs::File::create(images.join("shell.tar.gz")).expect("a file");
    let archive = archive.expect("an image is made");
    let gzip = Command::new("gzip").arg("-c").arg(archive).stdout(packed).status();
    assert!(gzip.expect("gzip runs").success());
    let mut machine = Machine { sandbox, started: None };
    machine.begin();
    let version = "get nodes -o jsonpath={.items[0].status.nodeInfo.containerRuntimeVersion}";
    machine.until(version, |version| version.starts_with("podman://"));
    let script = "trap 'exit 0' TERM; echo hi; while :; do sleep 0.1; done";
    machine.kubectl(&["apply", "-f", "-"], &pod("hello", script));
    machine.kubectl(&["wait", "pod/hello", "--for=condition=Ready", "--timeout=60s"], "");
    machine.until("logs hello", |log| log == "hi");
    // It is started again when it ends, and its containers do not end with it.
    let before = service(&machine.sandbox).expect("it runs");
    assert!(Command::new("kill").args(["-9", &before]).status().expect("kill runs").success());
    machine.until("exec hello -- echo again", |said| said == "again");
    let restarts = "get pod hello -o jsonpath={.status.containerStatuses[0].restartCount}";
    assert_eq!(machine.until(restarts, |told| !told.is_empty()), "0");
    let (code, stderr) = machine.started.take().expect("it runs").stop();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("RuntimeController(podman)"), "{stderr}");
    assert_eq!(service(&machine.sandbox), None, "it ends with the node");
    let down = machine.sandbox.run(&["down", "--pods", "-o", "json"]);
    assert_eq!((down.code, &down.json()["containers"]["count"]), (Some(0), &1.into()), "{down:?}");
}
