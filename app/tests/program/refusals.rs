//! Starts that must fail: one line that says what and what to do, and nothing changed on disk.

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use tokio::time::Instant;

use crate::sandbox::{Sandbox, contents};

/// No connection may be tried for longer.
const REFUSED_WITHIN: Duration = Duration::from_secs(20);

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port must be free");
    listener.local_addr().expect("it must have an address").port()
}

#[test]
fn a_second_program_on_the_same_directory_is_refused() {
    let sandbox = Sandbox::new();
    for store in ["embedded", "memory"] {
        // Nothing else writes to the store meanwhile.
        let started = sandbox.start(&["--store", store, "--components", "api"]);
        let before = contents(&sandbox.data());
        for other in ["embedded", "memory"] {
            let ended = sandbox.run(&["start", "--store", other, "--listen", "127.0.0.1:0"]);
            let error = ended.error();
            let pid = &started.ready["pid"];
            assert!(
                error.contains(&format!("in use by setpoint with process id {pid}")),
                "{error}"
            );
            assert!(error.contains("setpoint down") && error.contains("--data-dir"), "{error}");
        }
        assert_eq!(contents(&sandbox.data()), before);
        assert_eq!(started.get("/readyz").0, 200);
        assert_eq!(started.stop().0, Some(0));
    }
}

#[test]
fn a_second_program_on_the_same_store_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write(".config.yaml", "storage:\n  embedded:\n    directory: shared\n");
    let started = sandbox.start(&["--components", "api"]);
    let before = contents(&sandbox.work());
    let ended = sandbox.run(&["start", "--data-dir", "other", "--listen", "127.0.0.1:0"]);
    let error = ended.error();
    assert!(error.contains("shared is in use by another process"), "{error}");
    assert_eq!(contents(&sandbox.work()), before);
    assert!(!sandbox.work().join("other").exists());
    assert_eq!(started.stop().0, Some(0));
}

#[test]
fn a_port_in_use_is_refused_before_anything_is_made() {
    let sandbox = Sandbox::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port must be free");
    let address = taken.local_addr().expect("it must have an address").to_string();
    let ended = sandbox.run(&["start", "--listen", &address]);
    let error = ended.error();
    assert!(error.contains(&format!("could not listen on {address}")), "{error}");
    assert!(error.contains("--listen ADDR:PORT") && error.contains("in use"), "{error}");
    assert!(!sandbox.data().exists());
}

#[test]
fn a_directory_that_cannot_be_made_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("file", "");
    for directory in ["file", "file/below", "/proc/setpoint"] {
        let ended = sandbox.run(&["start", "--data-dir", directory, "--store", "memory"]);
        let error = ended.error();
        assert!(error.contains("data directory") && error.contains("--data-dir"), "{error}");
    }
}

#[test]
fn no_home_and_no_directory_is_refused() {
    let mut sandbox = Sandbox::new();
    sandbox.set("HOME", "");
    let ended = sandbox.run(&["start"]);
    assert!(ended.error().contains("--data-dir"), "{ended:?}");
}

#[test]
fn a_foreign_file_a_newer_format_and_damage_are_refused() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.start(&[]).stop().0, Some(0));
    let log = sandbox.data().join("store/0000000001.log");
    let good = fs::read(&log).expect("the store must have a log");
    let mut newer = good.clone();
    newer[8..12].copy_from_slice(&99u32.to_le_bytes());
    let mut damaged = good.clone();
    damaged[20] ^= 0xff;
    let cases = [
        (vec![7; 4096], "is not a file of this store; move it out of the data directory"),
        (b"short".to_vec(), "is not a file of this store; move it out of the data directory"),
        (newer, "has format 99, this program reads up to 1; use a newer setpoint"),
        (damaged, "is damaged at byte 0"),
    ];
    for (bytes, expected) in cases {
        fs::write(&log, bytes).expect("the log must be writable");
        let before = contents(&sandbox.data());
        let ended = sandbox.run(&["start", "--listen", "127.0.0.1:0"]);
        let error = ended.error();
        assert!(error.contains(expected) && error.contains("0000000001.log"), "{error}");
        assert!(error.contains("could not open the embedded store in "), "{error}");
        assert_eq!(contents(&sandbox.data()), before);
    }
    fs::write(&log, good).expect("the log must be writable");
    assert_eq!(sandbox.start(&[]).stop().0, Some(0));
}

#[test]
fn a_server_that_is_not_there_is_refused_in_time() {
    let sandbox = Sandbox::new();
    let port = free_port();
    let config = format!(
        "storage:\n  mysql: {{host: 127.0.0.1, port: {port}}}\n  \
         etcd: {{endpoints: [\"http://127.0.0.1:{port}\"], dial_timeout: 2s}}\n"
    );
    sandbox.write(".config.yaml", &config);
    for store in ["mysql", "etcd"] {
        let began = Instant::now();
        let ended = sandbox.run(&["start", "--store", store, "--listen", "127.0.0.1:0"]);
        let error = ended.error();
        assert!(error.contains(&format!("could not open the {store} store")), "{error}");
        assert!(error.contains("could not connect to") && error.contains("127.0.0.1"), "{error}");
        assert!(error.contains(&format!("storage.{store}")), "{error}");
        assert!(began.elapsed() < REFUSED_WITHIN, "{:?}", began.elapsed());
        assert!(!sandbox.data().exists(), "nothing may be made");
    }
}
