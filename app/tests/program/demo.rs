//! `setpoint demo`, as somebody runs it who has just come: everything is real, is told, and is gone
//! afterwards.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::time::Instant;

use crate::sandbox::{Ended, Sandbox};

/// For a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(240);
const LOOK: Duration = Duration::from_millis(50);

/// A place with directories for temporary files of its own, so that what is left is seen.
fn place() -> Sandbox {
    let mut sandbox = Sandbox::new();
    let temporary = sandbox.work().join("../tmp");
    fs::create_dir_all(&temporary).expect("a directory");
    sandbox.set("TMPDIR", temporary.canonicalize().expect("it is there").display().to_string());
    sandbox.set("PATH", std::env::var("PATH").unwrap_or_default());
    sandbox
}

/// Runs a demonstration to its end.
fn demo(sandbox: &Sandbox, words: &[&str]) -> Ended {
    let mut command = Command::new("timeout");
    command.args([&PATIENCE.as_secs().to_string(), env!("CARGO_BIN_EXE_setpoint"), "demo"]);
    let like = sandbox.command(&[]);
    command.args(words).current_dir(sandbox.work()).env_clear();
    let set = like.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let ended = command.envs(set).stdin(Stdio::null()).output().expect("it must run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&ended.stdout), text(&ended.stderr));
    Ended { code: ended.status.code(), stdout, stderr }
}

/// Nothing is left: no file, no process, no entry in a kubeconfig.
#[track_caller]
fn is_clean(sandbox: &Sandbox) {
    let temporary = sandbox.work().join("../tmp");
    let left: Vec<_> = fs::read_dir(&temporary).expect("it is there").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(!sandbox.work().join("../home/.kube").exists());
    let temporary = temporary.canonicalize().expect("it is there").display().to_string();
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    for process in processes {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        assert!(!line.contains(&temporary), "{line}");
    }
}

#[test]
fn everything_is_shown_measured_and_gone_afterwards() {
    let sandbox = place();
    let ended = demo(&sandbox, &["-o", "json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let told = ended.json();
    assert_eq!(told["succeeded"], true, "{told}");
    let part = |name: &str| {
        let parts = told["parts"].as_array().expect("parts").iter();
        parts.into_iter().find(|part| part["name"] == name).expect("the part").clone()
    };
    let training = part("training");
    assert_eq!(training["state"], "succeeded", "{told}");
    let loss = training["measured"]["loss"].as_str().and_then(|loss| loss.parse::<f64>().ok());
    assert!(loss.is_some_and(|loss| loss < 0.01), "{training}");
    let inference = part("inference");
    assert_eq!(inference["state"], "succeeded", "{told}");
    assert!(inference["measured"]["server"].is_string(), "{inference}");
    let machine = part("machine");
    let has_qemu = Path::new("/usr/bin/qemu-system-x86_64").exists();
    if has_qemu {
        let said = machine["measured"]["said"].as_str().unwrap_or_default();
        assert!(said.starts_with("hello from a virtual machine"), "{machine}");
    } else {
        assert_eq!(machine["state"], "skipped", "{machine}");
        assert!(machine["detail"].as_str().is_some_and(|it| it.contains("apt install")));
    }
    // Nobody watches a terminal: one plain line for every change, without colours.
    assert!(ended.stderr.contains("training   3 ranks, complete 100%"), "{}", ended.stderr);
    assert!(!ended.stderr.contains('\x1b'), "{}", ended.stderr);
    is_clean(&sandbox);
}

#[test]
fn one_part_is_shown_as_text_and_too_little_time_is_said() {
    let sandbox = place();
    let ended = demo(&sandbox, &["--only", "inference"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("2 of 2 parts succeeded"), "{ended:?}");
    assert!(ended.stdout.contains("setpoint up") && !ended.stdout.contains("training "));
    let late = demo(&sandbox, &["--only", "inference", "--timeout", "1ms"]);
    assert_eq!(late.code, Some(3), "{late:?}");
    assert!(late.stdout.contains("timed out after 1ms: "), "{late:?}");
    let wrong = demo(&sandbox, &["--only", "cooking"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    is_clean(&sandbox);
}

/// Runs a program on a terminal of 80 columns; all that it wrote there, then its code.
const ON_A_TERMINAL: &str = "
import fcntl, os, pty, struct, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
    os.execv(sys.argv[1], sys.argv[1:])
written = b''
while True:
    try: read = os.read(terminal, 65536)
    except OSError: break
    if not read: break
    written += read
sys.stdout.buffer.write(written)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";

#[test]
fn on_a_terminal_of_80_columns_the_report_takes_the_place_of_the_board() {
    let mut sandbox = place();
    sandbox.set("TERM", "xterm");
    sandbox.set("NO_COLOR", "1");
    let like = sandbox.command(&[]);
    let set = like.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let mut command = Command::new("python3");
    command.args(["-c", ON_A_TERMINAL, env!("CARGO_BIN_EXE_setpoint"), "demo"]);
    command.args(["--only", "inference"]).current_dir(sandbox.work()).env_clear().envs(set);
    let ended = command.stdin(Stdio::null()).output().expect("it must run");
    let written = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert_eq!(ended.status.code(), Some(0), "{written}");
    let (board, report) = written.rsplit_once("\x1b[J").expect("what was drawn is cleared");
    assert!(board.contains("inference"), "{board}");
    assert_eq!(report.matches('✓').count(), 2, "{report}");
    assert!(report.contains("2 of 2 parts succeeded"), "{report}");
    for line in report.lines() {
        assert!(line.trim_end().chars().count() <= 80 && !line.contains('\x1b'), "{line:?}");
    }
    is_clean(&sandbox);
}

/// A Python that claims to have Dynamo, and crashes with a reason.
const CRASHING_PYTHON: &str = "#!/bin/sh
[ \"$1\" = -c ] && exit 0
echo the engine has no licence >&2
exit 7
";

#[test]
fn a_failing_part_says_why_within_seconds_and_can_be_kept_for_inspection() {
    let mut sandbox = place();
    sandbox.write("python", CRASHING_PYTHON);
    let python = sandbox.work().join("python");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&python, executable).expect("it is ours");
    sandbox.set("SETPOINT_PYTHON", python.display().to_string());
    let began = Instant::now();
    let ended = demo(&sandbox, &["--only", "inference", "--keep"]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(began.elapsed() < Duration::from_secs(60), "{ended:?}");
    for told in ["CrashLoopBackOff", "  the engine has no licence\n", "Warning BackOff pod/"] {
        assert!(ended.stdout.contains(told), "{told}: {ended:?}");
    }
    // The printed commands look at what was kept, and remove it.
    let command = |start: &str| {
        let line = ended.stdout.lines().map(str::trim).find(|line| line.starts_with(start));
        line.unwrap_or_else(|| panic!("{start}: {ended:?}")).to_owned()
    };
    let export = command("export SETPOINT_DATA_DIR=");
    let data = export.split(['=', ' ']).nth(2).expect("a directory").to_owned();
    let status = sandbox.run(&["status", "--data-dir", &data, "-o", "json"]).json();
    assert_eq!(status["state"], "running", "{status}");
    let why = sandbox.run(&["why", "dgd/smallest", "--data-dir", &data]);
    assert!(why.stdout.contains("Warning BackOff"), "{why:?}");
    let down = command("setpoint down ");
    let words: Vec<&str> = down.split(' ').skip(1).collect();
    assert_eq!(sandbox.run(&words).code, Some(0), "{down}");
    let remove = Command::new("sh").args(["-c", &command("rm -r ")]).status();
    assert!(remove.expect("sh runs").success());
    is_clean(&sandbox);
}

#[test]
fn who_interrupts_it_finds_nothing_left() {
    let sandbox = place();
    let mut command = sandbox.command(&["demo"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
    // It is amidst its work once it has asked for something.
    let mut said = std::io::BufReader::new(child.stderr.take().expect("stderr is piped"));
    let mut line = String::new();
    while !line.contains("3 ranks") {
        line.clear();
        let read = std::io::BufRead::read_line(&mut said, &mut line).expect("lines");
        assert_ne!(read, 0, "it ended");
    }
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    let kill = format!("kill -INT {}", child.id());
    Command::new("sh").args(["-c", &kill]).status().expect("sh runs");
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            break status;
        }
        assert!(began.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(LOOK);
    };
    assert_eq!(status.code(), Some(130));
    is_clean(&sandbox);
}
