//! Programs beside containers, and the streams of containers themselves.

use bytes::BytesMut;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use link::{Input, Output, Program, Resize, Streams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinSet;

use super::client::{Client, Error};
use super::{frames, tasks};
use crate::runtimes::process::system;

/// What of a stream waits between the engine and who takes part in it.
const STREAM_BYTES_MAX: usize = 64 << 10;
const PIECE_BYTES: usize = 32 << 10;
/// How often it is asked how a program ended whose streams have.
const CODE_TRIES_MAX: u32 = 200;
const CODE_WAIT: std::time::Duration = std::time::Duration::from_millis(25);

type Connection = TokioIo<Upgraded>;

/// Runs a program beside a container.
pub async fn run_beside(
    client: &Client,
    native: &str,
    command: &[String],
    wanted: &Streams,
) -> Result<Program, Error> {
    let asked = json!({
        "Cmd": command,
        "Tty": wanted.tty,
        "AttachStdin": wanted.stdin,
        "AttachStdout": wanted.stdout || wanted.tty,
        "AttachStderr": wanted.stderr && !wanted.tty,
    });
    let made = client.post(&format!("/containers/{native}/exec"), Some(&asked)).await?;
    let id = made["Id"].as_str().unwrap_or_default().to_owned();
    let started = json!({"Detach": false, "Tty": wanted.tty});
    let connection = client.upgrade(&format!("/exec/{id}/start"), Some(&started)).await?;
    let running = Running { client: client.clone(), id: id.clone(), has_ended: false };
    let mut joined = join(TokioIo::new(connection), wanted);
    let (client, resize) = (client.clone(), format!("/exec/{id}/resize"));
    Ok(Program {
        stdin: joined.stdin.take(),
        stdout: joined.stdout.take(),
        stderr: joined.stderr.take(),
        resize: wanted.tty.then(|| resizing(client, resize)),
        end: Box::pin(async move {
            let mut running = running;
            joined.tasks.join_next().await;
            let code = running.code().await;
            running.has_ended = true;
            code
        }),
    })
}

/// Takes part in a container's own streams.
pub async fn attach(client: &Client, native: &str, wanted: &Streams) -> Result<Program, Error> {
    let flag = |is_set: bool| u8::from(is_set);
    let path = format!(
        "/containers/{native}/attach?stream=1&stdin={}&stdout={}&stderr={}",
        flag(wanted.stdin),
        flag(wanted.stdout || wanted.tty),
        flag(wanted.stderr && !wanted.tty)
    );
    let connection = client.upgrade(&path, None).await?;
    let mut joined = join(TokioIo::new(connection), wanted);
    let (client, resize) = (client.clone(), format!("/containers/{native}/resize"));
    Ok(Program {
        stdin: joined.stdin.take(),
        stdout: joined.stdout.take(),
        stderr: joined.stderr.take(),
        resize: wanted.tty.then(|| resizing(client, resize)),
        end: Box::pin(async move {
            joined.tasks.join_next().await;
            Ok(0)
        }),
    })
}

fn resizing(client: Client, path: String) -> Resize {
    Box::new(move |width, height| {
        let (client, path) = (client.clone(), format!("{path}?h={height}&w={width}"));
        tasks::spawn(async move { client.post(&path, None).await });
    })
}

/// A connection in its parts. The first task to end is the output.
struct Joined {
    stdin: Option<Input>,
    stdout: Option<Output>,
    stderr: Option<Output>,
    tasks: JoinSet<()>,
}

fn join(connection: Connection, wanted: &Streams) -> Joined {
    let (from, to) = tokio::io::split(connection);
    let stream = |is_wanted: bool| is_wanted.then(|| tokio::io::duplex(STREAM_BYTES_MAX)).unzip();
    let (stdin, from_client) = stream(wanted.stdin);
    let (stdout, to_stdout) = stream(wanted.stdout || wanted.tty);
    let (stderr, to_stderr) = stream(wanted.stderr && !wanted.tty);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        speak(to, from_client).await;
        std::future::pending().await
    });
    match wanted.tty {
        true => tasks.spawn(copy(from, to_stdout)),
        false => tasks.spawn(listen(from, (to_stdout, to_stderr))),
    };
    let input = |stream: DuplexStream| -> Input { Box::new(stream) };
    let output = |stream: DuplexStream| -> Output { Box::new(stream) };
    Joined {
        stdin: stdin.map(input),
        stdout: stdout.map(output),
        stderr: stderr.map(output),
        tasks,
    }
}

/// Hands on what is said until that ends, and then says so.
async fn speak(mut to: WriteHalf<Connection>, from: Option<DuplexStream>) {
    let Some(mut from) = from else {
        // Whoever holds it holds the connection.
        return std::future::pending().await;
    };
    let _ = tokio::io::copy(&mut from, &mut to).await;
    let _ = to.shutdown().await;
    // Dropped, the other direction would end too.
    std::future::pending::<()>().await;
}

async fn copy(mut from: ReadHalf<Connection>, to: Option<DuplexStream>) {
    match to {
        Some(mut to) => drop(tokio::io::copy(&mut from, &mut to).await),
        None => drop(tokio::io::copy(&mut from, &mut tokio::io::sink()).await),
    }
}

/// Hands on what is heard, each output to whom it is for.
async fn listen(
    mut from: ReadHalf<Connection>,
    (mut stdout, mut stderr): (Option<DuplexStream>, Option<DuplexStream>),
) {
    let (mut held, mut piece) = (BytesMut::new(), vec![0; PIECE_BYTES]);
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        held.extend_from_slice(&piece[..count]);
        while let Ok(Some(piece)) = frames::next(&mut held) {
            let to = if piece.is_error { &mut stderr } else { &mut stdout };
            if let Some(stream) = to
                && stream.write_all(&piece.bytes).await.is_err()
            {
                *to = None;
            }
        }
    }
}

/// A program that is ended when nobody wants it any more.
struct Running {
    client: Client,
    id: String,
    has_ended: bool,
}

impl Running {
    async fn code(&self) -> Result<i32, String> {
        for _ in 0..CODE_TRIES_MAX {
            let told = self.client.get(&format!("/exec/{}/json", self.id)).await;
            let told = told.map_err(|error| error.message)?;
            if told["Running"] == false {
                let code = told["ExitCode"].as_i64().and_then(|code| i32::try_from(code).ok());
                return Ok(code.unwrap_or(137));
            }
            tokio::time::sleep(CODE_WAIT).await;
        }
        Err("its streams have ended, and it has not".to_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let (client, id) = (self.client.clone(), self.id.clone());
        // The engine knows no way to end it.
        tasks::spawn(async move {
            let told: Value = client.get(&format!("/exec/{id}/json")).await.unwrap_or_default();
            let pid = told["Pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
            let Some(pid) = pid.filter(|pid| *pid > 1 && told["Running"] == true) else { return };
            let process = system::began(pid).and_then(|ticks| system::open_process(pid, ticks));
            if let Some(process) = process {
                let _ = system::signal(&process, libc::SIGKILL);
            }
        });
    }
}
