//! Taking a range of addresses for the pods of this node.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use super::kernel::Kernel;
use super::links::{Links, Way};
use super::records::Records;
use super::rootless::Rootless;
use super::{Marks, Options, Range, nftables, pods, range, system};

/// Addresses of pods without privilege: a part of 127.0.0.0/8 for each node.
const LOOPBACK: Range = Range { network: Ipv4Addr::new(127, 64, 0, 0), length: 10 };
const LOOPBACK_LENGTH: u8 = 24;
/// Only one process at a time looks for a range; the name is a socket's.
const CLAIM: &str = "setpoint-network-claim";
const CLAIM_WAIT: std::time::Duration = std::time::Duration::from_millis(10);
const CLAIM_TRIES_MAX: u32 = 1_000;

/// Claims a range with the privileges of this process, otherwise in a rootless network.
pub fn claim_any(
    marks: &mut Marks,
    (options, records): (&Options, &Records),
    (wanted, begin): (Option<Range>, u32),
) -> io::Result<(Kernel, Range)> {
    let refused = match Kernel::Direct.claim(marks, wanted, begin) {
        Ok(range) => return Ok((Kernel::Direct, range)),
        Err(error) => error,
    };
    let Some(rootless) = options.rootless.clone() else { return Err(refused) };
    // Pods that run with loopback addresses keep them.
    if records.all().values().any(|record| LOOPBACK.contains(record.address)) {
        return Err(io::Error::other("pods with loopback addresses run"));
    }
    let rootless = Arc::new(Rootless::open(rootless, records.directory())?);
    marks.directory = Rootless::namespaces(records.directory());
    let wanted = wanted.filter(|wanted| !LOOPBACK.overlaps(*wanted)).or_else(|| {
        // Pods reach networks of the host by their addresses, so theirs must be others.
        let routes = range::routes(&fs::read_to_string("/proc/net/route").unwrap_or_default());
        range::choose(&routes, begin)
    });
    let kernel = Kernel::Rootless(rootless.clone());
    let claimed = kernel.claim(marks, wanted, begin);
    if claimed.is_err() && records.all().is_empty() {
        rootless.close();
    }
    claimed.map(|range| (kernel, range))
}

/// Makes the anchor and takes the range. Fails where we lack the privilege.
pub fn claim(marks: &Marks, wanted: Option<Range>, begin: u32) -> io::Result<Range> {
    let mut links = Links::open()?;
    let _alone = wait_for_claim()?;
    let is_ours = system::interface(&marks.anchor).is_ok();
    let text = fs::read_to_string("/proc/net/route")?;
    let routes = range::routes(&text);
    let range = match wanted {
        // What is there already has our range in its routes.
        Some(range) if is_ours || !routes.iter().any(|route| range.overlaps(*route)) => range,
        _ => range::choose(&routes, begin).ok_or_else(|| {
            io::Error::other(format!("every range of {} is in use", range::CLUSTER))
        })?,
    };
    if !is_ours {
        links.add_bridge(&marks.anchor)?;
    }
    links.set_up(&marks.anchor)?;
    links.add_address(&marks.anchor, range.gateway())?;
    links.add_route((range.network, range.length), Way::Nowhere)?;
    if let Err(error) = nftables::probe(&marks.table) {
        let _ = links.remove_route((range.network, range.length), Way::Nowhere);
        let _ = links.remove(&marks.anchor);
        return Err(error);
    }
    for interface in range::default_interfaces(&text).iter().chain([&marks.anchor]) {
        pods::forward(interface)?;
    }
    Ok(range)
}

/// Held by whoever looks for a range on this machine.
fn wait_for_claim() -> io::Result<std::os::unix::net::UnixListener> {
    use std::os::linux::net::SocketAddrExt;
    let name = std::os::unix::net::SocketAddr::from_abstract_name(CLAIM)?;
    for _ in 0..CLAIM_TRIES_MAX {
        match std::os::unix::net::UnixListener::bind_addr(&name) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                std::thread::sleep(CLAIM_WAIT);
            }
            bound => return bound,
        }
    }
    Err(io::Error::other("another process holds the claim to a range of addresses"))
}

/// Returns the range of a node whose pods have loopback addresses.
pub fn loopback(begin: u32) -> Range {
    let count = 1_u32 << (LOOPBACK_LENGTH - LOOPBACK.length);
    let place = (begin % count) << (32 - LOOPBACK_LENGTH);
    let network = LOOPBACK.nth(place).unwrap_or(LOOPBACK.network);
    Range { network, length: LOOPBACK_LENGTH }
}
