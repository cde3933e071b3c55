//! Devices of this machine that guests share: each guest has an interface of its own on one, with
//! its own address (macvtap). Unlike what is on a bridge such an interface stays when its guest
//! ends: whose it is, is noted, and it is taken away then.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use crate::bridge;
use crate::error::Error;
use crate::machine::Interface;
use crate::qemu::arguments::fingerprint;
use crate::system;

/// Holds the names of interfaces that we made, each a file with the id of its machine.
const MADE: &str = "devices";
const NETWORK: &str = "/sys/class/net";

/// The name of the interface of a machine, the same each time.
fn name_of(id: &str, interface: &str) -> String {
    let hash = fingerprint(&format!("{id}/{interface}")) >> 16;
    format!("sv{hash:012x}")
}

/// Makes an interface of a machine on a device, and opens it.
pub fn connect(
    directory: &Path,
    (id, device): (&str, &str),
    interface: &Interface,
) -> Result<File, Error> {
    bridge::check(device)?;
    let doing = || Error::io(format!("connect a machine to the device {device}"));
    if !Path::new(NETWORK).join(device).exists() {
        return Err(Error::Invalid(format!("there is no interface {device} on this node")));
    }
    let name = name_of(id, &interface.name);
    // Left from an attempt that was cut short.
    remove(&name).map_err(doing())?;
    let made = directory.join(MADE);
    fs::create_dir_all(&made).map_err(doing())?;
    fs::write(made.join(&name), id).map_err(doing())?;
    let address = address_of(&interface.hardware_address).map_err(doing())?;
    system::add_shared(&name, device, address).map_err(doing())?;
    system::set_up(&name).map_err(doing())?;
    open(directory, &name).map_err(doing())
}

/// Takes an interface of a machine away, if it has one of that name here.
pub fn disconnect(directory: &Path, id: &str, interface: &str) {
    forget(&directory.join(MADE).join(name_of(id, interface)));
}

/// Takes away the interfaces of machines that do not run.
pub fn remove_unused(directory: &Path, runs: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(directory.join(MADE)).into_iter().flatten().flatten() {
        let id = fs::read_to_string(entry.path()).unwrap_or_default();
        if !runs(&id) {
            forget(&entry.path());
        }
    }
}

fn forget(note: &Path) {
    let Some(name) = note.file_name().and_then(|name| name.to_str()) else { return };
    if !note.exists() {
        return;
    }
    match remove(name) {
        Ok(()) => drop(fs::remove_file(note)),
        Err(error) => tracing::warn!(interface = name, %error, "interface not removed"),
    }
}

fn remove(name: &str) -> io::Result<()> {
    match Path::new(NETWORK).join(name).exists() {
        true => system::remove_interface(name),
        false => Ok(()),
    }
}

fn address_of(text: &str) -> io::Result<[u8; 6]> {
    let bytes = text.split(':').map(|part| u8::from_str_radix(part, 16));
    let bytes: Result<Vec<u8>, _> = bytes.collect();
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "not an address of an interface");
    bytes.ok().and_then(|bytes| bytes.try_into().ok()).ok_or_else(wrong)
}

/// Opens the file of an interface: where the system has one, or else by its number.
fn open(directory: &Path, name: &str) -> io::Result<File> {
    let place = Path::new(NETWORK).join(name);
    let index = fs::read_to_string(place.join("ifindex"))?;
    let tap = format!("tap{}", index.trim());
    let mut options = File::options();
    options.read(true).write(true);
    if let Ok(file) = options.open(Path::new("/dev").join(&tap)) {
        return Ok(file);
    }
    let number = fs::read_to_string(place.join("macvtap").join(&tap).join("dev"))
        .or_else(|_| fs::read_to_string(place.join(&tap).join("dev")))?;
    let node = directory.join(format!("{name}.node"));
    let _ = fs::remove_file(&node);
    system::make_node(&node, number.trim())?;
    let opened = options.open(&node);
    fs::remove_file(&node)?;
    opened
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_differ_and_addresses_are_read() {
        let name = name_of("0a1b2c3d-0000-0000-0000-000000000000", "lan");
        assert_eq!(name.len(), 14);
        assert_ne!(name, name_of("0a1b2c3d-0000-0000-0000-000000000000", "wan"));
        assert_eq!(address_of("02:00:00:00:00:ff").unwrap(), [2, 0, 0, 0, 0, 255]);
        assert!(address_of("02:00").is_err() && address_of("nonsense").is_err());
    }
}
