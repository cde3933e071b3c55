//! Ports of a guest on this machine: its process listens for it, and passes on what comes.
//!
//! What is open is asked of the process each time, which outlives whoever had it opened: nothing is
//! opened twice, and what a former process of ours opened is found and closed again. It needs a
//! network of the guest's own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};

use serde_json::json;
use tokio::net::TcpStream;

use super::arguments;
use super::running::Running;
use crate::Connection;
use crate::error::Error;
use crate::machine::{Network, Opened, Port, Protocol};

/// Where this process alone reaches ports of guests; elsewhere they are for others.
const DIALLED: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Ports of one guest that are open at one address.
const PORTS_MAX: usize = 256;
/// Another may take a port of this machine between our look and its use.
const TRIES_MAX: usize = 8;
const NO_NETWORK: &str = "the machine has no network through which ports can be reached";

/// A port of the guest that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    address: Ipv4Addr,
    here: u16,
    port: Port,
}

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        }
    }
}

impl Running {
    /// Connects to a port of the guest.
    pub async fn dial(&self, number: u16) -> Result<Box<dyn Connection>, Error> {
        let port = Port { protocol: Protocol::Tcp, number };
        let opened = self.open_ports(DIALLED, &BTreeSet::from([port])).await?;
        let here = match (opened.at.get(&port), opened.refused.get(&port)) {
            (Some(here), _) => *here,
            (None, why) => return Err(Error::Invalid(why.cloned().unwrap_or_default())),
        };
        let stream = TcpStream::connect((DIALLED, here)).await;
        let stream = stream.map_err(Error::io(format!("reach port {number} of a machine")))?;
        Ok(Box::new(stream))
    }

    pub async fn open_ports(&self, at: Ipv4Addr, ports: &BTreeSet<Port>) -> Result<Opened, Error> {
        if ports.is_empty() {
            return Ok(Opened::default());
        }
        let network = self.own_network();
        let network = network.ok_or_else(|| Error::Invalid(NO_NETWORK.to_owned()))?;
        let _turn = self.ports.lock().await;
        let there = self.open().await?.into_iter().filter(|open| open.address == at);
        let mut there: BTreeMap<Port, u16> = there.map(|open| (open.port, open.here)).collect();
        let mut opened = Opened::default();
        for port in ports {
            if !there.contains_key(port) {
                if there.len() >= PORTS_MAX {
                    let why = format!("more than {PORTS_MAX} ports of a machine are open");
                    opened.refused.insert(*port, why);
                    continue;
                }
                match self.add(&network, at, *port).await? {
                    Ok(here) => drop(there.insert(*port, here)),
                    Err(why) => drop(opened.refused.insert(*port, why)),
                }
            }
            opened.at.extend(there.get_key_value(port));
        }
        Ok(opened)
    }

    pub async fn close_other_ports(
        &self,
        at: Ipv4Addr,
        ports: &BTreeSet<Port>,
    ) -> Result<(), Error> {
        let Some(network) = self.own_network() else { return Ok(()) };
        let _turn = self.ports.lock().await;
        let is_kept = |open: &Open| {
            open.address == DIALLED || (open.address == at && ports.contains(&open.port))
        };
        for Open { address, here, port } in self.open().await?.iter().filter(|one| !is_kept(one)) {
            let protocol = port.protocol.name();
            self.say(&format!("hostfwd_remove {network} {protocol}:{address}:{here}")).await?;
        }
        Ok(())
    }

    /// What the process calls the network of the guest's own.
    fn own_network(&self) -> Option<String> {
        let own = self.machine.interfaces.iter().find(|one| one.network == Network::Own)?;
        Some(arguments::network(&own.name))
    }

    /// Opens a port at one of this machine that is free, and says which; or why there is none.
    async fn add(
        &self,
        network: &str,
        at: Ipv4Addr,
        port: Port,
    ) -> Result<Result<u16, String>, Error> {
        let (protocol, number) = (port.protocol.name(), port.number);
        let mut why = String::new();
        for _ in 0..TRIES_MAX {
            let here = match free(port.protocol, at) {
                Ok(here) => here,
                Err(error) => return Ok(Err(format!("{at} cannot be listened on: {error}"))),
            };
            let line = format!("hostfwd_add {network} {protocol}:{at}:{here}-:{number}");
            why = self.say(&line).await?;
            if why.is_empty() {
                return Ok(Ok(here));
            }
        }
        Ok(Err(why))
    }

    async fn open(&self) -> Result<Vec<Open>, Error> {
        Ok(read(&self.say("info usernet").await?))
    }

    /// What the process answers to a line for people.
    async fn say(&self, line: &str) -> Result<String, Error> {
        let said = self.execute("human-monitor-command", json!({"command-line": line})).await?;
        Ok(said.as_str().unwrap_or_default().trim().to_owned())
    }
}

/// A port of this machine that nobody listens on.
fn free(protocol: Protocol, at: Ipv4Addr) -> std::io::Result<u16> {
    let address = match protocol {
        Protocol::Tcp => TcpListener::bind((at, 0))?.local_addr()?,
        Protocol::Udp => UdpSocket::bind((at, 0))?.local_addr()?,
    };
    Ok(address.port())
}

/// The ports that a list of connections says are open: protocol and state, a number, address and
/// port of this machine, address and port of the guest.
fn read(list: &str) -> Vec<Open> {
    let one = |line: &str| {
        let mut words = line.split_whitespace();
        let protocol = match words.next()? {
            "TCP[HOST_FORWARD]" => Protocol::Tcp,
            "UDP[HOST_FORWARD]" => Protocol::Udp,
            _ => return None,
        };
        let mut words = words.skip(1);
        let (address, here) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let number = words.nth(1)?.parse().ok()?;
        Some(Open { address, here, port: Port { protocol, number } })
    };
    list.lines().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
Hub -1 (net-default):
  Protocol[State]    FD  Source Address  Port   Dest. Address  Port RecvQ SendQ
  TCP[ESTABLISHED]   21       10.0.2.2 53210       192.0.2.7   443     0     0
  TCP[HOST_FORWARD]  19       127.0.0.1 34567        10.0.2.2    22     0     0
  UDP[HOST_FORWARD]  23       10.42.7.1 40001        10.0.2.2    53     0     0
  TCP[HOST_FORWARD]  25               *  2222        10.0.2.2    22     0     0
  UDP[236 sec]       20       10.0.2.2 60000       192.0.2.7    53     0     0
";

    #[test]
    fn what_is_open_is_read_and_nothing_else() {
        let of = |address: &str, here, protocol, number| Open {
            address: address.parse().unwrap(),
            here,
            port: Port { protocol, number },
        };
        let expected =
            [of("127.0.0.1", 34567, Protocol::Tcp, 22), of("10.42.7.1", 40001, Protocol::Udp, 53)];
        assert_eq!(read(SAID), expected);
        assert_eq!(read(""), []);
    }
}
