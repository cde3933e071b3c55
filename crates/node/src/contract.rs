//! What every runtime must do, as tests. A runtime calls `check` with an empty instance of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::runtime::{ContainerId, ContainerSpec, Exit, Input, PodRuntime, State};

const PATIENCE: Duration = Duration::from_secs(20);

pub async fn check(runtime: Arc<dyn PodRuntime>) {
    let told = Arc::new(Notify::new());
    let tell = told.clone();
    runtime.listen(Arc::new(move |pod| {
        assert!(!pod.is_empty());
        tell.notify_one();
    }));
    codes_and_signals_are_told(&runtime).await;
    told.notified().await;
    the_grace_period_is_kept(&runtime).await;
    refusals_say_why(&runtime).await;
    output_is_kept(&runtime).await;
    pods_are_apart(&runtime).await;
}

async fn codes_and_signals_are_told(runtime: &Arc<dyn PodRuntime>) {
    for (name, script, code, signal) in [
        ("good", "exit 0", 0, None),
        ("bad", "exit 3", 3, None),
        ("hurt", "kill -9 $$", 137, Some(9)),
    ] {
        let spec = shell(name, script);
        runtime.start(&spec).await.expect("it starts");
        let exit = ended(runtime, &spec.id).await;
        assert_eq!((exit.code, exit.signal), (code, signal), "{name}");
        assert!(exit.ended >= exit.began);
        runtime.remove_pod(&spec.id.pod).await;
        assert!(runtime.of_pod(&spec.id.pod).is_empty());
    }
}

async fn the_grace_period_is_kept(runtime: &Arc<dyn PodRuntime>) {
    let willing = shell("willing", "trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done");
    runtime.start(&willing).await.expect("it starts");
    has_written(runtime, &willing.id, "ready").await;
    runtime.stop(&willing.id, PATIENCE).await.expect("it stops");
    assert_eq!(ended(runtime, &willing.id).await.code, 5);
    let stubborn = shell("stubborn", "trap '' TERM; echo ready; while :; do sleep 0.01; done");
    runtime.start(&stubborn).await.expect("it starts");
    has_written(runtime, &stubborn.id, "ready").await;
    runtime.stop(&stubborn.id, Duration::from_millis(50)).await.expect("it stops");
    assert_eq!(ended(runtime, &stubborn.id).await.signal, Some(9));
    // Stopping what has stopped, or never was, is no error.
    runtime.stop(&stubborn.id, Duration::ZERO).await.expect("it stopped");
    runtime.stop(&ContainerId::new("nobody", "a", 0), Duration::ZERO).await.expect("none");
}

async fn refusals_say_why(runtime: &Arc<dyn PodRuntime>) {
    let mut missing = shell("missing", "");
    missing.command = vec!["/no/such/program".to_owned()];
    let refusal = runtime.start(&missing).await.expect_err("there is no such program");
    assert_eq!(refusal.reason, "RunContainerError");
    assert!(refusal.message.contains("/no/such/program"), "{refusal}");
    assert!(runtime.of_pod(&missing.id.pod).is_empty());
}

async fn output_is_kept(runtime: &Arc<dyn PodRuntime>) {
    let spec = shell("output", "echo \"hello $NAME\"; echo oops >&2; printf end");
    runtime.start(&spec).await.expect("it starts");
    ended(runtime, &spec.id).await;
    let log = std::fs::read_to_string(runtime.log(&spec.id)).expect("a log");
    for line in ["stdout F hello world", "stderr F oops", "stdout F end"] {
        assert!(log.contains(line), "{log}");
    }
}

async fn pods_are_apart(runtime: &Arc<dyn PodRuntime>) {
    let (one, two) = (shell("pod", "sleep 100"), shell("pod-2", "sleep 100"));
    runtime.start(&one).await.expect("it starts");
    runtime.start(&two).await.expect("it starts");
    assert_eq!(runtime.of_pod("pod").len(), 1);
    runtime.stop(&one.id, PATIENCE).await.expect("it stops");
    assert!(runtime.of_pod("pod-2")[0].is_running());
    let exec = ["sh", "-c", "echo $NAME; exit 4"].map(str::to_owned);
    let executed = runtime.exec(&two.id, &exec).await.expect("it runs");
    assert_eq!((executed.code, executed.output), (4, b"world\n".to_vec()));
    runtime.stop(&two.id, PATIENCE).await.expect("it stops");
}

/// A container that runs a script.
pub fn shell(pod: &str, script: &str) -> ContainerSpec {
    let path = std::env::var("PATH").unwrap_or_default();
    ContainerSpec {
        id: ContainerId::new(pod, "main", 0),
        namespace: "default".to_owned(),
        pod_name: pod.to_owned(),
        image: "none".to_owned(),
        command: ["sh", "-c", script].map(str::to_owned).into(),
        env: vec![("PATH".to_owned(), path), ("NAME".to_owned(), "world".to_owned())],
        working_directory: None,
        mounts: Vec::new(),
        user: None,
        group: None,
        input: Input::default(),
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

async fn has_written(runtime: &Arc<dyn PodRuntime>, id: &ContainerId, text: &str) {
    let look = async {
        while !std::fs::read_to_string(runtime.log(id)).unwrap_or_default().contains(text) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("it must write");
}
