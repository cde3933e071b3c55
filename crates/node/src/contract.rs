//! What every runtime must do, as tests. A runtime calls `check` with a way to open it; what only
//! some can do (users, limits) is checked where it is said that they can.
//!
//! Programs are scripts of a shell. A runtime that runs nothing is told in `BEHAVIOUR` what the
//! script does.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::Notify;

use crate::confinement::{Limits, Security};
use crate::runtime::{
    ContainerId, ContainerSpec, Exit, Input, PodRuntime, START_ERROR, SandboxSpec, State,
};
use crate::runtimes::process::system::is_root;

pub const PATIENCE: Duration = Duration::from_secs(30);
/// The variable that says in words what a script does, for who cannot run it: `says`, `complains`,
/// `exits`, `dies`, `obeys`, `ignores`, each with one word after it, in order.
pub const BEHAVIOUR: &str = "BEHAVIOUR";

/// The image that containers are made of, where they are made of images: it has a shell.
pub const IMAGE: &str = "setpoint.test/shell:1";

/// Opens the runtime; a second time as after a restart of the agent.
pub type Open<'a> = &'a (dyn Fn() -> BoxFuture<'a, Arc<dyn PodRuntime>> + Sync);

/// Opens one that is opened at once.
pub fn at_once(runtime: Arc<dyn PodRuntime>) -> BoxFuture<'static, Arc<dyn PodRuntime>> {
    Box::pin(std::future::ready(runtime))
}

/// Whether the calling test cannot check anything because this process is not root. Reports that
/// past the test harness, which shows no output of tests that pass.
pub fn lacks_root() -> bool {
    if is_root() {
        return false;
    }
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    let _ = writeln!(std::io::stderr(), "skipped: {test}: needs root");
    true
}

pub async fn check(open: Open<'_>) {
    let runtime = open().await;
    let told = Arc::new(Notify::new());
    let tell = told.clone();
    runtime.listen(Arc::new(move |pod| {
        assert!(!pod.is_empty());
        tell.notify_one();
    }));
    codes_and_signals_are_told(&runtime).await;
    told.notified().await;
    the_grace_period_is_kept(&runtime).await;
    the_signal_to_stop_is_the_containers(&runtime).await;
    refusals_say_why(&runtime).await;
    output_is_kept(&runtime).await;
    pods_are_apart(&runtime).await;
    a_run_is_started_once(&runtime).await;
    drop(runtime);
    what_runs_is_found_again(open).await;
}

/// The first process of a container cannot kill itself, so another does it where that is so.
const HURT: &str = "kill -9 $$; sh -c 'kill -9 $$'; exit $?";

/// Others tell codes only.
fn tells_signals(runtime: &Arc<dyn PodRuntime>) -> bool {
    runtime.image_store().is_none()
}

async fn codes_and_signals_are_told(runtime: &Arc<dyn PodRuntime>) {
    for (name, script, behaviour, (code, signal)) in [
        ("good", "exit 0", "exits 0", (0, None)),
        ("bad", "exit 3", "exits 3", (3, None)),
        ("hurt", HURT, "dies 9", (137, Some(9))),
    ] {
        let spec = program(name, script, behaviour);
        runtime.start(&spec).await.expect("it starts");
        let exit = ended(runtime, &spec.id).await;
        assert_eq!((exit.code, exit.reason), (code, None), "{name}");
        assert!(exit.signal == signal || !tells_signals(runtime), "{name}: {exit:?}");
        assert!(exit.ended >= exit.began);
        runtime.remove_pod(&spec.id.pod).await;
        assert!(runtime.of_pod(&spec.id.pod).is_empty());
    }
}

