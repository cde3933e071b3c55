//! The configuration reaches real servers, and what they refuse is told.

use serde_json::Value;

use crate::sandbox::{Sandbox, contents, get, text};

/// A configuration for the tests' own servers, with a database of the sandbox's own.
fn configure(sandbox: &Sandbox, password: &str) {
    let mariadb = servers::shared_mariadb().expect("MariaDB must start");
    let etcd = servers::shared_etcd().expect("etcd must start");
    let (host, port, user) = (&mariadb.host, mariadb.port, mariadb.user);
    let mysql = format!("{{host: {host}, port: {port}, user: {user}, password: \"{password}\"");
    let config = format!(
        "storage:\n  mysql: {mysql}, database: program_{}}}\n  etcd: {{endpoints: [\"{}\"]}}\n",
        std::process::id(),
        etcd.endpoint
    );
    sandbox.write(".config.yaml", &config);
}

#[test]
fn every_store_opens_and_its_kind_and_revision_are_told() {
    let sandbox = Sandbox::new();
    configure(&sandbox, servers::shared_mariadb().expect("MariaDB must start").password);
    for store in ["memory", "embedded", "mysql", "etcd"] {
        let up = sandbox.run(&["up", "--store", store, "--listen", "127.0.0.1:0", "-o", "json"]);
        assert_eq!(up.code, Some(0), "{up:?}");
        assert_eq!(get(&sandbox.data(), "/readyz"), (200, "ok".to_owned()), "{store}");
        let status = sandbox.run(&["status", "-o", "json"]).json();
        assert_eq!(text(&status, "store"), store);
        assert_eq!(status["health"], Value::from("ok"));
        assert!(status["revision"].is_u64(), "{status}");
        assert_eq!(sandbox.run(&["down"]).code, Some(0), "{store}");
    }
}

#[test]
fn a_wrong_password_is_refused_and_not_shown() {
    let sandbox = Sandbox::new();
    const PASSWORD: &str = "not-the-pass-word";
    configure(&sandbox, PASSWORD);
    for command in ["start", "up"] {
        let ended = sandbox.run(&[command, "-vv", "--store", "mysql", "--listen", "127.0.0.1:0"]);
        let error = ended.error();
        assert!(error.contains("refused the user"), "{error}");
        assert!(error.contains("check storage.mysql.user and storage.mysql.password"), "{error}");
        assert!(!ended.stderr.contains(PASSWORD), "{ended:?}");
    }
    let written = contents(&sandbox.data());
    assert!(!written.is_empty(), "`up` must have made a log");
    for (path, bytes) in written {
        assert!(!String::from_utf8_lossy(&bytes).contains(PASSWORD), "{}", path.display());
    }
}
