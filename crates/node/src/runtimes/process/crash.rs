//! The agent is killed between any two things it does with a container; whoever comes after it
//! finds one container or none, never two, and leaves nothing behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::cgroups::Cgroups;
use super::tests::{directory, open};
use crate::contract::{PATIENCE, ended, has_written, shell};
use crate::failpoints::{OF_RUNTIME, VARIABLE};
use crate::runtime::{ContainerSpec, PodRuntime};

/// Says where the one who is killed does his work.
const VICTIM: &str = "SETPOINT_TEST_VICTIM";

fn spec(directory: &Path) -> ContainerSpec {
    let file = directory.join("begun");
    let file = file.display();
    let script = format!(
        "trap 'exit 9' TERM; echo begun >>{file}; echo ready; while :; do sleep 0.01; done"
    );
    shell("crash", &script)
}

/// What an agent does with a pod that comes and goes.
async fn live(runtime: &Arc<dyn PodRuntime>, spec: &ContainerSpec) {
    runtime.start(spec).await.expect("it starts");
    has_written(runtime, &spec.id, "ready").await;
    runtime.stop(&spec.id, PATIENCE).await.expect("it stops");
    assert_eq!(ended(runtime, &spec.id).await.code, 9);
    runtime.remove_pod(&spec.id.pod).await;
}

/// Asked by the test below, which is another process: it dies on the way.
#[tokio::test]
async fn victim() {
    let Some(path) = std::env::var_os(VICTIM) else { return };
    let path = PathBuf::from(path);
    live(&open(&path), &spec(&path)).await;
}

#[tokio::test]
async fn an_agent_that_is_killed_anywhere_leaves_one_container_or_none() {
    for point in OF_RUNTIME {
        let directory = directory(&format!("crash-{}", point.replace(':', "-")));
        fs::create_dir_all(&directory.0).expect("a directory");
        let program = std::env::current_exe().expect("a test has a file");
        let mut victim = Command::new(program);
        victim.args(["--exact", "runtimes::process::crash::victim", "--nocapture"]);
        victim.env(VICTIM, &directory.0).env(VARIABLE, point);
        let killed = tokio::task::spawn_blocking(move || victim.output()).await.expect("it ran");
        let killed = killed.expect("it ran");
        let told =
            String::from_utf8_lossy(&killed.stdout) + String::from_utf8_lossy(&killed.stderr);
        assert!(!killed.status.success() && !told.contains("panicked"), "{point}: {told}");
        check(point, &directory.0).await;
    }
}

/// The next agent: what it finds, and that what the last one began is ended.
async fn check(point: &str, directory: &Path) {
    let runtime = open(directory);
    let spec = spec(directory);
    let begun = || fs::read_to_string(directory.join("begun")).unwrap_or_default().lines().count();
    let found = runtime.of_pod("crash");
    assert!(found.len() <= 1, "{point}");
    if point.starts_with("remove") {
        // Its end was known: it does not come back.
        assert!(found.iter().all(|run| !run.is_running()), "{point}");
        for run in &found {
            assert_eq!(ended(&runtime, &run.id).await.code, 9, "{point}");
        }
        runtime.remove_pod("crash").await;
    } else {
        live(&runtime, &spec).await;
    }
    assert_eq!(begun(), 1, "{point}: it began once");
    assert!(runtime.containers().is_empty(), "{point}");
    assert!(!directory.join("pods/crash").exists(), "{point}");
    assert!(Cgroups::open(directory).pods().is_empty(), "{point}");
    drop(runtime);
    let gone = async {
        while is_anything_left(directory) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.unwrap_or_else(|_| panic!("{point}: it is left"));
}

/// Whether a process, of a container or a shim, still has to do with the directory.
fn is_anything_left(directory: &Path) -> bool {
    let name = directory.as_os_str().as_encoded_bytes();
    let own = std::process::id().to_string();
    fs::read_dir("/proc").into_iter().flatten().flatten().any(|entry| {
        let is_other = entry.file_name().to_string_lossy() != own;
        let has = |file: &str| {
            let bytes = fs::read(entry.path().join(file)).unwrap_or_default();
            bytes.windows(name.len()).any(|part| part == name)
        };
        is_other && (has("cmdline") || has("environ"))
    })
}
