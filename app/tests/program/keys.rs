//! Keys of a cluster: listed, rotated while it runs and while it does not, and revoked.

use std::fs;

use tokio::time::Instant;

use crate::sandbox::{DEADLINE, Sandbox, text};

#[test]
fn keys_are_listed_rotated_and_revoked() {
    let sandbox = Sandbox::new();
    let none = sandbox.run(&["keys", "ls"]);
    assert_eq!(none.code, Some(5), "{none:?}");
    let started = sandbox.start(&["--components", "api"]);
    let kubeconfig = text(&started.ready, "kubeconfig");
    let leaked = fs::read_to_string(&kubeconfig).expect("a kubeconfig");
    sandbox.write("leaked.yaml", &leaked);
    let asks = |kubeconfig: &str| {
        sandbox.kubectl(&["--kubeconfig", kubeconfig, "get", "namespaces", "-o", "name"], "")
    };
    assert_eq!(asks("leaked.yaml").code, Some(0));
    let listed = sandbox.run(&["keys", "ls", "-o", "json"]).json();
    let names = |listed: &serde_json::Value| -> Vec<String> {
        let keys = listed["keys"].as_array().expect("keys");
        keys.iter().map(|key| format!("{} {}", text(key, "name"), text(key, "use"))).collect()
    };
    let first = names(&listed);
    assert_eq!(first, ["ca active", "serving active", "tokens active", "secrets active"]);

    let dry = sandbox.run(&["keys", "rotate", "admin", "--dry-run"]);
    assert!(dry.stdout.starts_with("admin would be rotated"), "{dry:?}");
    assert_eq!(asks("leaked.yaml").code, Some(0), "a dry run changes nothing");
    let rotated = sandbox.run(&["keys", "rotate", "admin", "-o", "json"]);
    assert_eq!(rotated.code, Some(0), "{rotated:?}");
    assert_eq!(rotated.json()["dryRun"], false);
    let began = Instant::now();
    while fs::read_to_string(&kubeconfig).expect("a kubeconfig") == leaked {
        assert!(began.elapsed() < DEADLINE, "the kubeconfig is not replaced");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let refused = asks("leaked.yaml");
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(refused.stderr.contains("Unauthorized") || refused.stderr.contains("logged in"));
    assert_eq!(asks(&kubeconfig).code, Some(0));

    // The others take effect at the next start; clients of the former authority go on.
    for key in ["ca", "tokens", "secrets"] {
        let rotated = sandbox.run(&["keys", "rotate", key]);
        assert_eq!(rotated.code, Some(0), "{rotated:?}");
        assert!(rotated.stdout.contains("restart the cluster"), "{rotated:?}");
    }
    let before = fs::read_to_string(&kubeconfig).expect("a kubeconfig");
    assert_eq!(asks(&kubeconfig).code, Some(0));
    assert_eq!(started.stop().0, Some(0));
    let address = before.lines().find_map(|line| line.trim().strip_prefix("server: https://"));
    let address = address.expect("an address").trim_matches('"').to_owned();
    let again = ["start", "--components", "api", "--listen", &address, "-o", "json"];
    let started = sandbox.start_command(&again);
    sandbox.write("before.yaml", &before);
    let old = asks("before.yaml");
    assert_eq!(old.code, Some(0), "a client of the former authority: {old:?}");
    assert_ne!(asks("leaked.yaml").code, Some(0), "revoked for good");
    assert_eq!(asks(&text(&started.ready, "kubeconfig")).code, Some(0));
    let listed = sandbox.run(&["keys", "ls", "-o", "json"]).json();
    let expected = ["ca active", "ca former", "serving active", "tokens active", "tokens former"];
    assert_eq!(names(&listed)[..5], expected);
    assert_eq!(started.stop().0, Some(0));
}
