//! A program and its streams: what the client sends goes in, what comes out goes to the client,
//! and at the end it is told how the program ended.
//!
//! Upstream: staging/src/k8s.io/kubelet/pkg/cri/streaming/remotecommand

use std::sync::Arc;
use std::time::Duration;

use link::{Input, Node, Output, Program, ProgramRequest, Resize};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};

use super::channels::{self, Inputs};
use super::handshake::Channels;
use super::wire::{Form, Frames, Sink, Source, source};
use super::{CREATION_MAX, PIECE_BYTES_MAX, spdy};
use crate::status::Error;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// Streams that wait to be looked at.
const OPENED_MAX: usize = 8;
/// How long the output of a program that ended may be silent before it is taken to be over: what
/// it left behind may hold it open for ever.
const SILENCE_MAX: Duration = Duration::from_secs(1);
/// How long a client of SPDY may take to hang up when all was said; its output may be slow.
const SPDY_FAREWELL_MAX: Duration = Duration::from_secs(30);
/// The longest size of a terminal, as JSON.
const SIZE_BYTES_MAX: usize = 1 << 10;

/// The streams of a client, those that it asked for.
struct Wires {
    stdin: Option<Source>,
    stdout: Option<Sink>,
    stderr: Option<Sink>,
    error: Sink,
    resize: Option<Source>,
    /// Of what is said at the end.
    version: u8,
}

