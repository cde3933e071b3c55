//! What leaves HTTP, with real clients: kubectl over WebSockets and over SPDY, and Python's.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::node::Machine;
use crate::sandbox::Ended;

const PATIENCE: Duration = Duration::from_secs(60);
/// Both ways in which kubectl speaks of streams.
const TRANSPORTS: [&str; 2] = ["true", "false"];
const FOR_PROGRAMS: &str = "KUBECTL_REMOTE_COMMAND_WEBSOCKETS";
const FOR_PORTS: &str = "KUBECTL_PORT_FORWARD_WEBSOCKETS";

const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: x
    env: [{name: COLOR, value: blue}]
    stdin: STDIN
    tty: TTY
    command: [sh, -c, 'SCRIPT']
";

fn pod(name: &str, script: &str) -> String {
    let text = POD.replace("NAME", name).replace("SCRIPT", script);
    text.replace("STDIN", "false").replace("TTY", "false")
}

/// kubectl, to be started by the caller.
fn kubectl(machine: &Machine, words: &[&str]) -> Command {
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(machine.sandbox.data().join("kubeconfig")).args(words);
    command.env("HOME", machine.sandbox.work()).current_dir(machine.sandbox.work());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn end(mut command: Command, input: &[u8]) -> Ended {
    command.stdin(Stdio::piped());
    let mut child = command.spawn().expect("it must start");
    let mut stdin = child.stdin.take().expect("stdin must be piped");
    let input = input.to_vec();
    let feed = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("it must end");
    feed.join().expect("feeding must not fail");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    Ended { code: output.status.code(), stdout, stderr }
}

/// A program that is gone at the end of a test, whatever becomes of it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(machine: &Machine, manifest: &str, name: &str) {
    machine.kubectl(&["apply", "-f", "-"], manifest);
    machine.phase(name, "Running");
}

#[track_caller]
fn until(what: &str, holds: impl Fn() -> bool) {
    let began = tokio::time::Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn programs_run_beside_containers_with_all_their_streams() {
    let machine = Machine::start();
    start(&machine, &pod("worker", "sleep 1000"), "worker");
    let exec = |transport: &str, words: &[&str], input: &[u8]| {
        let mut command = kubectl(&machine, &[&["exec", "worker"], words].concat());
        command.env(FOR_PROGRAMS, transport);
        end(command, input)
    };
    for transport in TRANSPORTS {
        let script = "echo $COLOR; echo oops >&2; exit 7";
        let ended = exec(transport, &["--", "sh", "-c", script], b"");
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(7), "blue\n"), "{ended:?}");
        assert!(ended.stderr.starts_with("oops\n"), "{ended:?}");
        assert!(ended.stderr.contains("command terminated with exit code 7"), "{ended:?}");
        // The end of the input is the end of it for the program.
        let big = vec![b'x'; 3_000_000];
        let ended = exec(transport, &["-i", "--", "sh", "-c", "wc -c; echo done"], &big);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "3000000\ndone\n"), "{ended:?}");
        // More output than any queue holds, and input that nobody reads.
        let script = "head -c 5000000 /dev/zero | tr '\\0' y";
        let ended = exec(transport, &["-i", "--", "sh", "-c", script], &big);
        assert_eq!((ended.code, ended.stdout.len()), (Some(0), 5_000_000), "{:?}", ended.stderr);
        let ended = exec(transport, &["--", "/no/such/program"], b"");
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.contains("/no/such/program"), "{ended:?}");
        let ended = exec(transport, &["-c", "other", "--", "true"], b"");
        assert!(ended.stderr.contains("container other is not valid for pod worker"), "{ended:?}");
    }
    machine.kubectl(&["delete", "pod", "worker"], "");
}

