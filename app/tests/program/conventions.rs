//! What people expect of a command line: exit codes, names, colours, hints, files where they
//! belong, and kubectl's own commands.

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;
use std::process::Command;

use crate::node::Machine;
use crate::sandbox::{Ended, Sandbox, end};

fn with_path() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.set("PATH", std::env::var("PATH").unwrap_or_default());
    sandbox
}

#[test]
fn exit_codes_are_told_and_slips_are_answered_with_the_word() {
    let sandbox = Sandbox::new();
    for words in [&["help", "exit-codes"][..], &["exit-codes"]] {
        let told = sandbox.run(words).stdout;
        for code in ["  3  what was waited for", "  4  a workload failed", "130  interrupted"] {
            assert!(told.contains(code), "{code}: {told}");
        }
    }
    let slip = sandbox.run(&["strat"]);
    assert_eq!(slip.code, Some(2), "{slip:?}");
    assert!(slip.stderr.contains("hint: did you mean `setpoint start`?"), "{slip:?}");
    let slip = sandbox.run(&["descirbe", "pod"]);
    assert!(slip.code == Some(2) && slip.stderr.contains("describe"), "{slip:?}");
}

#[test]
fn where_there_is_no_cluster_that_is_said_and_nobody_else_is_asked() {
    let sandbox = with_path();
    let said = "No cluster configured. Start one with `setpoint up`, or set KUBECONFIG.";
    for words in [
        &["describe", "pods"][..],
        &["get", "pods"],
        &["train", "ls"],
        &["serve", "ls"],
        &["vm", "ls"],
    ] {
        let ended = sandbox.run(words);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.contains(said), "{ended:?}");
    }
    let none = sandbox.run(&["kubeconfig"]);
    assert_eq!(none.code, Some(5), "{none:?}");
}

#[test]
fn paths_follow_xdg_and_say_which_files_are_read() {
    let mut sandbox = Sandbox::new();
    let told = sandbox.run(&["paths", "-o", "json"]).json();
    assert_eq!(told["data"].as_str(), sandbox.data().to_str());
    let place = |name: &str| sandbox.work().join(name).display().to_string();
    let (config, cache) = (place("c"), place("k"));
    sandbox.set("XDG_CONFIG_HOME", config.clone());
    sandbox.set("XDG_CACHE_HOME", cache.clone());
    let told = sandbox.run(&["paths", "-o", "json"]).json();
    assert_eq!(told["cache"], format!("{cache}/setpoint"));
    // The user's own file is read where none is nearer.
    sandbox.write("c/setpoint/config.yaml", "storage:\n  type: memory\n");
    let shown = sandbox.run(&["config", "show", "--origin"]).stdout;
    let line = shown.lines().find(|line| line.starts_with("storage.type ")).expect("the line");
    assert!(line.contains("memory") && line.ends_with("setpoint/config.yaml:2"), "{line}");
    sandbox.write(".config.yaml", "storage:\n  type: mysql\n  mysql: {password: secret}\n");
    let shown = sandbox.run(&["config", "show", "--origin", "-o", "json"]);
    assert!(!shown.stdout.contains("secret\""), "{shown:?}");
    let shown = shown.json();
    let setting = |key: &str| {
        let all = shown["settings"].as_array().expect("settings").iter();
        all.into_iter().find(|one| one["key"] == key).expect("the key").clone()
    };
    assert_eq!(setting("storage.type")["origin"], ".config.yaml:2");
    assert_eq!(setting("storage.mysql.port")["origin"], "built in");
    let told = sandbox.run(&["config", "show", "--origin", "--store", "etcd"]).stdout;
    assert!(told.lines().any(|line| line.starts_with("storage.type") && line.ends_with("--store")));
}

#[test]
fn manuals_have_a_page_for_every_command() {
    let sandbox = Sandbox::new();
    let page = sandbox.run(&["man"]).stdout;
    assert!(page.contains(".TH setpoint 1") && page.contains("demo"), "{page}");
    let ended = sandbox.run(&["man", "--dir", "pages", "-o", "json"]);
    assert!(ended.json()["pages"].as_u64().is_some_and(|count| count > 20), "{ended:?}");
    for page in ["setpoint.1", "setpoint-up.1", "setpoint-train-ls.1", "setpoint-demo.1"] {
        assert!(sandbox.work().join("pages").join(page).exists(), "{page}");
    }
}

#[test]
fn colours_are_forced_and_refused_by_option_and_variable() {
    let mut sandbox = Sandbox::new();
    let doctor = |sandbox: &Sandbox, words: &[&str]| {
        sandbox.run(&[&["doctor"], words].concat()).stdout.contains('\x1b')
    };
    assert!(!doctor(&sandbox, &[]), "nobody watches");
    assert!(doctor(&sandbox, &["--color", "always"]));
    sandbox.set("CLICOLOR_FORCE", "1");
    assert!(doctor(&sandbox, &[]) && !doctor(&sandbox, &["--color", "never"]));
    sandbox.set("NO_COLOR", "1");
    assert!(!doctor(&sandbox, &[]));
}

#[test]
fn a_unit_is_printed_written_and_removed() {
    let sandbox = Sandbox::new();
    let printed = sandbox.run(&["service", "install", "--user", "--print"]).stdout;
    assert!(printed.contains("Type=notify") && printed.contains("KillMode=process"), "{printed}");
    let none = sandbox.run(&["service", "status", "--user"]);
    assert_eq!(none.code, Some(5), "{none:?}");
    let made = sandbox.run(&["service", "install", "--user", "--no-start", "-o", "json"]).json();
    let unit = PathBuf::from(made["unit"].as_str().expect("a path"));
    assert!(unit.ends_with(".config/systemd/user/setpoint.service") && unit.exists(), "{made}");
    assert!(made["note"].as_str().is_some_and(|it| it.contains("systemctl --user")), "{made}");
    assert_eq!(sandbox.run(&["service", "uninstall", "--user"]).code, Some(0));
    assert!(!unit.exists());
}

