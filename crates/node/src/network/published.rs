//! Ports of the machine for those that containers only name, where that is asked for.

use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};

use crate::runtime::HostPort;

/// Tries until a port is found that no other pod has.
const TRIES_MAX: usize = 64;

/// The ports as they are wanted; those that may be any are given one that is free.
pub fn give(wanted: &[HostPort], held: &[&HostPort]) -> io::Result<Vec<HostPort>> {
    let mut given: Vec<HostPort> = Vec::new();
    for port in wanted {
        let mut port = port.clone();
        if port.host_port == 0 {
            let is_taken = |number: u16| {
                let held = held.iter().copied().chain(&given).chain(wanted);
                held.into_iter().any(|it| it.host_port == number && it.protocol == port.protocol)
            };
            port.host_port = free(&port.protocol, is_taken)?;
        }
        given.push(port);
    }
    Ok(given)
}

/// One that nobody on the machine listens on.
fn free(protocol: &str, is_taken: impl Fn(u16) -> bool) -> io::Result<u16> {
    for _ in 0..TRIES_MAX {
        let any = (Ipv4Addr::UNSPECIFIED, 0);
        let address = match protocol {
            "UDP" => UdpSocket::bind(any)?.local_addr()?,
            _ => TcpListener::bind(any)?.local_addr()?,
        };
        if !is_taken(address.port()) {
            return Ok(address.port());
        }
    }
    Err(io::Error::other("no port of the machine is free"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wants_any_port_gets_one_of_its_own() {
        let port = |host_port, protocol: &str| HostPort {
            host_address: None,
            host_port,
            container_port: 80,
            protocol: protocol.to_owned(),
        };
        let wanted = [port(8080, "TCP"), port(0, "TCP"), port(0, "TCP"), port(0, "UDP")];
        let given = give(&wanted, &[]).unwrap();
        assert_eq!(given[0], wanted[0]);
        assert!(given[1..].iter().all(|port| port.host_port >= 1024), "{given:?}");
        assert_ne!(given[1].host_port, given[2].host_port);
    }
}
