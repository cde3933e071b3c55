//! Installing, upgrading and uninstalling releases, downloaded from a server on this machine.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use serde_json::Value;

use crate::sandbox::Sandbox;

/// Template of the installer; `cargo xtask dist` fills in the URL and the key.
const INSTALLER: &str = include_str!("../../../packaging/install.sh");

/// Published releases, and a machine to install them on.
struct Releases {
    sandbox: Sandbox,
    url: String,
}

impl Releases {
    fn new() -> Releases {
        let sandbox = Sandbox::new();
        let root = sandbox.work().join("releases");
        fs::create_dir_all(&root).expect("a directory for releases");
        let url = serve_files(root);
        let releases = Releases { sandbox, url };
        releases.openssl(&["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "key"]);
        releases.openssl(&["ec", "-in", "key", "-pubout", "-out", "key.pub"]);
        releases
    }

    fn openssl(&self, words: &[&str]) {
        let output = Command::new("openssl").args(words).current_dir(self.sandbox.work()).output();
        let output = output.expect("openssl must run");
        assert!(output.status.success(), "{output:?}");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.sandbox.work().join(name)
    }

    fn prefix(&self) -> PathBuf {
        self.path("prefix")
    }

    /// Publishes a release whose program is a script that prints its version.
    fn publish(&self, version: &str) {
        let files = self.path("files");
        fs::create_dir_all(files.join("man")).expect("a directory");
        let program = format!("#!/bin/sh\necho setpoint {version}\n");
        fs::write(files.join("setpoint"), program).expect("a program");
        fs::set_permissions(files.join("setpoint"), fs::Permissions::from_mode(0o755))
            .expect("a program can be run");
        for name in ["setpoint.bash", "setpoint.zsh", "setpoint.fish", "LICENSE", "man/setpoint.1"]
        {
            fs::write(files.join(name), name).expect("a file");
        }
        let release = self.path(&format!("releases/download/v{version}"));
        fs::create_dir_all(&release).expect("a directory");
        let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let archive = release.join(format!("setpoint-{triple}.tar.gz"));
        let mut tar = Command::new("tar");
        tar.arg("-czf").arg(archive).arg("-C").arg(&files).arg(".");
        assert!(tar.status().expect("tar must run").success());
        fs::write(release.join("VERSION"), format!("{version}\n")).expect("a file");
        fs::write(release.join("install.sh"), self.installer()).expect("a file");
        self.sign(version);
        let latest = self.path("releases/latest");
        let _ = fs::remove_dir_all(&latest);
        fs::create_dir_all(&latest).expect("a directory");
        symlink(&release, latest.join("download")).expect("a link to the newest release");
    }

    /// Signs the checksums of a release as its files are now.
    fn sign(&self, version: &str) {
        let release = self.path(&format!("releases/download/v{version}"));
        let sums = "sha256sum $(ls | grep -v SHA256SUMS) > SHA256SUMS";
        let status = Command::new("sh").args(["-c", sums]).current_dir(&release).status();
        assert!(status.expect("sh must run").success());
        let (signature, file) = (release.join("SHA256SUMS.sig"), release.join("SHA256SUMS"));
        let text = |path: &Path| path.display().to_string();
        self.openssl(&["dgst", "-sha256", "-sign", "key", "-out", &text(&signature), &text(&file)]);
    }

    fn installer(&self) -> String {
        let key = fs::read_to_string(self.path("key.pub")).expect("the public key");
        INSTALLER.replace("@RELEASES@", &self.url).replace("@PUBLIC_KEY@", key.trim())
    }

    /// Runs the installer as `curl ... | sh` does.
    fn install(&self) -> Output {
        let mut shell = Command::new("sh")
            .env("SETPOINT_PREFIX", self.prefix())
            .current_dir(self.sandbox.work())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("sh must run");
        let mut input = shell.stdin.take().expect("a pipe");
        input.write_all(self.installer().as_bytes()).expect("sh reads the script");
        drop(input);
        shell.wait_with_output().expect("sh ends")
    }

    /// Replaces the installed script with the program under test, as if that were the release.
    fn put_real_program(&self) {
        let program = self.prefix().join("bin/setpoint");
        fs::remove_file(&program).expect("it was installed");
        let real = env!("CARGO_BIN_EXE_setpoint");
        if fs::hard_link(real, &program).is_err() {
            fs::copy(real, &program).expect("the program can be copied");
        }
    }

    /// Runs the installed program.
    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(self.prefix().join("bin/setpoint"));
        let like = self.sandbox.command(&[]);
        let set = like.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.args(words).env_clear().envs(set).current_dir(self.sandbox.work());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("SETPOINT_RELEASES", &self.url);
        command.stdin(Stdio::null()).output().expect("the program must run")
    }
}

/// Serves the files below a directory over HTTP until the test process ends.
fn serve_files(root: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream);
            let mut request = String::new();
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
                request.push_str(&line);
                line.clear();
            }
            let path = request.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
            let (status, body) = match fs::read(root.join(path)) {
                Ok(body) => ("200 OK", body),
                Err(_) => ("404 Not Found", Vec::new()),
            };
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
            );
            let stream = reader.get_mut();
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        }
    });
    format!("http://{address}")
}

