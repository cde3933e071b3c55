//! Real processes. The shim of a test is the test program itself, asked to run the first test; so
//! is the user without privilege, asked to run the second.

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

/// Says where the contract is to be checked by somebody without privilege.
const UNPRIVILEGED: &str = "SETPOINT_TEST_UNPRIVILEGED";

#[tokio::test]
async fn unprivileged() {
    let Some(path) = std::env::var_os(UNPRIVILEGED) else { return };
    let path = PathBuf::from(path);
    contract::check(&|| contract::at_once(open(&path))).await;
    let runtime = open(&path);
    let spec = contract::shell("groups", "id -u; id -g; exit 0");
    runtime.start(&spec).await.expect("it starts");
    assert_eq!(contract::ended(&runtime, &spec.id).await.code, 0);
    assert_eq!(confined::written(&runtime, &spec), "65534\n65534\n");
    // Whom it may not become it does not become.
    let mut other = contract::shell("other", "id -u");
    other.user = Some(0);
    let refusal = runtime.start(&other).await.expect_err("it is not root");
    assert_eq!(refusal.reason, crate::runtime::START_ERROR, "{refusal}");
    runtime.remove_pod("groups").await;
    confined::an_isolated_container_sees_programs_and_nothing_else(&path).await;
}

pub struct Directory(pub PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn directory(name: &str) -> Directory {
    let path = std::env::temp_dir().join(format!("setpoint-{name}-{}", std::process::id()));
    Directory(path)
}

pub fn options(directory: &Path) -> Options {
    let program = std::env::current_exe().expect("a test has a file").into_os_string();
    let test = "runtimes::process::tests::shim";
    // With one thread a test runs in the first thread of its process, as a shim does.
    let arguments = ["--exact", test, "--nocapture", "--test-threads=1"].map(OsString::from);
    Options {
        directory: directory.to_owned(),
        shim: std::iter::once(program).chain(arguments).collect(),
        start_max: crate::runtime::START_MAX,
        network: None,
        hidden: Vec::new(),
    }
}

pub fn open(directory: &Path) -> Arc<dyn PodRuntime> {
    Arc::new(Process::open(options(directory)).expect("it opens"))
}

#[tokio::test]
async fn processes_fulfil_the_contract() {
    let directory = directory("contract");
    contract::check(&|| contract::at_once(open(&directory.0))).await;
    contract::a_pod_has_a_sandbox_from_when_it_is_made(&open(&directory.0)).await;
    assert!(Cgroups::open(&directory.0).pods().is_empty());
}

#[tokio::test]
async fn processes_without_privilege_fulfil_the_contract() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    if !system::is_root() {
        // Then the contract was checked without privilege already.
        return;
    }
    let directory = directory("unprivileged");
    fs::create_dir_all(&directory.0).expect("a directory");
    fs::set_permissions(&directory.0, fs::Permissions::from_mode(0o777)).expect("it is ours");
    let program = std::env::current_exe().expect("a test has a file");
    let mut command = std::process::Command::new(program);
    command.args(["--exact", "runtimes::process::tests::unprivileged", "--nocapture"]);
    command.env(UNPRIVILEGED, &directory.0).uid(65534).gid(65534).current_dir("/");
    let ran = tokio::task::spawn_blocking(move || command.output()).await.expect("it ran");
    let ran = ran.expect("it ran");
    let told = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && told.contains("1 passed"), "{told}");
}

#[tokio::test]
async fn a_start_that_hangs_is_given_up_and_holds_up_nobody() {
    let directory = directory("hung");
    let mut options = options(&directory.0);
    options.shim = ["sleep", "987"].map(OsString::from).into();
    options.start_max = Duration::from_millis(300);
    let hung: Arc<dyn PodRuntime> = Arc::new(Process::open(options).expect("it opens"));
    let refusal = hung.start(&contract::shell("hung", "true")).await.expect_err("it hangs");
    assert_eq!(refusal.reason, "RunContainerError");
    assert!(refusal.message.starts_with("it did not start within"), "{refusal}");
    assert!(hung.containers().is_empty());
    assert!(!directory.0.join("pods/hung/containers/main/0").exists());
}

#[tokio::test]
async fn what_a_program_leaves_behind_ends_with_it() {
    let directory = directory("orphans");
    let runtime = open(&directory.0);
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
    let runtime = open(&directory.0);
    let volume = directory.0.join("volume");
    fs::create_dir_all(volume.join("inner")).expect("a directory");
    fs::write(volume.join("file"), "from the volume\n").expect("a file");
    let mut spec = contract::shell(
        "mounts",
        "cat /setpoint-test/deep/file /run/setpoint-test/x/file; \
         echo new >/setpoint-test/deep/made; \
         echo no >/run/setpoint-test/x/file || echo read-only; \
         until test -e /setpoint-test/deep/done; do sleep 0.01; done",
    );
    let mount = |target: &str, read_only| crate::runtime::Mount {
        source: volume.clone(),
        target: target.into(),
        read_only,
        ..Default::default()
    };
    spec.mounts = vec![mount("/setpoint-test/deep", false), mount("/run/setpoint-test/x", true)];
    runtime.start(&spec).await.expect("it starts");
    let inside = runtime.exec(&spec.id, &["cat".into(), "/setpoint-test/deep/file".into()]).await;
    fs::write(volume.join("done"), "").expect("a file");
    contract::ended(&runtime, &spec.id).await;
    let log = fs::read_to_string(runtime.log(&spec.id)).expect("a log");
    assert_eq!(log.matches("stdout F from the volume").count(), 2, "{log}");
    assert!(log.contains("stdout F read-only"), "{log}");
    assert!(volume.join("made").exists());
    assert!(!Path::new("/setpoint-test").exists() && !Path::new("/run/setpoint-test").exists());
    assert_eq!(inside.expect("it runs").output, b"from the volume\n");
}

