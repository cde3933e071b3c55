//! Surroundings in which the program cannot do its work, or only part of it: each is named, with
//! what to do about it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::sandbox::{Sandbox, end};

const NOBODY: u32 = 65_534;
const UP: [&str; 5] = ["up", "--runtime", "process", "--listen", "127.0.0.1:0"];

#[test]
fn a_home_directory_that_is_missing_or_cannot_be_written_to_is_named() {
    let sandbox = Sandbox::new();
    let mut without = sandbox.command(&UP);
    without.env_remove("HOME").env_remove("XDG_DATA_HOME");
    let ended = end(without);
    assert_ne!(ended.code, Some(0), "{ended:?}");
    assert!(ended.error().contains("HOME is not set; choose one with --data-dir DIR"), "{ended:?}");
    let sandbox = Sandbox::of_user(NOBODY);
    let home = sandbox.work().join("../home");
    fs::set_permissions(&home, fs::Permissions::from_mode(0o555)).expect("it is there");
    let ended = sandbox.run(&UP);
    assert_ne!(ended.code, Some(0), "{ended:?}");
    let error = ended.error();
    assert!(error.contains("could not make the data directory"), "{ended:?}");
    assert!(error.contains("choose another with --data-dir DIR: Permission denied"), "{ended:?}");
    assert_eq!(fs::read_dir(&home).expect("readable").count(), 0, "nothing is half done");
    fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).expect("it is there");
}

#[test]
fn without_python_everything_else_runs_and_a_second_cluster_has_a_context_of_its_own() {
    let mut sandbox = Sandbox::new();
    sandbox.hide_program("python3");
    let up = sandbox.run(&UP);
    assert_eq!(up.code, Some(0), "{up:?}");
    let none = "none: no python3 on the server's PATH; choose one with `setpoint up --python PATH`";
    assert!(up.stdout.contains(none) || up.stderr.contains(none), "{up:?}");
    assert!(sandbox.run(&["status"]).stdout.contains(none));
    sandbox.write("job.py", "print(1)");
    let train = sandbox.run(&["train", "job.py"]);
    assert_ne!(train.code, Some(0), "{train:?}");
    assert!(train.error().contains("no python3 was found on your PATH"), "{train:?}");
    // Another cluster of the same user.
    let again = sandbox.run(&UP);
    assert!(again.stdout.contains("already running"), "{again:?}");
    let other = sandbox.work().join("other").display().to_string();
    let in_other = ["--data-dir", other.as_str()];
    let second = sandbox.run(&[&UP[..], &in_other].concat());
    assert_eq!(second.code, Some(0), "{second:?}");
    let told = format!("{}{}", second.stdout, second.stderr);
    let context = "context setpoint-other in";
    assert!(told.contains(context) && told.contains("stays \"setpoint\""), "{told}");
    let urls = [&[][..], &in_other].map(|which| {
        let status = sandbox.run(&[&["status", "-o", "json"][..], which].concat()).json();
        status["url"].as_str().unwrap_or_default().to_owned()
    });
    assert!(urls[0] != urls[1] && urls.iter().all(|url| url.starts_with("https:")), "{urls:?}");
    for which in [&in_other[..], &[]] {
        let down = sandbox.run(&[&["down", "--pods"][..], which].concat());
        assert_eq!(down.code, Some(0), "{down:?}");
    }
}
