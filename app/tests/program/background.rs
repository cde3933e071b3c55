//! `up`, `status`, `down`.

use std::fs;
use std::thread;

use crate::sandbox::{Sandbox, contents, get, text};

const ANY_PORT: [&str; 3] = ["up", "--listen", "127.0.0.1:0"];

#[test]
fn up_status_down() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.run(&["status"]).code, Some(5));

    let up = sandbox.run(&ANY_PORT);
    assert_eq!((up.code, up.stderr.as_str()), (Some(0), ""));
    for part in ["setpoint ", "store ", "api ", "control ", "runtime ", "node ", "ready in "] {
        assert!(up.stdout.contains(part), "{part}: {up:?}");
    }

    let status = sandbox.run(&["status"]);
    assert_eq!(status.code, Some(0));
    assert!(status.stdout.contains("running (ok)"), "{status:?}");
    assert!(status.stdout.contains("store    embedded, revision "), "{status:?}");
    assert!(status.stdout.contains("nodes    1 of 1 ready"), "{status:?}");

    let down = sandbox.run(&["down"]);
    assert_eq!(down.code, Some(0));
    assert!(down.stdout.starts_with("stopped process "), "{down:?}");

    let down = sandbox.run(&["down"]);
    assert_eq!(down.code, Some(0));
    assert!(down.stdout.starts_with("nothing runs on "), "{down:?}");
    assert_eq!(sandbox.run(&["status"]).code, Some(5));
    let log = fs::read_to_string(sandbox.data().join("setpoint.log")).expect("there must be a log");
    assert!(log.contains("stopped"), "it must have stopped cleanly: {log}");
}

#[test]
fn up_status_down_as_json() {
    let sandbox = Sandbox::new();
    let up = sandbox.run(&[&ANY_PORT[..], &["-o", "json", "--store", "memory"]].concat()).json();
    assert_eq!(text(&up, "state"), "started");
    assert_eq!(get(&sandbox.data(), "/readyz"), (200, "ok".to_owned()));

    let status = sandbox.run(&["-o", "json", "status"]).json();
    for key in ["pid", "url", "kubeconfig", "data_dir", "node", "version", "process_began_ticks"] {
        assert!(!status[key].is_null(), "{key}");
    }
    assert_eq!(status["pid"], up["pid"]);
    assert_eq!(text(&status, "state"), "running");
    assert_eq!(text(&status, "health"), "ok");
    assert_eq!(text(&status, "store"), "memory");
    assert!(status["revision"].as_u64() > Some(0), "{status}");
    assert!(text(&status, "since").ends_with('Z'));

    let down = sandbox.run(&["down", "-o", "json"]).json();
    assert_eq!((text(&down, "state"), &down["pid"]), ("stopped".to_owned(), &up["pid"]));
    let down = sandbox.run(&["down", "-o", "json"]).json();
    assert_eq!(text(&down, "state"), "not-running");
    let status = sandbox.run(&["status", "-o", "json"]);
    assert_eq!((status.code, text(&status.json(), "state")), (Some(5), "not-running".to_owned()));
}

#[test]
fn a_second_up_says_that_it_runs_and_touches_nothing() {
    let sandbox = Sandbox::new();
    // Nothing else writes to the store meanwhile.
    let api_alone = ["-o", "json", "--components", "api"];
    let first = sandbox.run(&[&ANY_PORT[..], &api_alone].concat()).json();
    let before = contents(&sandbox.data());
    let second = sandbox.run(&["up"]);
    assert_eq!(second.code, Some(0));
    assert!(second.stdout.starts_with("already running (up "), "{second:?}");
    assert!(second.stdout.contains(&text(&first, "url")), "{second:?}");
    let second = sandbox.run(&["up", "-o", "json"]).json();
    assert_eq!((text(&second, "state"), &second["pid"]), ("already-running".into(), &first["pid"]));
    assert_eq!(contents(&sandbox.data()), before);
    assert_eq!(sandbox.run(&["down"]).code, Some(0));
}

#[test]
fn of_several_up_at_once_one_starts_and_the_others_find_it() {
    let sandbox = Sandbox::new();
    let reports: Vec<_> = thread::scope(|scope| {
        let up = || sandbox.run(&[&ANY_PORT[..], &["-o", "json"]].concat()).json();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(up)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no `up` may fail")).collect()
    });
    let started = reports.iter().filter(|report| text(report, "state") == "started");
    assert_eq!(started.count(), 1);
    assert!(reports.iter().all(|report| report["pid"] == reports[0]["pid"]), "{reports:?}");
    assert_eq!(sandbox.run(&["down"]).code, Some(0));
}

#[test]
fn up_tells_why_the_program_failed() {
    let sandbox = Sandbox::new();
    let started = sandbox.start(&["--data-dir", "other", "--store", "memory"]);
    let ended = sandbox.run(&["up", "--listen", &started.address()]);
    let error = ended.error();
    assert!(error.contains("could not listen on") && error.contains("--listen"), "{error}");
    assert_eq!(sandbox.run(&["status"]).code, Some(5));
    assert_eq!(started.stop().0, Some(0));
}

#[test]
fn down_stops_a_program_in_the_foreground_too() {
    let sandbox = Sandbox::new();
    let started = sandbox.start(&["--store", "memory"]);
    let down = thread::scope(|scope| {
        let down = scope.spawn(|| sandbox.run(&["down"]));
        assert_eq!(started.wait().0, Some(0));
        down.join().expect("down must end")
    });
    assert_eq!(down.code, Some(0), "{down:?}");
}

