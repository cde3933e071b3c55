//! Real engines, private to each test.

use std::sync::Arc;
use std::time::Duration;

use servers::Engine as Server;

use super::*;
use crate::contract::{self, IMAGE, PATIENCE};
use crate::image::ImageName;
use crate::runtimes::process::tests::{Directory, directory};

fn served(server: &Server, name: &str) -> (Directory, Options) {
    server.make_shell(IMAGE).expect("an image is made");
    let directory = directory(name);
    fs::create_dir_all(&directory.0).expect("a directory");
    let options = Options {
        directory: directory.0.clone(),
        socket: server.socket().to_owned(),
        network: None,
    };
    (directory, options)
}

async fn open(options: &Options) -> Arc<dyn PodRuntime> {
    Docker::open(options.clone()).await.expect("the engine answers")
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let look = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE * 2, look).await.unwrap_or_else(|_| panic!("not {what}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn docker_fulfils_the_contract() {
    if !Server::is_possible() {
        return;
    }
    let mut server = Server::docker().expect("dockerd starts");
    let (_directory, options) = served(&server, "docker");
    assert_eq!(ask(server.socket()).await.expect("it answers").name, "docker");
    contract::check(&|| Box::pin(open(&options))).await;
    names_and_images(&server, &options).await;
    its_image_says_how_to_end_it(&server, &options).await;
    output_is_followed_again(&options).await;
    a_last_line_without_a_newline_is_kept(&options).await;
    an_engine_that_comes_back_is_found(&mut server, &options).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn podman_fulfils_the_contract() {
    if !Server::is_possible() {
        return;
    }
    let server = Server::podman().expect("podman starts");
    let (_directory, options) = served(&server, "podman");
    assert_eq!(ask(server.socket()).await.expect("it answers").name, "podman");
    contract::check(&|| Box::pin(open(&options))).await;
    names_and_images(&server, &options).await;
    its_image_says_how_to_end_it(&server, &options).await;
    what_was_made_on_the_machine_needs_no_registry(&server, &options).await;
}

/// What is foreign stays, what is missing is told, and a restarted container keeps its name.
async fn names_and_images(server: &Server, options: &Options) {
    let runtime = open(options).await;
    let store = runtime.image_store().expect("images");
    let name = |text: &str| ImageName::parse(text).expect("a name");
    let found = store.find(&name(IMAGE)).await.expect("it answers").expect("it is there");
    assert!(found.bytes > 0 && found.id.starts_with("sha256:"), "{found:?}");
    assert_eq!(store.find(&name("127.0.0.1:1/none:1")).await, Ok(None));
    let error = store.pull(&name("127.0.0.1:1/none:1"), None).await.expect_err("nobody is there");
    assert!(error.contains("127.0.0.1:1"), "{error}");
    let foreign = json!({"Image": IMAGE, "Entrypoint": ["sleep", "100"]}).to_string();
    let path = "/containers/create?name=k8s_default_foreign_main";
    let (status, _) = server.ask(("POST", path), foreign.as_bytes()).expect("it answers");
    assert_eq!(status, 201);
    let spec = contract::shell("foreign", "exit 0");
    let refusal = runtime.start(&spec).await.expect_err("the name is taken");
    assert_eq!(refusal.reason, "CreateContainerError");
    assert!(refusal.message.contains("is not of this node"), "{refusal}");
    runtime.remove_pod("foreign").await;
    let foreign = "/containers/k8s_default_foreign_main";
    let (status, _) = server.ask(("GET", &format!("{foreign}/json")), b"").expect("it answers");
    assert_eq!(status, 200);
    server.ask(("DELETE", &format!("{foreign}?force=true")), b"").expect("it answers");
    let mut spec = contract::shell("named", "hostname; exit 1");
    runtime.start(&spec).await.expect("it starts");
    contract::ended(&runtime, &spec.id).await;
    spec.id.attempt = 1;
    runtime.start(&spec).await.expect("it starts again");
    contract::ended(&runtime, &spec.id).await;
    let (_, list) = server.ask(("GET", "/containers/json?all=1"), b"").expect("it answers");
    for name in ["k8s_default_named_main\"", "k8s_default_named_main_0\"", "k8s_POD_default_named"]
    {
        assert!(list.contains(name), "{name}: {list}");
    }
    let log = fs::read_to_string(runtime.log(&spec.id)).expect("a log");
    assert!(log.contains("stdout F named"), "{log}");
    assert_eq!(runtime.of_pod("named").len(), 2);
    runtime.remove_pod("named").await;
    let (_, list) = server.ask(("GET", "/containers/json?all=1"), b"").expect("it answers");
    assert!(!list.contains("k8s_"), "{list}");
}

/// Its containers ended with it, which is told when it is back; nobody has to start us again.
async fn an_engine_that_comes_back_is_found(server: &mut Server, options: &Options) {
    let runtime = open(options).await;
    let spec = contract::shell("left", "echo ready; sleep 100");
    runtime.start(&spec).await.expect("it starts");
    contract::has_written(&runtime, &spec.id, "ready").await;
    server.stop().expect("it stops");
    until("unwell", || runtime.trouble().is_some()).await;
    assert_eq!(runtime.of_pod("left").len(), 1);
    server.start_again().expect("it starts");
    until("well", || runtime.trouble().is_none()).await;
    contract::ended(&runtime, &spec.id).await;
    until("without sandbox", || runtime.sandbox_of("left").is_none()).await;
    let mut again = spec.clone();
    again.id.attempt = 1;
    runtime.start(&again).await.expect("it starts");
    contract::has_written(&runtime, &again.id, "ready").await;
    runtime.stop(&again.id, Duration::ZERO).await.expect("it stops");
    runtime.remove_pod("left").await;
    assert!(runtime.containers().is_empty());
}

/// The signal of an image counts, also for who finds the container again.
async fn its_image_says_how_to_end_it(server: &Server, options: &Options) {
    let image = "setpoint.test/stopped:1".to_owned();
    server.make_stopped_by(&image, "SIGUSR1").expect("an image is made");
    let script = "trap '' TERM; trap 'exit 6' USR1; echo ready; while :; do sleep 0.01; done";
    for name in ["stopped", "found"] {
        let mut runtime = open(options).await;
        let spec = ContainerSpec { image: image.clone(), ..contract::shell(name, script) };
        runtime.start(&spec).await.expect("it starts");
        contract::has_written(&runtime, &spec.id, "ready").await;
        if name == "found" {
            drop(runtime);
            runtime = open(options).await;
        }
        runtime.stop(&spec.id, PATIENCE).await.expect("it stops");
        assert_eq!(contract::ended(&runtime, &spec.id).await.code, 6, "{name}");
        runtime.remove_pod(name).await;
    }
}

/// A connection that the engine ended is opened again.
async fn output_is_followed_again(options: &Options) {
    let docker = Docker::open(options.clone()).await.expect("it answers");
    let runtime = docker.clone() as Arc<dyn PodRuntime>;
    let script = "trap 'echo more' USR1; echo ready; while :; do sleep 0.01; done";
    let spec = contract::shell("followed", script);
    runtime.start(&spec).await.expect("it starts");
    contract::has_written(&runtime, &spec.id, "ready").await;
    let cut = |docker: &Docker| {
        let held = docker.lock();
        let output = held.runs[&spec.id].output.as_ref();
        output.is_some_and(|output| {
            output.cut();
            output.is_written()
        })
    };
    until("cut", || cut(&docker)).await;
    let native = docker.native(&spec.id).expect("it runs").0;
    let told = docker.client.post(&format!("/containers/{native}/kill?signal=USR1"), None).await;
    told.expect("it is told");
    docker.look_at_all().await.expect("it answers");
    contract::has_written(&runtime, &spec.id, "more").await;
    let log = fs::read_to_string(runtime.log(&spec.id)).expect("a log");
    assert_eq!(log.matches("ready").count(), 1, "{log}");
    runtime.stop(&spec.id, Duration::ZERO).await.expect("it stops");
    runtime.remove_pod("followed").await;
}

/// The engine may end the stream of a container before it has sent a line without a newline.
async fn a_last_line_without_a_newline_is_kept(options: &Options) {
    let runtime = open(options).await;
    let run = |number: usize| {
        let (runtime, name) = (runtime.clone(), format!("unfinished-{number}"));
        async move {
            let spec = contract::shell(&name, "echo a; printf DONE; exit 1");
            runtime.start(&spec).await.expect("it starts");
            contract::ended(&runtime, &spec.id).await;
            let log = fs::read_to_string(runtime.log(&spec.id)).expect("a log");
            runtime.remove_pod(&name).await;
            log
        }
    };
    for log in futures::future::join_all((0..12).map(run)).await {
        let lines: Vec<&str> =
            log.lines().filter_map(|line| line.split_once(' ')).map(|it| it.1).collect();
        assert_eq!(lines, ["stdout F a", "stdout P DONE"], "{log}");
    }
}

/// Podman calls it `localhost/...`, and pods need not.
async fn what_was_made_on_the_machine_needs_no_registry(server: &Server, options: &Options) {
    server.make_shell("localhost/made-here:1").expect("an image is made");
    let runtime = open(options).await;
    let name = ImageName::parse("made-here:1").expect("a name");
    let store = runtime.image_store().expect("images");
    assert!(store.find(&name).await.expect("it answers").is_some());
    let spec = ContainerSpec { image: name.written, ..contract::shell("here", "exit 4") };
    runtime.start(&spec).await.expect("it starts");
    assert_eq!(contract::ended(&runtime, &spec.id).await.code, 4);
    runtime.remove_pod("here").await;
}
