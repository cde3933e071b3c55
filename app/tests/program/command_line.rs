//! Help, version, completions, wrong usage.

use std::process::Command;

use crate::sandbox::{Sandbox, end};

#[test]
fn help_and_version_need_no_home_and_no_file() {
    let sandbox = Sandbox::new();
    sandbox.write(".config.yaml", "this: [is, broken\n");
    for arguments in [&["--help"][..], &["version"], &["--version"], &["up", "--help"], &["help"]] {
        let mut command = sandbox.command(arguments);
        command.env_remove("HOME").env("CONFIG_PATH", "missing.yaml").env("NODE_NAME", "Bad_Name");
        let ended = end(command);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{arguments:?}");
        assert!(ended.stdout.contains("setpoint"), "{ended:?}");
    }
}

#[test]
fn help_has_examples_and_exit_codes() {
    let sandbox = Sandbox::new();
    let help = sandbox.run(&["--help"]).stdout;
    assert!(help.contains("Examples:") && help.contains("Exit codes:"), "{help}");
    for command in ["start", "up", "down", "status", "completions"] {
        let help = sandbox.run(&[command, "--help"]).stdout;
        assert!(help.contains("Examples:"), "{command}: {help}");
    }
}

#[test]
fn the_version_is_told_as_text_and_as_json() {
    let sandbox = Sandbox::new();
    let version = env!("CARGO_PKG_VERSION");
    let text = sandbox.run(&["version"]).stdout;
    assert!(text.starts_with(&format!("setpoint {version} ")), "{text}");
    let told = sandbox.run(&["version", "-o", "json"]).json();
    assert_eq!(told["version"], version);
    let build = &told["build"];
    assert!(build["rustc"].as_str().is_some_and(|it| it.starts_with("rustc ")), "{told}");
    assert!(build["target"].as_str().is_some_and(|it| it.contains("linux")), "{told}");
    assert!(build["profile"].is_string() && build.get("commit").is_some(), "{told}");
}

#[test]
fn every_shell_gets_completions_it_accepts() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "nushell", "elvish", "powershell"] {
        let ended = sandbox.run(&["completions", shell]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(
            ended.stdout.contains("--data-dir") || ended.stdout.contains("data-dir"),
            "{shell}"
        );
    }
    sandbox.write("completions.bash", &sandbox.run(&["completions", "bash"]).stdout);
    let mut bash = Command::new("bash");
    bash.args(["-n", "completions.bash"]).current_dir(sandbox.work());
    let ended = end(bash);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[test]
fn help_about_all_lists_every_command_with_those_below_it() {
    let sandbox = Sandbox::new();
    let ended = sandbox.run(&["help", "--all"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for command in ["setpoint up ", "setpoint vm image add ", "setpoint train resume "] {
        assert!(ended.stdout.contains(&format!("\n{command}")), "{command}: {}", ended.stdout);
    }
    assert!(!ended.stdout.contains("candidates"), "what people do not type is left out");
    let listed = sandbox.run(&["help", "--all", "-o", "json"]).json();
    let listed = listed.as_array().expect("a list");
    assert!(listed.iter().any(|row| row["command"] == "setpoint serve chat"), "{listed:?}");
    assert!(listed.iter().all(|row| row["about"] != ""), "each says what it is for: {listed:?}");
}

#[test]
fn wrong_usage_exits_with_two() {
    let sandbox = Sandbox::new();
    let wrong = [
        &[][..],
        &["strat"],
        &["start", "--store", "sqlite"],
        &["start", "--listen", "nonsense"],
        &["start", "--listen", "127.0.0.1"],
        &["start", "--listen", "127.0.0.1:99999"],
        &["start", "-o", "xml"],
        &["start", "--components", "api,kitchen"],
        &["start", "--components", ""],
        &["completions", "sh"],
    ];
    for arguments in wrong {
        let ended = sandbox.run(arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {ended:?}");
        assert_eq!(ended.stdout, "", "{arguments:?}");
    }
    let ended = sandbox.run(&["start", "--listen", "nonsense"]);
    assert!(ended.stderr.contains("such as 127.0.0.1:6443"), "{ended:?}");
    let ended = sandbox.run(&["start", "--components", "kitchen"]);
    assert!(ended.stderr.contains("kitchen") && ended.stderr.contains("all, api"), "{ended:?}");
    let ended = sandbox.run(&["strat"]);
    assert!(ended.stderr.contains("start"), "a slip must be answered with the word: {ended:?}");
}

#[test]
fn a_closed_output_is_no_error() {
    let sandbox = Sandbox::new();
    for arguments in [&["completions", "bash"][..], &["version"], &["status"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe must be made");
        drop(reader);
        let mut command = sandbox.command(arguments);
        let output = command.stdout(writer).output().expect("the program must run");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""), "{arguments:?}");
    }
}
