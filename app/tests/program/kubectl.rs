//! kubectl against the program, as a user finds it after `up`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::sandbox::{Sandbox, line_of_file, text};

const UP: [&str; 3] = ["up", "--listen", "127.0.0.1:0"];

const SETTINGS: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: green}
";

const OTHERS: &str = "\
apiVersion: v1
kind: Config
current-context: work
clusters:
- {name: work, cluster: {server: \"https://work.example\"}}
contexts:
- {name: work, context: {cluster: work, user: work}}
users:
- {name: work, user: {token: secret}}
";

/// What kubectl prints, which must go well.
#[track_caller]
fn kubectl(sandbox: &Sandbox, arguments: &[&str], manifest: &str) -> String {
    let ended = sandbox.kubectl(arguments, manifest);
    assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:?}");
    ended.stdout
}

/// What kubectl complains of, which must not go well.
#[track_caller]
fn refused(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let ended = sandbox.kubectl(arguments, "");
    assert_ne!(ended.code, Some(0), "{arguments:?}: {ended:?}");
    ended.stderr
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it must be there").permissions().mode() & 0o777
}

#[test]
fn kubectl_works_after_up_and_finds_everything_again_after_a_restart() {
    let sandbox = Sandbox::new();
    let up = sandbox.run(&UP);
    assert_eq!((up.code, up.stderr.as_str()), (Some(0), ""), "{up:?}");
    assert!(up.stdout.contains("context setpoint in "), "{up:?}");
    let names = kubectl(&sandbox, &["get", "namespaces", "-o", "name"], "");
    assert!(names.contains("namespace/kube-system"), "{names}");
    assert_eq!(kubectl(&sandbox, &["apply", "-f", "-"], SETTINGS), "configmap/settings created\n");
    let old = sandbox.data().join("kubeconfig");
    fs::copy(&old, sandbox.work().join("old")).expect("the kubeconfig must be there");
    let authority = fs::read(sandbox.data().join("pki/ca.pem")).expect("it must be there");
    let address = text(&sandbox.run(&["status", "-o", "json"]).json(), "listen");

    assert_eq!(sandbox.run(&["down"]).code, Some(0));
    assert_eq!(sandbox.run(&["up", "--listen", &address]).code, Some(0));
    let colour = ["get", "configmap", "settings", "-o", "jsonpath={.data.colour}"];
    assert_eq!(kubectl(&sandbox, &colour, ""), "green");
    let colour = [&["--kubeconfig", "old"], &colour[..]].concat();
    assert_eq!(kubectl(&sandbox, &colour, ""), "green");
    let again = fs::read(sandbox.data().join("pki/ca.pem")).expect("it must be there");
    assert!(authority == again, "the authority must stay");
}

#[test]
fn the_users_kubeconfig_keeps_what_is_in_it() {
    let mut sandbox = Sandbox::new();
    sandbox.write("first", OTHERS);
    sandbox.set("KUBECONFIG", "first:second");
    let up = sandbox.run(&UP);
    let stays =
        "context setpoint in first; your current context stays \"work\" (--switch changes it)";
    assert!(up.code == Some(0) && up.stdout.contains(stays), "{up:?}");
    let view = |path: &str| kubectl(&sandbox, &["config", "view", "--raw", "-o", path], "");
    assert_eq!(view("jsonpath={.current-context}"), "work");
    assert_eq!(view("jsonpath={.contexts[*].name}"), "setpoint work");
    assert_eq!(view("jsonpath={.users[?(@.name==\"work\")].user.token}"), "secret");
    kubectl(&sandbox, &["--context", "setpoint", "get", "namespaces"], "");
    assert!(!sandbox.work().join("second").exists());

    assert_eq!(sandbox.run(&["down"]).code, Some(0));
    assert_eq!(view("jsonpath={.contexts[*].name} {.clusters[*].name}"), "work work");
    assert_eq!(view("jsonpath={.users[?(@.name==\"work\")].user.token}"), "secret");
    assert_eq!(view("jsonpath={.current-context}"), "work");
}

#[test]
fn the_file_of_the_data_directory_is_no_place_to_merge_into() {
    let mut sandbox = Sandbox::new();
    assert_eq!(sandbox.run(&UP).code, Some(0));
    let own = sandbox.run(&["kubeconfig", "--path"]).stdout.trim().to_owned();
    sandbox.set("KUBECONFIG", own.clone());
    // Who exports it keeps a shell in which kubectl asks this cluster, over down and up.
    assert_eq!(sandbox.run(&["down"]).code, Some(0));
    let users = fs::read_to_string(sandbox.work().join("../home/.kube/config")).expect("a file");
    assert!(!users.contains("name: setpoint"), "it was taken out of the user's file: {users}");
    assert!(fs::read_to_string(&own).expect("a file").contains("current-context: setpoint"));
    assert_eq!(sandbox.run(&UP).code, Some(0));
    kubectl(&sandbox, &["get", "namespaces"], "");
    assert_eq!(sandbox.run(&["down"]).code, Some(0));
}

#[test]
fn every_data_directory_has_a_context_and_down_takes_back_its_own() {
    let sandbox = Sandbox::new();
    let view = |path: &str| kubectl(&sandbox, &["config", "view", "-o", path], "");
    assert_eq!(sandbox.run(&UP).code, Some(0));
    let data = sandbox.work().join("Second_One").display().to_string();
    let second = [&UP[..], &["--data-dir", &data, "--switch", "-o", "json"]].concat();
    let told = sandbox.run(&second).json();
    assert_eq!(told["context"], "setpoint-second-one", "{told}");
    assert_eq!(view("jsonpath={.current-context}"), "setpoint-second-one");
    for context in ["setpoint", "setpoint-second-one"] {
        kubectl(&sandbox, &["--context", context, "get", "namespaces"], "");
    }
    assert_eq!(sandbox.run(&["down", "--data-dir", &data]).code, Some(0));
    assert_eq!(view("jsonpath={.contexts[*].name}"), "setpoint");
    assert_eq!(view("jsonpath={.current-context}"), "");
    assert_eq!(sandbox.run(&["down"]).code, Some(0));
    assert_eq!(view("jsonpath={.contexts[*].name}"), "");
}

#[test]
fn a_kubeconfig_that_cannot_be_read_is_left_alone_and_the_program_runs() {
    let mut sandbox = Sandbox::new();
    sandbox.write("broken", "- not a kubeconfig\n");
    sandbox.set("KUBECONFIG", "broken");
    let up = sandbox.run(&UP);
    assert_eq!(up.code, Some(0), "{up:?}");
    assert!(up.stderr.contains("left alone") && up.stderr.contains("--kubeconfig"), "{up:?}");
    let text = fs::read_to_string(sandbox.work().join("broken")).expect("it must stay");
    assert_eq!(text, "- not a kubeconfig\n");
    assert_eq!(sandbox.run(&["status"]).code, Some(0));
}

#[test]
fn kubeconfigs_are_written_only_where_told() {
    let sandbox = Sandbox::new();
    let home = sandbox.work().join("../home/.kube");
    let started = sandbox.start(&["--kubeconfig-out", "out.yaml", "--components", "api"]);
    let out = sandbox.work().join("out.yaml");
    assert_eq!(text(&started.ready, "kubeconfig"), out.display().to_string());
    assert_eq!((mode(&out), mode(&sandbox.data().join("kubeconfig"))), (0o600, 0o600));
    kubectl(&sandbox, &["--kubeconfig", "out.yaml", "get", "namespaces"], "");
    assert_eq!(started.stop().0, Some(0));
    let up = sandbox.run(&[&UP[..], &["--no-kubeconfig"]].concat());
    assert_eq!(up.code, Some(0), "{up:?}");
    assert!(!home.join("config").exists());
    assert_eq!(sandbox.run(&["down"]).code, Some(0));
    let ended = sandbox.run(&["start", "--listen", "127.0.0.1:0", "--kubeconfig-out", "no/file"]);
    assert!(ended.error().contains("could not write the kubeconfig"), "{ended:?}");
}

#[test]
fn who_shows_nothing_may_ask_for_health_and_version_only() {
    let sandbox = Sandbox::new();
    let started = sandbox.start(&["--store", "memory"]);
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(started.get_anonymously(path, ""), (200, "ok".to_owned()), "{path}");
    }
    let verbose = started.get("/readyz?verbose");
    assert_eq!(started.get_anonymously("/readyz?verbose", ""), verbose);
    assert!(started.get_anonymously("/version", "").1.contains("+setpoint"));
    for path in ["/api/v1/namespaces", "/apis", "/metrics", "/readyz/store", "/statusz"] {
        let (status, body) = started.get_anonymously(path, "");
        assert_eq!(status, 403, "{path}: {body}");
        assert!(body.contains("system:anonymous"), "{path}: {body}");
    }
    for path in ["/debug/tasks", "/debug"] {
        assert_eq!(started.get_anonymously(path, "").0, 403, "{path}");
    }
    let token = "Authorization: Bearer nonsense\r\n";
    assert_eq!(started.get_anonymously("/healthz", token).0, 401);
}

