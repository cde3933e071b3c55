//! What people expect of a command line: exit codes, names, colours, hints, files where they
//! belong, and kubectl's own commands.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use servers::Engine;

use crate::node::Machine;
use crate::sandbox::{Ended, Sandbox, end};

/// A pod that no machine has room for.
const LARGE: &str = "
apiVersion: v1
kind: Pod
metadata: {name: large}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: none, command: [sh, -c, exec sleep 1000], resources: {requests: {cpu: 9k}}}
";

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
    // What kubectl would do is said where there is none.
    let alone = sandbox.run(&["get", "pods", "--sort-by=.metadata.name"]);
    assert!(alone.code == Some(2) && alone.stderr.contains("it is not on PATH"), "{alone:?}");
    let slip = sandbox.run(&["descirbe", "pod"]);
    assert!(slip.code == Some(2) && slip.stderr.contains("describe"), "{slip:?}");
}

#[test]
fn errors_have_codes_and_codes_have_pages() {
    let sandbox = Sandbox::new();
    let failed = sandbox.run(&["train", "ls"]);
    assert!(failed.error().ends_with("KUBECONFIG. (SP1001)"), "{failed:?}");
    for words in [&["help", "SP1001"][..], &["errors", "sp1001"]] {
        let page = sandbox.run(words).stdout;
        assert!(page.starts_with("SP1001: no cluster is configured\n"), "{page}");
        assert!(page.contains("What to do:\n- `setpoint up`"), "{page}");
    }
    let all = sandbox.run(&["errors", "-o", "json"]).json();
    assert!(all.as_array().is_some_and(|all| all.len() > 20), "{all}");
    assert_eq!(sandbox.run(&["help", "SP9999"]).code, Some(5));
    sandbox.write("bad.yaml", "a: [\n");
    let failed = sandbox.run(&["apply", "-f", "bad.yaml"]);
    assert!(failed.error().ends_with("(SP4006)"), "{failed:?}");
}

#[test]
fn the_version_is_checked_against_what_is_stored() {
    let sandbox = Sandbox::new();
    let check = |words: &[&str]| sandbox.run(&[&["version", "--check"], words].concat());
    let none = check(&["-o", "json"]);
    assert_eq!((none.code, none.json()["format_found"].is_null()), (Some(0), true), "{none:?}");
    let up = sandbox.run(&["up", "--components", "api", "--listen", "127.0.0.1:0"]);
    assert_eq!(up.code, Some(0), "{up:?}");
    let told = check(&["-o", "json"]).json();
    assert_eq!((&told["running"], &told["format_found"]), (&told["version"], &1.into()), "{told}");
    assert_eq!(sandbox.run(&["down"]).code, Some(0));
    // As if another version had left it.
    let noted = sandbox.data().join("store.upgrades/version");
    assert_eq!(fs::read_to_string(&noted).expect("it is noted"), told["version"]);
    fs::write(&noted, "0.0.7").expect("a file");
    assert_eq!(check(&["-o", "json"]).json()["upgrades_from"], "0.0.7");
    let (_, log) = sandbox.start(&["--components", "api"]).stop();
    let copy = sandbox.data().join("store.upgrades/v0.0.7");
    assert!(log.contains("a copy is kept") && copy.join("0000000001.log").exists(), "{log}");
    let told = check(&[]).stdout;
    assert!(told.contains(&format!("{}   from before an upgrade", copy.display())), "{told}");
    // The copy can be gone back to.
    let store = sandbox.data().join("store");
    fs::remove_dir_all(&store).and_then(|()| fs::rename(&copy, &store)).expect("a directory");
    assert_eq!(sandbox.start(&["--components", "api"]).stop().0, Some(0));
    // As a later program would begin a file.
    let header = [b"SETPTLOG".as_slice(), &9u32.to_le_bytes(), &[0; 28]].concat();
    fs::write(sandbox.data().join("store/0000000099.log"), header).expect("a file");
    let newer = check(&[]);
    assert_eq!(newer.code, Some(1), "{newer:?}");
    assert!(newer.stdout.contains("has format 9, this program reads up to 1"), "{newer:?}");
    let refused = sandbox.run(&["start", "--components", "api", "--listen", "127.0.0.1:0"]);
    assert!(refused.error().ends_with("(SP4003)"), "{refused:?}");
}

