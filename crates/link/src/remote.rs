//! The server's side: a node of another process, asked over connections of its own.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt;
use futures::stream::{self, BoxStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::wire::{
    self, DialAnswer, FRAMES_MAX, Frame, Kind, LogsAnswer, MachineSaid, PIECE_BYTES_MAX,
    ProgramAnswer, Question, RunsAnswer, STREAM_BYTES_MAX, Said,
};
use crate::{
    DialRequest, Duplex, LogRequest, MachineAnswer, MachineRefusal, MachineRequest, Missing, Node,
    Program, ProgramRequest, Streams,
};

/// Opens connections to a node, on which both sides know who the other is.
#[async_trait]
pub trait Connect: Send + Sync {
    async fn connect(&self) -> io::Result<Box<dyn Duplex>>;
}

/// A node elsewhere.
pub struct Remote {
    pub name: String,
    pub connect: Arc<dyn Connect>,
}

impl Remote {
    /// A connection on which the question was asked.
    async fn ask(&self, question: &Question) -> Result<Box<dyn Duplex>, String> {
        let asked = async {
            let mut connection = self.connect.connect().await?;
            wire::say(&mut connection, question).await?;
            Ok(connection)
        };
        asked.await.map_err(|error| self.unreachable(&error))
    }

    fn unreachable(&self, error: &io::Error) -> String {
        format!(
            "node {:?} does not answer: {error}; check that its process runs and that this machine \
             reaches it",
            self.name
        )
    }
}

#[async_trait]
impl Node for Remote {
    fn name(&self) -> &str {
        &self.name
    }

    async fn logs(&self, request: LogRequest) -> Result<BoxStream<'static, Bytes>, Missing> {
        let connection = self.ask(&Question::Logs(request)).await;
        let mut connection = connection.map_err(Missing::Unreachable)?;
        let answer: LogsAnswer = wire::hear(&mut connection)
            .await
            .map_err(|error| Missing::Unreachable(self.unreachable(&error)))?;
        answer?;
        let pieces = stream::unfold(connection, |mut connection| async move {
            match wire::read(&mut connection).await {
                Ok(Some((_, bytes))) => Some((Bytes::from(bytes), connection)),
                Ok(None) | Err(_) => None,
            }
        });
        Ok(Box::pin(pieces))
    }

    async fn runs(&self, pod: &str, container: &str) -> Result<bool, String> {
        let (pod, container) = (pod.to_owned(), container.to_owned());
        let mut connection = self.ask(&Question::Runs { pod, container }).await?;
        let answer: RunsAnswer =
            wire::hear(&mut connection).await.map_err(|error| self.unreachable(&error))?;
        answer
    }

    async fn program(&self, request: ProgramRequest) -> Result<Program, String> {
        let wanted = request.streams.clone();
        let mut connection = self.ask(&Question::Program(request)).await?;
        let answer: ProgramAnswer =
            wire::hear(&mut connection).await.map_err(|error| self.unreachable(&error))?;
        Ok(open(connection, &wanted, answer?))
    }

    async fn dial(&self, request: DialRequest) -> Result<Box<dyn Duplex>, String> {
        let mut connection = self.ask(&Question::Dial(request)).await?;
        let answer: DialAnswer =
            wire::hear(&mut connection).await.map_err(|error| self.unreachable(&error))?;
        answer.map(|()| connection)
    }

    async fn machine(&self, request: MachineRequest) -> Result<MachineAnswer, MachineRefusal> {
        let refusal = |message: String| MachineRefusal { code: 503, message };
        let asked = self.ask(&Question::Machine(request)).await;
        let mut connection = asked.map_err(refusal)?;
        let said: MachineSaid =
            wire::hear(&mut connection).await.map_err(|error| refusal(self.unreachable(&error)))?;
        Ok(match said? {
            Said::Done => MachineAnswer::Done,
            Said::Value(value) => MachineAnswer::Value(value),
            Said::Connected => MachineAnswer::Connection(connection),
        })
    }
}

