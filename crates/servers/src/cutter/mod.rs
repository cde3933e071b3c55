//! A TCP proxy for fault tests: it resets connections in the middle of an answer, holds answers
//! back and refuses connections, at the word of the test.
//!
//! One thread moves all bytes; a call here is an order to it and returns when it was carried
//! out, so a test needs no waiting of its own.

mod relay;
mod worker;

use std::io::{self, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use crate::error::Error;
use crate::port::{self, Port};

use worker::{Order, Worker};

/// Ports that are tried.
const TRIES_MAX: u32 = 8;

/// Whether the proxy takes new connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admit {
    All,
    /// Clients get "connection refused", as from a port where nobody listens.
    None,
}

/// A proxy on a free loopback port in front of a server on another. Dropping it closes
/// everything.
pub struct Cutter {
    port: Port,
    orders: mpsc::Sender<(Order, mpsc::Sender<u64>)>,
    /// A byte written here wakes the worker.
    wake: UnixStream,
    worker: Option<JoinHandle<()>>,
}

impl Cutter {
    pub fn start(upstream_port: u16) -> Result<Cutter, Error> {
        let doing = || "start the cutting proxy".to_owned();
        let (port, listener) = listen_somewhere()?;
        let (wake, woken) = UnixStream::pair().map_err(Error::io(doing()))?;
        woken.set_nonblocking(true).map_err(Error::io(doing()))?;
        let (orders, inbox) = mpsc::channel();
        let worker = Worker::new(listener, port.number(), upstream_port);
        let worker = thread::spawn(move || worker.run(&woken, &inbox));
        Ok(Cutter { port, orders, wake, worker: Some(worker) })
    }

    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Arms a cut after so many bytes of answers.
    ///
    /// Every connection that is open, and every one that is accepted while the proxy is armed,
    /// gets an allowance of its own: that many further bytes to the client. A connection whose
    /// allowance is spent is reset (RST) on both sides; what the server sent beyond it is lost.
    /// With 0 the reset comes when the first byte of an answer does, so the server has carried
    /// the request out and the client hears nothing of it.
    ///
    /// The first such reset disarms the proxy: connections accepted after it are normal. Those
    /// that had an allowance keep it and are reset in their turn. A second call gives every open
    /// connection the allowance of that call, and arms again.
    ///
    /// A client that reads gets exactly `bytes_to_client` bytes; one that does not read may get
    /// fewer, because a reset drops what still waits to be sent.
    pub fn cut_after(&self, bytes_to_client: u64) {
        self.order(Order::CutAfter(bytes_to_client));
    }

    /// Resets every open connection (RST). Later ones are not affected, nor is an armed cut.
    pub fn cut_all(&self) {
        self.order(Order::CutAll);
    }

    /// Takes or refuses new connections; open ones go on.
    pub fn admit(&self, admit: Admit) {
        self.order(Order::Admit(admit));
    }

    /// Holds back the answers of all connections, later ones too, until [`Cutter::resume`];
    /// requests go on to the server.
    pub fn stall(&self) {
        self.order(Order::Stall);
    }

    pub fn resume(&self) {
        self.order(Order::Resume);
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        usize::try_from(self.order(Order::CountConnections)).expect("a count must fit in memory")
    }

    /// How many connections [`Cutter::cut_after`] and [`Cutter::cut_all`] have reset so far.
    pub fn cuts(&self) -> u64 {
        self.order(Order::CountCuts)
    }

    fn order(&self, order: Order) -> u64 {
        let (answer, result) = mpsc::channel();
        self.orders.send((order, answer)).expect("the worker must live as long as the proxy");
        self.wake();
        result.recv().expect("the worker must answer every order")
    }

    fn wake(&self) {
        // Fails only when the worker is gone; whoever waits for it finds that out.
        (&self.wake).write_all(&[0]).ok();
    }
}

impl Drop for Cutter {
    fn drop(&mut self) {
        // The worker ends when nobody is left to give orders.
        (self.orders, _) = mpsc::channel();
        self.wake();
        let worker = self.worker.take().expect("a proxy must have its worker until it is dropped");
        let result = worker.join();
        assert!(result.is_ok() || thread::panicking(), "the worker must not panic");
    }
}

/// Listens on a port that was free a moment ago. A process that another thread starts meanwhile has
/// for a moment what we have open, and so the port.
fn listen_somewhere() -> Result<(Port, TcpListener), Error> {
    let mut tries = 0;
    loop {
        let port = Port::reserve()?;
        tries += 1;
        match listen(port.number()) {
            Ok(listener) => return Ok((port, listener)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries < TRIES_MAX => {}
            Err(error) => return Err(Error::io("start the cutting proxy".to_owned())(error)),
        }
    }
}

fn listen(port: u16) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(port::loopback(port))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

#[cfg(test)]
mod tests;
