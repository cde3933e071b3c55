//! Pods in containers of a real containerd, used through kubectl.

use servers::Containerd;

use crate::engine_pods::{mounts, whole_pod};
use crate::engines::{
    IMAGE, PROGRAM, commands, machine_at, pod, ports, refusals, services, streams, training,
};

#[test]
fn pods_run_in_containers_of_containerd() {
    let containerd = Containerd::start().expect("containerd starts");
    containerd.make_shell(IMAGE).expect("an image is made");
    containerd.make_program(PROGRAM).expect("an image is made");
    let mut machine = machine_at(containerd.socket(), "containerd");
    machine.kubectl(&["apply", "-f", "-"], &pod("hello", "echo hi; hostname; exec cat"));
    machine.kubectl(&["wait", "pod/hello", "--for=condition=Ready", "--timeout=60s"], "");
    let list = || {
        let listed = containerd.ctr(&["containers", "list"]).output().expect("ctr runs");
        String::from_utf8_lossy(&listed.stdout).into_owned()
    };
    assert!(list().contains(IMAGE), "{}", list());
    streams(&machine);
    refusals(&machine);
    commands(&machine);
    ports(&machine);
    services(&machine);
    let told =
        "get pod hello -o jsonpath={.status.containerStatuses[0]['containerID','restartCount']}";
    let before = machine.until(told, |told| told.starts_with("containerd://"));
    machine.restart();
    machine.until("exec hello -- echo again", |said| said == "again");
    assert_eq!(machine.until(told, |told| !told.is_empty()), before);
    training(&machine);
    whole_pod(&machine);
    machine.kubectl(&["delete", "trainjob,deployment,pod", "--all", "--timeout=60s"], "");
    machine.until("get pods -o name", |pods| pods.is_empty() && !list().contains(IMAGE));
    machine.until("get pods -o name", |_| mounts(&machine).is_empty());
}
