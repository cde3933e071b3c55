//! Which file is read, and what is said about it.

use serde_json::Value;

use crate::sandbox::{Sandbox, Started, text};

/// A file that shows by the node's data which one was read.
fn marker(directory: &str) -> String {
    format!("storage:\n  embedded:\n    directory: {directory}\n")
}

/// The store's directory that a start makes, which tells the file that was read.
fn read_file(sandbox: &Sandbox, arguments: &[&str]) -> (String, Vec<String>) {
    found_file(sandbox, sandbox.start(arguments))
}

fn found_file(sandbox: &Sandbox, started: Started) -> (String, Vec<String>) {
    let config = text(&started.ready, "config");
    let (code, _) = started.stop();
    assert_eq!(code, Some(0));
    let names = ["from-option", "from-variable", "from-dot-file", "from-example"];
    let made = names.into_iter().filter(|name| sandbox.work().join(name).exists());
    let made: Vec<_> = made.map(str::to_owned).collect();
    for name in &made {
        std::fs::remove_dir_all(sandbox.work().join(name)).expect("it must be there");
    }
    (config, made)
}

#[test]
fn option_then_variable_then_dot_file_then_example_then_defaults() {
    let mut sandbox = Sandbox::new();
    let nothing: Vec<String> = Vec::new();
    assert_eq!(read_file(&sandbox, &[]), ("built-in defaults".to_owned(), nothing));

    sandbox.write("configs/config-example.yaml", &marker("from-example"));
    let nothing: Vec<String> = Vec::new();
    assert_eq!(read_file(&sandbox, &[]), ("built-in defaults".to_owned(), nothing));
    let expected = ("configs/config-example.yaml".to_owned(), vec!["from-example".to_owned()]);
    let storage = ["storage", "--listen", "127.0.0.1:0", "-o", "json"];
    assert_eq!(found_file(&sandbox, sandbox.start_command(&storage)), expected);

    sandbox.write(".config.yaml", &marker("from-dot-file"));
    let expected = (".config.yaml".to_owned(), vec!["from-dot-file".to_owned()]);
    assert_eq!(read_file(&sandbox, &[]), expected);

    sandbox.write("variable.yaml", &marker("from-variable"));
    sandbox.set("CONFIG_PATH", "variable.yaml");
    let expected = ("variable.yaml".to_owned(), vec!["from-variable".to_owned()]);
    assert_eq!(read_file(&sandbox, &[]), expected);

    sandbox.write("option.yaml", &marker("from-option"));
    let expected = ("option.yaml".to_owned(), vec!["from-option".to_owned()]);
    assert_eq!(read_file(&sandbox, &["--config", "option.yaml"]), expected);
}

#[test]
fn without_a_file_one_line_says_what_was_tried() {
    let sandbox = Sandbox::new();
    let (_, stderr) = sandbox.start(&["--store", "memory"]).stop();
    let line = stderr.lines().find(|line| line.contains("built-in defaults"));
    let line = line.unwrap_or_else(|| panic!("nothing about defaults in {stderr}"));
    assert!(line.contains(".config.yaml,") && line.contains("/etc/setpoint"), "{line}");
}

#[test]
fn a_named_file_that_is_missing_is_an_error_that_names_it() {
    let mut sandbox = Sandbox::new();
    sandbox.write(".config.yaml", "");
    let error = sandbox.run(&["start", "--config", "gone.yaml"]).error().to_owned();
    assert!(error.contains("gone.yaml") && error.contains("--config"), "{error}");
    sandbox.set("CONFIG_PATH", "lost.yaml");
    for command in ["start", "up"] {
        let error = sandbox.run(&[command]).error().to_owned();
        assert!(error.contains("lost.yaml") && error.contains("CONFIG_PATH"), "{error}");
    }
    assert!(!sandbox.data().exists(), "nothing may be made");
}

#[test]
fn unknown_keys_are_warned_about_with_their_position() {
    let sandbox = Sandbox::new();
    sandbox
        .write(".config.yaml", "storage:\n  type: memory\n  mysql:\n    hots: db\nnonsense: 1\n");
    let (code, stderr) = sandbox.start(&[]).stop();
    assert_eq!(code, Some(0));
    let expected = ".config.yaml:4:5: storage.mysql.hots is not a known key and is ignored; did \
                    you mean storage.mysql.host?";
    assert!(stderr.contains(expected), "{stderr}");
    assert!(stderr.contains(".config.yaml:5:1: nonsense is not a known key"), "{stderr}");
}