#[test]
fn a_process_that_only_has_the_same_id_is_left_alone() {
    let sandbox = Sandbox::new();
    let started = sandbox.start(&[]);
    let path = sandbox.data().join("setpoint.json");
    let file = fs::read_to_string(&path).expect("there must be a file");
    // As if the process had ended and another one, begun later, had got its id.
    let ticks = started.ready["process_began_ticks"].as_u64().expect("it must be a number");
    let earlier = file.replace(&ticks.to_string(), &(ticks - 1).to_string());
    fs::write(&path, earlier).expect("it must be writable");
    assert_eq!(sandbox.run(&["status"]).code, Some(5));
    assert_eq!(sandbox.run(&["down"]).code, Some(0));
    assert_eq!(started.get("/readyz").0, 200);
    assert_eq!(started.stop().0, Some(0));
}

#[test]
fn data_is_deleted_where_that_is_asked_for_and_what_is_not_ours_stays() {
    let sandbox = Sandbox::new();
    let none = sandbox.run(&["down", "--delete-data"]);
    assert_eq!(none.code, Some(5), "{none:?}");
    assert_eq!(sandbox.run(&ANY_PORT).code, Some(0));
    let job = "--context setpoint create job idle --image=none -- sleep 600";
    assert_eq!(sandbox.kubectl(&job.split(' ').collect::<Vec<_>>(), "").code, Some(0));
    // Nobody sits at a terminal, so nobody is asked.
    let down = sandbox.run(&["down", "--delete-data"]);
    assert!(down.code == Some(0) && down.stdout.contains("removed what was stored"), "{down:?}");
    assert!(!sandbox.data().exists(), "{:?}", contents(&sandbox.data()).keys());
    assert_eq!(sandbox.run(&[&ANY_PORT[..], &["--components", "api"]].concat()).code, Some(0));
    fs::write(sandbox.data().join("notes"), "mine").expect("a file");
    assert_eq!(sandbox.run(&["down", "--delete-data", "--yes"]).code, Some(0));
    let left: Vec<_> = contents(&sandbox.data()).into_keys().collect();
    assert_eq!(left, [sandbox.data().join("notes")]);
}

#[test]
fn what_up_suggests_works() {
    let sandbox = Sandbox::new();
    let up = sandbox.run(&ANY_PORT);
    assert_eq!(up.code, Some(0), "{up:?}");
    let suggested = up.stdout.split("Try:").nth(1).expect("it must suggest something");
    for line in suggested.lines().map(str::trim).filter(|line| line.starts_with("kubectl")) {
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        if words.contains(&"logs") {
            let wait = ["--context", "setpoint", "wait", "--for=condition=complete", "job/hello"];
            assert_eq!(sandbox.kubectl(&wait, "").code, Some(0));
        }
        let ended = sandbox.kubectl(&words, "");
        assert_eq!(ended.code, Some(0), "{line}: {ended:?}");
    }
    assert_eq!(sandbox.run(&["down"]).code, Some(0));
}

#[test]
fn a_taken_port_is_no_reason_not_to_start() {
    let sandbox = Sandbox::new();
    // Whoever has the usual port, we or another, the second to come gets another one.
    let _taken = std::net::TcpListener::bind("127.0.0.1:6443");
    let up = sandbox.run(&["up", "-o", "json", "--components", "api", "--store", "memory"]);
    assert_eq!(up.code, Some(0), "{up:?}");
    assert_ne!(text(&up.json(), "url"), "https://127.0.0.1:6443");
    assert_eq!(sandbox.run(&["down"]).code, Some(0));
}

#[test]
fn the_doctor_has_a_remedy_for_what_is_not_well() {
    let sandbox = Sandbox::new();
    let report = sandbox.run(&["doctor", "-o", "json"]);
    assert_eq!(report.code, Some(0), "{report:?}");
    let report = report.json();
    let findings = report["findings"].as_array().expect("findings");
    assert!(findings.len() > 10, "{report}");
    for finding in findings {
        let is_well = text(finding, "verdict") == "well";
        assert_eq!(is_well, finding["remedy"].is_null(), "{finding}");
    }
    let unwell = sandbox.run(&["doctor", "--data-dir", "/proc/nowhere"]);
    assert_eq!(unwell.code, Some(1), "{unwell:?}");
    assert!(unwell.stdout.contains("to do: choose another directory"), "{unwell:?}");
}

#[test]
fn pods_outlive_down_unless_it_says_pods() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.run(&ANY_PORT).code, Some(0));
    let job = "--context setpoint create job idle --image=none -- sleep 600";
    let words: Vec<&str> = job.split(' ').collect();
    assert_eq!(sandbox.kubectl(&words, "").code, Some(0));
    let wait = "--context setpoint wait --for=jsonpath={.status.ready}=1 job/idle --timeout=20s";
    let words: Vec<&str> = wait.split(' ').collect();
    assert_eq!(sandbox.kubectl(&words, "").code, Some(0));
    let down = sandbox.run(&["down", "-o", "json"]).json();
    assert_eq!(down["containers"], serde_json::json!({"count": 1, "are_stopped": false}));
    let down = sandbox.run(&["down", "--pods"]);
    assert!(down.stdout.ends_with("stopped 1 container\n"), "{down:?}");
    let down = sandbox.run(&["down", "-o", "json"]).json();
    assert_eq!(down["containers"]["count"], 0);
}
