//! Servers ask nodes of other processes over real connections; nobody else is answered.

#![expect(clippy::disallowed_methods, reason = "what is spawned ends with its test")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use link::remote::Remote;
use link::{DialRequest, Duplex, LogRequest, Missing, Node, Program, ProgramRequest, Streams};
use store::System;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::net::TcpListener;

use crate::identity::certificates::Authority;
use crate::identity::key_files::tests::Memory;
use crate::identity::peers::Peers;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A node whose programs say what they are told, and end with 7.
struct Echo;

#[async_trait]
impl Node for Echo {
    fn name(&self) -> &str {
        "node-1"
    }

    async fn logs(&self, request: LogRequest) -> Result<BoxStream<'static, Bytes>, Missing> {
        match request.previous {
            true => Err(Missing::NoPrevious),
            false => Ok(stream::iter(["one\n", "two\n"]).map(Bytes::from).boxed()),
        }
    }

    async fn runs(&self, _: &str, container: &str) -> Result<bool, String> {
        Ok(container == "main")
    }

    async fn program(&self, request: ProgramRequest) -> Result<Program, String> {
        if request.command.is_empty() {
            return Err("there is none".to_owned());
        }
        let (stdin, mut typed) = duplex(1 << 10);
        let (stdout, mut said) = duplex(1 << 10);
        let end = Box::pin(async move {
            let _ = tokio::io::copy(&mut typed, &mut said).await;
            Ok(7)
        });
        let (stdin, stdout) = (Some(Box::new(stdin) as _), Some(Box::new(stdout) as _));
        Ok(Program { stdin, stdout, stderr: None, resize: None, end })
    }

    async fn dial(&self, request: DialRequest) -> Result<Box<dyn Duplex>, String> {
        let (near, mut far) = duplex(1 << 10);
        match request.port {
            80 => {
                tokio::spawn(async move {
                    let mut all = Vec::new();
                    far.read_to_end(&mut all).await.unwrap();
                    far.write_all(&all).await.unwrap();
                });
                Ok(Box::new(near))
            }
            port => Err(format!("nobody listens on {port}")),
        }
    }
}

fn peers() -> Peers {
    let now = crate::time::unix_seconds(store::Environment::now(&System));
    let authority = Authority::load_or_create(&Memory::default(), now).unwrap();
    Peers { authority: Arc::new(authority), environment: Arc::new(System) }
}

/// Answers questions at an address, as a node of a name.
async fn listen(peers: &Peers, name: &str) -> SocketAddr {
    let listener = TcpListener::bind((HERE, 0)).await.unwrap();
    let answering = peers.answer(name, HERE).unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            if let Ok(connection) = answering.accept(stream).await {
                tokio::spawn(async move {
                    let _ = link::answer::answer(&Echo, connection).await;
                });
            }
        }
    });
    address
}

fn remote(peers: &Peers, address: SocketAddr) -> Remote {
    let connect = peers.connect("node-1", address).unwrap();
    Remote { name: "node-1".to_owned(), connect }
}

#[tokio::test(flavor = "current_thread")]
async fn a_node_elsewhere_answers_as_one_here() {
    let peers = peers();
    let node = remote(&peers, listen(&peers, "node-1").await);
    assert_eq!(node.runs("pod", "main").await, Ok(true));
    assert_eq!(node.runs("pod", "other").await, Ok(false));
    let logs = node.logs(LogRequest::default()).await.ok().unwrap();
    assert_eq!(logs.collect::<Vec<_>>().await.concat(), b"one\ntwo\n");
    let before = LogRequest { previous: true, ..LogRequest::default() };
    assert_eq!(node.logs(before).await.err(), Some(Missing::NoPrevious));

    let streams = Streams { stdin: true, stdout: true, ..Streams::default() };
    let request = ProgramRequest { command: vec!["cat".into()], streams, ..Default::default() };
    let mut program = node.program(request).await.ok().unwrap();
    let (mut stdin, mut stdout) = (program.stdin.take().unwrap(), program.stdout.take().unwrap());
    let sent = vec![1; 200_000];
    let typing = async {
        stdin.write_all(&sent).await.unwrap();
        stdin.shutdown().await.unwrap();
        drop(stdin);
    };
    let mut heard = Vec::new();
    let (_, _, code) = tokio::join!(typing, stdout.read_to_end(&mut heard), program.end);
    assert_eq!((heard.len(), code), (sent.len(), Ok(7)));
    assert_eq!(node.program(ProgramRequest::default()).await.err().unwrap(), "there is none");

    let port = |port| DialRequest { port, ..DialRequest::default() };
    let mut connection = node.dial(port(80)).await.ok().unwrap();
    connection.write_all(b"through").await.unwrap();
    connection.shutdown().await.unwrap();
    let mut back = Vec::new();
    connection.read_to_end(&mut back).await.unwrap();
    assert_eq!(back, b"through");
    assert_eq!(node.dial(port(81)).await.err().unwrap(), "nobody listens on 81");
}

#[tokio::test(flavor = "current_thread")]
async fn who_is_not_of_the_cluster_is_not_answered_and_not_believed() {
    let (peers, others) = (self::peers(), self::peers());
    let address = listen(&peers, "node-1").await;
    let refused = |answer: Result<bool, String>| {
        let why = answer.err().unwrap();
        assert!(why.starts_with("node \"node-1\" does not answer:"), "{why}");
    };
    // A server of another cluster; a node of another cluster; a node of another name; nobody.
    refused(remote(&others, address).runs("pod", "main").await);
    refused(remote(&peers, listen(&others, "node-1").await).runs("pod", "main").await);
    refused(remote(&peers, listen(&peers, "node-2").await).runs("pod", "main").await);
    refused(remote(&peers, SocketAddr::new(HERE, 1)).runs("pod", "main").await);
    // An administrator is no server.
    let refused = peers.connect_as("admin", address).unwrap().connect().await;
    let heard = match refused {
        Ok(mut connection) => connection.read_u8().await.is_ok(),
        Err(_) => false,
    };
    assert!(!heard, "only servers are answered");
}
