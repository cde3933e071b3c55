//! The process that works inside of the pod network for this one. A process with threads cannot
//! join a user namespace, so a program with one thread joins it and serves requests.

use std::fs::File;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::wire::{self, Reply, Request};
use crate::network::kernel::Kernel;
use crate::network::services::Protocol;
use crate::network::{pods, system};
use crate::runtimes::process::namespaces;

/// Joins the namespaces of the holder and serves requests until the other end is closed.
pub fn run(holder: i32, mut socket: UnixStream) -> io::Result<()> {
    for space in namespaces::of(holder)? {
        namespaces::join(&space)?;
    }
    while let Some((request, _)) = wire::receive::<Request>(&mut socket)? {
        match serve(request) {
            Ok((reply, descriptor)) => wire::send(&mut socket, &reply, descriptor.as_ref())?,
            Err(error) => wire::send(&mut socket, &Reply::from_error(&error), None)?,
        }
    }
    Ok(())
}

fn serve(request: Request) -> io::Result<(Reply, Option<OwnedFd>)> {
    let kernel = Kernel::Direct;
    let done = |()| (Reply::Done, None);
    match request {
        Request::Claim { marks, wanted, begin } => {
            Ok((Reply::Range(kernel.claim(&marks, wanted, begin)?), None))
        }
        Request::MakePod { marks, range, record, file } => {
            let whose = pods::Whose::Ours;
            kernel.make_pod((&marks, range), &record, (&file, whose)).map(done)
        }
        Request::RemovePod { marks, uid, address } => {
            kernel.remove_pod(&marks, &uid, address).map(done)
        }
        Request::RemoveStrays { marks, pods } => {
            kernel.remove_strays(&marks, &pods);
            Ok((Reply::Done, None))
        }
        Request::HasPod { marks, address } => {
            Ok((Reply::Is(kernel.has_pod(&marks, address)), None))
        }
        Request::ReplaceRules { marks, range, before, wanted } => {
            kernel.replace_rules((&marks, range), &before, &wanted).map(done)
        }
        Request::Close { marks, range } => kernel.close(&marks, range).map(done),
        Request::Bind { protocol, address } => {
            let descriptor = match protocol {
                Protocol::Udp => OwnedFd::from(UdpSocket::bind(address)?),
                _ => OwnedFd::from(TcpListener::bind(address)?),
            };
            Ok((Reply::Descriptor, Some(descriptor)))
        }
        Request::Socket { is_v6, network } => {
            let descriptor = match network {
                None => wire::tcp_socket(is_v6)?,
                Some(network) => socket_in(&network, is_v6)?,
            };
            Ok((Reply::Descriptor, Some(descriptor)))
        }
    }
}

/// Creates a socket in another network, on a thread that ends there.
fn socket_in(network: &Path, is_v6: bool) -> io::Result<OwnedFd> {
    let network = File::open(network)?;
    let create = || system::enter_network(&network).and_then(|()| wire::tcp_socket(is_v6));
    std::thread::scope(|scope| {
        let created = scope.spawn(create).join();
        created.unwrap_or_else(|_| Err(io::Error::other("the thread ended")))
    })
}