async fn the_grace_period_is_kept(runtime: &Arc<dyn PodRuntime>) {
    let loops = "echo ready; while :; do sleep 0.01; done";
    let willing =
        program("willing", &format!("trap 'exit 5' TERM; {loops}"), "obeys 5 says ready waits -");
    runtime.start(&willing).await.expect("it starts");
    has_written(runtime, &willing.id, "ready").await;
    runtime.stop(&willing.id, PATIENCE).await.expect("it stops");
    assert_eq!(ended(runtime, &willing.id).await.code, 5);
    let stubborn =
        program("stubborn", &format!("trap '' TERM; {loops}"), "ignores TERM says ready waits -");
    runtime.start(&stubborn).await.expect("it starts");
    has_written(runtime, &stubborn.id, "ready").await;
    runtime.stop(&stubborn.id, Duration::from_millis(50)).await.expect("it stops");
    assert_eq!(ended(runtime, &stubborn.id).await.code, 137);
    // Stopping what has stopped, or never was, is no error.
    runtime.stop(&stubborn.id, Duration::ZERO).await.expect("it stopped");
    runtime.stop(&ContainerId::new("nobody", "a", 0), Duration::ZERO).await.expect("none");
    for pod in ["willing", "stubborn"] {
        runtime.remove_pod(pod).await;
    }
}

async fn the_signal_to_stop_is_the_containers(runtime: &Arc<dyn PodRuntime>) {
    let script = "trap '' TERM; trap 'exit 6' USR1; echo ready; while :; do sleep 0.01; done";
    let mut spec = program("signal", script, "obeys 6 says ready waits -");
    spec.stop_signal = Some(libc::SIGUSR1);
    runtime.start(&spec).await.expect("it starts");
    has_written(runtime, &spec.id, "ready").await;
    runtime.stop(&spec.id, PATIENCE).await.expect("it stops");
    assert_eq!(ended(runtime, &spec.id).await.code, 6);
    runtime.remove_pod(&spec.id.pod).await;
}

async fn refusals_say_why(runtime: &Arc<dyn PodRuntime>) {
    let mut missing = program("missing", "", "");
    missing.command = vec!["/no/such/program".to_owned()];
    let refusal = runtime.start(&missing).await.expect_err("there is no such program");
    assert_eq!(refusal.reason, START_ERROR);
    assert!(refusal.message.contains("/no/such/program"), "{refusal}");
    assert!(runtime.of_pod(&missing.id.pod).is_empty());
    // What was refused can be tried again under the same name.
    let again = program("missing", "exit 0", "exits 0");
    runtime.start(&again).await.expect("it starts");
    assert_eq!(ended(runtime, &again.id).await.code, 0);
    runtime.remove_pod("missing").await;
}

async fn output_is_kept(runtime: &Arc<dyn PodRuntime>) {
    let script = "echo \"hello-$NAME\"; echo oops >&2; printf end; pwd >&2";
    let mut spec =
        program("output", script, "says hello-world complains oops says end complains /tmp");
    spec.working_directory = Some("/tmp".to_owned());
    runtime.start(&spec).await.expect("it starts");
    ended(runtime, &spec.id).await;
    let log = std::fs::read_to_string(runtime.log(&spec.id)).expect("a log");
    for line in ["stdout F hello-world", "stderr F oops", "stderr F /tmp"] {
        assert!(log.contains(line), "{log}");
    }
    // Some call a last line without an end a part of one.
    assert!(["stdout F end", "stdout P end"].iter().any(|line| log.contains(line)), "{log}");
    let path = runtime.log(&spec.id);
    runtime.remove_pod(&spec.id.pod).await;
    assert!(!path.exists());
}

/// For a runtime that makes one without any engine.
pub async fn a_pod_has_a_sandbox_from_when_it_is_made(runtime: &Arc<dyn PodRuntime>) {
    let spec = SandboxSpec {
        pod: "boxed".to_owned(),
        namespace: "default".to_owned(),
        pod_name: "boxed".to_owned(),
        hostname: "boxed".to_owned(),
        host_network: true,
        ..SandboxSpec::default()
    };
    assert_eq!(runtime.sandbox_of("boxed"), None);
    runtime.sandbox(&spec).await.expect("it is made");
    assert!(runtime.sandbox_of("boxed").is_some());
    runtime.remove_pod("boxed").await;
    assert_eq!(runtime.sandbox_of("boxed"), None);
}