/// Paths of the host, and a mount of one of its directories, as root and without privilege.
#[tokio::test]
async fn hidden_paths_are_empty_but_for_the_volumes_within() {
    let directory = directory("hidden");
    let data = directory.0.join("data");
    for path in ["data/pki", "data/own", "data/others"] {
        fs::create_dir_all(directory.0.join(path)).expect("a directory");
    }
    for path in ["data/pki/ca.pem", "data/own/file", "data/others/file", "config", "open"] {
        fs::write(directory.0.join(path), "content\n").expect("a file");
    }
    let mut options = options(&data);
    options.hidden = vec![data.clone(), directory.0.join("config"), "/missing/socket".into()];
    let runtime: Arc<dyn PodRuntime> = Arc::new(Process::open(options).expect("it opens"));
    let at = directory.0.display();
    let script = format!(
        "cat {at}/data/pki/ca.pem {at}/config {at}/data/others/file /host/data/pki/ca.pem \
         /host/config 2>/dev/null; ls {at}/data /host/data; cat {at}/data/own/file {at}/open \
         /host/open; touch {at}/data/own/new && echo written; \
         touch {at}/data/new 2>/dev/null || echo closed"
    );
    let mut spec = contract::shell("hidden", &script);
    let mount = |source: &Path, target: &Path| crate::runtime::Mount {
        source: source.to_owned(),
        target: target.to_owned(),
        ..Default::default()
    };
    let own = data.join("own");
    spec.mounts = vec![mount(&own, &own), mount(&directory.0, Path::new("/host"))];
    runtime.start(&spec).await.expect("it starts");
    contract::ended(&runtime, &spec.id).await;
    let expected =
        format!("/host/data:\n\n{at}/data:\nown\ncontent\ncontent\ncontent\nwritten\nclosed\n");
    let written = confined::written(&runtime, &spec);
    let mut lines: Vec<&str> = written.lines().collect();
    lines.sort_unstable();
    let mut expected: Vec<&str> = expected.lines().collect();
    expected.sort_unstable();
    assert_eq!(lines, expected, "{written}");
    assert!(own.join("new").exists());
    runtime.remove_pod("hidden").await;
}

/// Returns whether a file below a directory holds a text.
fn is_on_disk(directory: &Path, text: &str) -> bool {
    fs::read_dir(directory).into_iter().flatten().flatten().any(|entry| {
        let path = entry.path();
        match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => is_on_disk(&path, text),
            false => String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).contains(text),
        }
    })
}

#[tokio::test]
async fn the_environment_of_a_container_is_not_on_disk_and_outlives_the_agent() {
    const MARKER: &str = "0f3b-value-of-a-secret-7c1e";
    let directory = directory("invocation");
    let mut runtime = open(&directory.0);
    let mut spec =
        contract::shell("invocation", "test \"$WORD\" = \"$0\" && echo ready; sleep 762");
    spec.env.push(("WORD".to_owned(), MARKER.to_owned()));
    // As `$(WORD)` in a command becomes.
    spec.command.push(MARKER.to_owned());
    runtime.start(&spec).await.expect("it starts");
    contract::has_written(&runtime, &spec.id, "ready").await;
    assert!(!is_on_disk(&directory.0, MARKER));
    let print = ["sh", "-c", "echo $WORD"].map(str::to_owned);
    for _ in 0..2 {
        let printed = runtime.exec(&spec.id, &print).await.expect("it runs").output;
        assert_eq!(String::from_utf8_lossy(&printed).trim(), MARKER);
        drop(runtime);
        runtime = open(&directory.0);
    }
    assert!(!is_on_disk(&directory.0, MARKER));
    runtime.stop(&spec.id, Duration::ZERO).await.expect("it stops");
    runtime.remove_pod("invocation").await;
}

