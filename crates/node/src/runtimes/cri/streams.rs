//! Programs beside containers with their streams, the streams of containers themselves, and
//! connections to their ports.
//!
//! The runtime answers with an address to connect to; what is spoken there is what `kubectl`
//! speaks.
//!
//! Upstream: staging/src/k8s.io/cri-streaming

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use futures::FutureExt;
use link::{Duplex, Input, Output, Program, Resize, Streams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::Inner;
use super::messages::{AttachRequest, ExecRequest, StreamResponse};
use super::spdy::{self, Frame, PIECE_BYTES_MAX, Reader};
use crate::runtime::{ContainerId, Refusal};
use crate::runtimes::process::streams::{dial_in, dial_near};

/// What of a stream waits for who takes it.
const STREAM_BYTES_MAX: usize = 64 << 10;
/// Frames that wait to be sent.
const FRAMES_MAX: usize = 16;
/// The head of an answer is shorter.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// What is kept of how a program ended.
const STATUS_BYTES_MAX: usize = 64 << 10;
const PROTOCOL: &str = "v4.channel.k8s.io";

impl Inner {
    pub async fn run_beside(
        &self,
        id: &ContainerId,
        command: &[String],
        wanted: &Streams,
    ) -> Result<Program, Refusal> {
        let refused = |message: String| Refusal { reason: "ExecError", message };
        let request = ExecRequest {
            container_id: self.running(id, "ExecError")?,
            cmd: command.to_vec(),
            tty: wanted.tty,
            stdin: wanted.stdin,
            stdout: wanted.stdout || wanted.tty,
            stderr: wanted.stderr && !wanted.tty,
        };
        let asked = self.client.runtime("Exec", request).await;
        let StreamResponse { url } =
            asked.map_err(|status| refused(status.message().to_owned()))?;
        let opened = open(&url, wanted, End::Program).await;
        opened.map_err(|error| refused(format!("could not reach the program: {error}")))
    }

    pub async fn attach(&self, id: &ContainerId, wanted: &Streams) -> Result<Program, Refusal> {
        let refused = |message: String| Refusal { reason: "AttachError", message };
        let request = AttachRequest {
            container_id: self.running(id, "AttachError")?,
            tty: wanted.tty,
            stdin: wanted.stdin,
            stdout: wanted.stdout || wanted.tty,
            stderr: wanted.stderr && !wanted.tty,
        };
        let asked = self.client.runtime("Attach", request).await;
        let StreamResponse { url } =
            asked.map_err(|status| refused(status.message().to_owned()))?;
        let opened = open(&url, wanted, End::Container).await;
        opened.map_err(|error| refused(format!("could not reach the container: {error}")))
    }

    pub async fn dial(
        &self,
        pod: &str,
        address: Option<IpAddr>,
        port: u16,
    ) -> Result<Box<dyn Duplex>, Refusal> {
        let refused = |message: String| Refusal { reason: "PortForwardError", message };
        let made = self.lock().pods.get(pod).and_then(|pod| pod.sandbox().cloned());
        let made = made.ok_or_else(|| refused("the pod has no sandbox".to_owned()))?;
        let dialled = match made.host_network {
            true => dial_near(address, port).await,
            false => dial_in(&self.namespace(&made.id).await?, port).await,
        };
        match dialled {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(refused(format!("could not connect to port {port}: {error}"))),
        }
    }
}

/// What is told at the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The code of a program.
    Program,
    /// Nothing: the container goes on.
    Container,
}

/// Connects to an address of the runtime, and leaves HTTP.
async fn connect(url: &str) -> io::Result<TcpStream> {
    let rest = url
        .strip_prefix("http://")
        .ok_or_else(|| io::Error::other(format!("{url} is not an address of plain HTTP")))?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(host).await?;
    stream.set_nodelay(true)?;
    let request = format!(
        "POST /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
         X-Stream-Protocol-Version: {PROTOCOL}\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > HEAD_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        // Byte by byte: what follows is no part of it.
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    match head.split(' ').nth(1) {
        Some("101") => Ok(stream),
        _ => Err(io::Error::other(head.lines().next().unwrap_or_default().to_owned())),
    }
}

/// Ends what carries the streams, unless the program has ended.
struct Carrying(Option<JoinHandle<()>>);

impl Drop for Carrying {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }
}

/// Which numbers the streams of a connection have.
#[derive(Default)]
struct Numbers {
    error: u32,
    stdin: u32,
    stdout: u32,
    stderr: u32,
    resize: u32,
}