#[test]
fn who_may_know_is_told_what_runs_in_the_process() {
    let sandbox = Sandbox::new();
    let started = sandbox.start(&["--store", "memory"]);
    let ours = ["--kubeconfig", &sandbox.data().join("kubeconfig").display().to_string()];
    let asked = [&ours[..], &["get", "--raw", "/debug/tasks"]].concat();
    let told: serde_json::Value =
        serde_json::from_str(&kubectl(&sandbox, &asked, "")).expect("JSON");
    let find = |kind: &str, name: &str| {
        let all = told["tasks"].as_array().expect("a list");
        let found = all.iter().find(|task| task["kind"] == kind && task["name"] == name);
        found.unwrap_or_else(|| panic!("{kind}/{name}: {told}")).clone()
    };
    assert_eq!(find("task", "api")["state"], "running");
    assert_eq!(find("controller", "deployment-controller")["state"], "running");
    assert_eq!(find("controller", "deployment-controller")["counts"]["waiting"], 0);
    assert!(find("cache", "pods.v1")["counts"]["revision"].as_u64() > Some(0), "{told}");
    assert!(find("requests", "watch")["counts"]["max"].as_u64() > Some(0), "{told}");
    let role = "create clusterrole looks --verb=get --non-resource-url=/debug/tasks";
    let role: Vec<&str> = role.split(' ').collect();
    kubectl(&sandbox, &[&ours[..], &role].concat(), "");
    let bind = ["create", "clusterrolebinding", "looks", "--clusterrole=looks", "--user=pat"];
    kubectl(&sandbox, &[&ours[..], &bind].concat(), "");
    let as_pat = [&asked[..], &["--as", "pat"]].concat();
    assert!(kubectl(&sandbox, &as_pat, "").contains("deployment-controller"));
    drop(started);
}

