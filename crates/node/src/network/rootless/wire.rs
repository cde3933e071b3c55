//! Requests to the helper, and its replies with a descriptor. Each message is its length and JSON.
#![expect(unsafe_code, reason = "std has no sockets that pass descriptors")]

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::network::records::Record;
use crate::network::services::{Protocol, Table};
use crate::network::{Marks, Range};
use crate::runtimes::process::system::check;

/// A set of rules of thousands of services is the longest.
const MESSAGE_BYTES_MAX: u32 = 256 << 20;
/// Room for one descriptor beside a message.
const CONTROL_BYTES: usize = 24;

/// An operation inside of the pod network.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    Claim {
        marks: Marks,
        wanted: Option<Range>,
        begin: u32,
    },
    MakePod {
        marks: Marks,
        range: Range,
        record: Record,
        file: PathBuf,
    },
    RemovePod {
        marks: Marks,
        uid: String,
        address: Ipv4Addr,
    },
    RemoveStrays {
        marks: Marks,
        pods: BTreeMap<String, Record>,
    },
    HasPod {
        marks: Marks,
        address: Ipv4Addr,
    },
    ReplaceRules {
        marks: Marks,
        range: Range,
        before: Table,
        wanted: Table,
    },
    Close {
        marks: Marks,
        range: Range,
    },
    /// A listening socket, or for UDP a bound one.
    Bind {
        protocol: Protocol,
        address: SocketAddr,
    },
    /// A TCP socket that is not connected: in the network of the file, or in that of the node.
    Socket {
        is_v6: bool,
        network: Option<PathBuf>,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    Done,
    Range(Range),
    Is(bool),
    /// A descriptor comes with the reply.
    Descriptor,
    Failed {
        code: Option<i32>,
        message: String,
    },
}

impl Reply {
    pub fn from_error(error: &io::Error) -> Reply {
        Reply::Failed { code: error.raw_os_error(), message: error.to_string() }
    }
}

pub fn send(
    socket: &mut UnixStream,
    message: &impl Serialize,
    descriptor: Option<&OwnedFd>,
) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    let length = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    send_with(socket, &length.to_ne_bytes(), descriptor)?;
    socket.write_all(&bytes)
}

/// Returns the next message; `None` when the other end was closed.
pub fn receive<T: DeserializeOwned>(
    socket: &mut UnixStream,
) -> io::Result<Option<(T, Option<OwnedFd>)>> {
    let mut head = [0; 4];
    let (count, descriptor) = receive_with(socket, &mut head)?;
    if count == 0 {
        return Ok(None);
    }
    socket.read_exact(&mut head[count..])?;
    let length = u32::from_ne_bytes(head);
    if length > MESSAGE_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    socket.read_exact(&mut bytes)?;
    Ok(Some((serde_json::from_slice(&bytes)?, descriptor)))
}

/// Aligned as the kernel wants it.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

fn send_with(socket: &UnixStream, bytes: &[u8], descriptor: Option<&OwnedFd>) -> io::Result<()> {
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = Control([0; CONTROL_BYTES]);
    // SAFETY: the header points to locals that live through the call; the control message has room
    // for one descriptor, which is written where the kernel's macros say.
    let sent = unsafe {
        let mut header = MaybeUninit::<libc::msghdr>::zeroed().assume_init();
        (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
        if let Some(descriptor) = descriptor {
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL_BYTES;
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = usize::try_from(libc::CMSG_LEN(4)).unwrap_or(0);
            libc::CMSG_DATA(first).cast::<i32>().write_unaligned(descriptor.as_raw_fd());
        }
        libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL)
    };
    match usize::try_from(sent) {
        Ok(sent) if sent == bytes.len() => Ok(()),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

fn receive_with(socket: &UnixStream, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut control = Control([0; CONTROL_BYTES]);
    // SAFETY: the header points to locals that live through the call; a descriptor that arrived
    // has no other owner.
    unsafe {
        let mut header = MaybeUninit::<libc::msghdr>::zeroed().assume_init();
        (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_BYTES;
        let flags = libc::MSG_CMSG_CLOEXEC;
        let count = libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags);
        let Ok(count) = usize::try_from(count) else { return Err(io::Error::last_os_error()) };
        let first = libc::CMSG_FIRSTHDR(&raw const header);
        let descriptor = (!first.is_null() && (*first).cmsg_type == libc::SCM_RIGHTS)
            .then(|| libc::CMSG_DATA(first).cast::<i32>().read_unaligned());
        Ok((count, descriptor.map(|descriptor| OwnedFd::from_raw_fd(descriptor))))
    }
}

/// Creates a TCP socket in the network of this thread.
pub fn tcp_socket(is_v6: bool) -> io::Result<OwnedFd> {
    let domain = if is_v6 { libc::AF_INET6 } else { libc::AF_INET };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the call takes numbers only.
    let descriptor = unsafe { libc::socket(domain, kind, 0) };
    check(descriptor)?;
    // SAFETY: it was just opened and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
