//! One connection of the proxy: two sockets and the bytes between them. Never blocks.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;

use libc::{POLLIN, POLLOUT, c_short, pollfd};

use crate::process;

/// The bytes read from one side that the other has not taken yet.
const BUFFER_BYTES: usize = 64 * 1024;

/// What a connection is after it was moved on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Open,
    /// Both sides have said all, or one of them is gone.
    Ended,
    /// Its allowance is spent.
    Spent,
}

/// Whether answers go on to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    Flow,
    Stalled,
}

pub struct Relay {
    client: TcpStream,
    upstream: TcpStream,
    requests: Pipe,
    answers: Pipe,
}

impl Relay {
    pub fn new(
        client: TcpStream,
        upstream: TcpStream,
        allowance: Option<u64>,
    ) -> io::Result<Relay> {
        for stream in [&client, &upstream] {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
        }
        Ok(Relay { client, upstream, requests: Pipe::new(None), answers: Pipe::new(allowance) })
    }

    /// Gives the connection so many further bytes of answers.
    pub fn allow(&mut self, bytes: u64) {
        self.answers.allowance = Some(bytes);
    }

    /// What to wait for: the client's socket, then the server's.
    pub fn wants(&self, answers: Answers) -> [pollfd; 2] {
        let answers = match answers {
            Answers::Flow => (self.answers.wants_read(), self.answers.wants_write()),
            Answers::Stalled => (0, 0),
        };
        [
            wait_for(&self.client, self.requests.wants_read() | answers.1),
            wait_for(&self.upstream, answers.0 | self.requests.wants_write()),
        ]
    }

    /// Moves what can be moved without waiting.
    pub fn step(&mut self, answers: Answers) -> State {
        if self.requests.pump(&mut self.client, &mut self.upstream).is_err() {
            return self.broken();
        }
        if answers == Answers::Flow
            && self.answers.pump(&mut self.upstream, &mut self.client).is_err()
        {
            return self.broken();
        }
        match (self.answers.is_spent(), self.requests.is_done() && self.answers.is_done()) {
            (true, _) => State::Spent,
            (false, true) => State::Ended,
            (false, false) => State::Open,
        }
    }

    /// Closes both sides with a reset.
    pub fn reset(self) {
        for stream in [&self.client, &self.upstream] {
            // Fails only on a socket that is gone already.
            process::reset_on_close(stream).ok();
        }
    }

    /// One side was reset: the other shall see the same.
    fn broken(&self) -> State {
        for stream in [&self.client, &self.upstream] {
            process::reset_on_close(stream).ok();
        }
        State::Ended
    }
}

/// One direction of a connection.
struct Pipe {
    buffer: Vec<u8>,
    /// How much of the buffer has been written.
    written: usize,
    source: Source,
    allowance: Option<u64>,
    /// Whether a byte arrived for which there was no allowance, or the last of it was passed on.
    spent: bool,
}

#[derive(PartialEq, Eq)]
enum Source {
    Open,
    Ended,
    /// Its end has been passed on.
    Done,
}

impl Pipe {
    fn new(allowance: Option<u64>) -> Pipe {
        Pipe { buffer: Vec::new(), written: 0, source: Source::Open, allowance, spent: false }
    }

    fn wants_read(&self) -> c_short {
        if self.buffer.is_empty() && self.source == Source::Open { POLLIN } else { 0 }
    }

    fn wants_write(&self) -> c_short {
        if self.buffer.is_empty() { 0 } else { POLLOUT }
    }

    fn is_spent(&self) -> bool {
        self.spent
    }

    fn is_done(&self) -> bool {
        self.source == Source::Done
    }

    fn pump(&mut self, from: &mut TcpStream, to: &mut TcpStream) -> io::Result<()> {
        if self.buffer.is_empty() && self.source == Source::Open {
            self.fill(from)?;
        }
        if !self.buffer.is_empty() {
            self.drain(to)?;
        }
        if self.buffer.is_empty() && self.source == Source::Ended {
            to.shutdown(Shutdown::Write)?;
            self.source = Source::Done;
        }
        Ok(())
    }

    fn fill(&mut self, from: &mut TcpStream) -> io::Result<()> {
        self.buffer.resize(BUFFER_BYTES, 0);
        let result = from.read(&mut self.buffer);
        self.buffer.truncate(*result.as_ref().unwrap_or(&0));
        self.written = 0;
        match result {
            Ok(0) => self.source = Source::Ended,
            Ok(_) => {}
            Err(error) if is_not_ready(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn drain(&mut self, to: &mut TcpStream) -> io::Result<()> {
        let waiting = &self.buffer[self.written..];
        let allowed = match self.allowance {
            Some(allowance) => waiting.len().min(usize::try_from(allowance).unwrap_or(usize::MAX)),
            None => waiting.len(),
        };
        let count = match to.write(&waiting[..allowed]) {
            Ok(count) => count,
            Err(error) if is_not_ready(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        self.written += count;
        if let Some(allowance) = &mut self.allowance {
            *allowance -= count as u64;
            self.spent = *allowance == 0;
        }
        if self.written == self.buffer.len() {
            self.buffer.clear();
        }
        Ok(())
    }
}

fn wait_for(stream: &TcpStream, events: c_short) -> pollfd {
    // A descriptor that we want nothing of is left out: its hang-up would wake us without end.
    let fd = if events == 0 { -1 } else { stream.as_raw_fd() };
    pollfd { fd, events, revents: 0 }
}

fn is_not_ready(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