#[test]
fn two_programs_do_not_believe_each_others_keys() {
    let sandbox = Sandbox::new();
    let one = sandbox.start(&["--data-dir", "one", "--store", "memory"]);
    let two = sandbox.start(&["--data-dir", "two", "--store", "memory"]);
    let (ours, url) = (["--kubeconfig", "one/kubeconfig"], text(&two.ready, "url"));
    kubectl(&sandbox, &[&ours[..], &["get", "namespaces"]].concat(), "");
    kubectl(&sandbox, &["--kubeconfig", "two/kubeconfig", "get", "namespaces"], "");
    let elsewhere = [&ours[..], &["--server", &url, "get", "namespaces"]].concat();
    let error = refused(&sandbox, &elsewhere);
    assert!(error.contains("unknown authority"), "{error}");
    assert_eq!((one.stop().0, two.stop().0), (Some(0), Some(0)));
}

#[test]
fn a_watch_ends_cleanly_when_the_program_stops() {
    let sandbox = Sandbox::new();
    let started = sandbox.start(&[]);
    let printed = sandbox.work().join("printed");
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(sandbox.data().join("kubeconfig"));
    command.args(["get", "namespaces", "--watch", "-o", "name"]).current_dir(sandbox.work());
    command.env("HOME", sandbox.work()).stdin(Stdio::null());
    command.stdout(fs::File::create(&printed).expect("a file must be made"));
    let mut watch = command.spawn().expect("kubectl must start");
    line_of_file(&printed);
    let (code, stderr) = started.stop();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(!stderr.contains("did not end in time"), "{stderr}");
    assert!(watch.wait().expect("it must be ours").success());
}
