//! Real containerd, private to each test, and CRI-O as it is played.

use std::sync::Arc;
use std::time::Duration;

use link::Streams;
use servers::Containerd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::messages::{CreateContainerRequest, NamespaceMode, RunPodSandboxRequest};
use super::played::{CriO, IMAGE_ID, PAUSE, VERSION};
use super::{Cri, Options};
use crate::confinement::Processes;
use crate::contract::{self, IMAGE, PATIENCE, ended, has_written, shell};
use crate::image::ImageName;
use crate::runtime::{ContainerSpec, Mount, PodRuntime, Refusal, START_MAX};

struct World {
    containerd: Containerd,
    directory: std::path::PathBuf,
}

impl World {
    fn start(name: &str) -> World {
        let containerd = Containerd::start().expect("containerd must start");
        let name = format!("setpoint-cri-{}-{name}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).unwrap();
        containerd.make_shell(IMAGE).expect("an image is made");
        World { containerd, directory }
    }

    fn options(&self) -> Options {
        Options {
            socket: self.containerd.socket().to_owned(),
            directory: self.directory.clone(),
            cluster: "test".to_owned(),
            start_max: START_MAX,
            network: None,
        }
    }

    async fn open(&self) -> Arc<dyn PodRuntime> {
        Arc::new(Cri::open(self.options()).await.expect("it answers"))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.containerd.log();
            let tail: Vec<&str> = log.lines().rev().take(20).collect();
            eprintln!("{}", tail.join("\n"));
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn containerd_fulfils_the_contract() {
    let world = World::start("contract");
    contract::check(&|| Box::pin(world.open())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_are_run_beside_containers_with_their_streams() {
    let world = World::start("streams");
    let runtime = world.open().await;
    let mut spec = shell("streams", "echo begun; while read line; do echo got $line; done; exit 3");
    spec.input.is_open = true;
    spec.input.is_once = true;
    runtime.start(&spec).await.expect("it starts");
    has_written(&runtime, &spec.id, "begun").await;

    let wanted = Streams { stdin: true, stdout: true, stderr: true, tty: false };
    let command = words("cat; echo oops >&2; exit 7");
    let mut program = runtime.run_beside(&spec.id, &command, &wanted).await.expect("it runs");
    let mut stdin = program.stdin.take().unwrap();
    let sent = vec![b'x'; 300_000];
    let typing = async {
        stdin.write_all(&sent).await.unwrap();
        stdin.shutdown().await.unwrap();
        drop(stdin);
    };
    let (mut out, mut errors) = (Vec::new(), Vec::new());
    let (mut stdout, mut stderr) = (program.stdout.take().unwrap(), program.stderr.take().unwrap());
    let heard = async {
        tokio::join!(typing, stdout.read_to_end(&mut out), stderr.read_to_end(&mut errors))
    };
    let (_, code) = tokio::join!(heard, program.end);
    assert_eq!((out.len(), &errors[..], code), (300_000, &b"oops\n"[..], Ok(7)));

    let terminal = Streams { stdin: true, stdout: true, stderr: false, tty: true };
    let command = words("sleep 0.2; stty size; tty; exit 0");
    let mut program = runtime.run_beside(&spec.id, &command, &terminal).await.expect("it runs");
    let resize = program.resize.take().unwrap();
    resize(101, 33);
    let mut out = Vec::new();
    let mut stdout = program.stdout.take().unwrap();
    let (_, code) = tokio::join!(stdout.read_to_end(&mut out), program.end);
    let out = String::from_utf8_lossy(&out).into_owned();
    assert!(out.contains("33 101"), "{out}");
    assert_eq!(code, Ok(0));

    let wanted = Streams { stdin: true, stdout: true, stderr: false, tty: false };
    let mut joined = runtime.attach(&spec.id, &wanted).await.expect("it is joined");
    let mut stdin = joined.stdin.take().unwrap();
    stdin.write_all(b"one\ntwo\n").await.unwrap();
    stdin.shutdown().await.unwrap();
    drop(stdin);
    let mut out = String::new();
    let mut stdout = joined.stdout.take().unwrap();
    let heard = tokio::time::timeout(PATIENCE, stdout.read_to_string(&mut out)).await;
    heard.expect("it ends").unwrap();
    assert_eq!(out, "got one\ngot two\n");
    assert_eq!(ended(&runtime, &spec.id).await.code, 3);
    runtime.remove_pod("streams").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_wrong_is_told_and_comes_right_again() {
    let mut world = World::start("wrong");
    let runtime = world.open().await;
    let store = runtime.image_store().expect("it has images");
    let missing = ImageName::parse("setpoint.test/missing:1").unwrap();
    assert_eq!(store.find(&missing).await, Ok(None));
    assert!(store.pull(&missing, None).await.is_err());
    let found = store.find(&ImageName::parse(IMAGE).unwrap()).await.unwrap().expect("it is here");
    assert!(found.bytes > 0 && found.id.starts_with("sha256:"), "{found:?}");
    let packed = ("setpoint.test/packed:1", "");
    let archive = servers::shell_archive(&world.directory.join("image"), packed).unwrap();
    let gzip = std::process::Command::new("gzip").arg(&archive).status();
    assert!(gzip.expect("gzip runs").success());
    let loaded = store.load(&archive.with_extension("tar.gz")).await;
    assert_eq!(loaded, Ok(vec![packed.0.to_owned()]));
    let mut absent = ContainerSpec { image: missing.full(), ..shell("absent", "true") };
    let (source, within) = (world.directory.join("volume"), Some("file".into()));
    std::fs::create_dir_all(&source).unwrap();
    std::fs::write(source.join("file"), "kept").unwrap();
    absent.mounts =
        vec![Mount { source: source.clone(), target: "/f".into(), within, ..Mount::default() }];
    for _ in 0..2 {
        let Refusal { reason, message } = runtime.start(&absent).await.expect_err("no image");
        assert_eq!(reason, "CreateContainerError");
        assert!(message.contains("missing"), "{message}");
    }
    assert_eq!(std::fs::read_to_string(source.join("file")).unwrap(), "kept");
    assert!(!world.directory.join("subpaths/absent/main-0").exists(), "nothing stays mounted");
    runtime.remove_pod("absent").await;

    let spec = shell("lives", "trap 'exit 5' TERM; echo on; while :; do sleep 0.05; done");
    runtime.start(&spec).await.expect("it starts");
    has_written(&runtime, &spec.id, "on").await;
    world.containerd.stop().expect("it stops");
    let other = shell("other", "sleep 100");
    assert!(runtime.start(&other).await.is_err());
    until(|| runtime.trouble().is_some()).await;
    assert!(runtime.of_pod("lives")[0].is_running(), "what was known is told");
    runtime.remove_pod("other").await;
    world.containerd.start_again().expect("it starts again");
    until(|| runtime.trouble().is_none()).await;
    runtime.stop(&spec.id, PATIENCE).await.expect("it stops");
    assert_eq!(ended(&runtime, &spec.id).await.code, 5);
    runtime.remove_pod("lives").await;
    assert!(runtime.containers().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_of_others_is_left_alone_even_under_our_name() {
    let world = World::start("foreign");
    let foreign = Options { cluster: "others".to_owned(), ..world.options() };
    let foreign = Arc::new(Cri::open(foreign).await.unwrap()) as Arc<dyn PodRuntime>;
    let spec = shell("same", "echo on; sleep 100");
    foreign.start(&spec).await.expect("it starts");
    let runtime = world.open().await;
    assert!(runtime.containers().is_empty());
    let refusal = runtime.start(&spec).await.expect_err("the name is taken");
    assert_eq!(refusal.reason, "CreatePodSandboxError");
    assert!(refusal.message.contains("reserve"), "{refusal}");
    runtime.remove_pod("same").await;
    assert!(foreign.of_pod("same")[0].is_running());
    foreign.stop(&spec.id, Duration::ZERO).await.unwrap();
    foreign.remove_pod("same").await;
    // The name is free.
    runtime.start(&spec).await.expect("it starts");
    runtime.stop(&spec.id, Duration::ZERO).await.unwrap();
    runtime.remove_pod("same").await;
}

fn words(script: &str) -> Vec<String> {
    ["sh", "-c", script].map(str::to_owned).into()
}

async fn until(holds: impl Fn() -> bool) {
    let look = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("it must come to be");
}

/// CRI-O as it is played, and where.
struct PlayedWorld {
    crio: CriO,
    directory: std::path::PathBuf,
}

impl PlayedWorld {
    fn start(name: &str) -> PlayedWorld {
        let name = format!("setpoint-crio-{}-{name}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&directory);
        let crio = CriO::start(&directory.join("crio"));
        PlayedWorld { crio, directory }
    }

    fn options(&self) -> Options {
        Options {
            socket: self.crio.socket.clone(),
            directory: self.directory.join("node"),
            cluster: "test".to_owned(),
            start_max: START_MAX,
            network: None,
        }
    }

    async fn open(&self) -> Arc<dyn PodRuntime> {
        Arc::new(Cri::open(self.options()).await.expect("it answers"))
    }
}

impl Drop for PlayedWorld {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cri_o_as_it_is_played_fulfils_the_contract() {
    let world = PlayedWorld::start("contract");
    contract::check(&|| Box::pin(world.open())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cri_o_does_in_its_own_way_is_understood() {
    let world = PlayedWorld::start("own");
    let answer = super::ask(&world.crio.socket).await.expect("it answers");
    assert_eq!((answer.name, answer.version.as_str()), ("cri-o", VERSION));
    let runtime = world.open().await;
    assert_eq!((runtime.name(), runtime.version().as_str()), ("cri-o", VERSION));
    // The image of sandboxes was not there: it was made, and put where CRI-O looks for it.
    let store = runtime.image_store().expect("it has images");
    let pause = store.find(&ImageName::parse(PAUSE).unwrap()).await.unwrap();
    assert!(pause.is_some_and(|found| !found.id.is_empty()));
    let shell_image = store.find(&ImageName::parse(IMAGE).unwrap()).await.unwrap().unwrap();
    assert_eq!((shell_image.id.as_str(), shell_image.reference.as_str()), (IMAGE_ID, IMAGE_ID));
    let missing = ImageName::parse("setpoint.test/missing:1").unwrap();
    assert_eq!(store.find(&missing).await, Ok(None));
    let error = store.pull(&missing, None).await.expect_err("nobody is there");
    assert!(error.contains("docker://setpoint.test/missing:1"), "{error}");
    world.crio.deeds();

    let spec = shell("asked", "echo on; sleep 100");
    runtime.start(&spec).await.expect("it starts");
    has_written(&runtime, &spec.id, "on").await;
    let made: RunPodSandboxRequest = world.crio.last("RunPodSandbox");
    let made = made.config.unwrap();
    let metadata = made.metadata.clone().unwrap();
    assert_eq!(
        (&*metadata.name, &*metadata.namespace, &*metadata.uid),
        ("asked", "default", "asked")
    );
    assert_eq!(made.labels["io.kubernetes.pod.uid"], "asked");
    let asked: CreateContainerRequest = world.crio.last("CreateContainer");
    let config = asked.config.unwrap();
    assert_eq!(config.image.unwrap().image, IMAGE);
    assert_eq!(
        (&*config.log_path, config.labels["k3.container-name"].as_str()),
        ("main/0.log", "k8s_default_asked_main")
    );
    // A second process of ours finds it, and asks for nothing to be made.
    let expected = ["RunPodSandbox", "CreateContainer", "StartContainer"];
    assert_eq!(world.crio.deeds(), expected);
    drop(runtime);
    let runtime = world.open().await;
    runtime.start(&spec).await.expect("it runs");
    let found = runtime.of_pod("asked");
    assert!(found[0].is_running());
    assert_eq!(found[0].image_id, IMAGE_ID);
    assert_eq!(world.crio.deeds(), [] as [&str; 0]);
    // Its monitor writes times with a zone, which are read.
    let log = std::fs::read_to_string(runtime.log(&spec.id)).unwrap();
    let time = log.split(' ').next().unwrap();
    assert!(time.ends_with("+00:00"), "{log}");
    assert!(time.parse::<k8s_openapi::jiff::Timestamp>().is_ok(), "{log}");
    runtime.stop(&spec.id, Duration::ZERO).await.unwrap();
    runtime.remove_pod("asked").await;
    assert_eq!(world.crio.deeds(), ["StopContainer", "StopPodSandbox", "RemovePodSandbox"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_pod_has_of_the_machine_is_said_of_its_sandbox_too() {
    let world = PlayedWorld::start("machine");
    let runtime = world.open().await;
    let mut spec = shell("shares", "sleep 100");
    spec.security.processes = Processes::OfHost;
    spec.security.host_ipc = true;
    spec.security.hostname = Some("shares".to_owned());
    spec.limits.oom_score = -997;
    runtime.start(&spec).await.expect("it starts");
    let made: RunPodSandboxRequest = world.crio.last("RunPodSandbox");
    let made = made.config.unwrap();
    // With the network of the machine it has its name.
    assert_eq!(made.hostname, "");
    let options = made.linux.unwrap().security_context.unwrap().namespace_options.unwrap();
    let node = NamespaceMode::Node as i32;
    assert_eq!((options.network, options.pid, options.ipc), (node, node, node));
    let asked: CreateContainerRequest = world.crio.last("CreateContainer");
    let resources = asked.config.unwrap().linux.unwrap().resources.unwrap();
    assert_eq!(resources.oom_score_adj, i64::from(runtime.oom_score_min().max(-997)));
    // Whose processes are to be seen has to run.
    let mut debugger = shell("shares", "true");
    debugger.id.name = "debugger".to_owned();
    debugger.security.processes_of = Some("nobody".to_owned());
    let refusal = runtime.start(&debugger).await.expect_err("nobody is there");
    assert_eq!(refusal.reason, "CreateContainerError");
    assert!(refusal.message.contains("\"nobody\" does not run"), "{refusal}");
    runtime.stop(&spec.id, Duration::ZERO).await.unwrap();
    runtime.remove_pod("shares").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cri_o_that_lacks_something_is_told_what() {
    let world = PlayedWorld::start("lacks");
    world.crio.state.lock().is_unconnected = true;
    // Pods that share the network of the machine need no plugin.
    let runtime = world.open().await;
    let absent =
        ContainerSpec { image: "setpoint.test/none:1".to_owned(), ..shell("absent", "true") };
    let refusal = runtime.start(&absent).await.expect_err("there is no image");
    assert_eq!(refusal.reason, "CreateContainerError");
    assert!(refusal.message.contains("image not known"), "{refusal}");
    runtime.remove_pod("absent").await;
    assert!(runtime.containers().is_empty());
    // It goes, and what was known of it stays known.
    let spec = shell("lives", "echo on; sleep 100");
    runtime.start(&spec).await.expect("it starts");
    std::fs::rename(&world.crio.socket, world.directory.join("away")).unwrap();
    drop(runtime);
    assert!(Cri::open(world.options()).await.is_err());
    std::fs::rename(world.directory.join("away"), &world.crio.socket).unwrap();
    let runtime = world.open().await;
    assert!(runtime.of_pod("lives")[0].is_running());
    runtime.stop(&spec.id, Duration::ZERO).await.unwrap();
    runtime.remove_pod("lives").await;
}

/// Run by `cargo xtask peers`, which starts the runtime.
#[cfg(feature = "peers")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_fulfils_the_contract() {
    let socket = std::env::var_os("SETPOINT_PEER_CRI").expect("SETPOINT_PEER_CRI is a socket");
    let socket = std::path::PathBuf::from(socket);
    let directory = std::env::temp_dir().join(format!("setpoint-peer-{}", std::process::id()));
    let options = Options {
        socket: socket.clone(),
        directory: directory.join("node"),
        cluster: format!("test-{}", std::process::id()),
        start_max: START_MAX,
        network: None,
    };
    let archive = servers::shell_archive(&directory.join("image"), (IMAGE, "")).unwrap();
    let images = super::images(&socket).await.unwrap();
    images.load(&archive).await.expect("the image is loaded");
    let open =
        || async { Arc::new(Cri::open(options.clone()).await.unwrap()) as Arc<dyn PodRuntime> };
    contract::check(&|| Box::pin(open())).await;
    let _ = std::fs::remove_dir_all(directory);
}
