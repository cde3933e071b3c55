//! `start`: ready, healthy, stopped.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::Value;

use crate::sandbox::{Sandbox, connect, contents, line_of_file, text};

#[test]
fn it_becomes_ready_answers_health_and_stops_cleanly() {
    let sandbox = Sandbox::new();
    for signal in ["TERM", "INT", "QUIT"] {
        let started = sandbox.start(&[]);
        assert_eq!(text(&started.ready, "event"), "ready");
        assert_eq!(text(&started.ready, "data_dir"), sandbox.data().display().to_string());
        assert_eq!(text(&started.ready, "url"), format!("https://{}", started.address()));
        for path in ["/healthz", "/livez", "/readyz"] {
            assert_eq!(started.get(path), (200, "ok".to_owned()), "{path}");
        }
        let (status, body) = started.get("/readyz?verbose");
        assert_eq!(status, 200);
        assert!(body.contains("[+]store ok"), "{body}");
        assert_eq!(started.get("/nothing").0, 404);
        started.signal(signal);
        let (code, stderr) = started.wait();
        assert_eq!(code, Some(0), "{signal}: {stderr}");
        assert!(stderr.contains("stopped"), "{stderr}");
        assert!(!sandbox.data().join("setpoint.json").exists(), "{signal}");
    }
}

#[test]
fn the_ready_line_is_readable_too() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["start", "--store", "memory", "--listen", "127.0.0.1:0"]);
    let path = sandbox.work().join("out.log");
    command.stdout(fs::File::create(&path).expect("a file must be made")).stderr(Stdio::null());
    let mut child = command.spawn().expect("the program must start");
    let line = line_of_file(&path);
    child.kill().and_then(|()| child.wait()).expect("it must be ours");
    assert!(line.starts_with("ready in ") && line.contains(" ms at https://127.0.0.1:"), "{line}");
    assert!(line.contains(&sandbox.data().display().to_string()), "{line}");
}

#[test]
fn files_are_for_their_owner_and_tell_the_real_port() {
    let sandbox = Sandbox::new();
    let started = sandbox.start(&[]);
    let path = sandbox.data().join("setpoint.json");
    let mode = |path: &std::path::Path| {
        fs::metadata(path).expect("it must be there").permissions().mode() & 0o777
    };
    assert_eq!((mode(&path), mode(&sandbox.data())), (0o600, 0o700));
    let names = ["pki/ca.pem", "pki/serving.pem", "pki/service-accounts.pem", "kubeconfig"];
    for name in names.into_iter().chain(["setpoint.sock"]) {
        assert_eq!(mode(&sandbox.data().join(name)), 0o600, "{name}");
    }
    let file: Value = serde_json::from_slice(&fs::read(&path).expect("it must be there"))
        .expect("it must be JSON");
    assert_eq!(text(&file, "listen"), started.address());
    assert!(!started.address().ends_with(":0"));
    assert_eq!(started.stop().0, Some(0));
}

#[test]
fn a_store_in_memory_leaves_only_keys_behind() {
    let sandbox = Sandbox::new();
    // A node keeps records of its own.
    let parts = ["--store", "memory", "--components", "api,controllers,scheduler"];
    assert_eq!(sandbox.start(&parts).stop().0, Some(0));
    let keys = sandbox.data().join("pki");
    for path in contents(&sandbox.data()).keys() {
        assert!(path.starts_with(&keys) || path.ends_with("kubeconfig"), "{}", path.display());
    }
    assert!(!sandbox.data().join("setpoint.sock").exists());
}

#[test]
fn a_directory_may_have_a_name_longer_than_a_socket_may() {
    let sandbox = Sandbox::new();
    let long = format!("{}/{}", "d".repeat(100), "e".repeat(100));
    let started = sandbox.start(&["--store", "memory", "--data-dir", &long]);
    assert_eq!(started.get("/readyz").0, 200);
    let status = sandbox.run(&["status", "--data-dir", &long]);
    assert!(status.stdout.contains("running (ok)"), "{status:?}");
    assert_eq!(started.stop().0, Some(0));
}

#[test]
fn a_killed_program_is_followed_by_another() {
    let sandbox = Sandbox::new();
    let started = sandbox.start(&[]);
    started.signal("KILL");
    assert_eq!(started.wait().0, None);
    assert!(sandbox.data().join("setpoint.json").exists());
    assert!(sandbox.data().join("setpoint.sock").exists());
    assert_eq!(
        sandbox.run(&["status"]).code,
        Some(5),
        "the file of a dead process is not believed"
    );
    assert_eq!(sandbox.run(&["down"]).code, Some(0));
    assert_eq!(sandbox.start(&[]).stop().0, Some(0));
    assert!(contents(&sandbox.data()).keys().all(|path| !path.ends_with("setpoint.json")));
}

#[test]
fn the_data_directory_comes_from_the_option_then_the_variable_then_xdg() {
    let mut sandbox = Sandbox::new();
    let in_work = |name: &str| sandbox.work().join(name).display().to_string();
    let (option, variable, xdg) = (in_work("option"), in_work("variable"), in_work("xdg"));
    sandbox.set("XDG_DATA_HOME", &xdg);
    let data_dir = |sandbox: &Sandbox, arguments: &[&str]| {
        let started = sandbox.start(&[&["--store", "memory"], arguments].concat());
        text(&started.ready, "data_dir")
    };
    assert_eq!(data_dir(&sandbox, &[]), format!("{xdg}/setpoint"));
    sandbox.set("SETPOINT_DATA_DIR", &variable);
    assert_eq!(data_dir(&sandbox, &[]), variable);
    assert_eq!(data_dir(&sandbox, &["--data-dir", "option"]), option);
}

#[test]
fn with_a_delay_it_is_not_ready_and_answers_until_the_delay_is_over() {
    let sandbox = Sandbox::new();
    let started = sandbox.start(&["--store", "memory", "--shutdown-delay", "3s"]);
    assert_eq!(started.get("/readyz").0, 200);
    started.signal("TERM");
    // It answers all the time: a connection that were refused would fail the test.
    while started.get("/readyz").0 == 200 {}
    assert_eq!(started.get("/livez").0, 200);
    let (status, body) = started.get_anonymously("/readyz?verbose", "");
    assert_eq!(status, 500, "{body}");
    assert!(body.contains("[-]shutdown failed"), "{body}");
    assert_eq!(started.wait().0, Some(0));
}

#[test]
fn a_second_signal_does_not_wait_for_open_requests() {
    let sandbox = Sandbox::new();
    let started = sandbox.start(&["--store", "memory"]);
    let mut stream = connect(&sandbox.data()).expect("the program must listen");
    stream.write_all(b"GET /healthz HTT").expect("half a request must be sent");
    assert_eq!(started.get("/healthz").0, 200, "the half request must have been accepted");
    started.signal("TERM");
    while connect(&sandbox.data()).is_ok() {}
    started.signal("TERM");
    assert_eq!(started.wait().0, Some(128 + 15));
}
