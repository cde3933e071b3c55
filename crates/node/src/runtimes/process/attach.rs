//! Lets others take part in the input and output of a container: what the shim does for it, and
//! how it is asked.
//!
//! The shim listens on a socket in the directory of the run. What is said on it comes in frames: a
//! byte that names the stream, four for the length, and the bytes. Who does not take what it is
//! told for a while is left out, so that nobody can hold the container up for ever.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::record::{Asked, Place};
use super::terminal::{self, Pair};
use crate::runtime::Input;

pub const STDIN: u8 = 0;
pub const STDOUT: u8 = 1;
pub const STDERR: u8 = 2;
pub const RESIZE: u8 = 4;
pub const CLOSE: u8 = 255;
/// The longest frame.
pub const FRAME_BYTES_MAX: usize = 32 << 10;
const SOCKET: &str = "attach.sock";
/// How many may take part at once.
const CLIENTS_MAX: usize = 32;
/// How long one of them may make the container wait.
const TOLD_MAX: Duration = Duration::from_secs(5);
/// Threads of the shim need little.
const STACK_BYTES: usize = 64 << 10;

/// Our ends of what a container has for input.
pub struct Ends {
    terminal: Option<File>,
}

/// What is held of them once the container runs.
#[derive(Default)]
pub struct Kept {
    input: Option<File>,
    terminal: Option<File>,
}

impl Ends {
    /// Gives the program what its specification says.
    pub fn prepare(command: &mut Command, asked: &Asked) -> io::Result<Ends> {
        let spec = &asked.spec;
        if spec.input.is_terminal {
            let terminal = Pair::open(asked.host_user())?.give(command)?;
            return Ok(Ends { terminal: Some(terminal) });
        }
        if spec.input.is_open {
            command.stdin(Stdio::piped());
        }
        Ok(Ends { terminal: None })
    }

    pub fn held_by(self, child: &mut Child) -> Kept {
        let input = match &self.terminal {
            Some(terminal) => terminal.try_clone().ok(),
            None => child.stdin.take().map(|stdin| File::from(OwnedFd::from(stdin))),
        };
        Kept { input, terminal: self.terminal }
    }
}

/// Where those meet who take part.
pub struct Hub {
    listeners: Mutex<Vec<UnixStream>>,
    input: Mutex<Option<File>>,
    terminal: Option<File>,
    is_once: bool,
}

impl Hub {
    /// Listens from here on. A container runs as well without.
    pub fn open(place: &Place, input: &Input, kept: Kept) -> Arc<Hub> {
        let hub = Arc::new(Hub {
            listeners: Mutex::default(),
            // A terminal is also read by whoever may not write to it.
            input: Mutex::new(kept.input.filter(|_| input.is_open)),
            terminal: kept.terminal,
            is_once: input.is_once,
        });
        if let Ok(listener) = listen(place.directory()) {
            let hub = hub.clone();
            let accept = move || {
                for stream in listener.incoming().flatten() {
                    let _ = hub.admit(stream);
                }
            };
            let _ = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(accept);
        }
        hub
    }

    /// The terminal, to be read.
    pub fn terminal(&self) -> Option<File> {
        self.terminal.as_ref().and_then(|terminal| terminal.try_clone().ok())
    }

    /// Tells everybody what the container wrote.
    pub fn tell(&self, number: u8, bytes: &[u8]) {
        let mut listeners = lock(&self.listeners);
        if listeners.is_empty() {
            return;
        }
        let frame = frame(number, bytes);
        listeners.retain_mut(|listener| listener.write_all(&frame).is_ok());
    }

    fn admit(self: &Arc<Self>, stream: UnixStream) -> io::Result<()> {
        stream.set_write_timeout(Some(TOLD_MAX))?;
        {
            let mut listeners = lock(&self.listeners);
            if listeners.len() >= CLIENTS_MAX {
                return Ok(());
            }
            listeners.push(stream.try_clone()?);
        }
        let hub = self.clone();
        let follow = move || hub.follow(stream);
        std::thread::Builder::new().stack_size(STACK_BYTES).spawn(follow).map(drop)
    }

    /// Does what one of them says, until it goes.
    fn follow(&self, mut stream: UnixStream) {
        let mut has_input = false;
        while let Ok((number, bytes)) = read_frame(&mut stream) {
            match number {
                STDIN => {
                    has_input = true;
                    self.feed(&bytes);
                }
                RESIZE => {
                    if let (Some(terminal), &[a, b, c, d]) = (&self.terminal, &bytes[..]) {
                        let (width, height) = ([a, b], [c, d]);
                        let (width, height) =
                            (u16::from_be_bytes(width), u16::from_be_bytes(height));
                        terminal::resize(terminal, width, height);
                    }
                }
                CLOSE if self.is_once => drop(lock(&self.input).take()),
                _ => {}
            }
        }
        if has_input && self.is_once {
            drop(lock(&self.input).take());
        }
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }

    fn feed(&self, bytes: &[u8]) {
        let input = lock(&self.input).as_ref().and_then(|input| input.try_clone().ok());
        if let Some(mut input) = input {
            let _ = input.write_all(bytes);
        }
    }
}

pub fn frame(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut frame = Vec::with_capacity(5 + bytes.len());
    frame.push(number);
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(bytes);
    frame
}

fn read_frame(stream: &mut UnixStream) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    stream.read_exact(&mut head)?;
    let [number, length @ ..] = head;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > FRAME_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes)?;
    Ok((number, bytes))
}

/// By way of `/proc`: sockets have short names.
fn listen(directory: &Path) -> io::Result<UnixListener> {
    let directory = File::open(directory)?;
    UnixListener::bind(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd()))
}

pub fn connect(directory: &Path) -> io::Result<UnixStream> {
    let directory = File::open(directory)?;
    UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
