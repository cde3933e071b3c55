//! What the documents tell people to type, typed: every block of commands of the README and of the
//! pages below `docs/`, one page after the other in a home of its own.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::booted::serve;
use crate::node::Machine;
use crate::sandbox::Sandbox;

/// How the README calls the program; there it is built first.
const BY_CARGO: &str = "cargo run --release -- ";
/// A kubeconfig whose current context is a cluster where nobody answers.
const OTHER_CLUSTER: &str = "\
apiVersion: v1
kind: Config
current-context: work
clusters: [{name: work, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: me, user: {token: none}}]
contexts: [{name: work, context: {cluster: work, user: me}}]
";
/// A user without privileges on any host.
const NOBODY: u32 = 65_534;
const PATH_OF_USERS: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
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
    type_text(page, &text, "", None);
}

/// Types the commands of a page as a user who is not root.
fn type_as_nobody(page: &str) {
    let text = fs::read_to_string(root().join(page)).expect("the page is there");
    type_text(page, &text, "", Some(NOBODY));
}

/// Types the commands of a page, in a directory with a configuration.
fn type_text(page: &str, text: &str, configuration: &str, user: Option<u32>) {
    // What a page that fails has begun goes with it.
    let sandbox = user.map_or_else(Sandbox::new, Sandbox::of_user);
    let host = Machine { sandbox, started: None };
    let sandbox = &host.sandbox;
    if !configuration.is_empty() {
        sandbox.write(".config.yaml", configuration);
    }
    let programs = sandbox.work().join("../programs");
    fs::create_dir_all(&programs).expect("a directory");
    let program = match user {
        Some(_) => sandbox.work().join("../setpoint"),
        None => PathBuf::from(env!("CARGO_BIN_EXE_setpoint")),
    };
    symlink(program, programs.join("setpoint")).expect("a link");
    // The pages speak of files as they are in the repository, which the user may not enter.
    let examples = root().join("examples").canonicalize().expect("there are examples");
    let copy = Command::new("cp").arg("-r").arg(examples).arg(sandbox.work()).status();
    assert!(copy.expect("cp runs").success());
    let path = match user {
        Some(_) => {
            copy_program("kubectl", &programs);
            PATH_OF_USERS.to_owned()
        }
        None => std::env::var("PATH").unwrap_or_default(),
    };
    // Whoever tries us has a cluster of their own, which no page may write to.
    let home = sandbox.work().join("../home");
    fs::create_dir_all(home.join(".kube")).expect("a directory");
    fs::write(home.join(".kube/config"), OTHER_CLUSTER).expect("a kubeconfig");
    let script = format!("set -euo pipefail\nset -x\n{}", commands(text));
    sandbox.write("typed.sh", &script);
    if let Some(user) = user {
        let owner = format!("{user}:{user}");
        let places = [sandbox.work(), home.clone()];
        let given = Command::new("chown").args(["-R", &owner]).args(places).status();
        assert!(given.expect("chown runs").success());
    }
    let shell = |arguments: &[&str]| {
        let mut shell = match user {
            None => Command::new("timeout"),
            Some(user) => {
                let mut shell = sandbox.as_user(user);
                shell.arg("timeout");
                shell
            }
        };
        shell.args(["240", "bash"]).args(arguments).current_dir(sandbox.work()).env_clear();
        shell.env("HOME", &home);
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
    let left = fs::read_to_string(home.join(".kube/config")).expect("a kubeconfig");
    assert!(left.contains("current-context: work"), "{page} changed the user's context: {left}");
    assert!(!left.contains("name: setpoint"), "{page} left a context behind: {left}");
}

/// Copies a program to where another user finds it.
fn copy_program(name: &str, to: &Path) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|directory| directory.join(name));
    let found = places.find(|file| file.is_file()).expect("the program is on PATH");
    fs::copy(found, to.join(name)).expect("it is copied");
}

