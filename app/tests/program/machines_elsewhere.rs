//! A virtual machine that runs on a node of one process, and is asked for at the server of another.

use std::path::Path;

use crate::booted::{Console, manifests, serve};
use crate::sandbox::text;
use crate::several_nodes::Nodes;

#[test]
fn a_machine_of_another_process_is_typed_into_paused_and_reached() {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let url = serve(&servers::guest_image(&target).expect("an image"));
    let etcd = servers::Etcd::start().expect("etcd must start");
    let settings = format!("etcd: {{endpoints: [\"{}\"]}}", etcd.endpoint());
    let nodes = Nodes::start("etcd", &format!("{settings}\nmachines: {{images: everything}}"));
    nodes.until("get crd -o name", |names| names.contains("virtualmachinerestores"));
    nodes.until("get validatingwebhookconfigurations -o name", |names| {
        names.contains("novasphere-validating")
    });
    nodes.kubectl("apply -f -", &manifests(&nodes.sandbox, &url));
    nodes.until("get wukong w -o jsonpath={.status.phase}", |phase| phase == "Running");
    let node = nodes.kubectl("get vmi w-vm -o jsonpath={.status.nodeName}", "");
    assert!(node.starts_with("node-"), "the server that is asked is of no node: {node}");
    let kubeconfig = text(&nodes.api.ready, "kubeconfig");
    let by = ["--kubeconfig", &kubeconfig];
    let mut console =
        Console::by(|| nodes.sandbox.command(&[&["vm", "console", "w"], &by[..]].concat()));
    assert!(console.run("cat /seed/user-data").contains("name: ada"));
    drop(console);

    let key = nodes.sandbox.work().join("key").display().to_string();
    let quiet = ["--", "-i", &key, "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "id -un"];
    let words = [&["vm", "ssh", "w", "ada"], &by[..], &quiet[..]].concat();
    let ended = nodes.sandbox.run(&words);
    assert!(ended.stdout.contains("ada"), "{ended:?}");

    for (verb, printed) in [("pause", "Paused"), ("unpause", "Running")] {
        let ended = nodes.sandbox.run(&[&["vm", verb, "w"], &by[..]].concat());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        nodes.until("get vm w-vm -o jsonpath={.status.printableStatus}", |it| it == printed);
    }
    let path = "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachineinstances/w-vm";
    let line = format!("get --raw {path}/guestosinfo");
    assert!(nodes.kubectl(&line, "").contains("tiny"));
    nodes.kubectl("delete wukong w --timeout=90s", "");
    nodes.until("get vm,vmi,dv -o name", |names| names.trim().is_empty());
}