#[expect(clippy::disallowed_methods, reason = "it ends with the program or its connection")]
async fn open(url: &str, wanted: &Streams, of: End) -> io::Result<Program> {
    let stream = connect(url).await?;
    let (from, mut to) = stream.into_split();
    let has = (wanted.stdin, wanted.stdout || wanted.tty, wanted.stderr && !wanted.tty);
    let mut numbers = Numbers::default();
    let streams = [
        ("error", true, &mut numbers.error),
        ("stdin", has.0, &mut numbers.stdin),
        ("stdout", has.1, &mut numbers.stdout),
        ("stderr", has.2, &mut numbers.stderr),
        ("resize", wanted.tty, &mut numbers.resize),
    ];
    let mut next = 1;
    for (kind, is_wanted, number) in streams {
        if is_wanted {
            let frame = spdy::open(next, &[("streamtype", kind)], next == 1);
            spdy::send(&mut to, &frame).await?;
            *number = next;
            next += 2;
        }
    }
    let pair = |is_wanted: bool| is_wanted.then(|| tokio::io::duplex(STREAM_BYTES_MAX)).unzip();
    let (stdin, typed) = pair(has.0);
    let (stdout, to_stdout) = pair(has.1);
    let (stderr, to_stderr) = pair(has.2);
    let (frames, mut waiting) = mpsc::channel::<Vec<u8>>(FRAMES_MAX);
    let (ended, end) = oneshot::channel();
    let (stdin_number, resize_number) = (numbers.stdin, numbers.resize);
    let (answers, sizes) = (frames.clone(), frames.clone());
    let task = tokio::spawn(async move {
        let writing = async {
            while let Some(frame) = waiting.recv().await {
                if spdy::send(&mut to, &frame).await.is_err() {
                    break;
                }
            }
            std::future::pending::<()>().await;
        };
        let typing = async {
            carry_input(typed, stdin_number, &frames).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = hear(from, (to_stdout, to_stderr), (&numbers, answers), (ended, of)) => {}
            () = writing => {}
            () = typing => {}
        }
    });
    let mut carrying = Carrying(Some(task));
    let end = async move {
        let ended = end.await;
        // What it said may still be on its way.
        drop(carrying.0.take());
        ended.unwrap_or_else(|_| match of {
            End::Container => Ok(0),
            End::Program => Err("the runtime hung up before the program ended".to_owned()),
        })
    };
    let resize: Resize = Box::new(move |width, height| {
        let size = json!({"Width": width, "Height": height}).to_string();
        // Of many sizes in a short time the last is told by the next that changes.
        let _ = sizes.try_send(spdy::data(resize_number, size.as_bytes(), false));
    });
    let boxed = |stream: DuplexStream| -> Output { Box::new(stream) };
    Ok(Program {
        stdin: stdin.map(|stream| -> Input { Box::new(stream) }),
        stdout: stdout.map(boxed),
        stderr: stderr.map(boxed),
        resize: wanted.tty.then_some(resize),
        end: end.boxed(),
    })
}

async fn carry_input(typed: Option<DuplexStream>, number: u32, frames: &mpsc::Sender<Vec<u8>>) {
    let Some(mut typed) = typed else { return };
    let mut piece = vec![0; PIECE_BYTES_MAX];
    while let Ok(count @ 1..) = typed.read(&mut piece).await {
        if frames.send(spdy::data(number, &piece[..count], false)).await.is_err() {
            return;
        }
    }
    let _ = frames.send(spdy::data(number, &[], true)).await;
}

/// Hands on what the runtime says, until it has said everything.
async fn hear(
    from: OwnedReadHalf,
    (stdout, stderr): (Option<DuplexStream>, Option<DuplexStream>),
    (numbers, answers): (&Numbers, mpsc::Sender<Vec<u8>>),
    (ended, of): (oneshot::Sender<Result<i32, String>>, End),
) {
    let mut outputs: BTreeMap<u32, DuplexStream> = BTreeMap::new();
    outputs.extend(stdout.map(|stream| (numbers.stdout, stream)));
    outputs.extend(stderr.map(|stream| (numbers.stderr, stream)));
    let (mut ended, mut status) = (Some(ended), Vec::new());
    let mut reader = Reader::new(BufReader::new(from));
    loop {
        match reader.next().await {
            Ok(Frame::Data { stream, bytes, is_last }) if stream == numbers.error => {
                if status.len() + bytes.len() <= STATUS_BYTES_MAX {
                    status.extend_from_slice(&bytes);
                }
                // Some close the connection behind it, and the stream never.
                let is_whole = serde_json::from_slice::<Value>(&status).is_ok();
                if (is_last || is_whole)
                    && let Some(ended) = ended.take()
                {
                    let _ = ended.send(code(&status, of));
                }
            }
            Ok(Frame::Data { stream, bytes, is_last }) => {
                let Some(output) = outputs.get_mut(&stream) else { continue };
                if output.write_all(&bytes).await.is_err() || is_last {
                    outputs.remove(&stream);
                }
            }
            Ok(Frame::Reset { stream }) => drop(outputs.remove(&stream)),
            Ok(Frame::Ping(number)) => {
                let _ = answers.send(spdy::ping(number)).await;
            }
            Ok(Frame::Other) => {}
            Ok(Frame::GoAway) | Err(_) => return,
        }
    }
}

/// How a program ended, by what was said of it.
fn code(status: &[u8], of: End) -> Result<i32, String> {
    if status.is_empty() || of == End::Container {
        return Ok(0);
    }
    let said: Value = serde_json::from_slice(status).unwrap_or_default();
    if said["status"] == "Success" {
        return Ok(0);
    }
    let causes = said["details"]["causes"].as_array().into_iter().flatten();
    let mut codes = causes.filter(|cause| cause["reason"] == "ExitCode");
    let code = codes.find_map(|cause| cause["message"].as_str()?.parse().ok());
    code.ok_or_else(|| match said["message"].as_str() {
        Some(message) => message.to_owned(),
        None => String::from_utf8_lossy(status).into_owned(),
    })
}
