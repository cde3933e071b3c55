//! A private etcd server of one member.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::clock::Look;
use crate::directory::Directory;
use crate::error::Error;
use crate::port::{self, Port};
use crate::program;
use crate::server::{Recipe, Server};

/// How long the server may take to answer a request that it accepted.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// How much of an answer is read; a health answer is far smaller.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// An etcd server on a free loopback port, with data of its own.
///
/// Dropping it kills the server and removes the data.
pub struct Etcd {
    server: Server,
    client: Port,
    _peer: Port,
    data: PathBuf,
    // Last, so that the server is dead when its files go.
    _directory: Directory,
}

impl Etcd {
    pub fn start() -> Result<Etcd, Error> {
        Etcd::start_with(&[])
    }

    /// Starts with further arguments of `etcd`; they win over ours.
    pub fn start_with(extra_args: &[&str]) -> Result<Etcd, Error> {
        let directory = Directory::create("etcd")?;
        let data = directory.path().join("data");
        let (client, peer) = (Port::reserve()?, Port::reserve()?);
        let mut arguments = arguments(&data, client.number(), peer.number());
        arguments.extend(extra_args.iter().map(|argument| (*argument).to_owned()));
        let recipe = Recipe {
            name: "etcd",
            program: program::find("etcd")?,
            arguments,
            environment: unsupported_architecture().into_iter().collect(),
            environment_removed_prefix: "ETCD_",
            log: directory.path().join("etcd.log"),
        };
        let server = Server::start(recipe, || is_healthy(client.number()))?;
        Ok(Etcd { server, client, _peer: peer, data, _directory: directory })
    }

    /// Starts a stopped or killed server on the same data and the same port.
    pub fn start_again(&mut self) -> Result<(), Error> {
        let port = self.port();
        self.server.start_again(|| is_healthy(port))
    }

    /// SIGTERM, then waits until the server has ended.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.server.stop()
    }

    /// SIGKILL, then waits until the server has ended.
    pub fn kill(&mut self) -> Result<(), Error> {
        self.server.kill()
    }

    pub fn port(&self) -> u16 {
        self.client.number()
    }

    /// The URL for clients.
    pub fn endpoint(&self) -> String {
        url(self.port())
    }

    pub fn data_directory(&self) -> &Path {
        &self.data
    }

    /// The id of the server's process, while it runs.
    pub fn process_id(&self) -> Option<u32> {
        self.server.process_id()
    }
}

fn arguments(data: &Path, client: u16, peer: u16) -> Vec<String> {
    let (client, peer) = (url(client), url(peer));
    vec![
        "--name=test".to_owned(),
        format!("--data-dir={}", data.display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=test={peer}"),
        "--logger=zap".to_owned(),
        "--log-level=error".to_owned(),
        "--log-outputs=stderr".to_owned(),
    ]
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// etcd 3.4 starts on some architectures only when it is told that we know of it.
fn unsupported_architecture() -> Option<(&'static str, &'static str)> {
    let name = match std::env::consts::ARCH {
        "aarch64" => "arm64",
        "arm" => "arm",
        "x86" => "386",
        "riscv64" => "riscv64",
        _ => return None,
    };
    Some(("ETCD_UNSUPPORTED_ARCH", name))
}

/// Whether the server has a leader and commits.
fn is_healthy(port: u16) -> io::Result<Look<()>> {
    match get(port, "/health") {
        Ok(answer) if answer.contains(r#""health":"true""#) => Ok(Look::Found(())),
        Ok(_) => Ok(Look::NotYet),
        Err(error) if port::is_transient(&error) => Ok(Look::NotYet),
        Err(error) => Err(error),
    }
}

/// The whole answer, head and body, to a GET.
fn get(port: u16, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(port::loopback(port))?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_server_starts_again_on_the_same_port_with_its_data() {
        let mut etcd = Etcd::start_with(&["--snapshot-count=1000"]).unwrap();
        let port = etcd.port();
        assert_eq!(etcd.endpoint(), format!("http://127.0.0.1:{port}"));
        let cluster = cluster_header(port);

        etcd.kill().unwrap();
        assert!(TcpStream::connect(port::loopback(port)).is_err());
        etcd.start_again().unwrap();
        assert_eq!(cluster_header(port), cluster);

        etcd.stop().unwrap();
        assert_eq!(etcd.process_id(), None);
        etcd.start_again().unwrap();
        assert!(get(port, "/version").unwrap().contains("etcdserver"));

        let process = PathBuf::from(format!("/proc/{}", etcd.process_id().unwrap()));
        let data = etcd.data_directory().to_owned();
        assert!(process.exists() && data.exists());
        drop(etcd);
        assert!(!process.exists() && !data.exists());
    }

    #[test]
    fn a_server_that_cannot_start_shows_the_end_of_its_log() {
        let error = Etcd::start_with(&["--data-dir=/dev/null/none"]).err().unwrap().to_string();
        assert!(error.starts_with("etcd did not start: it ended with exit status"), "{error}");
        assert!(error.contains("/dev/null/none"), "{error}");
    }

    /// The members as the server lists them: ids that are made once, with the data.
    fn cluster_header(port: u16) -> String {
        let answer = get(port, "/v2/members").unwrap();
        answer.split("\r\n\r\n").nth(1).unwrap().to_owned()
    }
}
