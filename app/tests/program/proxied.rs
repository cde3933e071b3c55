//! Pods and services reached by way of the API server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::network::{curl, jsonpath, script, start_web};
use crate::node::Machine;

#[test]
fn pods_and_services_are_reached_through_the_server() {
    let machine = start_web();
    let raw = |path: &str| machine.run(&["get", "--raw", path], "");
    let pods = "/api/v1/namespaces/default/pods";
    let services = "/api/v1/namespaces/default/services";
    let pod = jsonpath(&machine, "pods", "{.items[0].metadata.name}");
    for port in ["", ":80"] {
        let answer = raw(&format!("{pods}/{pod}{port}/proxy/a//b/?watch=x"));
        assert!(answer.stdout.starts_with(&pod), "{answer:?}");
        assert!(answer.stdout.ends_with(" /a//b/?watch=x"), "{answer:?}");
    }
    for name in ["web", "web:http", "web:80", "http:web:80"] {
        let answer = raw(&format!("{services}/{name}/proxy/x"));
        assert!(answer.stdout.starts_with("web-") && answer.stdout.ends_with(" /x"), "{answer:?}");
    }
    for (path, why) in [
        (format!("{services}/nobody/proxy/"), "no endpoints available for service \"nobody\""),
        (format!("{services}/web:81/proxy/"), "no service port \"81\" found for service \"web\""),
        (format!("{services}/none/proxy/"), "services \"none\" not found"),
        (format!("{pods}/{pod}:81/proxy/"), "error trying to reach service: dial tcp"),
    ] {
        let answer = raw(&path);
        assert!(answer.stderr.contains(why), "{path}: {answer:?}");
    }
    let other = ["get", "--raw", &format!("{services}/web/proxy/"), "--as", "somebody"];
    let refused = machine.run(&other, "");
    let why = "User \"somebody\" cannot get resource \"services/proxy\" in API group \"\"";
    assert!(refused.stderr.contains(why), "{refused:?}");
    let proxy = KubectlProxy::start(&machine);
    let answer = curl(&format!("http://{}{services}/web/proxy/y", proxy.address));
    assert!(answer.ends_with(" /y"), "{answer}");
    // What is known of an answer without its body.
    let url = format!("http://{}{services}/web/proxy/z", proxy.address);
    let head = Command::new("curl").args(["-sSI", "-m", "10", &url]).output().expect("curl runs");
    let head = String::from_utf8_lossy(&head.stdout).to_lowercase();
    assert!(head.contains(" 200 ") && head.contains("content-length: 12345"), "{head}");
    // A connection that leaves HTTP.
    let mut stream = TcpStream::connect(&proxy.address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
    let request = format!(
        "GET {services}/web/proxy/ HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
         Upgrade: echo\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        head.extend(byte);
    }
    stream.write_all(b"hi\n").expect("it is sent");
    let mut echo = [0; 8];
    stream.read_exact(&mut echo).expect("an answer");
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{head:?}");
    assert_eq!(&echo, b"echo hi\n");
    // The pod has hung up, though the client has not.
    assert_eq!(stream.read(&mut echo).expect("the end comes in time"), 0);
    over_tls(&machine);
}

/// A pod that speaks TLS, with a certificate that nobody has to believe.
fn over_tls(machine: &Machine) {
    for (part, file) in [("client-certificate-data", "crt"), ("client-key-data", "key")] {
        let field = format!("jsonpath={{.users[0].user.{part}}}");
        let text = machine.kubectl(&["config", "view", "--raw", "-o", &field], "");
        let place = machine.sandbox.work().join(file);
        let write = "printf %s \"$1\" | base64 -d >\"$0\"";
        let written = Command::new("sh").args(["-c", write]).arg(place).arg(text).status();
        assert!(written.expect("sh runs").success());
    }
    let place = machine.sandbox.work().display().to_string();
    let program = SECURE.replace("PLACE", &place);
    machine.kubectl(&["apply", "-f", "-"], &script("secure", &program));
    machine.until("logs secure", |log| log.contains("listens"));
    let pods = "/api/v1/namespaces/default/pods";
    let raw = |name: &str| machine.run(&["get", "--raw", &format!("{pods}/{name}/proxy/x")], "");
    assert_eq!(raw("https:secure:8443").stdout, "secure /x");
    let plain = raw("secure:8443");
    assert_ne!(plain.code, Some(0), "{plain:?}");
    let other = jsonpath(machine, "pods", "{.items[?(@.metadata.name!='secure')].metadata.name}");
    let other = other.split(' ').next().expect("a pod").to_owned();
    let refused = raw(&format!("https:{other}:80"));
    assert!(refused.stderr.contains("error trying to reach service"), "{refused:?}");
    machine.kubectl(&["delete", "pod", "secure", "--wait=false"], "");
}

const SECURE: &str = "exec python3 -u - <<'END'
import http.server, ssl
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = ('secure ' + self.path).encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *arguments): pass
server = http.server.ThreadingHTTPServer(('', 8443), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain('PLACE/crt', 'PLACE/key')
server.socket = context.wrap_socket(server.socket, server_side=True)
print('listens')
server.serve_forever()
END";

/// `kubectl proxy`, for as long as it is held.
struct KubectlProxy {
    child: Child,
    address: String,
}

impl KubectlProxy {
    fn start(machine: &Machine) -> KubectlProxy {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(machine.sandbox.data().join("kubeconfig"));
        command.args(["proxy", "--port=0"]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("kubectl runs");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it says where it is");
        let address = line.trim().rsplit(' ').next().unwrap_or_default().to_owned();
        KubectlProxy { child, address }
    }
}

impl Drop for KubectlProxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