#[test]
fn pages_are_read_without_a_network() {
    let sandbox = Sandbox::new();
    let listed = sandbox.run(&["docs", "-o", "json"]).json();
    let listed = listed.as_array().expect("a list");
    assert!(listed.len() > 10, "{listed:?}");
    for page in listed {
        let name = page["name"].as_str().expect("a name");
        let text = sandbox.run(&["docs", name]).stdout;
        assert!(text.starts_with("# ") && text.len() > 500, "{name}: {text}");
    }
    let slip = sandbox.run(&["docs", "trainig"]);
    assert_eq!(slip.code, Some(5), "{slip:?}");
    assert!(slip.stderr.contains("did you mean `setpoint docs training`?"), "{slip:?}");
    let started = sandbox.start(&["--store", "memory"]);
    let opened = sandbox.run(&["docs", "--browser", "training", "-o", "json"]).json();
    let url = format!("https://{}/docs/training", started.address());
    assert!(opened["url"] == *url && opened["browser"] == false, "{opened}");
}

/// In a network of its own, which has nothing but the machine's own address.
#[test]
fn without_a_network_it_starts_and_answers() {
    let sandbox = with_path();
    let program = env!("CARGO_BIN_EXE_setpoint");
    let script = format!(
        "ip link set lo up && {program} up --listen 127.0.0.1:0 && {program} get nodes -o name && \
         {program} down --pods"
    );
    let ours = sandbox.command(&[]);
    let mut command = Command::new("unshare");
    // Who is not root needs to be one there to bring the address up.
    let as_root = if Engine::is_possible() { &[][..] } else { &["--map-root-user"] };
    command.arg("--net").args(as_root).args(["sh", "-ec", &script]);
    command.current_dir(sandbox.work()).env_clear().stdin(Stdio::null());
    command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ended = end(command);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("\nnode/"), "{ended:?}");
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
    let words = ["service", "install", "--user", "--no-start", "--socket", "-o", "json"];
    let made = sandbox.run(&words).json();
    assert!(made["note"].as_str().is_some_and(|it| it.ends_with("setpoint.socket`")), "{made}");
    let socket = unit.with_file_name("setpoint.socket");
    let text = fs::read_to_string(&socket).expect("a unit");
    assert!(text.contains("\nListenStream=127.0.0.1:6443\n"), "{text}");
    assert!(fs::read_to_string(&unit).is_ok_and(|it| it.contains("Requires=setpoint.socket")));
    assert_eq!(sandbox.run(&["service", "uninstall", "--user"]).code, Some(0));
    assert!(!unit.exists() && !socket.exists());
}

/// As systemd starts a program: the listener is its third descriptor, and two variables say so.
const ACTIVATE: &str = "
import os, socket, sys
listener = socket.create_server(('127.0.0.1', 0))
print(listener.getsockname()[1], file=open(sys.argv[1], 'w'))
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
";

#[test]
fn a_listener_of_systemd_is_taken_over() {
    let sandbox = Sandbox::new();
    let mut program = sandbox.command(&[]);
    program.arg("start").args(["--store", "memory", "--components", "api", "-o", "json"]);
    let mut command = Command::new("python3");
    command.args(["-c", ACTIVATE, "port"]).arg(program.get_program()).args(program.get_args());
    command.current_dir(sandbox.work());
    command.env_clear().envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdout(Stdio::piped());
    let mut child = command.spawn().expect("python3 must run");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("stdout is piped");
    BufReader::new(stdout).read_line(&mut line).expect("it says when it is ready");
    let port = fs::read_to_string(sandbox.work().join("port")).expect("a port");
    let ready: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(ready["listen"], format!("127.0.0.1:{}", port.trim()), "{ready}");
    assert!(line.contains("systemd listens"), "{ready}");
    let kubeconfig = sandbox.data().join("kubeconfig").display().to_string();
    let asked = sandbox.kubectl(&["--kubeconfig", &kubeconfig, "get", "namespaces"], "");
    assert_eq!(asked.code, Some(0), "{asked:?}");
    child.kill().and_then(|()| child.wait()).expect("it can be ended");
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
    sandbox.set("WATCHDOG_USEC", "400000");
    sandbox.write("one.yaml", "log: {level: warn}\n");
    let started =
        sandbox.start(&["--components", "api", "--store", "memory", "--config", "one.yaml"]);
    assert_eq!(hear(), "READY=1");
    for _ in 0..2 {
        assert_eq!(hear(), "WATCHDOG=1", "while it can commit");
    }
    let others = || std::iter::repeat_with(hear).find(|it| it != "WATCHDOG=1").expect("a word");
    sandbox.write("one.yaml", "log: {level: info}\nstorage: {type: embedded}\n");
    started.signal("HUP");
    assert_eq!((others(), others()), ("RELOADING=1".to_owned(), "READY=1".to_owned()));
    let (code, log) = started.stop();
    assert_eq!(code, Some(0));
    assert_eq!(others(), "STOPPING=1");
    // That it was read again is told at a level that was not written before.
    assert!(log.contains("configuration read again") && log.contains("need a restart"), "{log}");
    assert!(!log.contains("configuration read\u{1b}") && log.contains("stopping"), "{log}");
}

