//! Real processes. The shim of a test is the test program itself, asked to run the first test.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::contract;

#[test]
fn shim() {
    if std::env::var_os(shim::VARIABLE).is_some() {
        let _ = shim::main_if_asked();
    }
}

struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn directory(name: &str) -> Directory {
    let path = std::env::temp_dir().join(format!("setpoint-{name}-{}", std::process::id()));
    Directory(path)
}

fn options(directory: &Directory) -> Options {
    let program = std::env::current_exe().expect("a test has a file");
    let test = "runtimes::process::tests::shim";
    let shim = [program.into_os_string(), "--exact".into(), test.into(), "--nocapture".into()];
    Options { directory: directory.0.clone(), shim: shim.into(), network: None }
}

fn open(directory: &Directory) -> Arc<dyn PodRuntime> {
    Arc::new(Process::open(options(directory)).expect("it opens"))
}

#[tokio::test]
async fn processes_fulfil_the_contract() {
    let directory = directory("contract");
    contract::check(open(&directory)).await;
}

#[tokio::test]
async fn what_runs_is_found_again_and_its_exit_code_is_kept() {
    let directory = directory("again");
    let first = open(&directory);
    let spec = contract::shell("again", "sleep 0.3; exit 7");
    first.start(&spec).await.expect("it starts");
    drop(first);
    let second = open(&directory);
    assert!(second.of_pod(&spec.id.pod)[0].is_running());
    // Starting what runs is no second start.
    second.start(&spec).await.expect("it runs");
    assert_eq!(second.of_pod(&spec.id.pod).len(), 1);
    let exit = contract::ended(&second, &spec.id).await;
    assert_eq!((exit.code, exit.signal), (7, None));
    drop(second);
    let third = open(&directory);
    assert_eq!(contract::ended(&third, &spec.id).await.code, 7);
    third.remove_pod(&spec.id.pod).await;
    assert!(third.containers().is_empty());
    assert!(!directory.0.join("pods").join(&spec.id.pod).exists());
}

#[tokio::test]
async fn what_a_program_leaves_behind_ends_with_it() {
    let directory = directory("orphans");
    let runtime = open(&directory);
    let file = directory.0.join("left");
    // Both leave the group of the program: one by a session, one by being orphaned.
    let script =
        format!("setsid sleep 987 & (setsid sleep 987 &) ; echo $! >{}; sleep 0.2", file.display());
    let spec = contract::shell("orphans", &script);
    runtime.start(&spec).await.expect("it starts");
    contract::ended(&runtime, &spec.id).await;
    let left = fs::read_to_string(&file).expect("the program wrote it");
    assert!(!Path::new("/proc").join(left.trim()).join("exe").exists(), "{left}");
}

#[tokio::test]
async fn volumes_are_where_they_are_mounted_and_the_host_keeps_no_mark() {
    let directory = directory("mounts");
    let runtime = open(&directory);
    let volume = directory.0.join("volume");
    fs::create_dir_all(volume.join("inner")).expect("a directory");
    fs::write(volume.join("file"), "from the volume\n").expect("a file");
    let mut spec = contract::shell(
        "mounts",
        "cat /setpoint-test/deep/file /run/setpoint-test/x/file; \
         echo new >/setpoint-test/deep/made; \
         echo no >/run/setpoint-test/x/file || echo read-only",
    );
    let mount = |target: &str, read_only| crate::runtime::Mount {
        source: volume.clone(),
        target: target.into(),
        read_only,
        ..Default::default()
    };
    spec.mounts = vec![mount("/setpoint-test/deep", false), mount("/run/setpoint-test/x", true)];
    if let Err(error) = runtime.start(&spec).await {
        assert!(!system::is_root(), "{error}");
        return;
    }
    let inside = runtime.exec(&spec.id, &["cat".into(), "/setpoint-test/deep/file".into()]).await;
    contract::ended(&runtime, &spec.id).await;
    let log = fs::read_to_string(runtime.log(&spec.id)).expect("a log");
    assert_eq!(log.matches("stdout F from the volume").count(), 2, "{log}");
    assert!(log.contains("stdout F read-only"), "{log}");
    assert!(volume.join("made").exists());
    assert!(!Path::new("/setpoint-test").exists() && !Path::new("/run/setpoint-test").exists());
    // The program may have been faster.
    if let Ok(inside) = inside {
        assert_eq!(inside.output, b"from the volume\n");
    }
}

#[tokio::test]
async fn a_shim_that_is_killed_takes_its_program_with_it() {
    let directory = directory("killed");
    let runtime = open(&directory);
    let spec = contract::shell("killed", "sleep 987");
    runtime.start(&spec).await.expect("it starts");
    let started = Place::of(&directory.0, &spec.id).started().expect("a record");
    let shim = system::open_process(started.shim, started.shim_ticks).expect("it runs");
    system::signal(&shim, libc::SIGKILL).expect("it is ours");
    let exit = contract::ended(&runtime, &spec.id).await;
    assert_eq!((exit.code, exit.reason), (137, Some("ContainerStatusUnknown")));
    let gone = async {
        while system::began(started.pid) == Some(started.ticks) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.expect("the program dies");
}

#[tokio::test]
async fn a_program_that_floods_its_log_fills_no_disk() {
    let directory = directory("flood");
    let runtime = open(&directory);
    let spec = contract::shell(
        "flood",
        "yes 0123456789012345678901234567890123456789 | head -n 900000; echo last",
    );
    runtime.start(&spec).await.expect("it starts");
    let wanted = crate::server::logs::Wanted {
        pod: spec.id.pod.clone(),
        container: spec.id.name.clone(),
        follow: true,
        ..Default::default()
    };
    let followed = crate::server::logs::open(&runtime, &wanted).expect("it runs");
    let followed: Vec<bytes::Bytes> = futures::StreamExt::collect(followed).await;
    let lines = followed.concat().split(|byte| *byte == b'\n').count();
    contract::ended(&runtime, &spec.id).await;
    let folder = runtime.log(&spec.id).parent().expect("a folder").to_owned();
    let kept = fs::read_dir(folder).expect("a folder").flatten();
    let sizes: Vec<u64> = kept.map(|file| file.metadata().map_or(0, |meta| meta.len())).collect();
    assert_eq!(sizes.len(), 5, "{sizes:?}");
    assert!(sizes.iter().all(|size| *size <= 10 << 20), "{sizes:?}");
    assert!(followed.concat().ends_with(b"last\n"), "{lines} lines");
}