/// Ends what carries a program's streams, unless the program has ended.
struct Carrying(Option<JoinHandle<()>>);

impl Drop for Carrying {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }
}

/// The program at the other end of a connection.
#[expect(clippy::disallowed_methods, reason = "it ends with the program or its connection")]
fn open(connection: Box<dyn Duplex>, wanted: &Streams, has_size: bool) -> Program {
    let (from, mut to) = tokio::io::split(connection);
    let stream = |is_wanted: bool| is_wanted.then(|| tokio::io::duplex(STREAM_BYTES_MAX)).unzip();
    let (stdin, mut typed) = stream(wanted.stdin);
    let (stdout, to_stdout) = stream(wanted.stdout || wanted.tty);
    let (stderr, to_stderr) = stream(wanted.stderr && !wanted.tty);
    let (ended, end) = oneshot::channel();
    let (sizes, mut waiting) = mpsc::channel::<(u16, u16)>(FRAMES_MAX);
    let task = tokio::spawn(async move {
        let saying = async {
            let mut piece = vec![0; PIECE_BYTES_MAX];
            loop {
                let (kind, bytes): Frame = tokio::select! {
                    count = take(&mut typed, &mut piece) => match count {
                        0 => {
                            typed = None;
                            (Kind::Stdin, Vec::new())
                        }
                        count => (Kind::Stdin, piece[..count].to_vec()),
                    },
                    Some(size) = waiting.recv() => {
                        (Kind::Size, serde_json::to_vec(&size).unwrap_or_default())
                    }
                };
                if wire::write(&mut to, kind, &bytes).await.is_err() {
                    // What the program said before is still to be heard.
                    return std::future::pending().await;
                }
            }
        };
        tokio::select! {
            () = hear(from, (to_stdout, to_stderr), ended) => {}
            () = saying => {}
        }
    });
    let mut carrying = Carrying(Some(task));
    let end = async move {
        let ended = end.await;
        // What it said may still be on its way.
        drop(carrying.0.take());
        ended.unwrap_or_else(|_| Err("the node hung up before the program ended".to_owned()))
    };
    let resize: crate::Resize = Box::new(move |width, height| {
        // The next size makes up for one that is lost.
        let _ = sizes.try_send((width, height));
    });
    Program {
        stdin: stdin.map(|stream| Box::new(stream) as crate::Input),
        stdout: stdout.map(|stream| Box::new(stream) as crate::Output),
        stderr: stderr.map(|stream| Box::new(stream) as crate::Output),
        resize: has_size.then_some(resize),
        end: end.boxed(),
    }
}

/// What was typed next; waits for ever when there is nothing to wait for.
async fn take(typed: &mut Option<DuplexStream>, piece: &mut [u8]) -> usize {
    match typed {
        Some(stream) => stream.read(piece).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

/// Hands on what the node says, until it has said everything.
async fn hear(
    mut from: ReadHalf<Box<dyn Duplex>>,
    (mut stdout, mut stderr): (Option<DuplexStream>, Option<DuplexStream>),
    ended: oneshot::Sender<Result<i32, String>>,
) {
    let mut ended = Some(ended);
    while let Ok(Some((kind, bytes))) = wire::read(&mut from).await {
        let stream = match kind {
            Kind::Stdout => &mut stdout,
            Kind::Stderr => &mut stderr,
            Kind::End => {
                let said = serde_json::from_slice(&bytes);
                let said = said.unwrap_or_else(|_| Err("the node said no code".to_owned()));
                if let Some(ended) = ended.take() {
                    let _ = ended.send(said);
                }
                continue;
            }
            _ => continue,
        };
        let is_over = match stream {
            Some(stream) => bytes.is_empty() || stream.write_all(&bytes).await.is_err(),
            None => false,
        };
        if is_over {
            *stream = None;
        }
    }
}
