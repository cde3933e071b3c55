//! The protocol of QEMU's monitor: one JSON text a line, commands, answers and events.
//!
//! Everything that comes is bounded: what the guest can influence must not fill our memory.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::error::Error;
use crate::system;

/// What one line may have.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Commands that wait for their turn.
const COMMANDS_MAX: usize = 64;
/// How long a command may take to be answered.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// How long QEMU may take to greet: it opens its disks first.
const GREETING_MAX: Duration = Duration::from_secs(60);

type Answer = Result<Value, String>;

struct Command {
    line: String,
    /// Goes along.
    file: Option<File>,
    answer: oneshot::Sender<Answer>,
}

/// Told of every event by its name and its data.
pub type OnEvent = Arc<dyn Fn(&str, &Value) + Send + Sync>;

/// A connection to the monitor of one machine.
pub struct Monitor {
    commands: mpsc::Sender<Command>,
    _task: JoinSet<()>,
}

impl Monitor {
    /// Greets, and goes over to taking commands.
    pub async fn start(stream: UnixStream, on_event: OnEvent) -> Result<Monitor, Error> {
        let (commands, queue) = mpsc::channel(COMMANDS_MAX);
        let mut lines = Lines { stream, buffer: Vec::new() };
        let greeting = timeout(GREETING_MAX, lines.next()).await;
        let greeting = greeting.ok().flatten().unwrap_or_default();
        if !greeting["QMP"].is_object() {
            return Err(Error::NotAnswered { command: "the monitor".to_owned() });
        }
        let mut task = JoinSet::new();
        task.spawn(serve(lines, queue, on_event));
        let monitor = Monitor { commands, _task: task };
        monitor.execute("qmp_capabilities", json!({})).await?;
        Ok(monitor)
    }

    pub async fn execute(&self, command: &str, arguments: Value) -> Result<Value, Error> {
        self.execute_with(command, arguments, None).await
    }

    /// A command that a file goes along with.
    pub async fn execute_with(
        &self,
        command: &str,
        arguments: Value,
        file: Option<File>,
    ) -> Result<Value, Error> {
        let line = json!({"execute": command, "arguments": arguments}).to_string();
        let (answer, answered) = oneshot::channel();
        let asked = async {
            self.commands.send(Command { line, file, answer }).await.ok()?;
            answered.await.ok()
        };
        match timeout(ANSWER_MAX, asked).await.ok().flatten() {
            Some(Ok(value)) => Ok(value),
            Some(Err(said)) => Err(Error::Refused { command: command.to_owned(), said }),
            None => Err(Error::NotAnswered { command: command.to_owned() }),
        }
    }
}

async fn serve(mut lines: Lines, mut queue: mpsc::Receiver<Command>, on_event: OnEvent) {
    // Answers come in the order of the commands.
    let mut waiting: VecDeque<oneshot::Sender<Answer>> = VecDeque::new();
    loop {
        tokio::select! {
            command = queue.recv(), if waiting.len() < COMMANDS_MAX => {
                let Some(Command { line, file, answer }) = command else { return };
                if write(&mut lines.stream, &(line + "\n"), file).await.is_err() {
                    return;
                }
                waiting.push_back(answer);
            }
            line = lines.next() => {
                let Some(line) = line else { return };
                if let Some(event) = line["event"].as_str() {
                    on_event(event, &line["data"]);
                } else if let Some(answer) = waiting.pop_front() {
                    let _ = answer.send(read(&line));
                }
            }
        }
    }
}

async fn write(stream: &mut UnixStream, line: &str, file: Option<File>) -> io::Result<()> {
    let mut bytes = line.as_bytes();
    if let Some(file) = file {
        let (socket, given) = (stream.as_raw_fd(), file.as_raw_fd());
        let send = || system::send_descriptor(socket, bytes, given);
        let sent = stream.async_io(Interest::WRITABLE, send).await?;
        bytes = &bytes[sent..];
    }
    stream.write_all(bytes).await
}

fn read(line: &Value) -> Answer {
    match &line["error"]["desc"] {
        Value::String(said) => Err(said.clone()),
        _ => Ok(line["return"].clone()),
    }
}

struct Lines {
    stream: UnixStream,
    buffer: Vec<u8>,
}

impl Lines {
    /// The next line; `None` when there are no more, or one that nobody could mean. May be dropped
    /// while it waits.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return serde_json::from_slice(&line).ok();
            }
            if self.buffer.len() > LINE_BYTES_MAX {
                return None;
            }
            if self.stream.read_buf(&mut self.buffer).await.ok()? == 0 {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays QEMU: answers whatever is asked, with an event before each answer.
    async fn play(mut stream: UnixStream) {
        let _ = stream.write_all(b"{\"QMP\": {\"version\": {}}}\n").await;
        let mut lines = Lines { stream, buffer: Vec::new() };
        while let Some(command) = lines.next().await {
            let answer = match command["execute"].as_str() {
                Some("wrong") => json!({"error": {"class": "GenericError", "desc": "no"}}),
                _ => json!({"return": command["arguments"]}),
            };
            let said = format!("{}\n{answer}\n", json!({"event": "STOP", "data": {"n": 1}}));
            let _ = lines.stream.write_all(said.as_bytes()).await;
        }
    }

    #[tokio::test]
    async fn commands_are_answered_events_are_told_and_an_end_is_seen() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut played = JoinSet::new();
        played.spawn(play(theirs));
        let (told, mut events) = mpsc::unbounded_channel();
        let on_event: OnEvent = Arc::new(move |name, _| told.send(name.to_owned()).unwrap());
        let monitor = Monitor::start(ours, on_event).await.unwrap();
        assert_eq!(events.recv().await.unwrap(), "STOP");
        let (one, two) = tokio::join!(
            monitor.execute("a", json!({"x": 1})),
            monitor.execute("wrong", json!({}))
        );
        assert_eq!(one.unwrap(), json!({"x": 1}));
        assert_eq!(two.unwrap_err().to_string(), "wrong was refused: no");
        played.shutdown().await;
        assert!(monitor.execute("b", json!({})).await.is_err());
    }
}
