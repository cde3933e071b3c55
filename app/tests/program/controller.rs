//! `setpoint controller`: controllers, scheduler and node without an API listener.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use crate::sandbox::{Sandbox, text};

/// The addresses on which a process listens for TCP, besides those where its node answers DNS.
fn listeners(pid: u64) -> usize {
    let sockets: Vec<String> = fs::read_dir(format!("/proc/{pid}/fd"))
        .expect("the process must run")
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter_map(|link| {
            let name = link.to_string_lossy().into_owned();
            Some(name.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let tables = ["tcp", "tcp6"]
        .map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default());
    let lines = tables.iter().flat_map(|table| table.lines().skip(1));
    lines
        .filter(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            // State 0A listens; port 0035 is that of DNS.
            fields[3] == "0A"
                && !fields[1].ends_with(":0035")
                && sockets.iter().any(|socket| socket == fields[9])
        })
        .count()
}

#[test]
fn it_serves_nobody_and_its_node_is_in_the_store() {
    let mut sandbox = Sandbox::new();
    sandbox.set("NODE_NAME", "my-node-1");
    let started = sandbox.start_command(&["controller", "-o", "json"]);
    let pid = started.ready["pid"].as_u64().expect("a process");
    assert!(started.ready["url"].is_null(), "{}", started.ready);
    assert_eq!(listeners(pid), 0, "no port may be open");
    assert_eq!(started.stop().0, Some(0));
    // What it wrote is there for a server on the same store.
    let server = sandbox.start(&["--components", "api"]);
    let nodes = sandbox.kubectl(
        &["--kubeconfig", &text(&server.ready, "kubeconfig"), "get", "nodes", "-o", "name"],
        "",
    );
    assert_eq!(nodes.stdout, "node/my-node-1\n", "{nodes:?}");
    assert_eq!(server.stop().0, Some(0));
}

#[test]
fn a_store_that_nobody_shares_is_said_to_be_private() {
    let sandbox = Sandbox::new();
    for kind in ["memory", "embedded"] {
        let started = sandbox.start_command(&["controller", "-o", "json", "--store", kind]);
        let (code, stderr) = started.stop();
        assert_eq!(code, Some(0));
        let said = format!("{kind} storage is private to this process");
        assert!(stderr.contains(&said) && stderr.contains("mysql or etcd"), "{stderr}");
    }
}

#[test]
fn without_a_runtime_its_node_says_why_nothing_runs_there() {
    let mut sandbox = Sandbox::new();
    sandbox.set("NODE_NAME", "bare");
    sandbox.set("SETPOINT_RUNTIME", "none");
    let started = sandbox.start_command(&["controller", "-o", "json"]);
    assert_eq!(started.stop().0, Some(0));
    let server = sandbox.start(&["--components", "api"]);
    let ready = "jsonpath={.items[0].status.conditions[?(@.type=='Ready')]['status','message']}";
    let kubeconfig = text(&server.ready, "kubeconfig");
    let nodes = sandbox.kubectl(&["--kubeconfig", &kubeconfig, "get", "nodes", "-o", ready], "");
    assert!(nodes.stdout.contains("container runtime is not available"), "{nodes:?}");
    assert_eq!(server.stop().0, Some(0));
}

#[test]
fn a_program_of_that_name_is_that_command() {
    let sandbox = Sandbox::new();
    let named = sandbox.work().join("controller");
    symlink(env!("CARGO_BIN_EXE_setpoint"), &named).expect("a link");
    let help = std::process::Command::new(&named).arg("--help").stdin(Stdio::null()).output();
    let help = help.expect("it must run");
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(text.contains("without serving the API"), "{text}");
}