#[test]
fn a_client_that_goes_away_takes_its_program_along() {
    let machine = Machine::start();
    start(&machine, &pod("host", "sleep 1000"), "host");
    for transport in TRANSPORTS {
        let script = "sleep 54321 & echo $! $$; wait";
        let mut command = kubectl(&machine, &["exec", "host", "--", "sh", "-c", script]);
        let mut client = Running(command.env(FOR_PROGRAMS, transport).spawn().expect("it starts"));
        let mut line = String::new();
        let stdout = client.0.stdout.take().expect("stdout is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it says who it is");
        let count = || {
            let mut pgrep = Command::new("pgrep");
            pgrep.args(["-f", "^sleep 54321$"]).stdout(Stdio::piped()).stderr(Stdio::piped());
            end(pgrep, b"").stdout.lines().count()
        };
        until("the program runs", || count() > 0);
        drop(client);
        until("the program is gone", || count() == 0);
    }
    machine.kubectl(&["delete", "pod", "host"], "");
}

/// Runs a command in a terminal of 33 lines and 101 columns, types, and prints what it shows.
const TERMINAL: &str = include_str!("streams/terminal.py");

fn in_terminal(machine: &Machine, transport: &str, words: &[&str]) -> Command {
    let inner = kubectl(machine, words);
    let mut command = Command::new("python3");
    command.args(["-c", TERMINAL]).arg(inner.get_program()).args(inner.get_args());
    command.current_dir(machine.sandbox.work()).env(FOR_PROGRAMS, transport);
    command.env("HOME", machine.sandbox.work());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_terminal_is_one_and_has_its_size() {
    let machine = Machine::start();
    start(&machine, &pod("term", "sleep 1000"), "term");
    for transport in TRANSPORTS {
        // The size is told soon after the start.
        let script = "tty >/dev/null || exit 9; \
                      while [ \"$(stty size)\" != '33 101' ]; do sleep 0.05; done; \
                      echo ready?; read answer; echo got $answer; exit 4";
        let command =
            in_terminal(&machine, transport, &["exec", "-it", "term", "--", "sh", "-c", script]);
        let ended = end(command, b"");
        assert_eq!(ended.code, Some(4), "{ended:?}");
        assert!(ended.stdout.contains("got hello\r\n"), "{ended:?}");
    }
    machine.kubectl(&["delete", "pod", "term"], "");
}

#[test]
fn clients_attach_to_containers_with_and_without_a_terminal() {
    let machine = Machine::start();
    let plain = pod("plain", "while read line; do echo heard $line; done; echo over");
    let plain = plain.replace("stdin: false", "stdin: true");
    start(&machine, &plain, "plain");
    for (transport, word) in TRANSPORTS.into_iter().zip(["one", "two"]) {
        let mut command = kubectl(&machine, &["attach", "-i", "plain"]);
        command.env(FOR_PROGRAMS, transport).stdin(Stdio::piped());
        let mut client = Running(command.spawn().expect("it starts"));
        let mut stdin = client.0.stdin.take().expect("stdin is piped");
        let stdout = client.0.stdout.take().expect("stdout is piped");
        writeln!(stdin, "{word}").expect("it reads");
        let mut lines = BufReader::new(stdout).lines();
        let heard = lines.find_map(|line| line.ok().filter(|line| line.starts_with("heard")));
        assert_eq!(heard, Some(format!("heard {word}")));
    }
    // Without stdinOnce the container goes on, and its output is in its log too.
    machine.until("logs plain", |log| log == "heard one\nheard two");
    let terminal =
        pod("terminal", "while read line; do echo ready?; [ $line = hello ] && exit 5; done");
    let terminal =
        terminal.replace("stdin: false", "stdin: true").replace("tty: false", "tty: true");
    let terminal = terminal.replace("spec:", "spec:\n  restartPolicy: Never");
    start(&machine, &terminal, "terminal");
    let attach = in_terminal(&machine, "true", &["attach", "-it", "terminal"]);
    let seen = std::thread::scope(|scope| {
        let attached = scope.spawn(|| end(attach, b""));
        // A second one types what the first waits for.
        let mut other = kubectl(&machine, &["attach", "-i", "terminal"]);
        other.stdin(Stdio::piped());
        let mut other = Running(other.spawn().expect("it starts"));
        let mut stdin = other.0.stdin.take().expect("stdin is piped");
        while !attached.is_finished() {
            let _ = stdin.write_all(b"x\n");
            std::thread::sleep(Duration::from_millis(100));
        }
        attached.join().expect("it ends")
    });
    assert!(seen.stdout.contains("hello\r\n"), "{seen:?}");
    machine.phase("terminal", "Failed");
    // `kubectl run -i` is an attach whose end is the end of the input.
    let run = ["run", "once", "-i", "--rm", "--restart=Never", "--image=x", "--quiet"];
    let mut command =
        kubectl(&machine, &[&run[..], &["--command", "--", "sh", "-c", "sleep 1; wc -c"]].concat());
    command.env(FOR_PROGRAMS, "true");
    let ended = end(command, b"12345");
    assert_eq!((ended.code, ended.stdout.trim()), (Some(0), "5"), "{ended:?}");
    machine.kubectl(&["delete", "pod", "plain", "terminal"], "");
}

/// Sends back what it gets, when all of it has come.
const ECHO: &str = include_str!("streams/echo.py");

/// A pod that listens; its port.
fn server_pod(machine: &Machine, name: &str, program: &str) -> String {
    machine.sandbox.write("server.py", program);
    let file = machine.sandbox.work().join("server.py").display().to_string();
    start(machine, &pod(name, &format!("exec python3 {file}")), name);
    let log = machine.until(&format!("logs {name}"), |log| log.starts_with("port "));
    log.trim_start_matches("port ").to_owned()
}

#[test]
fn ports_are_forwarded_for_many_connections_at_once() {
    let machine = Machine::start();
    let port = server_pod(&machine, "echo", ECHO);
    for transport in TRANSPORTS {
        let mut command = kubectl(&machine, &["port-forward", "pod/echo", &format!(":{port}")]);
        let mut client = Running(command.env(FOR_PORTS, transport).spawn().expect("it starts"));
        let mut line = String::new();
        let mut stdout = BufReader::new(client.0.stdout.take().expect("stdout is piped"));
        stdout.read_line(&mut line).expect("it says where it listens");
        std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        let address = line.split_whitespace().nth(2).unwrap_or_default().to_owned();
        std::thread::scope(|scope| {
            for number in 0..20_u8 {
                let address = &address;
                scope.spawn(move || {
                    let mut stream = TcpStream::connect(address).expect("it listens");
                    let sent: Vec<u8> =
                        (0..700_000_usize).map(|at| (at % 251) as u8 ^ number).collect();
                    stream.write_all(&sent).expect("it is taken");
                    stream.shutdown(Shutdown::Write).expect("that is all");
                    let mut back = Vec::new();
                    stream.read_to_end(&mut back).expect("it comes back");
                    assert!(back == sent, "{number}: {} of {}", back.len(), sent.len());
                });
            }
        });
    }
    // Nobody listens there.
    let mut command = kubectl(&machine, &["port-forward", "pod/echo", ":1"]);
    let mut client = Running(command.spawn().expect("it starts"));
    let mut line = String::new();
    let mut stdout = BufReader::new(client.0.stdout.take().expect("stdout is piped"));
    stdout.read_line(&mut line).expect("it says where it listens");
    let address = line.split_whitespace().nth(2).unwrap_or_default().to_owned();
    let mut stream = TcpStream::connect(address).expect("it listens");
    let mut nothing = Vec::new();
    let _ = stream.read_to_end(&mut nothing);
    assert_eq!(nothing, b"");
    let mut said = String::new();
    let mut stderr = BufReader::new(client.0.stderr.take().expect("stderr is piped"));
    while !said.contains("error forwarding port 1 to pod echo") {
        assert!(stderr.read_line(&mut said).expect("it says why") > 0, "{said}");
    }
    machine.kubectl(&["delete", "pod", "echo"], "");
}

#[test]
fn directories_are_copied_in_and_out() {
    let machine = Machine::start();
    start(&machine, &pod("files", "sleep 1000"), "files");
    let place = machine.sandbox.work().join("inside").display().to_string();
    std::fs::create_dir_all(&place).expect("a directory");
    for number in 0..20 {
        let text = format!("{number}").repeat(number * 1_000 + 1);
        machine.sandbox.write(&format!("source/a/{number}.txt"), &text);
    }
    machine.kubectl(&["cp", "source", &format!("files:{place}/copy")], "");
    machine.kubectl(&["cp", &format!("files:{place}/copy"), "back"], "");
    let contents = |name: &str| {
        let all = crate::sandbox::contents(&machine.sandbox.work().join(name));
        let named = |path: &std::path::Path| path.file_name().expect("a name").to_owned();
        all.into_iter().map(|(path, bytes)| (named(&path), bytes)).collect::<Vec<_>>()
    };
    assert_eq!(contents("source").len(), 20);
    assert_eq!(contents("source"), contents("back"));
    machine.kubectl(&["delete", "pod", "files"], "");
}

#[test]
fn logs_are_followed_over_rotations_without_loss() {
    let machine = Machine::start();
    let line = "x".repeat(60);
    let script = format!("seq -f \"%08.0f {line}\" 1 250000; echo end");
    let manifest = pod("flood", &script).replace("spec:", "spec:\n  restartPolicy: Never");
    machine.kubectl(&["apply", "-f", "-"], &manifest);
    machine.until("get pod flood -o jsonpath={.status.containerStatuses[0].containerID}", |id| {
        !id.is_empty()
    });
    let ended = end(kubectl(&machine, &["logs", "-f", "flood"]), b"");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let mut expected = 1;
    for line in ended.stdout.lines().take_while(|line| *line != "end") {
        let number = line.split(' ').next().and_then(|number| number.parse::<u32>().ok());
        assert_eq!(number, Some(expected));
        expected += 1;
    }
    assert_eq!(expected, 250_001);
    machine.phase("flood", "Succeeded");
    let tail = machine.kubectl(&["logs", "flood", "--tail=2"], "");
    assert_eq!(tail, format!("00250000 {line}\nend"));
    let exec = machine.run(&["exec", "flood", "--", "true"], "");
    assert!(exec.stderr.contains("cannot exec"), "{exec:?}");
    machine.kubectl(&["delete", "pod", "flood"], "");
}

/// Programs and ports through the Python client.
const PYTHON: &str = include_str!("streams/client.py");

/// Sends back each piece as it comes.
const MIRROR: &str = include_str!("streams/mirror.py");

#[test]
fn the_python_client_runs_programs_and_forwards_ports() {
    let machine = Machine::start();
    let port = server_pod(&machine, "echo", MIRROR);
    let target = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a parent");
    let mut command = Command::new(servers::python_client(target).expect("it is installed"));
    command.args(["-c", PYTHON, &port]).env("HOME", machine.sandbox.work());
    command.env("KUBECONFIG", machine.sandbox.data().join("kubeconfig"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let ended = end(command, b"");
    assert_eq!(ended.stdout, "all is well\n", "{}", ended.stderr);
    machine.kubectl(&["delete", "pod", "echo"], "");
}

#[test]
fn a_container_is_added_to_look_into_a_pod() {
    let machine = Machine::start();
    // kubectl gives such containers the right to trace others.
    machine.allow_privileged_pods();
    start(&machine, &pod("sick", "sleep 1000"), "sick");
    let debug = ["debug", "sick", "--image=x", "-c", "look", "--", "sh", "-c", "echo here; exit 3"];
    machine.kubectl(&debug, "");
    let state = "get pod sick -o jsonpath={.status.ephemeralContainerStatuses[0].state}";
    let state = machine.until(state, |state| state.contains("terminated"));
    assert!(state.contains("\"exitCode\":3"), "{state}");
    assert_eq!(machine.kubectl(&["logs", "sick", "-c", "look"], ""), "here");
    // It ran once, and the pod is as it was.
    machine.phase("sick", "Running");
    let ready = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
    assert_eq!(machine.kubectl(&["get", "pod", "sick", "-o", ready], ""), "True");
    // One that looks at the processes of another.
    let find = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; echo";
    let words = ["debug", "sick", "--image=x", "-c", "near", "--target=main", "--", "sh", "-c"];
    machine.kubectl(&[&words[..], &[find]].concat(), "");
    let seen = machine.until("logs sick -c near", |log| !log.is_empty());
    assert!(seen.contains("sleep 1000"), "{seen}");
    // Another one, with a terminal and a shell because no program is named.
    let words = ["debug", "-it", "sick", "--image=x", "-c", "shell"];
    let mut command = in_terminal(&machine, "true", &words);
    command.env("TYPED", "echo $((6 * 7)); exit\n");
    let ended = end(command, b"");
    assert!(ended.stdout.contains("42"), "{ended:?}");
    machine.kubectl(&["delete", "pod", "sick"], "");
}

const READER: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: default}
rules: [{apiGroups: [''], resources: [pods, pods/exec], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
";

#[test]
fn streams_are_refused_with_a_reason() {
    let machine = Machine::start();
    machine.kubectl(&["apply", "-f", "-"], READER);
    start(&machine, &pod("busy", "sleep 1000"), "busy");
    // Who may only read may run nothing, though a WebSocket begins with a GET.
    for transport in TRANSPORTS {
        let mut command = kubectl(&machine, &["exec", "busy", "--as=jane", "--", "true"]);
        command.env(FOR_PROGRAMS, transport);
        let ended = end(command, b"");
        let expected = "User \"jane\" cannot create resource \"pods/exec\" in API group \"\" in \
                        the namespace \"default\"";
        assert!(ended.stderr.contains(expected), "{ended:?}");
    }
    let raw = |path: &str| {
        let path = format!("/api/v1/namespaces/default/pods/{path}");
        machine.run(&["get", "--raw", &path], "").stderr
    };
    for (path, expected) in [
        ("busy/exec?stdout=true&command=ls", "Upgrade request required"),
        ("busy/exec?stdout=true", "you must specify at least one command"),
        ("busy/exec?command=ls", "you must specify at least 1 of stdin, stdout, stderr"),
        ("busy/attach?stdout=true&container=no", "container no is not valid for pod busy"),
        ("busy/portforward?ports=nine", "unable to parse \"nine\" as a port"),
        ("none/exec?command=ls", "pods \"none\" not found"),
        ("busy/log?tailLines=-1", "must be greater than or equal to 0"),
        ("busy/log?limitBytes=0", "must be greater than 0"),
        ("busy/log?sinceTime=soon", "must be as RFC 3339 says"),
    ] {
        let said = raw(path);
        assert!(said.contains(expected), "{path}: {said}");
    }
    // A pod that cannot start has neither output nor a place to run something.
    machine.kubectl(&["run", "imageonly", "--image=nginx"], "");
    machine.until("get pod imageonly", |pod| pod.contains("CreateContainerConfigError"));
    let logs = machine.run(&["logs", "imageonly"], "");
    let expected = "container \"imageonly\" in pod \"imageonly\" is waiting to start: \
                    CreateContainerConfigError";
    assert!(logs.stderr.contains(expected), "{logs:?}");
    let exec = machine.run(&["exec", "imageonly", "--", "true"], "");
    assert!(exec.stderr.contains("container not found (\"imageonly\")"), "{exec:?}");
    machine.kubectl(&["delete", "pod", "busy", "imageonly"], "");
}
