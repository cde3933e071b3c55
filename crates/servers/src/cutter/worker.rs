//! The thread of the proxy: waits for sockets and orders, and does what they ask.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::Duration;

use libc::{POLLIN, pollfd};

use super::relay::{Answers, Relay, State};
use super::{Admit, listen};
use crate::port;
use crate::process;

/// Connections beyond it are closed at once.
const CONNECTIONS_MAX: usize = 1024;

/// A loopback server that does not take a connection within it counts as down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
pub enum Order {
    CutAfter(u64),
    CutAll,
    Admit(Admit),
    Stall,
    Resume,
    CountConnections,
    CountCuts,
}

pub struct Worker {
    listener: Option<TcpListener>,
    port: u16,
    upstream_port: u16,
    relays: Vec<Relay>,
    answers: Answers,
    /// The allowance of connections to come, while a cut is armed.
    armed: Option<u64>,
    cuts: u64,
}

impl Worker {
    pub fn new(listener: TcpListener, port: u16, upstream_port: u16) -> Worker {
        Worker {
            listener: Some(listener),
            port,
            upstream_port,
            relays: Vec::new(),
            answers: Answers::Flow,
            armed: None,
            cuts: 0,
        }
    }

    /// Serves until nobody is left to give orders.
    pub fn run(mut self, woken: &UnixStream, inbox: &Receiver<(Order, Sender<u64>)>) {
        let mut drained = [0; 64];
        loop {
            self.wait(woken);
            // Nothing to read is the usual case, and what is read says nothing.
            while (&*woken).read(&mut drained).is_ok_and(|count| count == drained.len()) {}
            // Sockets first: what a client did before the test's order counts as before it.
            self.accept();
            self.step();
            loop {
                match inbox.try_recv() {
                    Ok((order, answer)) => {
                        let result = self.obey(order);
                        answer.send(result).ok();
                    }
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
        }
    }

    fn wait(&self, woken: &UnixStream) {
        let mut descriptors = vec![pollfd { fd: woken.as_raw_fd(), events: POLLIN, revents: 0 }];
        if let Some(listener) = &self.listener {
            let fd = listener.as_raw_fd();
            descriptors.push(pollfd { fd, events: POLLIN, revents: 0 });
        }
        descriptors.extend(self.relays.iter().flat_map(|relay| relay.wants(self.answers)));
        process::poll(&mut descriptors).expect("waiting for our own descriptors must not fail");
    }

    fn accept(&mut self) {
        let Some(listener) = &self.listener else { return };
        // An error is "nobody waits", or a client that has gone already.
        while let Ok((client, _)) = listener.accept() {
            if self.relays.len() == CONNECTIONS_MAX {
                continue;
            }
            let upstream = port::loopback(self.upstream_port);
            let upstream = TcpStream::connect_timeout(&upstream, CONNECT_TIMEOUT);
            let relay = upstream.and_then(|upstream| Relay::new(client, upstream, self.armed));
            self.relays.extend(relay);
        }
    }

    fn step(&mut self) {
        let mut open = Vec::with_capacity(self.relays.len());
        for mut relay in self.relays.drain(..) {
            match relay.step(self.answers) {
                State::Open => open.push(relay),
                State::Ended => {}
                State::Spent => {
                    relay.reset();
                    self.armed = None;
                    self.cuts += 1;
                }
            }
        }
        self.relays = open;
    }

    fn obey(&mut self, order: Order) -> u64 {
        match order {
            Order::CutAfter(bytes) => {
                self.armed = Some(bytes);
                self.relays.iter_mut().for_each(|relay| relay.allow(bytes));
            }
            Order::CutAll => {
                self.cuts += self.relays.len() as u64;
                self.relays.drain(..).for_each(Relay::reset);
            }
            Order::Admit(Admit::None) => self.listener = None,
            Order::Admit(Admit::All) if self.listener.is_some() => {}
            Order::Admit(Admit::All) => {
                let listener = listen(self.port).expect("a reserved port must stay ours");
                self.listener = Some(listener);
            }
            Order::Stall => self.answers = Answers::Stalled,
            Order::Resume => self.answers = Answers::Flow,
            Order::CountConnections => return self.relays.len() as u64,
            Order::CountCuts => return self.cuts,
        }
        0
    }
}
