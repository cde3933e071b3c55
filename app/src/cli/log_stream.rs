//! Output of one container over the API, line by line. A followed stream survives restarts of the
//! server: it reconnects at the last line that was read, without losing or repeating lines.

use std::io;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use futures::{AsyncBufRead, AsyncBufReadExt};
use http::Request;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::exit;
use crate::output;

/// Interval between attempts to reconnect.
const RETRY: Duration = Duration::from_millis(500);
/// Time without any answer from the server after which a stream is given up.
const SILENCE_MAX: Duration = Duration::from_secs(30);
const INTERRUPTED: &str = "log stream interrupted, reconnecting";

/// A container, and which part of its output is read.
#[derive(Clone, Debug, Default)]
pub struct Source {
    pub namespace: String,
    pub pod: String,
    pub container: String,
    pub previous: bool,
    /// The last lines only.
    pub tail: Option<u64>,
    /// Lines of the last seconds only.
    pub since_seconds: Option<u64>,
}

/// Receives a timestamp and a line.
pub trait Sink: FnMut(&str, &str) {}
impl<F: FnMut(&str, &str)> Sink for F {}

impl Source {
    fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/pods/{}", self.namespace, self.pod)
    }

    /// Query for the first connection, or for one that continues at a position.
    fn query(&self, position: &Position, is_followed: bool) -> String {
        let mut query = format!("container={}&timestamps=true", self.container);
        if self.previous {
            query.push_str("&previous=true");
        }
        if is_followed {
            query.push_str("&follow=true");
        }
        match position.since() {
            Some(time) => query.push_str(&format!("&sinceTime={time}")),
            None => {
                let tail = self.tail.map(|count| format!("&tailLines={count}"));
                let since = self.since_seconds.map(|count| format!("&sinceSeconds={count}"));
                query.extend(tail.into_iter().chain(since));
            }
        }
        query
    }

    /// Reads the output that there is.
    pub async fn read(&self, client: &kube::Client, mut sink: impl Sink) -> Result<()> {
        let mut position = Position::default();
        self.stream(client, &mut position, (false, &mut sink)).await
    }

    /// Reads the output until the container ends. Reconnects when the connection breaks.
    pub async fn follow(&self, client: &kube::Client, mut sink: impl Sink) -> Result<()> {
        let mut position = Position::default();
        let run = self.run(client).await.ok().flatten();
        let mut heard = Instant::now();
        loop {
            let broken = self.stream(client, &mut position, (true, &mut sink)).await.err();
            if let Some(error) = broken.as_ref().filter(|error| is_refusal(error)) {
                return Err(anyhow!("{}", output::one_line(error)));
            }
            let now = match self.run(client).await {
                Ok(now) => {
                    heard = Instant::now();
                    now
                }
                Err(error) if heard.elapsed() > SILENCE_MAX => return Err(error),
                Err(_) => {
                    self.report_interruption(&mut position);
                    sleep(RETRY).await;
                    continue;
                }
            };
            match (&run, now) {
                // Nothing is left to read once the pod is deleted.
                (_, None) => return Ok(()),
                (Some(run), Some(now)) if now.restarts != run.restarts => {
                    let rest = Source { previous: true, ..self.clone() };
                    return rest.stream(client, &mut position, (false, &mut sink)).await;
                }
                (_, Some(now)) if now.is_over => {
                    let rest = self.stream(client, &mut position, (false, &mut sink)).await;
                    // The node drops the log together with the pod.
                    return if now.is_deleted { Ok(()) } else { rest };
                }
                _ => {}
            }
            // The end of a container is in its status a moment after the end of its output.
            if broken.is_some() {
                self.report_interruption(&mut position);
            }
            sleep(RETRY).await;
        }
    }

    /// Reports an interruption once, unless the connection was never established.
    fn report_interruption(&self, position: &mut Position) {
        if std::mem::take(&mut position.is_connected) {
            output::remark(format!("{}: {INTERRUPTED}", self.pod));
        }
    }

    async fn stream<S: Sink>(
        &self,
        client: &kube::Client,
        position: &mut Position,
        (is_followed, sink): (bool, &mut S),
    ) -> Result<()> {
        let path = format!("{}/log?{}", self.path(), self.query(position, is_followed));
        let request = Request::get(path).body(Vec::new())?;
        let stream = client.request_stream(request).await.context("could not read the log")?;
        position.reconnect();
        let take = |line: &str| {
            let (time, text) = split(line);
            if position.advance(time) {
                sink(time, text);
            }
        };
        let rest = lines(std::pin::pin!(stream), take).await;
        let rest = rest.context("the log stream broke off")?;
        // A followed line without its end is read again once it is complete.
        let (time, text) = split(&rest);
        if !is_followed && !rest.is_empty() && position.advance(time) {
            sink(time, text);
        }
        Ok(())
    }

    /// State of the container, if its pod exists.
    async fn run(&self, client: &kube::Client) -> Result<Option<Run>> {
        let request = Request::get(self.path()).body(Vec::new())?;
        let pod = match client.request::<Value>(request).await {
            Ok(pod) => pod,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(error) => return Err(anyhow!(error).context("could not read the pod")),
        };
        let fields = ["initContainerStatuses", "containerStatuses"];
        let statuses = fields.iter().flat_map(|field| pod["status"][*field].as_array()).flatten();
        let own = statuses.into_iter().find(|one| one["name"] == self.container.as_str());
        let own = own.unwrap_or(&Value::Null);
        Ok(Some(Run {
            restarts: own["restartCount"].as_i64().unwrap_or(0),
            is_over: self.previous || own["state"]["terminated"].is_object(),
            is_deleted: pod["metadata"]["deletionTimestamp"].is_string(),
        }))
    }
}

