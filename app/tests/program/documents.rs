//! What the documents tell people to type, typed: every block of commands of the README and of the
//! pages below `docs/`, one page after the other in a home of its own.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::sandbox::Sandbox;

/// How the README calls the program; there it is built first.
const BY_CARGO: &str = "cargo run --release -- ";
/// What would run these tests again.
const NOT_TYPED: &str = "cargo xtask";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The commands of a page: the lines of its blocks that are marked `sh`.
fn commands(page: &str) -> String {
    let mut commands = String::new();
    let mut is_command = false;
    for line in page.lines() {
        match line.strip_prefix("```") {
            Some(language) => is_command = language == "sh",
            None if is_command && !line.starts_with(NOT_TYPED) => {
                commands.push_str(&line.replace(BY_CARGO, "setpoint "));
                commands.push('\n');
            }
            None => {}
        }
    }
    commands
}

fn type_all(page: &str) {
    let text = fs::read_to_string(root().join(page)).expect("the page is there");
    let sandbox = Sandbox::new();
    let programs = sandbox.work().join("../programs");
    fs::create_dir_all(&programs).expect("a directory");
    symlink(env!("CARGO_BIN_EXE_setpoint"), programs.join("setpoint")).expect("a link");
    // The pages speak of files as they are in the repository.
    let examples = root().join("examples").canonicalize().expect("there are examples");
    symlink(examples, sandbox.work().join("examples")).expect("a link");
    let path = std::env::var("PATH").unwrap_or_default();
    let script = format!("set -euo pipefail\nset -x\n{}", commands(&text));
    sandbox.write("typed.sh", &script);
    let shell = |arguments: &[&str]| {
        let mut shell = Command::new("timeout");
        shell.args(["240", "bash"]).args(arguments).current_dir(sandbox.work()).env_clear();
        shell.env("HOME", sandbox.work().join("../home"));
        shell.env("PATH", format!("{}:{path}", programs.display()));
        let ended = shell.stdin(Stdio::null()).output().expect("a shell");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (ended.status.code(), text(&ended.stdout), text(&ended.stderr))
    };
    let typed = shell(&["typed.sh"]);
    // Whatever came of it, nothing is left running.
    let down = shell(&["-c", "setpoint down --pods"]);
    assert_eq!(typed.0, Some(0), "{page}:\n{}\n{}", typed.1, typed.2);
    assert!(down.1.contains("nothing runs"), "{page} must end what it began: {down:?}");
}

#[test]
fn the_readme_does_what_it_says() {
    type_all("README.md");
}

#[test]
fn getting_started_does_what_it_says() {
    type_all("docs/getting-started.md");
}

#[test]
fn training_does_what_it_says() {
    type_all("docs/training.md");
}

#[test]
fn history_does_what_it_says() {
    type_all("docs/history.md");
}

#[test]
fn operators_does_what_it_says() {
    type_all("docs/operators.md");
}

#[test]
fn configuration_does_what_it_says() {
    type_all("docs/configuration.md");
}

#[test]
fn compatibility_does_what_it_says() {
    type_all("docs/compatibility.md");
}

#[test]
fn inference_does_what_it_says() {
    type_all("docs/inference.md");
}

#[test]
fn machines_does_what_it_says() {
    type_all("docs/machines.md");
}

#[test]
fn storage_does_what_it_says() {
    type_all("docs/storage.md");
}

/// Pages that have nothing to type.
#[test]
fn pages_for_contributors_have_no_commands_that_nobody_runs() {
    for page in ["docs/extending.md", "docs/releasing.md"] {
        let text = fs::read_to_string(root().join(page)).expect("the page is there");
        assert_eq!(commands(&text), "", "{page}");
    }
}

/// The table of keys is what the program says; SETPOINT_BLESS writes it.
#[test]
fn the_reference_is_that_of_the_program() {
    let path = root().join("docs/configuration.md");
    let page = fs::read_to_string(&path).expect("the page is there");
    let (begin, end) = ("<!-- reference: begin -->\n", "<!-- reference: end -->\n");
    let (before, rest) = page.split_once(begin).expect("it begins");
    let (_, after) = rest.split_once(end).expect("it ends");
    let table = Sandbox::new().run(&["config", "reference"]).stdout;
    let wanted = format!("{before}{begin}{table}{end}{after}");
    if std::env::var_os("SETPOINT_BLESS").is_some() {
        fs::write(&path, &wanted).expect("it is written");
    } else {
        assert!(page == wanted, "run this test with SETPOINT_BLESS=1");
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    let pages = fs::read_dir(root().join("docs")).expect("the pages").flatten();
    let pages = pages.map(|page| page.path()).filter(|path| path.extension().is_some());
    let first = ["README.md", "README.zh-CN.md"].map(|name| root().join(name));
    for page in pages.chain(first) {
        let text = fs::read_to_string(&page).expect("a page");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            let is_file = !file.is_empty() && !file.contains("://");
            let target = page.parent().expect("a directory").join(file);
            assert!(!is_file || target.exists(), "{}: {link}", page.display());
        }
    }
}

#[test]
fn every_page_is_typed_and_named_by_the_first() {
    let this = include_str!("documents.rs");
    let first = fs::read_to_string(root().join("docs/README.md")).expect("the first page");
    for page in fs::read_dir(root().join("docs")).expect("the pages").flatten() {
        let name = page.file_name().into_string().expect("a name");
        if name == "README.md" || !name.ends_with(".md") {
            continue;
        }
        assert!(first.contains(&format!("({name})")), "{name} is not named by docs/README.md");
        assert!(this.contains(&format!("\"docs/{name}\"")), "{name} is not typed by a test");
    }
}
