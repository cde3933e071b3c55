//! A place to run the program in: directories of its own, an environment of its own, and limits on
//! how long anything may take.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::Value;
use tokio::time::Instant;

/// Long enough for a busy machine; nothing takes so long when all is well.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Runs a program where `/dev/net/tun` can be opened by everybody.
const WITH_TUNNEL: &str = "mount -t tmpfs none \"$0\" && mknod -m 666 \"$0/tun\" c 10 200 && \
                           mount --bind \"$0/tun\" /dev/net/tun && exec \"$@\"";

const POLL: Duration = Duration::from_millis(2);

/// A directory that is gone when the test has passed.
pub struct Sandbox {
    root: PathBuf,
    variables: Vec<(String, String)>,
    /// Who runs the program, if it is somebody else.
    user: Option<u32>,
}

/// A program that has ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// A program that runs in the foreground and is ready.
pub struct Started {
    child: Child,
    pub ready: Value,
    stderr: mpsc::Receiver<String>,
}

impl Sandbox {
    pub fn new() -> Sandbox {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("program-{}-{number}", std::process::id());
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        for directory in ["home", "work"] {
            fs::create_dir_all(root.join(directory)).expect("the sandbox must be made");
        }
        // Whatever else the machine has, pods are processes unless a test says otherwise.
        let variables = vec![("SETPOINT_RUNTIME".to_owned(), "process".to_owned())];
        Sandbox { root, variables, user: None }
    }

    /// A place where another user runs the program; to be called by root. It has a copy of the
    /// program, because the original may be where only its owner may go.
    pub fn of_user(user: u32) -> Sandbox {
        let mut sandbox = Sandbox::new();
        let name = sandbox.root.file_name().expect("it has a name").to_owned();
        let _ = fs::remove_dir_all(&sandbox.root);
        sandbox.root = std::env::temp_dir().join(name);
        for directory in ["home", "work", "devices"] {
            fs::create_dir_all(sandbox.root.join(directory)).expect("the sandbox must be made");
        }
        let copy = sandbox.root.join("setpoint");
        fs::copy(env!("CARGO_BIN_EXE_setpoint"), copy).expect("the program must be copied");
        let paths = ["", "home", "work", "setpoint"].map(|name| sandbox.root.join(name));
        for path in paths {
            std::os::unix::fs::chown(path, Some(user), Some(user)).expect("it must be given");
        }
        sandbox.user = Some(user);
        sandbox
    }