/// One run of a container.
struct Run {
    restarts: i64,
    is_over: bool,
    is_deleted: bool,
}

/// True if the server refused the request, so that repeating it is pointless.
fn is_refusal(error: &anyhow::Error) -> bool {
    let code = error.chain().find_map(|cause| match cause.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    });
    // The node may still be starting the container, or the server may be stopping.
    matches!(code, Some(401 | 403 | 404 | 422)) || exit::code_of(error) == exit::FORBIDDEN
}

/// Position in a log: the newest timestamp, and how many lines of it were read.
#[derive(Debug, Default)]
struct Position {
    time: String,
    lines: usize,
    /// Lines of the newest timestamp that the current connection has repeated.
    repeated: usize,
    /// True if a connection was established since the last interruption.
    is_connected: bool,
}

impl Position {
    /// Starts a new connection, which repeats the lines of the newest second.
    fn reconnect(&mut self) {
        (self.repeated, self.is_connected) = (0, true);
    }

    /// Moves past a line. Returns whether it is new.
    fn advance(&mut self, time: &str) -> bool {
        let time = comparable(time);
        if time < self.time {
            return false;
        }
        if time > self.time {
            (self.time, self.lines, self.repeated) = (time, 1, 1);
            return true;
        }
        self.repeated += 1;
        if self.repeated <= self.lines {
            return false;
        }
        self.lines = self.repeated;
        true
    }

    /// The newest full second, from which a new connection reads.
    fn since(&self) -> Option<String> {
        let (date, rest) = self.time.split_at_checked(19)?;
        let zone = rest.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
        Some(format!("{date}{zone}").replace('+', "%2B"))
    }
}

/// A timestamp with nine digits after the second, so that text order is time order.
fn comparable(time: &str) -> String {
    let Some((date, rest)) = time.split_at_checked(19) else { return String::new() };
    let rest = rest.strip_prefix('.').unwrap_or(rest);
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (fraction, zone) = rest.split_at(digits);
    format!("{date}.{fraction:0<9}{zone}")
}

/// A line without its timestamp.
fn split(line: &str) -> (&str, &str) {
    match line.split_once(' ') {
        Some((time, text)) => (time, text),
        None => (line, ""),
    }
}

/// Passes every complete line to a function and returns the rest. Bytes that are not UTF-8 are
/// replaced.
async fn lines(
    mut stream: impl AsyncBufRead + Unpin,
    mut take: impl FnMut(&str),
) -> io::Result<String> {
    let mut line = Vec::new();
    while stream.read_until(b'\n', &mut line).await? > 0 {
        let Some(text) = line.strip_suffix(b"\n") else { break };
        take(&String::from_utf8_lossy(text));
        line.clear();
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_that_are_not_utf_8_are_replaced() {
        let mut seen = Vec::new();
        let bytes: &[u8] = b"one\nt\xffo\n\nlast";
        let rest = lines(bytes, |line| seen.push(line.to_owned())).await.expect("read");
        assert_eq!(
            (&seen[..], rest.as_str()),
            (&["one", "t\u{fffd}o", ""].map(str::to_owned)[..], "last")
        );
    }

    #[test]
    fn a_new_connection_neither_loses_nor_repeats_lines() {
        let mut position = Position::default();
        let mut read = |lines: &[&str]| {
            position.reconnect();
            let new = lines.iter().filter(|line| position.advance(split(line).0));
            new.map(|line| split(line).1.to_owned()).collect::<Vec<_>>()
        };
        let first =
            ["2026-01-02T10:00:00.1Z a", "2026-01-02T10:00:00.12Z b", "2026-01-02T10:00:00.12Z c"];
        assert_eq!(read(&first), ["a", "b", "c"]);
        // The server sends the newest second again, then what is new; two lines share a timestamp.
        let again = [&first[..], &["2026-01-02T10:00:00.12Z d", "2026-01-02T10:00:01Z e"]].concat();
        assert_eq!(read(&again), ["d", "e"]);
        assert_eq!(read(&again[3..]), Vec::<String>::new());
        assert_eq!(position.since().as_deref(), Some("2026-01-02T10:00:01Z"));
        let zone =
            Position { time: comparable("2026-01-02T10:00:01.5+02:00"), ..Position::default() };
        assert_eq!(zone.since().as_deref(), Some("2026-01-02T10:00:01%2B02:00"));
        assert_eq!(Position::default().since(), None);
    }
}