/// Versions before 0.2 wrote the environment to the record of a run.
#[tokio::test]
async fn a_container_of_a_former_version_keeps_its_environment() {
    let directory = directory("former-invocation");
    let runtime = open(&directory.0);
    let spec = contract::shell("former", "echo ready; sleep 761");
    runtime.start(&spec).await.expect("it starts");
    let place = Place::of(&directory.0, &spec.id);
    let (mut asked, mut started) =
        (place.asked().expect("a record"), place.started().expect("a record"));
    asked.spec.env = vec![("WORD".to_owned(), "kept".to_owned())];
    started.invocation = 0;
    place.write("asked.json", &asked).expect("it is written");
    place.write("started.json", &started).expect("it is written");
    drop(runtime);
    let runtime = open(&directory.0);
    let print = ["/bin/sh", "-c", "echo $WORD"].map(str::to_owned);
    let printed = runtime.exec(&spec.id, &print).await.expect("it runs").output;
    assert_eq!(String::from_utf8_lossy(&printed).trim(), "kept");
    runtime.stop(&spec.id, Duration::ZERO).await.expect("it stops");
    runtime.remove_pod("former").await;
}

/// A program of the pod may have put a link where another volume is to be mounted.
#[tokio::test]
async fn a_volume_within_another_is_mounted_there_and_no_link_leads_elsewhere() {
    let directory = directory("nested");
    let runtime = open(&directory.0);
    let (outer, inner, outside) =
        (directory.0.join("outer"), directory.0.join("inner"), directory.0.join("outside"));
    for path in [&outer, &inner, &outside] {
        fs::create_dir_all(path).expect("a directory");
    }
    fs::write(inner.join("file"), "inner\n").expect("a file");
    std::os::unix::fs::symlink(&outside, outer.join("link")).expect("a link");
    let mount = |source: &Path, target: &str| crate::runtime::Mount {
        source: source.to_owned(),
        target: target.into(),
        ..Default::default()
    };
    let nested = |pod: &str, at: &str, source: &Path| {
        let at = format!("/setpoint-nested/{at}");
        let mut spec = contract::shell(
            pod,
            &format!("cat {at}/file {at} 2>/dev/null; touch {at}/new; test ! -w {at}; echo $?"),
        );
        let inner = mount(source, &at);
        spec.mounts = vec![mount(&outer, "/setpoint-nested"), inner];
        spec
    };
    let spec = nested("nested", "deep/place", &inner);
    runtime.start(&spec).await.expect("it starts");
    contract::ended(&runtime, &spec.id).await;
    let log = fs::read_to_string(runtime.log(&spec.id)).expect("a log");
    assert!(log.contains("stdout F inner") && inner.join("new").exists(), "{log}");
    assert!(outer.join("deep/place").is_dir() && !outer.join("deep/place/file").exists());
    let spec = nested("nested-file", "file", &inner.join("file"));
    runtime.start(&spec).await.expect("it starts");
    contract::ended(&runtime, &spec.id).await;
    let log = fs::read_to_string(runtime.log(&spec.id)).expect("a log");
    assert!(log.contains("stdout F inner") && outer.join("file").is_file(), "{log}");
    let mut read_only = nested("nested-fixed", "deep/place", &inner);
    read_only.mounts[1].read_only = true;
    runtime.start(&read_only).await.expect("it starts");
    contract::ended(&runtime, &read_only.id).await;
    let log = fs::read_to_string(runtime.log(&read_only.id)).expect("a log");
    // What is said on the other stream may come later.
    assert!(log.lines().any(|line| line.ends_with("stdout F 0")), "{log}");
    for at in ["link", "link/below"] {
        let refusal = runtime.start(&nested("nested-out", at, &inner)).await;
        let refusal = refusal.expect_err("it leads out of its volume");
        assert!(refusal.message.contains("leads out of the volume"), "{refusal}");
    }
    assert_eq!(fs::read_dir(&outside).expect("it is there").count(), 0);
}

/// Runs that cannot be looked at hold up no start of ours.
#[tokio::test]
async fn a_record_that_cannot_be_held_is_not_waited_for() {
    let directory = directory("unheld");
    let run = directory.0.join("pods/p/containers/c/0");
    fs::create_dir_all(run.join("lock")).expect("a directory in place of the file");
    let runtime = open(&directory.0);
    assert!(runtime.of_pod("p").is_empty());
}

#[tokio::test]
async fn a_shim_that_is_killed_takes_its_program_with_it() {
    let directory = directory("killed");
    let runtime = open(&directory.0);
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
async fn a_line_that_is_redrawn_is_kept_before_it_ends() {
    let directory = directory("redrawn");
    let runtime = open(&directory.0);
    let spec = contract::shell("redrawn", "printf '10%%\\r20%%\\r30'; exec sleep 1000");
    runtime.start(&spec).await.expect("it starts");
    contract::has_written(&runtime, &spec.id, "10%\r20%\r").await;
    let log = fs::read_to_string(runtime.log(&spec.id)).expect("a log");
    assert!(log.contains(" stdout P 10%"), "{log:?}");
    runtime.stop(&spec.id, Duration::ZERO).await.expect("it stops");
    runtime.remove_pod("redrawn").await;
}

#[tokio::test]
async fn a_program_that_floods_its_log_fills_no_disk() {
    let directory = directory("flood");
    let runtime = open(&directory.0);
    let spec = contract::shell(
        "flood",
        "yes 0123456789012345678901234567890123456789 | head -n 900000; echo last",
    );
    runtime.start(&spec).await.expect("it starts");
    let wanted = link::LogRequest {
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