#[test]
fn an_ordinary_user_can_type_the_first_pages() {
    type_as_nobody("docs/getting-started.md");
    type_as_nobody("docs/training.md");
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

/// Its machine boots the guest of these tests, from a server on this machine.
#[test]
fn machines_does_what_it_says() {
    let page = "docs/machines.md";
    let image = "https://example.com/cloud.qcow2";
    let text = fs::read_to_string(root().join(page)).expect("the page is there");
    assert!(text.contains(image), "{text}");
    let url = serve(&servers::guest_image(&root().join("target")).expect("an image"));
    let settings = "machines: {images: everything}\n";
    type_text(page, &text.replace(image, &url), settings, None);
}

#[test]
fn console_does_what_it_says() {
    type_all("docs/console.md");
}

/// What is run of the English page stands for the other, too.
#[test]
fn both_readmes_have_the_same_commands() {
    let bare = |page: &str| -> Vec<String> {
        let text = fs::read_to_string(root().join(page)).expect("the page is there");
        let words = |line: &str| line.split(" #").next().unwrap_or_default().trim().to_owned();
        commands(&text).lines().map(words).collect()
    };
    let english = bare("README.md");
    assert!(english.len() > 4, "{english:?}");
    assert_eq!(english, bare("README.zh-CN.md"));
}

/// The first words of lines that are commands.
const PROGRAMS: [&str; 8] = ["setpoint", "kubectl", "helm", "cargo", "pip", "docker", "git", "ssh"];
/// Commands that are not run: the page, the first of them in their block, and why.
const NOT_RUN: [(&str, &str, &str); 14] = [
    ("docs/training.md", "pip install", "fetches PyTorch; `cargo xtask peers` runs the scripts"),
    ("README.md", "setpoint demo", "follows a download; installation.rs installs a release"),
    ("README.zh-CN.md", "setpoint demo", "follows a download; installation.rs installs a release"),
    ("docs/installation.md", "setpoint upgrade", "wants releases; installation.rs publishes some"),
    ("docs/installation.md", "cargo build", "builds for a quarter of an hour"),
    ("docs/machines.md", "setpoint vm console web", "wants a terminal; booted.rs plays one"),
    (
        "docs/inference.md",
        "pip install",
        "fetches from PyPI; inference_examples.rs serves the file",
    ),
    (
        "docs/operators.md",
        "docker build",
        "builds for a quarter of an hour; chart.rs reads the file",
    ),
    ("docs/operators.md", "helm install", "wants Helm; chart.rs compares the templates"),
    ("docs/operators.md", "kubectl logs -n dynamo-system", "wants a cluster that pulls images"),
    ("docs/storage.md", "setpoint up", "wants a MySQL at its usual port; stores.rs has one"),
    ("docs/releasing.md", "cargo xtask dist", "builds for a quarter of an hour"),
    ("docs/releasing.md", "git checkout", "builds for a quarter of an hour"),
    ("docs/console.md", "ssh -L", "wants another machine"),
];
/// The chart's own page says what docs/operators.md says.
const SAME: (&str, &str) = ("charts/setpoint-operators/README.md", "docs/operators.md");

#[test]
fn commands_that_nobody_runs_are_few_and_have_a_reason() {
    let mut pages: Vec<String> = fs::read_dir(root().join("docs"))
        .expect("the pages")
        .map(|page| format!("docs/{}", page.expect("a page").file_name().display()))
        .filter(|page| page.ends_with(".md"))
        .collect();
    pages.extend(["README.md", "README.zh-CN.md", SAME.0, "CONTRIBUTING.md"].map(str::to_owned));
    pages
        .extend(["training", "inference", "machines"].map(|it| format!("examples/{it}/README.md")));
    let mut unused: Vec<&str> = NOT_RUN.iter().map(|(_, command, _)| *command).collect();
    for page in &pages {
        let text = fs::read_to_string(root().join(page)).expect("a page");
        for block in text.split("\n```").skip(1).step_by(2).filter(|one| !one.starts_with("sh\n")) {
            let is_command =
                |line: &&str| PROGRAMS.iter().any(|it| line.split(' ').next() == Some(it));
            let Some(command) = block.lines().skip(1).find(is_command) else { continue };
            let known = NOT_RUN.iter().find(|(of, it, _)| of == page && command.starts_with(it));
            let is_told = known.is_some() || page == SAME.0;
            assert!(is_told, "{page}: mark it `sh`, or say why not: {command}");
            unused.retain(|it| known.is_none_or(|(_, known, _)| it != known));
        }
    }
    assert!(unused.is_empty(), "gone from the pages: {unused:?}");
    let same = |page: &str| -> Vec<String> {
        let text = fs::read_to_string(root().join(page)).expect("a page");
        let lines = text
            .lines()
            .filter(|line| line.contains("--definitions -n") || line.starts_with("helm"));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(same(SAME.0), same(SAME.1));
}

#[test]
fn storage_does_what_it_says() {
    type_all("docs/storage.md");
}

/// Pages that have nothing to type.
#[test]
fn pages_for_contributors_have_no_commands_that_nobody_runs() {
    for page in [
        "docs/extending.md",
        "docs/releasing.md",
        "docs/benchmarks.md",
        "docs/errors.md",
        "docs/installation.md",
        "docs/coming-from.md",
    ] {
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

/// The page of errors is what the program says; SETPOINT_BLESS writes it.
#[test]
fn the_page_of_errors_is_that_of_the_program() {
    let path = root().join("docs/errors.md");
    let wanted = Sandbox::new().run(&["errors", "--document"]).stdout;
    if std::env::var_os("SETPOINT_BLESS").is_some() {
        fs::write(&path, &wanted).expect("it is written");
    }
    let page = fs::read_to_string(&path).unwrap_or_default();
    assert!(page == wanted, "run this test with SETPOINT_BLESS=1");
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