#[test]
fn a_manifest_that_is_no_yaml_is_shown_where_it_is_wrong() {
    let sandbox = Sandbox::new();
    sandbox.write("bad.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a\n");
    for command in ["apply", "plan"] {
        let ended = sandbox.run(&[command, "-f", "bad.yaml"]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let stderr = &ended.stderr;
        assert!(stderr.contains("error: bad.yaml:") && stderr.contains('^'), "{stderr}");
    }
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
    knows_what_kubectl_knows(&machine);
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

/// Options that kubectl has mean the same here, and slips are answered.
fn knows_what_kubectl_knows(machine: &Machine) {
    let run = |words: &[&str]| machine.sandbox.run(words);
    let names = run(&["get", "namespaces", "-o", "jsonpath={.items[*].metadata.name}"]);
    assert!(names.stdout.contains("kube-system"), "kubectl's own format: {names:?}");
    let sorted = run(&["get", "namespaces", "--sort-by=.metadata.name", "--no-headers"]);
    assert!(sorted.stdout.starts_with("default "), "{sorted:?}");
    let (narrow, wide) = (run(&["get", "nodes"]), run(&["get", "nodes", "-o", "wide"]));
    assert!(wide.stdout.contains("CONTAINER-RUNTIME"), "{wide:?}");
    assert!(!narrow.stdout.contains("CONTAINER-RUNTIME"), "{narrow:?}");
    let none = run(&["get", "pods", "-n", "tried"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""), "{none:?}");
    assert!(none.stderr.contains("No resources found in tried namespace."), "{none:?}");
    let quiet = run(&["get", "pods", "-n", "tried", "--quiet", "-o", "name"]);
    assert_eq!((quiet.code, quiet.stderr.as_str()), (Some(0), ""), "{quiet:?}");
    assert_eq!(run(&["get", "nodes", "--v=6"]).code, Some(0), "as kubectl has it");
    let refused = run(&["get", "pods", "--as", "nobody"]);
    assert_eq!(refused.code, Some(7), "{refused:?}");
    assert!(refused.stderr.contains("\"nobody\" cannot list"), "{refused:?}");
    let grouped = run(&["get", "pods", "--as", "nobody", "--as-group", "system:masters"]);
    assert_eq!(grouped.code, Some(0), "{grouped:?}");
    assert_eq!(run(&["train", "ls", "--token", "wrong"]).code, Some(7));
    let nowhere = run(&["get", "pods", "--server", "https://127.0.0.1:1", "--request-timeout=5s"]);
    assert_eq!(nowhere.code, Some(1), "{nowhere:?}");
    let kind = run(&["get", "deploymets"]);
    assert_eq!(kind.code, Some(5), "{kind:?}");
    assert!(kind.stderr.contains("hint: did you mean `deployments`?"), "{kind:?}");
    let name = run(&["get", "namespace", "kube-sistem"]);
    assert_eq!(name.code, Some(5), "{name:?}");
    assert!(name.stderr.contains("did you mean `namespace/kube-system`?"), "{name:?}");
    tries_before_it_writes(machine);
    completes(machine);
}

/// A shell that has read our script completes what the cluster knows.
fn completes(machine: &Machine) {
    let script = machine.sandbox.run(&["completions", "bash"]).stdout;
    machine.sandbox.write("completions.bash", &script);
    let typed = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_setpoint"));
        let path = program.parent().expect("a directory").display();
        let text = format!(
            "PATH={path}:$PATH; source completions.bash; COMP_WORDS=({}); COMP_CWORD={}; \
             _setpoint_live setpoint '{}' '{}'; printf '%s\n' \"${{COMPREPLY[@]}}\"",
            quoted.join(" "),
            words.len() - 1,
            words[words.len() - 1],
            words[words.len() - 2],
        );
        let ours = machine.sandbox.command(&[]);
        let mut shell = Command::new("bash");
        shell.args(["-c", &text]).current_dir(machine.sandbox.work()).env_clear();
        shell.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
        end(shell).stdout
    };
    assert!(typed("setpoint get deploym").lines().any(|word| word == "deployments"));
    assert!(typed("setpoint why namespace/kube-s").contains("namespace/kube-system\n"));
    assert!(typed("setpoint get pods -n kube-p").contains("kube-public\n"));
    assert!(typed("setpoint comp").contains("completions\n"), "commands as before");
}

fn tries_before_it_writes(machine: &Machine) {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: tried}\nnothing: 1\n";
    machine.sandbox.write("tried.yaml", text);
    let apply =
        |words: &[&str]| machine.sandbox.run(&[&["apply", "-f", "tried.yaml"], words].concat());
    let strict = apply(&[]);
    assert!(strict.code == Some(1) && strict.stderr.contains("nothing"), "{strict:?}");
    let old = "apiVersion: v1\nkind: Pod\nmetadata: {name: tried}\nspec:\n  containers: [{name: a, \
               image: a}]\n  volumes: [{name: v, gitRepo: {repository: r}}]\n";
    machine.sandbox.write("tried.yaml", old);
    let warned = apply(&["--validate=warn", "--dry-run"]);
    assert_eq!(warned.stdout, "pod/tried created (dry run)\n", "{warned:?}");
    assert!(warned.stderr.contains("Warning: spec.volumes[0].gitRepo: deprecated"), "{warned:?}");
    machine.sandbox.write("tried.yaml", &text.replace("nothing: 1\n", ""));
    assert_eq!(apply(&["--dry-run=client"]).stdout, "configmap/tried created (dry run)\n");
    let planned = apply(&["--dry-run=plan", "-o", "json"]).json();
    assert_eq!(planned["objects"][0]["action"], "create", "{planned}");
    assert_eq!(apply(&["--dry-run", "--wait"]).code, Some(2));
    let missing = machine.sandbox.run(&["get", "configmap", "tried"]);
    assert_eq!(missing.code, Some(5), "nothing was written: {missing:?}");
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
    // It must not be seen ready in the moment that it runs.
    let never = ", readinessProbe: {exec: {command: [\"false\"]}}";
    let failed = apply(&pod("bad", "echo no luck; exit 3", never), &[]);
    assert_eq!(failed.code, Some(4), "{failed:?}");
    assert!(failed.stderr.contains("pod/bad/main: exited with code 3"), "{failed:?}");
    assert!(failed.stderr.contains("\n  no luck\n"), "what it said last is shown: {failed:?}");
    let large = ", resources: {requests: {cpu: 9k}}";
    let late = apply(&pod("large", "exec sleep 1000", large), &["--timeout", "3s"]);
    assert_eq!(late.code, Some(3), "{late:?}");
    assert!(late.stderr.contains("(SP3003)\n"), "{late:?}");
    assert!(late.stderr.contains("error: pod/large timed out after 3s: "), "{late:?}");
    let quiet = apply(&pod("large", "exec sleep 1000", large), &["--timeout", "1s", "-q"]);
    assert!(quiet.stderr.starts_with("error: ") && quiet.code == Some(3), "{quiet:?}");
    assert!(late.stderr.contains("Insufficient cpu"), "{late:?}");
    assert!(late.stderr.contains("hint: setpoint why pod/large"), "{late:?}");
    fails_fast(&apply);
    is_interrupted(machine);
    machine.kubectl(&["delete", "pod", "good", "bad", "large", "--grace-period=1"], "");
    machine.kubectl(&["delete", "deployment", "crashes"], "");
}