pub async fn over_channels<S>(
    socket: S,
    node: Arc<dyn Node>,
    request: ProgramRequest,
    channels: Channels,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin,
{
    let (from_client, to_client) = tokio::io::split(socket);
    let (frames, writing) = Frames::new(to_client);
    let sink = |number| Sink { frames: frames.clone(), form: Form::Channel { number, channels } };
    let mut inputs = Inputs::new();
    let mut input = |number, is_wanted: bool| {
        is_wanted.then(|| {
            let (sender, source) = source();
            inputs.insert(number, sender);
            source
        })
    };
    let wires = Wires {
        stdin: input(STDIN, request.streams.stdin),
        resize: input(RESIZE, request.streams.tty),
        stdout: request.streams.stdout.then(|| sink(STDOUT)),
        stderr: request.streams.stderr.then(|| sink(STDERR)),
        error: sink(ERROR),
        version: channels.version,
    };
    let running = async {
        // An empty message on the first channel says that all is set up.
        let first = wires.stdout.as_ref().or(wires.stderr.as_ref()).unwrap_or(&wires.error);
        let _ = first.send(&[]).await;
        run(node, request, wires).await;
    };
    let reading = channels::read(from_client, &frames, channels, inputs);
    channels::serve(&frames, running, (reading, writing)).await;
}

pub async fn over_spdy<S>(socket: S, node: Arc<dyn Node>, request: ProgramRequest, version: u8)
where
    S: AsyncRead + AsyncWrite + Send + Unpin,
{
    let (from_client, to_client) = tokio::io::split(socket);
    let (frames, writing) = Frames::new(to_client);
    let (opened, mut waiting) = mpsc::channel(OPENED_MAX);
    let running = async {
        let collected = collect(&mut waiting, &request, version);
        if let Ok(Some(wires)) = tokio::time::timeout(CREATION_MAX, collected).await {
            // Whatever else is opened is of no use, but must not hold the reader up.
            let dropping = async {
                while waiting.recv().await.is_some() {}
                std::future::pending::<()>().await
            };
            tokio::select! {
                () = run(node, request, wires) => {}
                () = dropping => {}
            }
        }
    };
    let reading = spdy::read(from_client, &frames, opened);
    let mut reading = std::pin::pin!(reading);
    let talking = async {
        let is_done = tokio::select! {
            () = running => true,
            () = reading.as_mut() => false,
        };
        // Who is told to go, or sees the connection end, drops what it has not handed on yet: a
        // client hangs up by itself when it has all of it.
        if is_done {
            let _ = tokio::time::timeout(SPDY_FAREWELL_MAX, reading).await;
        }
        let _ = frames.send(spdy::frame::go_away(0, 0)).await;
        frames.end().await;
    };
    tokio::join!(talking, writing);
}

/// Waits until the client has opened all the streams that it asked for.
async fn collect(
    opened: &mut mpsc::Receiver<spdy::Stream>,
    request: &ProgramRequest,
    version: u8,
) -> Option<Wires> {
    let (mut stdin, mut stdout, mut stderr, mut error, mut resize) = (None, None, None, None, None);
    loop {
        let stream = opened.recv().await?;
        match stream.headers.get("streamtype").map(String::as_str) {
            Some("error") => error = Some(stream.sink),
            Some("stdin") => stdin = Some(stream.source),
            Some("stdout") => stdout = Some(stream.sink),
            Some("stderr") => stderr = Some(stream.sink),
            Some("resize") => resize = Some(stream.source),
            _ => return None,
        }
        let has_all = (stdin.is_some() || !request.streams.stdin)
            && (stdout.is_some() || !request.streams.stdout)
            && (stderr.is_some() || !request.streams.stderr)
            && (resize.is_some() || !request.streams.tty || version < 3);
        if has_all && let Some(error) = error.take() {
            return Some(Wires { stdin, stdout, stderr, error, resize, version });
        }
    }
}

async fn run(node: Arc<dyn Node>, request: ProgramRequest, wires: Wires) {
    let Wires { stdin, stdout, stderr, error, resize, version } = wires;
    let what = if request.command.is_empty() {
        "error attaching to container"
    } else {
        "error executing command in container"
    };
    let ended = match node.program(request).await {
        Ok(program) => carry(program, (stdin, resize), (stdout.clone(), stderr.clone())).await,
        Err(why) => Err(why),
    };
    let status = status(ended.map_err(|why| format!("{what}: {why}")));
    let text = match version {
        4.. => status.to_string(),
        _ if status["status"] == "Success" => String::new(),
        _ => status["message"].as_str().unwrap_or_default().to_owned(),
    };
    if !text.is_empty() {
        let _ = error.send(text.as_bytes()).await;
    }
    for sink in [stdout, stderr, Some(error)].into_iter().flatten() {
        sink.finish().await;
    }
}

/// Carries bytes until the program has ended and all that it wrote was taken.
async fn carry(
    program: Program,
    (input, sizes): (Option<Source>, Option<Source>),
    (output, complaints): (Option<Sink>, Option<Sink>),
) -> Result<i32, String> {
    let Program { stdin, stdout, stderr, resize, end } = program;
    let (over, is_over) = watch::channel(false);
    let ending = async {
        let code = end.await;
        over.send_replace(true);
        code
    };
    let outputs = async {
        tokio::join!(
            ending,
            copy(stdout, output, is_over.clone()),
            copy(stderr, complaints, is_over.clone())
        )
        .0
    };
    let inputs = async {
        tokio::join!(feed(input, stdin), follow(sizes, resize));
        std::future::pending::<()>().await
    };
    tokio::select! {
        code = outputs => code,
        () = inputs => unreachable!("it waits for ever"),
    }
}

/// What the client sends is the program's input, and its end is the end of it.
async fn feed(source: Option<Source>, stdin: Option<Input>) {
    let (Some(mut source), Some(mut stdin)) = (source, stdin) else { return };
    while let Some(bytes) = source.recv().await {
        if stdin.write_all(&bytes).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
    let _ = stdin.shutdown().await;
}

async fn copy(output: Option<Output>, sink: Option<Sink>, mut is_over: watch::Receiver<bool>) {
    let (Some(mut output), Some(sink)) = (output, sink) else { return };
    let mut piece = vec![0; PIECE_BYTES_MAX];
    loop {
        let silence = async {
            let _ = is_over.wait_for(|is_over| *is_over).await;
            tokio::time::sleep(SILENCE_MAX).await;
        };
        let read = tokio::select! {
            biased;
            read = output.read(&mut piece) => read,
            () = silence => return,
        };
        let Ok(count @ 1..) = read else { return };
        if sink.send(&piece[..count]).await.is_err() {
            return;
        }
    }
}

/// Sizes come as `{"Width": 80, "Height": 24}`, one after the other.
async fn follow(sizes: Option<Source>, resize: Option<Resize>) {
    let (Some(mut sizes), Some(resize)) = (sizes, resize) else { return };
    let mut held: Vec<u8> = Vec::new();
    while let Some(bytes) = sizes.recv().await {
        held.extend_from_slice(&bytes);
        let mut values = serde_json::Deserializer::from_slice(&held).into_iter::<Value>();
        let mut read = 0;
        while let Some(Ok(size)) = values.next() {
            read = values.byte_offset();
            let number = |name: &str| size[name].as_u64().and_then(|it| u16::try_from(it).ok());
            if let (Some(width), Some(height)) = (number("Width"), number("Height")) {
                resize(width, height);
            }
        }
        held.drain(..read);
        if held.len() > SIZE_BYTES_MAX {
            return;
        }
    }
}

/// How a program ended, as clients read it.
fn status(ended: Result<i32, String>) -> Value {
    match ended {
        Ok(0) => json!({"metadata": {}, "status": "Success"}),
        Ok(code) => json!({
            "metadata": {},
            "status": "Failure",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        Err(why) => Error::internal(why).to_status(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use bytes::Bytes;

    use super::*;

    #[test]
    fn how_a_program_ended_is_said_as_clients_read_it() {
        assert_eq!(status(Ok(0)), json!({"metadata": {}, "status": "Success"}));
        let failed = status(Ok(3));
        assert_eq!(failed["reason"], "NonZeroExitCode");
        assert_eq!(failed["details"]["causes"][0], json!({"reason": "ExitCode", "message": "3"}));
        assert_eq!(status(Err("no".into()))["message"], "Internal error occurred: no");
    }

    #[tokio::test]
    async fn sizes_are_understood_in_any_pieces_and_nonsense_ends_them() {
        let (sender, source) = source();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let told = seen.clone();
        let resize: Resize = Box::new(move |width, height| {
            told.lock().unwrap().push((width, height));
        });
        let text = "{\"Width\":80,\"Height\":24}\n{\"Width\":81,\"Height\":25}{\"Width\":-1}";
        let send = async {
            for byte in text.bytes() {
                sender.send(Bytes::copy_from_slice(&[byte])).await.unwrap();
            }
            for _ in 0..=SIZE_BYTES_MAX {
                if sender.send(Bytes::from_static(b"{")).await.is_err() {
                    break;
                }
            }
            drop(sender);
        };
        tokio::join!(send, follow(Some(source), Some(resize)));
        assert_eq!(*seen.lock().unwrap(), [(80, 24), (81, 25)]);
    }
}