async fn pods_are_apart(runtime: &Arc<dyn PodRuntime>) {
    let (one, two) =
        (program("pod", "sleep 100", "waits -"), program("pod-2", "sleep 100", "waits -"));
    runtime.start(&one).await.expect("it starts");
    runtime.start(&two).await.expect("it starts");
    assert_eq!(runtime.of_pod("pod").len(), 1);
    runtime.stop(&one.id, PATIENCE).await.expect("it stops");
    assert!(runtime.of_pod("pod-2")[0].is_running());
    let exec = ["sh", "-c", "echo $NAME; exit 4"].map(str::to_owned);
    let executed = runtime.exec(&two.id, &exec).await.expect("it runs");
    assert_eq!((executed.code, executed.output), (4, b"world\n".to_vec()));
    assert!(runtime.exec(&one.id, &exec).await.is_err());
    runtime.stop(&two.id, PATIENCE).await.expect("it stops");
    for pod in ["pod", "pod-2"] {
        runtime.remove_pod(pod).await;
    }
    assert!(runtime.containers().is_empty());
}

async fn a_run_is_started_once(runtime: &Arc<dyn PodRuntime>) {
    let spec = program("once", "echo begun; sleep 100", "says begun waits -");
    let (one, two) = tokio::join!(runtime.start(&spec), runtime.start(&spec));
    assert!(one.is_ok() || two.is_ok());
    has_written(runtime, &spec.id, "begun").await;
    runtime.start(&spec).await.expect("it runs");
    assert_eq!(runtime.of_pod("once").len(), 1);
    runtime.stop(&spec.id, Duration::ZERO).await.expect("it stops");
    // Not even after its end.
    runtime.start(&spec).await.expect("it ran");
    assert!(!runtime.of_pod("once")[0].is_running());
    let log = std::fs::read_to_string(runtime.log(&spec.id)).expect("a log");
    assert_eq!(log.matches("begun").count(), 1, "{log}");
    runtime.remove_pod("once").await;
}

async fn what_runs_is_found_again(open: Open<'_>) {
    let first = open().await;
    let script = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done";
    let spec = program("again", script, "obeys 7 says ready waits -");
    let mut other = program("again", "exit 8", "exits 8");
    other.id.name = "other".to_owned();
    first.start(&spec).await.expect("it starts");
    first.start(&other).await.expect("it starts");
    has_written(&first, &spec.id, "ready").await;
    drop(first);
    let second = open().await;
    assert_eq!(ended(&second, &other.id).await.code, 8);
    // Starting what runs is no second start.
    second.start(&spec).await.expect("it runs");
    let runs = second.of_pod(&spec.id.pod);
    assert_eq!(runs.len(), 2);
    assert!(runs[0].is_running());
    second.stop(&spec.id, PATIENCE).await.expect("it stops");
    drop(second);
    let third = open().await;
    assert_eq!(ended(&third, &spec.id).await.code, 7);
    third.remove_pod(&spec.id.pod).await;
    assert!(third.containers().is_empty());
    drop(third);
    assert!(open().await.containers().is_empty());
}

/// A container that runs a script.
pub fn shell(pod: &str, script: &str) -> ContainerSpec {
    program(pod, script, "waits -")
}

fn program(pod: &str, script: &str, behaviour: &str) -> ContainerSpec {
    let path = std::env::var("PATH").unwrap_or_default();
    let env = [("PATH", path.as_str()), ("NAME", "world"), (BEHAVIOUR, behaviour)];
    ContainerSpec {
        id: ContainerId::new(pod, "main", 0),
        namespace: "default".to_owned(),
        pod_name: pod.to_owned(),
        image: IMAGE.to_owned(),
        command: ["sh", "-c", script].map(str::to_owned).into(),
        arguments: Vec::new(),
        env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        working_directory: None,
        mounts: Vec::new(),
        user: None,
        group: None,
        limits: Limits::default(),
        security: Security::default(),
        stop_signal: None,
        input: Input::default(),
        gpus: Vec::new(),
        failures: 0,
    }
}

/// How a container ended, once it has.
pub async fn ended(runtime: &Arc<dyn PodRuntime>, id: &ContainerId) -> Exit {
    let look = async {
        loop {
            for found in runtime.of_pod(&id.pod) {
                if let (true, State::Exited(exit)) = (found.id == *id, found.state) {
                    return exit;
                }
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("it must end")
}

pub async fn has_written(runtime: &Arc<dyn PodRuntime>, id: &ContainerId, text: &str) {
    let look = async {
        while !std::fs::read_to_string(runtime.log(id)).unwrap_or_default().contains(text) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("it must write");
}