/// Pods of a Deployment that cannot run end the wait long before its time is over.
fn fails_fast(apply: &dyn Fn(&str, &[&str]) -> Ended) {
    let deployment = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: crashes}
spec:
  selector: {matchLabels: {app: crashes}}
  template:
    metadata: {labels: {app: crashes}}
    spec:
      containers:
      - name: main
        image: none
        command: [sh, -c, 'echo no database; exit 7']
        readinessProbe: {exec: {command: ['false']}}
";
    let failed = apply(deployment, &["--timeout", "10m"]);
    assert_eq!(failed.code, Some(4), "{failed:?}");
    for part in [
        "Waiting for deployment.apps/crashes: ",
        "CrashLoopBackOff",
        "\n  no database\n",
        "hint: setpoint why",
    ] {
        assert!(failed.stderr.contains(part), "{part}: {failed:?}");
    }
}

/// Who does not want to wait any more is told what becomes of it.
fn is_interrupted(machine: &Machine) {
    machine.sandbox.write("wait.yaml", LARGE);
    let mut command = machine.sandbox.command(&["apply", "-f", "wait.yaml", "--wait"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut said = BufReader::new(child.stderr.take().expect("stderr is piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    assert!(line.contains("Waiting for pod/large: "), "{line}");
    let kill = format!("kill -INT {}", child.id());
    Command::new("sh").args(["-c", &kill]).status().expect("sh runs");
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("the rest");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{rest}");
    assert!(rest.contains("hint: the same command waits again"), "{rest}");
}