    /// Runs everything with a search path on which a program is not found.
    pub fn hide_program(&mut self, program: &str) {
        let programs = self.root.join("programs");
        fs::create_dir_all(&programs).expect("the directory must be made");
        for directory in ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"] {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                if entry.file_name() != program {
                    // The first of a name counts, as on a search path.
                    let link = programs.join(entry.file_name());
                    let _ = std::os::unix::fs::symlink(entry.path(), link);
                }
            }
        }
        self.set("PATH", programs.display().to_string());
    }

    /// Sets a variable for everything run from here on.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.variables.push((name.to_owned(), value.into()));
    }

    /// The directory the program runs in.
    pub fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    /// Where the program keeps its data when nothing else is said.
    pub fn data(&self) -> PathBuf {
        self.root.join("home/.local/share/setpoint")
    }

    /// Writes a file below the working directory.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.work().join(name);
        let directory = path.parent().expect("a file must be in a directory");
        fs::create_dir_all(directory).expect("the directory must be made");
        fs::write(path, text).expect("the file must be written");
    }

    /// Returns a command that runs what is added to it as a user. Its tunnel device can be opened
    /// by everybody, as on most systems.
    pub fn as_user(&self, user: u32) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "slave", "sh", "-c", WITH_TUNNEL]);
        command.arg(self.root.join("devices")).arg("setpriv");
        command.args(["--reuid", &user.to_string(), "--regid", &user.to_string()]);
        command.args(["--clear-groups", "--"]);
        command
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = match self.user {
            None => Command::new(env!("CARGO_BIN_EXE_setpoint")),
            Some(user) => {
                let mut command = self.as_user(user);
                command.arg(self.root.join("setpoint"));
                command
            }
        };
        command.args(arguments).current_dir(self.work()).env_clear();
        command.env("HOME", self.root.join("home"));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null());
        command
    }

    /// The processes of a program that were started here: they work here, or were told of a place
    /// here.
    pub fn processes(&self, program: &str) -> Vec<String> {
        let here = self.root.display().to_string();
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let is_one = |pid: &String| {
            let place = PathBuf::from(format!("/proc/{pid}"));
            let line = fs::read(place.join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            let works_here = fs::read_link(place.join("cwd")).is_ok_and(|at| at.starts_with(&here));
            let name = line.split('\0').next().unwrap_or_default();
            name.contains(program) && (works_here || line.contains(&here))
        };
        let pids = all.filter_map(|entry| entry.file_name().into_string().ok());
        pids.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit())).filter(is_one).collect()
    }

    /// Runs a command that ends by itself.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        end(self.command(arguments))
    }

    /// Runs kubectl as the user would, with a manifest on its standard input.
    pub fn kubectl(&self, arguments: &[&str], manifest: &str) -> Ended {
        self.write("manifest.yaml", manifest);
        let mut command = Command::new("kubectl");
        command.args(arguments).current_dir(self.work()).env_clear();
        command.env("HOME", self.root.join("home"));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let manifest = fs::File::open(self.work().join("manifest.yaml"));
        command.stdin(manifest.expect("the manifest must be there"));
        end(command)
    }

    /// Starts in the foreground on a free port and waits until it is ready.
    pub fn start(&self, arguments: &[&str]) -> Started {
        let start = ["start", "--listen", "127.0.0.1:0", "-o", "json"];
        self.start_command(&[&start, arguments].concat())
    }

    /// Starts a command that runs in the foreground and says when it is ready.
    pub fn start_command(&self, arguments: &[&str]) -> Started {
        let mut command = self.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program must start");
        let stdout = child.stdout.take().expect("stdout must be piped");
        let stderr = child.stderr.take().expect("stderr must be piped");
        let (line, stderr) = (first_line(stdout), everything(stderr));
        let line = match line.recv_timeout(DEADLINE) {
            Ok(line) if !line.is_empty() => line,
            _ => {
                let _ = child.kill();
                let stderr = stderr.recv_timeout(DEADLINE).unwrap_or_default();
                panic!("the program did not become ready: {stderr}");
            }
        };
        let ready = serde_json::from_str(&line).expect("the ready line must be JSON");
        Started { child, ready, stderr }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // What a failed test left behind.
        let _ = self.command(&["down", "--pods", "--timeout", "10"]).output();
        // Guests outlive the program, and one that runs starts them again: it goes first.
        for program in ["setpoint", "qemu-system"] {
            for pid in self.processes(program) {
                let _ = Command::new("kill").args(["-9", &pid]).status();
            }
        }
        if !thread::panicking() {
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}

impl Ended {
    /// The only line of an error.
    #[track_caller]
    pub fn error(&self) -> &str {
        let is_error = |line: &&str| line.starts_with("error:");
        let lines: Vec<_> = self.stderr.lines().filter(is_error).collect();
        assert_eq!(lines.len(), 1, "one line must tell the error: {self:?}");
        assert!(matches!(self.code, Some(1..=7)), "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        lines[0]
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }
}

impl Started {
    pub fn address(&self) -> String {
        text(&self.ready, "listen")
    }

    /// Asks over the socket in its data directory.
    pub fn get(&self, path: &str) -> (u16, String) {
        get(Path::new(&text(&self.ready, "data_dir")), path)
    }

    /// Asks over TLS, with headers of ours and no certificate; the server's must hold.
    pub fn get_anonymously(&self, path: &str, headers: &str) -> (u16, String) {
        let (code, answer) = self.get_anonymously_with_head(path, headers);
        (code, body_of(&answer).to_owned())
    }

    /// The same; the answer with its head.
    pub fn get_anonymously_with_head(&self, path: &str, headers: &str) -> (u16, String) {
        let authority = Path::new(&text(&self.ready, "data_dir")).join("pki/ca.pem");
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(authority).expect("it must be PEM");
        roots.add(authority).expect("the authority must be one");
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let name = "localhost".try_into().expect("it must be a name");
        let connection = ClientConnection::new(Arc::new(config), name).expect("TLS must be there");
        let stream = TcpStream::connect(self.address()).expect("the program must listen");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout must be possible");
        ask(StreamOwned::new(connection, stream), path, headers)
    }

    pub fn signal(&self, name: &str) {
        // The shell's own: not every machine has a program of that name.
        let kill = format!("kill -{name} {}", self.child.id());
        let status = Command::new("sh").args(["-c", &kill]).status().expect("sh must run");
        assert!(status.success(), "the program must be there to be signalled");
    }

    /// Waits until it has ended; its code, and what it wrote to stderr.
    pub fn wait(mut self) -> (Option<i32>, String) {
        let status = wait(&mut self.child);
        (status.code(), self.stderr.recv_timeout(DEADLINE).unwrap_or_default())
    }

    /// Presses Ctrl-C again and again, as slowly as a person, until it has ended.
    pub fn interrupt_until_ended(mut self) -> (Option<i32>, String) {
        let deadline = Instant::now() + DEADLINE;
        while self.child.try_wait().expect("it can be waited for").is_none() {
            assert!(Instant::now() < deadline, "the program must end");
            self.signal("INT");
            thread::sleep(Duration::from_millis(500));
        }
        self.wait()
    }

    pub fn stop(self) -> (Option<i32>, String) {
        self.signal("TERM");
        self.wait()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command to its end.
pub fn end(mut command: Command) -> Ended {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program must start");
    let stdout = everything(child.stdout.take().expect("stdout must be piped"));
    let stderr = everything(child.stderr.take().expect("stderr must be piped"));
    let status = wait(&mut child);
    let read = |stream: mpsc::Receiver<String>| {
        stream.recv_timeout(DEADLINE).expect("the output must end with the program")
    };
    Ended { code: status.code(), stdout: read(stdout), stderr: read(stderr) }
}

/// Connects to the program on a data directory, by way of `/proc`: sockets have short names.
pub fn connect(data: &Path) -> std::io::Result<UnixStream> {
    let directory = fs::File::open(data)?;
    UnixStream::connect(format!("/proc/self/fd/{}/setpoint.sock", directory.as_raw_fd()))
}

/// The answer to a GET of the program on a data directory: status and body.
pub fn get(data: &Path, path: &str) -> (u16, String) {
    let stream = connect(data).expect("the program must listen");
    stream.set_read_timeout(Some(DEADLINE)).expect("a timeout must be possible");
    let (code, answer) = ask(stream, path, "");
    (code, body_of(&answer).to_owned())
}

fn ask(mut stream: impl Read + Write, path: &str, headers: &str) -> (u16, String) {
    let closing = "Host: localhost\r\nConnection: close";
    let request = format!("GET {path} HTTP/1.1\r\n{closing}\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).expect("the request must be sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the answer must come");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("the head must begin with a status"), answer)
}

fn body_of(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").expect("the answer must have a head").1
}

/// Every file below a directory, with what is in it.
pub fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.is_file() {
                found.insert(path.clone(), fs::read(&path).expect("a file must be readable"));
            }
        }
    }
    found
}

pub fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_else(|| panic!("no {key} in {value}")).to_owned()
}

fn wait(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(status) = child.try_wait().expect("the program must be ours") {
            return status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("the program did not end within {DEADLINE:?}");
        }
        thread::sleep(POLL);
    }
}

/// Reads a file again and again until it has a whole line.
pub fn line_of_file(path: &Path) -> String {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let text = fs::read_to_string(path).unwrap_or_default();
        if text.ends_with('\n') {
            return text;
        }
        assert!(Instant::now() < deadline, "{} must get a line", path.display());
        thread::sleep(POLL);
    }
}

fn first_line(stream: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        let _ = stream.read_line(&mut line);
        let _ = sender.send(line);
        // The rest is read so that the program never waits for us.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    receiver
}

fn everything(mut stream: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}