#[test]
fn up_shows_the_warnings_too() {
    let sandbox = Sandbox::new();
    sandbox.write(".config.yaml", "storage:\n  type: memory\nnonsense: 1\n");
    let ended = sandbox.run(&["up", "--listen", "127.0.0.1:0"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains(".config.yaml:3:1: nonsense"), "{ended:?}");
    assert_eq!(sandbox.run(&["down"]).code, Some(0));
}

#[test]
fn a_wrong_value_is_an_error_with_its_position() {
    let sandbox = Sandbox::new();
    sandbox.write(".config.yaml", "storage:\n  mysql:\n    port: high\n");
    let error = sandbox.run(&["start"]).error().to_owned();
    assert!(error.starts_with("error: .config.yaml:3:11: storage.mysql.port"), "{error}");
    assert!(error.contains("expected a number from 1 to 65535"), "{error}");
}

#[test]
fn the_option_for_the_store_wins_over_the_file() {
    let sandbox = Sandbox::new();
    sandbox.write(".config.yaml", "storage:\n  type: mysql\n");
    let started = sandbox.start(&["--store", "memory"]);
    assert_eq!(text(&started.ready, "store"), "memory");
    assert_eq!(started.stop().0, Some(0));
}

#[test]
fn the_node_is_named_by_the_variable() {
    let mut sandbox = Sandbox::new();
    sandbox.set("NODE_NAME", "my-node-1");
    let started = sandbox.start(&["--store", "memory"]);
    assert_eq!(text(&started.ready, "node"), "my-node-1");
    assert_eq!(started.stop().0, Some(0));

    sandbox.set("NODE_NAME", "Bad_Name");
    let error = sandbox.run(&["start"]).error().to_owned();
    assert!(error.contains("NODE_NAME") && error.contains("cannot name a node"), "{error}");
}

#[test]
fn the_level_of_the_log_follows_option_then_variable_then_file() {
    let mut sandbox = Sandbox::new();
    let logs_info = |sandbox: &Sandbox, arguments: &[&str]| {
        let (_, stderr) = sandbox.start(&[&["--store", "memory"], arguments].concat()).stop();
        stderr.contains("INFO")
    };
    assert!(logs_info(&sandbox, &[]));
    sandbox.write(".config.yaml", "log:\n  level: error\n");
    assert!(!logs_info(&sandbox, &[]));
    sandbox.set("RUST_LOG", "info");
    assert!(logs_info(&sandbox, &[]));
    sandbox.set("SETPOINT_LOG", "error");
    assert!(!logs_info(&sandbox, &[]));
    assert!(logs_info(&sandbox, &["-v"]));
}

#[test]
fn requests_are_written_to_the_audit_log_and_secrets_are_not() {
    let sandbox = Sandbox::new();
    let audit = "audit: {log: audit.log, level: request, scope: writes}\n";
    sandbox.write(".config.yaml", audit);
    let started = sandbox.start(&["--components", "api", "--store", "memory"]);
    let admin = sandbox.data().join("kubeconfig").display().to_string();
    for kind in [&["configmap"][..], &["secret", "generic"]] {
        let words = [&["--kubeconfig", &admin, "create"], kind, &["a", "--from-literal=k=hidden"]];
        let ended = sandbox.kubectl(&words.concat(), "");
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    let patch = ["patch", "configmap", "a", "--type=merge", "-p", r#"{"data": {"k": "hidden"}}"#];
    let ended = sandbox.kubectl(&[&["--kubeconfig", &admin], &patch[..]].concat(), "");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ended = sandbox.kubectl(&["--kubeconfig", &admin, "delete", "configmap", "none"], "");
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(started.stop().0, Some(0));
    let text = std::fs::read_to_string(sandbox.work().join("audit.log")).expect("a log");
    let events: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |verb: &str, resource: &str| {
        let is = |one: &&Value| one["verb"] == verb && one["objectRef"]["resource"] == resource;
        let of_kubectl =
            |one: &&Value| one["userAgent"].as_str().is_some_and(|it| it.starts_with("kubectl"));
        events.iter().filter(of_kubectl).find(is).unwrap_or_else(|| panic!("{verb} {text}"))
    };
    assert_eq!(of("patch", "configmaps")["requestObject"]["data"]["k"], "hidden", "{text}");
    let made = of("create", "configmaps");
    assert_eq!(made["responseStatus"]["code"], 201, "{made}");
    assert_eq!(made["sourceIPs"][0], "127.0.0.1", "{made}");
    assert!(made["user"]["groups"].to_string().contains("system:masters"), "{made}");
    let secret = of("create", "secrets");
    assert!(secret["requestObject"].is_null() && !secret.to_string().contains("hidden"));
    assert_eq!(of("delete", "configmaps")["responseStatus"]["reason"], "NotFound");
    assert!(events.iter().all(|one| one["verb"] != "get" && one["verb"] != "list"), "{text}");
}

#[test]
fn the_log_can_be_json() {
    let sandbox = Sandbox::new();
    let (_, stderr) = sandbox.start(&["--store", "memory", "--log-format", "json"]).stop();
    assert!(!stderr.is_empty());
    for line in stderr.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("each line must be JSON");
        assert_eq!(line["level"], "INFO", "{line}");
        for field in ["ts", "target", "msg"] {
            assert!(line[field].is_string(), "{field}: {line}");
        }
    }
}

#[test]
fn the_log_is_json_where_no_person_reads_it_and_a_file_may_say_otherwise() {
    let sandbox = Sandbox::new();
    let is_json = |stderr: &str| stderr.lines().all(|line| line.starts_with('{'));
    let (_, stderr) = sandbox.start(&["--store", "memory"]).stop();
    assert!(!stderr.is_empty() && is_json(&stderr), "{stderr}");
    let (_, stderr) = sandbox.start(&["--store", "memory", "--log-format", "text"]).stop();
    assert!(stderr.contains(" INFO ") && !is_json(&stderr), "{stderr}");
    let up = ["up", "--store", "memory", "--listen", "127.0.0.1:0", "--no-kubeconfig"];
    assert_eq!(sandbox.run(&up).code, Some(0));
    assert_eq!(sandbox.run(&["down"]).code, Some(0));
    let log = std::fs::read_to_string(sandbox.data().join("setpoint.log")).expect("a log");
    assert!(log.contains(" INFO ") && !log.contains("\"ts\""), "people read this one: {log}");
    sandbox.write(".config.yaml", "log: {format: json}\n");
    assert_eq!(sandbox.run(&up).code, Some(0));
    assert_eq!(sandbox.run(&["down"]).code, Some(0));
    let all = std::fs::read_to_string(sandbox.data().join("setpoint.log")).expect("a log");
    assert!(all[log.len()..].contains("\"ts\""), "{all}");
}
