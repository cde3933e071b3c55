//! The node's side: answers the one question of a connection.

use std::io;

use futures::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::wire::{
    self, DialAnswer, FRAMES_MAX, Frame, Kind, LogsAnswer, MachineSaid, PIECE_BYTES_MAX,
    ProgramAnswer, Question, RunsAnswer, Said,
};
use crate::{Duplex, Input, MachineAnswer, Node, Output, Program, Resize};

/// Answers. Who asked is known, and may. A connection that ends takes its program along.
pub async fn answer(node: &dyn Node, mut connection: impl Duplex) -> io::Result<()> {
    match wire::hear(&mut connection).await? {
        Question::Runs { pod, container } => {
            let answer: RunsAnswer = node.runs(&pod, &container).await;
            wire::say(&mut connection, &answer).await?;
        }
        Question::Logs(request) => {
            let mut pieces = match node.logs(request).await {
                Ok(pieces) => pieces,
                Err(missing) => {
                    return wire::say(&mut connection, &LogsAnswer::Err(missing)).await;
                }
            };
            wire::say(&mut connection, &LogsAnswer::Ok(())).await?;
            let (mut from, mut to) = tokio::io::split(connection);
            let writing = async {
                while let Some(piece) = pieces.next().await {
                    wire::write(&mut to, Kind::Stdout, &piece).await?;
                }
                to.shutdown().await
            };
            tokio::select! {
                written = writing => written?,
                // Who follows says nothing more, and hangs up when it is enough.
                _ = from.read_u8() => {}
            }
        }
        Question::Dial(request) => match node.dial(request).await {
            Ok(mut port) => {
                wire::say(&mut connection, &DialAnswer::Ok(())).await?;
                tokio::io::copy_bidirectional(&mut connection, &mut port).await?;
            }
            Err(why) => wire::say(&mut connection, &DialAnswer::Err(why)).await?,
        },
        Question::Machine(request) => {
            let (said, connected): (MachineSaid, _) = match node.machine(request).await {
                Ok(MachineAnswer::Done) => (Ok(Said::Done), None),
                Ok(MachineAnswer::Value(value)) => (Ok(Said::Value(value)), None),
                Ok(MachineAnswer::Connection(connected)) => (Ok(Said::Connected), Some(connected)),
                Err(refusal) => (Err(refusal), None),
            };
            wire::say(&mut connection, &said).await?;
            if let Some(mut connected) = connected {
                tokio::io::copy_bidirectional(&mut connection, &mut connected).await?;
            }
        }
        Question::Program(request) => match node.program(request).await {
            Ok(program) => {
                let has_size = program.resize.is_some();
                wire::say(&mut connection, &ProgramAnswer::Ok(has_size)).await?;
                carry(program, connection).await?;
            }
            Err(why) => wire::say(&mut connection, &ProgramAnswer::Err(why)).await?,
        },
    }
    Ok(())
}

/// Carries the streams of a program until it has ended and has said everything, or nobody listens.
async fn carry(program: Program, connection: impl Duplex) -> io::Result<()> {
    let Program { stdin, stdout, stderr, resize, end } = program;
    let (mut from, mut to) = tokio::io::split(connection);
    let (frames, mut waiting) = mpsc::channel::<Frame>(FRAMES_MAX);
    let outputs = {
        let stdout = pump(stdout, Kind::Stdout, frames.clone());
        let stderr = pump(stderr, Kind::Stderr, frames.clone());
        let end = async move {
            let ended = serde_json::to_vec(&end.await).unwrap_or_default();
            let _ = frames.send((Kind::End, ended)).await;
        };
        async move { tokio::join!(stdout, stderr, end) }
    };
    let writing = async {
        while let Some((kind, bytes)) = waiting.recv().await {
            wire::write(&mut to, kind, &bytes).await?;
        }
        to.shutdown().await
    };
    tokio::select! {
        (_, written) = async { tokio::join!(outputs, writing) } => written,
        gone = take_input(&mut from, stdin, resize) => gone,
    }
}

async fn pump(stream: Option<Output>, kind: Kind, frames: mpsc::Sender<Frame>) {
    let Some(mut stream) = stream else { return };
    let mut piece = vec![0; PIECE_BYTES_MAX];
    while let Ok(count @ 1..) = stream.read(&mut piece).await {
        if frames.send((kind, piece[..count].to_vec())).await.is_err() {
            return;
        }
    }
    let _ = frames.send((kind, Vec::new())).await;
}

/// Takes what the other side says; returns when it has hung up.
async fn take_input(
    from: &mut (impl tokio::io::AsyncRead + Unpin),
    mut stdin: Option<Input>,
    resize: Option<Resize>,
) -> io::Result<()> {
    while let Some((kind, bytes)) = wire::read(from).await? {
        match (kind, &mut stdin, &resize) {
            (Kind::Stdin, Some(input), _) if !bytes.is_empty() => {
                let written = input.write_all(&bytes).await.is_ok();
                let is_taken = written && input.flush().await.is_ok();
                // A program that does not read any more is not told of more.
                stdin = stdin.filter(|_| is_taken);
            }
            (Kind::Stdin, Some(input), _) => {
                let _ = input.shutdown().await;
                stdin = None;
            }
            (Kind::Size, _, Some(resize)) => {
                if let Ok((width, height)) = serde_json::from_slice(&bytes) {
                    resize(width, height);
                }
            }
            _ => {}
        }
    }
    Ok(())
}