#[test]
fn systemd_is_told_when_it_is_ready_and_when_it_stops() {
    let mut sandbox = Sandbox::new();
    // A name in the kernel: that of a file would be too long in some places.
    let name = format!("setpoint-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let socket = UnixDatagram::bind_addr(&address).expect("a socket");
    let limit = Some(crate::sandbox::DEADLINE);
    socket.set_read_timeout(limit).expect("a time limit");
    sandbox.set("NOTIFY_SOCKET", format!("@{name}"));
    let hear = || {
        let mut bytes = [0; 64];
        let count = socket.recv(&mut bytes).expect("something is said");
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    };
    let started = sandbox.start(&["--components", "api", "--store", "memory"]);
    assert_eq!(hear(), "READY=1");
    assert_eq!(started.stop().0, Some(0));
    assert_eq!(hear(), "STOPPING=1");
}

#[test]
fn clusters_are_listed_wherever_their_data_is() {
    let sandbox = Sandbox::new();
    assert!(sandbox.run(&["ls"]).stdout.contains("there are no clusters"));
    let data = sandbox.work().join("elsewhere").display().to_string();
    let up = ["up", "--components", "api", "--listen", "127.0.0.1:0", "--data-dir", &data];
    assert_eq!(sandbox.run(&up).code, Some(0));
    let listed = sandbox.run(&["ls", "-o", "json"]).json();
    assert_eq!(
        (&listed[0]["name"], &listed[0]["state"]),
        (&data.as_str().into(), &"running".into())
    );
    assert_eq!(sandbox.run(&["ls", "-o", "name"]).stdout, format!("{data}\n"));
    let config = sandbox.run(&["kubeconfig", "--data-dir", &data]).stdout;
    assert!(config.contains("certificate-authority-data"), "{config}");
    assert_eq!(sandbox.run(&["down", "--data-dir", &data]).code, Some(0));
    assert_eq!(sandbox.run(&["ls", "-o", "json"]).json()[0]["state"], "stopped");
}

/// One cluster for everything that needs one.
#[test]
fn kubectl_does_what_is_not_ours_and_waiting_tells_why() {
    let mut machine = Machine { sandbox: with_path(), started: None };
    machine.begin();
    let run = |words: &[&str]| machine.sandbox.run(words);
    let nodes = run(&["get", "nodes", "-o", "name"]);
    assert!(nodes.code == Some(0) && nodes.stdout.starts_with("node/"), "{nodes:?}");
    let described = run(&["describe", "nodes"]);
    assert!(described.code == Some(0) && described.stdout.contains("Capacity:"), "{described:?}");
    assert!(run(&["-o", "json", "create", "namespace", "tried"]).json()["kind"] == "Namespace");
    let missing = run(&["describe", "pod", "nothing"]);
    assert_eq!(missing.code, Some(1), "kubectl's own code: {missing:?}");
    is_a_plugin(&machine);
    waits(&machine);
    // What a plugin of ours is called, it is.
    let plugin = machine.sandbox.work().join("bin/setpoint-greet");
    machine.sandbox.write("bin/setpoint-greet", "#!/bin/sh\necho greetings \"$@\"\n");
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&plugin, mode).expect("it can be run");
    let mut command = machine.sandbox.command(&["greet", "all"]);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", plugin.parent().expect("a parent").display()));
    assert_eq!(end(command).stdout, "greetings all\n");
}

/// `kubectl setpoint ...` asks the cluster that kubectl would.
fn is_a_plugin(machine: &Machine) {
    let bin = machine.sandbox.work().join("plugins");
    fs::create_dir_all(&bin).expect("a directory");
    symlink(env!("CARGO_BIN_EXE_setpoint"), bin.join("kubectl-setpoint")).expect("a link");
    let mut command = Command::new("kubectl");
    command.args(["setpoint", "train", "ls", "-o", "json"]).env_clear();
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", bin.display()));
    command.env("HOME", machine.sandbox.work());
    command.env("KUBECONFIG", machine.sandbox.data().join("kubeconfig"));
    let ended = end(command);
    assert_eq!((ended.code, ended.stdout.trim()), (Some(0), "[]"), "{ended:?}");
}

fn waits(machine: &Machine) {
    let apply = |manifest: &str, words: &[&str]| -> Ended {
        machine.sandbox.write("wait.yaml", manifest);
        machine.sandbox.run(&[&["apply", "-f", "wait.yaml", "--wait"], words].concat())
    };
    let pod = |name: &str, command: &str, more: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n\x20 \
             restartPolicy: Never\n\x20 \
             containers: [{{name: main, image: none, command: [sh, -c, '{command}']{more}}}]\n"
        )
    };
    let good = apply(&pod("good", "exec sleep 1000", ""), &[]);
    assert_eq!(good.code, Some(0), "{good:?}");
    assert_eq!(good.stdout, "pod/good created\n", "only the result is on stdout: {good:?}");
    let failed = apply(&pod("bad", "exit 3", ""), &[]);
    assert_eq!(failed.code, Some(4), "{failed:?}");
    let large = ", resources: {requests: {cpu: 9k}}";
    let late = apply(&pod("large", "exec sleep 1000", large), &["--timeout", "3s"]);
    assert_eq!(late.code, Some(3), "{late:?}");
    assert!(late.stderr.contains("Insufficient cpu"), "{late:?}");
    assert!(late.stderr.contains("hint: kubectl describe pod/large"), "{late:?}");
    machine.kubectl(&["delete", "pod", "good", "bad", "large", "--grace-period=1"], "");
}
