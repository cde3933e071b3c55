//! The DNS of the cluster: answers for its own domain from what the node knows anyway, and passes
//! other questions on to the servers of the machine. It never asks the API server.

mod message;
mod zone;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;

use super::Network;
use super::names::parse_resolv_conf;
use super::relay::Side;
use message::{Question, Reply};
use zone::Answer;
pub use zone::Zone;

/// Where the machine says whom it asks.
const RESOLV_CONF: &str = "/etc/resolv.conf";
const PORT: u16 = 53;
/// The largest message over UDP, and over TCP.
const DATAGRAM_BYTES_MAX: usize = 4_096;
const STREAM_BYTES_MAX: usize = 65_535;
/// Questions that are with other servers at the same time; more are told that it failed.
const FORWARDED_MAX: usize = 512;
const CONNECTIONS_MAX: usize = 256;
/// How long another server may take, and how long a connection may say nothing.
const FORWARD_MAX: Duration = Duration::from_secs(2);
const IDLE_MAX: Duration = Duration::from_secs(10);

/// The server of one node.
pub struct Server {
    datagrams: Arc<UdpSocket>,
    streams: TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    zone: RwLock<Arc<Zone>>,
    domain: String,
    own: IpAddr,
    turn: AtomicUsize,
    forwarded: Semaphore,
}

/// What tells a server of changes.
#[derive(Clone)]
pub struct Teller(Arc<Shared>);

impl Teller {
    pub fn tell(&self, zone: Zone) {
        let mut held = self.0.zone.write().unwrap_or_else(PoisonError::into_inner);
        *held = Arc::new(zone);
    }
}

impl Server {
    /// Takes the usual port if it is free, else any.
    pub async fn bind(network: &Network) -> io::Result<Server> {
        let (address, domain) = (network.gateway(), network.options.domain.as_str());
        let side = network.rootless().cloned().map_or(Side::Host, Side::Pods);
        let (datagrams, streams) = match bind(&side, address, PORT).await {
            Ok(bound) => bound,
            Err(_) => bind(&side, address, 0).await?,
        };
        let shared = Shared {
            zone: RwLock::new(Arc::new(Zone::new(domain, &[], &[]))),
            domain: domain.to_owned(),
            own: address,
            turn: AtomicUsize::new(0),
            forwarded: Semaphore::new(FORWARDED_MAX),
        };
        Ok(Server { datagrams: Arc::new(datagrams), streams, shared: Arc::new(shared) })
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.datagrams.local_addr()
    }

    pub fn teller(&self) -> Teller {
        Teller(self.shared.clone())
    }

    /// Answers until it is dropped.
    pub async fn run(&self) {
        tokio::join!(self.answer_datagrams(), self.answer_streams());
    }

    async fn answer_datagrams(&self) {
        let mut bytes = vec![0; DATAGRAM_BYTES_MAX];
        loop {
            // What fails is about an earlier answer that nobody took.
            let Ok((count, from)) = self.datagrams.recv_from(&mut bytes).await else { continue };
            match self.shared.decide(&bytes[..count], None) {
                Decided::Nothing => {}
                Decided::Answer(answer) => drop(self.datagrams.send_to(&answer, from).await),
                Decided::Ask(asked) => {
                    let (shared, socket) = (self.shared.clone(), self.datagrams.clone());
                    let asking = bytes[..count].to_vec();
                    #[expect(clippy::disallowed_methods, reason = "it ends at the deadline")]
                    tokio::spawn(async move {
                        let answer = shared.ask(&asked, &asking, Transport::Datagrams).await;
                        let _ = socket.send_to(&answer, from).await;
                    });
                }
            }
        }
    }

    async fn answer_streams(&self) {
        let free = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let Ok(permit) = free.clone().acquire_owned().await else { return };
            let Ok((stream, _)) = self.streams.accept().await else {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let shared = self.shared.clone();
            #[expect(clippy::disallowed_methods, reason = "bounded by permits and deadlines")]
            tokio::spawn(async move {
                let _ = shared.converse(stream).await;
                drop(permit);
            });
        }
    }
}

async fn bind(side: &Side, address: IpAddr, port: u16) -> io::Result<(UdpSocket, TcpListener)> {
    let datagrams = side.bind_udp(SocketAddr::new(address, port)).await?;
    let port = datagrams.local_addr()?.port();
    let streams = side.listen(SocketAddr::new(address, port)).await?;
    Ok((datagrams, streams))
}

