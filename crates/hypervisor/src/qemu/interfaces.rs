//! Interfaces of a machine that runs: they come and go. QEMU is given each as an open file.

use std::path::Path;

use serde_json::json;

use super::arguments::{CARD, card, network};
use super::launch;
use super::running::Running;
use crate::error::Error;
use crate::machine::{INTERFACES_MAX, Interface, is_name};

impl Running {
    /// The names of the interfaces that it has.
    pub async fn interfaces(&self) -> Result<Vec<String>, Error> {
        let devices = self.devices().await?;
        let names = devices.iter().filter_map(|device| device.strip_prefix(CARD));
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort();
        Ok(names)
    }

    /// Connects an interface to what it is to be on.
    pub async fn attach_interface(
        &self,
        interface: &Interface,
        directory: &Path,
    ) -> Result<(), Error> {
        let name = &interface.name;
        if !is_name(name) {
            return Err(Error::Invalid(format!("{name:?} is no name of an interface")));
        }
        let there = self.interfaces().await?;
        if there.contains(name) {
            return Ok(());
        }
        if there.len() >= INTERFACES_MAX {
            let why = format!("a machine cannot have more than {INTERFACES_MAX} interfaces");
            return Err(Error::Invalid(why));
        }
        let (port, id) = (self.free_port().await?, network(name));
        // Left from an attempt that was cut short.
        let _ = self.execute("netdev_del", json!({"id": id})).await;
        let none = || "only interfaces on bridges and devices can be added while a machine runs";
        let tap = launch::connect_one(directory, &self.machine.id, interface)?;
        let tap = tap.ok_or_else(|| Error::Invalid(none().to_owned()))?;
        self.execute_with("getfd", json!({"fdname": id}), tap).await?;
        let added = self.execute("netdev_add", json!({"type": "tap", "id": id, "fd": id})).await;
        if added.is_err() {
            let _ = self.execute("closefd", json!({"fdname": id})).await;
        }
        added?;
        let added = self.execute(
            "device_add",
            json!({
                "driver": "virtio-net-pci", "netdev": id, "mac": interface.hardware_address,
                "id": card(name), "bus": port, "romfile": "",
            }),
        );
        let added = added.await;
        if added.is_err() {
            let _ = self.execute("netdev_del", json!({"id": id})).await;
        }
        added.map(drop)
    }

    pub async fn detach_interface(&self, name: &str) -> Result<(), Error> {
        self.unplug(&card(name), &format!("the interface {name}")).await?;
        match self.execute("netdev_del", json!({"id": network(name)})).await {
            Err(Error::Refused { said, .. }) if said.contains("not found") => Ok(()),
            done => done.map(drop),
        }
    }
}