#[track_caller]
fn succeeds(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn fails(output: &Output, reason: &str) {
    assert!(!output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(reason), "{text}");
}

#[test]
fn a_release_is_installed_upgraded_and_uninstalled_without_root() {
    let releases = Releases::new();
    releases.publish("0.0.9");
    let text = succeeds(&releases.install());
    assert!(text.contains("installed setpoint 0.0.9 as"), "{text}");
    assert!(text.contains("add it to your PATH"), "{text}");
    let prefix = releases.prefix();
    for file in ["bin/kubectl-setpoint", "share/man/man1/setpoint.1", "share/doc/setpoint/LICENSE"]
    {
        assert!(prefix.join(file).exists(), "{file}");
    }

    releases.put_real_program();
    let key = ["upgrade", "--key", "key.pub"];
    let json = [&key[..], &["--check", "-o", "json"]].concat();
    let report: Value = serde_json::from_str(&succeeds(&releases.run(&json))).expect("JSON");
    assert_eq!(report["state"], "current", "an older release is no upgrade: {report}");
    releases.publish("9.9.9");
    let report: Value = serde_json::from_str(&succeeds(&releases.run(&json))).expect("JSON");
    assert_eq!((&report["state"], &report["available"]), (&"available".into(), &"9.9.9".into()));
    let text = succeeds(&releases.run(&key));
    assert!(text.contains("to 9.9.9"), "{text}");
    assert_eq!(succeeds(&releases.run(&["version"])), "setpoint 9.9.9\n");

    releases.put_real_program();
    let text = succeeds(&releases.run(&["uninstall"]));
    assert!(text.contains("files below"), "{text}");
    let mut left = Command::new("find");
    let left = left.arg(&prefix).args(["-not", "-type", "d"]).output().expect("find must run");
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
}

#[test]
fn a_release_that_was_tampered_with_is_refused_and_nothing_is_installed() {
    let releases = Releases::new();
    releases.publish("9.9.9");
    let release = releases.path("releases/download/v9.9.9");
    let sums = fs::read_to_string(release.join("SHA256SUMS")).expect("the list");
    fs::write(release.join("SHA256SUMS"), format!("{sums}0  other\n")).expect("a file");
    fails(&releases.install(), "signature");
    assert!(!releases.prefix().exists());
    releases.sign("9.9.9");
    let archive = format!("setpoint-{}-unknown-linux-gnu.tar.gz", std::env::consts::ARCH);
    fs::write(release.join(archive), "another program").expect("a file");
    fails(&releases.install(), "checksum");
    assert!(!releases.prefix().exists());

    releases.publish("9.9.9");
    succeeds(&releases.install());
    releases.put_real_program();
    fails(&releases.run(&["upgrade"]), "built from source");
    fs::write(release.join("install.sh"), "touch stolen\n").expect("a file");
    fails(&releases.run(&["upgrade", "--key", "key.pub"]), "checksum");
    releases.openssl(&["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "key"]);
    releases.sign("9.9.9");
    fails(&releases.run(&["upgrade", "--key", "key.pub"]), "signature");
    assert!(!releases.path("stolen").exists());
}

#[test]
fn a_program_of_a_package_is_left_to_its_package_manager() {
    let sandbox = Sandbox::new();
    let ended = sandbox.run(&["uninstall"]);
    assert_ne!(ended.code, Some(0));
    assert!(ended.stderr.contains("was not installed with install.sh"), "{ended:?}");
    assert!(ended.stderr.contains("apt"), "{ended:?}");
}