enum Decided {
    Nothing,
    Answer(Vec<u8>),
    Ask(Asked),
}

/// A question that another server has to answer.
struct Asked {
    question: Question,
    /// The name by which it came to be theirs.
    alias: Option<message::Record>,
}

#[derive(Clone, Copy)]
enum Transport {
    Datagrams,
    Streams,
}

impl Shared {
    /// Answers what is ours.
    fn decide(&self, bytes: &[u8], bytes_max: Option<usize>) -> Decided {
        let question = match message::parse(bytes) {
            Ok(question) => question,
            Err(None) => return Decided::Nothing,
            Err(Some(answer)) => return Decided::Answer(answer),
        };
        let zone = self.zone.read().unwrap_or_else(PoisonError::into_inner).clone();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        match zone.answer(&question.name, question.kind, turn) {
            Answer::Ours(reply) => {
                let bytes_max = bytes_max.unwrap_or_else(|| question.bytes_max());
                Decided::Answer(question.answer(&reply, &self.domain, bytes_max))
            }
            Answer::Alias(alias) => Decided::Ask(Asked { question, alias: Some(alias) }),
            Answer::NotOurs => Decided::Ask(Asked { question, alias: None }),
        }
    }

    /// Lets the servers of the machine answer.
    async fn ask(&self, asked: &Asked, bytes: &[u8], transport: Transport) -> Vec<u8> {
        let Ok(_permit) = self.forwarded.try_acquire() else { return asked.question.failed() };
        let Some(alias) = &asked.alias else {
            let answer = self.forward(bytes, transport).await;
            return answer.unwrap_or_else(|| asked.question.failed());
        };
        let message::Data::Cname(target) = &alias.data else { return asked.question.failed() };
        let question = message::ask(asked.question.id, target, asked.question.kind);
        let answer = self.forward(&question, transport).await;
        let mut reply = Reply { records: vec![alias.clone()], ..Reply::default() };
        reply.records.extend(answer.and_then(|bytes| message::records(&bytes)).unwrap_or_default());
        let bytes_max = match transport {
            Transport::Datagrams => asked.question.bytes_max(),
            Transport::Streams => STREAM_BYTES_MAX,
        };
        asked.question.answer(&reply, &self.domain, bytes_max)
    }

    async fn forward(&self, bytes: &[u8], transport: Transport) -> Option<Vec<u8>> {
        let text = tokio::task::spawn_blocking(|| std::fs::read_to_string(RESOLV_CONF)).await;
        let machine = parse_resolv_conf(&text.ok()?.ok()?);
        let servers = machine.servers.iter().filter_map(|text| text.parse::<IpAddr>().ok());
        for server in servers.filter(|server| *server != self.own).take(3) {
            let to = SocketAddr::new(server, PORT);
            let asked = async {
                match transport {
                    Transport::Datagrams => by_datagram(to, bytes).await,
                    Transport::Streams => by_stream(to, bytes).await,
                }
            };
            if let Ok(Ok(answer)) = tokio::time::timeout(FORWARD_MAX, asked).await {
                return Some(answer);
            }
        }
        None
    }

    /// Answers one connection, question by question.
    async fn converse(&self, mut stream: TcpStream) -> io::Result<()> {
        loop {
            let read = tokio::time::timeout(IDLE_MAX, read_framed(&mut stream)).await;
            let bytes = read.map_err(io::Error::from)??;
            let answer = match self.decide(&bytes, Some(STREAM_BYTES_MAX)) {
                Decided::Nothing => return Ok(()),
                Decided::Answer(answer) => answer,
                Decided::Ask(asked) => self.ask(&asked, &bytes, Transport::Streams).await,
            };
            write_framed(&mut stream, &answer).await?;
        }
    }
}

/// A socket of its own for each question: its port is as hard to guess as the question's number.
async fn by_datagram(to: SocketAddr, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(to).await?;
    socket.send(bytes).await?;
    let mut answer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        let count = socket.recv(&mut answer).await?;
        if count >= 2 && answer[..2] == bytes[..2] {
            answer.truncate(count);
            return Ok(answer);
        }
    }
}

async fn by_stream(to: SocketAddr, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(to).await?;
    write_framed(&mut stream, bytes).await?;
    read_framed(&mut stream).await
}

async fn read_framed(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u16().await?;
    let mut bytes = vec![0; usize::from(length)];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn write_framed(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let length = u16::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let framed = [&length.to_be_bytes()[..], bytes].concat();
    stream.write_all(&framed).await
}
