//! A cluster of others: one that keeps no past. It is played by our own behind a proxy that does
//! not know the group of the history, as no other server does.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::sandbox::{Ended, Sandbox, Started, text};

/// How much of a request is read before it is passed on.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Time for a client to close its side of an answered connection.
const CLOSE_MAX: Duration = Duration::from_secs(10);

struct Foreign {
    sandbox: Sandbox,
    _started: Started,
    proxy: Child,
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
    }
}

impl Foreign {
    fn start() -> Foreign {
        let sandbox = Sandbox::new();
        let more = ["--runtime", "none", "--fake-nodes", "1", "--store", "memory"];
        let arguments = [&["start", "--listen", "127.0.0.1:0", "-o", "json"][..], &more].concat();
        let started = sandbox.start_command(&arguments);
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(text(&started.ready, "kubeconfig"));
        let command = command.args(["proxy", "--port=0"]).stdout(Stdio::piped());
        let mut proxy = command.spawn().expect("kubectl runs");
        let mut line = String::new();
        let stdout = proxy.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it says where it is");
        let behind = line.trim().rsplit(' ').next().unwrap_or_default().to_owned();
        let front = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = front.local_addr().expect("an address").port();
        std::thread::spawn(move || {
            for client in front.incoming().flatten() {
                let behind = behind.clone();
                std::thread::spawn(move || pass_on(client, &behind));
            }
        });
        sandbox.write(
            "foreign.yaml",
            &format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: f\n\
                 clusters: [{{name: f, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n\
                 contexts: [{{name: f, context: {{cluster: f, user: f}}}}]\n\
                 users: [{{name: f, user: {{}}}}]\n"
            ),
        );
        Foreign { sandbox, _started: started, proxy }
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        self.sandbox.run(&[arguments, &["--kubeconfig", "foreign.yaml"]].concat())
    }
}

/// Serves one request of a connection: answers 404 itself, or passes the request on. The whole
/// request is read first, as closing a connection with unread data resets it.
fn pass_on(mut client: TcpStream, behind: &str) -> io::Result<()> {
    let head = read_head(&mut client)?;
    let mut body = vec![0; body_length(&head)?];
    client.read_exact(&mut body)?;
    if head.split(' ').nth(1).is_some_and(|path| path.contains("history.setpoint.dev")) {
        let answer = "404 page not found\n";
        let length = answer.len();
        write!(
            client,
            "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nConnection: close\r\n\
             Content-Length: {length}\r\n\r\n{answer}"
        )?;
        return close(client);
    }
    let mut server = TcpStream::connect(behind)?;
    let (first, rest) = head.split_once("\r\n").unwrap_or((&head, ""));
    write!(server, "{first}\r\nConnection: close\r\n{rest}")?;
    server.write_all(&body)?;
    io::copy(&mut server, &mut client)?;
    close(client)
}

fn read_head(client: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD_BYTES_MAX {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        head.extend(byte);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Returns the length of the body that follows a head.
fn body_length(head: &str) -> io::Result<usize> {
    let mut headers = head.lines().filter_map(|line| line.split_once(':'));
    let found = headers.find_map(|(name, value)| match name.to_ascii_lowercase().as_str() {
        "content-length" => Some(value.trim().parse().map_err(io::Error::other)),
        "transfer-encoding" => Some(Err(io::ErrorKind::Unsupported.into())),
        _ => None,
    });
    found.unwrap_or(Ok(0))
}

/// Ends the answer, and closes the connection when the client has read it.
fn close(mut client: TcpStream) -> io::Result<()> {
    client.shutdown(Shutdown::Write)?;
    client.set_read_timeout(Some(CLOSE_MAX))?;
    io::copy(&mut client, &mut io::sink()).map(|_| ())
}

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {no: where}
      containers: [{name: web, image: good}]
";

#[test]
fn a_cluster_of_others_says_why_by_events_and_owners_of_fields() {
    let foreign = Foreign::start();
    foreign.sandbox.write("web.yaml", WEB);
    let applied = foreign.run(&["apply", "-f", "web.yaml"]);
    assert_eq!(applied.code, Some(0), "{applied:?}");
    let waits = |told: &str| told.contains("FailedScheduling") && told.contains("ReplicaSet");
    let mut why = foreign.run(&["why", "deployment/web", "--all"]);
    for _ in 0..300 {
        if waits(&why.stdout) {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
        why = foreign.run(&["why", "deployment/web", "--all"]);
    }
    for told in [
        "Waiting: Deployment web",
        // Who owns which fields since when.
        "deployment/web: setpoint last wrote fields",
        "last wrote fields of its status",
        // What was made of it, and by whom.
        "replicaset/web-",
        "created it",
        // What components said.
        "ScalingReplicaSet: Scaled up replica set web-",
        "FailedScheduling: 0/1 nodes are available",
    ] {
        assert!(why.stdout.contains(told), "{told}: {why:?}");
    }
    let told = foreign.run(&["why", "deployment/web", "-o", "json"]);
    let trace: Value = serde_json::from_str(&told.stdout).expect("JSON");
    let depths: Vec<u64> = trace["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .filter_map(|step| step["depth"].as_u64())
        .collect();
    assert!((0..=2).all(|depth| depths.contains(&depth)), "{depths:?}");
    // The other questions have no answer there, and say so.
    for arguments in [
        &["history", "deployment/web"][..],
        &["get", "deployments", "--at", "-1s"],
        &["diff", "deployment/web", "--at", "-1s"],
        &["undo", "deployment/web"],
        &["plan", "-f", "web.yaml"],
        &["export", "all.setpoint", "--without-secrets"],
    ] {
        let refused = foreign.run(arguments);
        assert_ne!(refused.code, Some(0), "{arguments:?} {refused:?}");
        assert!(refused.stderr.contains("keeps no past"), "{arguments:?} {refused:?}");
    }
    let events = foreign.run(&["events", "deployment/web"]);
    assert!(events.stdout.contains("ScalingReplicaSet"), "{events:?}");
}
