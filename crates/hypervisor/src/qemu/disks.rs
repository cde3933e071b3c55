//! The disks of a machine that runs: they come and go, grow, and are copied, with its memory or
//! without. QEMU is given each as an open file, under the name of its contents.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::arguments::{Contents, contents, device, node};
use super::memory::Held;
use super::running::Running;
use crate::error::Error;
use crate::images::{self, Access};
use crate::machine::{Disk, Media, is_name};
use crate::{Copied, Quiet};

/// How long a guest may take to let a device go.
const DETACH_MAX: Duration = Duration::from_secs(20);
/// How long copies of disks may take.
const COPY_MAX: Duration = Duration::from_secs(3_600);

/// Opens a disk as its machine uses it.
pub fn open(disk: &Disk, directory: &Path) -> Result<Contents<File>, Error> {
    let path = directory.join(&disk.file);
    let access = if disk.is_read_only { Access::Read } else { Access::Write };
    let doing = || Error::io(format!("open the disk {}", disk.name));
    let file = images::open(&path, access).map_err(doing())?;
    let base = match &disk.base {
        Some(base) => {
            images::check_link(&file).map_err(doing())?;
            Some(images::open(base, Access::Read).map_err(doing())?)
        }
        None => None,
    };
    Ok(Contents { file, base })
}

impl Running {
    pub async fn resize(&self, disk: &str, bytes: u64) -> Result<(), Error> {
        let arguments = json!({"node-name": node(disk), "size": bytes});
        self.execute("block_resize", arguments).await.map(drop)
    }

    pub async fn attach(&self, disk: &Disk) -> Result<(), Error> {
        if disk.media != Media::Disk {
            return Err(Error::Invalid("only disks can be added while a machine runs".to_owned()));
        }
        if !is_name(&disk.name) {
            return Err(Error::Invalid(format!("{:?} is no name of a disk", disk.name)));
        }
        if self.has_device(&device(&disk.name)).await? {
            return Ok(());
        }
        let port = self.free_port().await?;
        // Left from an attempt that was cut short.
        self.drop_contents(&disk.name).await;
        self.add_contents(disk, open(disk, &self.record.path)?).await?;
        let serial: String = disk.name.chars().take(20).collect();
        let added = self.execute(
            "device_add",
            json!({
                "driver": "virtio-blk-pci", "drive": node(&disk.name), "id": device(&disk.name),
                "serial": serial, "bus": port, "werror": "stop", "rerror": "stop",
            }),
        );
        let added = added.await;
        if added.is_err() {
            self.drop_contents(&disk.name).await;
        }
        added.map(drop)
    }

    pub async fn detach(&self, disk: &str) -> Result<(), Error> {
        let mut own = self.machine.disks.iter();
        if own.any(|one| one.name == disk && one.boot_order.is_some()) {
            let why = format!("the machine boots from the disk {disk}: it stays while it runs");
            return Err(Error::Invalid(why));
        }
        self.unplug(&device(disk), &format!("the disk {disk}")).await?;
        match self.execute("blockdev-del", json!({"node-name": node(disk)})).await {
            Err(Error::Refused { said, .. }) if said.contains("Failed to find node") => {}
            done => drop(done?),
        }
        self.take_back(&node(disk)).await;
        Ok(())
    }

    /// Has the guest let go of a device; returns when it is gone.
    pub async fn unplug(&self, device: &str, what: &str) -> Result<(), Error> {
        let mut happened = self.happened.subscribe();
        let deadline = Instant::now() + DETACH_MAX;
        while self.has_device(device).await? {
            // One that is asked already says so.
            let _ = self.execute("device_del", json!({"id": device})).await;
            if timeout_at(deadline, happened.changed()).await.is_err() {
                let said = format!("the guest did not let go of {what}");
                return Err(Error::Refused { command: "device_del".to_owned(), said });
            }
        }
        Ok(())
    }

    async fn add_contents(&self, disk: &Disk, files: Contents<File>) -> Result<(), Error> {
        let file = self.give(files.file, &node(&disk.name)).await?;
        let base = match files.base {
            Some(base) => Some(self.give(base, &node(&disk.name)).await?),
            None => None,
        };
        let sets = Contents { file, base };
        let added = self.execute("blockdev-add", contents(disk, sets)).await;
        if added.is_err() {
            self.take_back(&node(&disk.name)).await;
        }
        added.map(drop)
    }

    pub async fn drop_contents(&self, name: &str) {
        let _ = self.execute("blockdev-del", json!({"node-name": node(name)})).await;
        self.take_back(&node(name)).await;
    }

    /// How large the guest sees a disk.
    pub async fn size(&self, disk: &str) -> Result<u64, Error> {
        let all = self.execute("query-named-block-nodes", json!({"flat": true})).await?;
        let mut all = all.as_array().into_iter().flatten();
        let found = all.find(|one| one["node-name"] == node(disk).as_str());
        let size = found.and_then(|one| one["image"]["virtual-size"].as_u64());
        size.ok_or_else(|| Error::Invalid(format!("the machine has no disk {disk}")))
    }

    /// The names of devices that came from us.
    pub async fn devices(&self) -> Result<Vec<String>, Error> {
        let all = self.execute("qom-list", json!({"path": "/machine/peripheral"})).await?;
        let all = all.as_array().into_iter().flatten();
        Ok(all.filter_map(|one| one["name"].as_str().map(str::to_owned)).collect())
    }

    pub async fn has_device(&self, id: &str) -> Result<bool, Error> {
        Ok(self.devices().await?.iter().any(|one| one == id))
    }

    /// A place on the bus where nothing is.
    pub async fn free_port(&self) -> Result<String, Error> {
        let buses = self.execute("query-pci", json!({})).await?;
        let devices = buses.as_array().into_iter().flatten();
        let devices = devices.flat_map(|bus| bus["devices"].as_array().into_iter().flatten());
        let free = devices.filter(|one| {
            let behind = one["pci_bridge"]["devices"].as_array();
            one["pci_bridge"].is_object() && behind.is_none_or(Vec::is_empty)
        });
        let mut free = free.filter_map(|one| one["qdev_id"].as_str());
        let port = free.find(|id| id.starts_with("rp"));
        let none = || Error::Invalid("the machine has no place for another device".to_owned());
        port.map(str::to_owned).ok_or_else(none)
    }

    /// Copies disks, and perhaps memory, as they are at one instant.
    pub async fn copy(&self, copies: &[Copied], memory: Option<&Path>) -> Result<Quiet, Error> {
        if memory.is_some() {
            self.check_as_started().await?;
        }
        let mut actions = Vec::new();
        let mut targets = Vec::new();
        let mut laid = Ok(());
        for copy in copies {
            // No disk that is asked for can be called so.
            let name = format!("copy.{}", copy.disk);
            self.forget_job(&name).await;
            laid = self.lay(copy, &name).await;
            if laid.is_err() {
                break;
            }
            actions.push(json!({"type": "blockdev-backup", "data": {
                "job-id": node(&name), "device": node(&copy.disk), "target": node(&name),
                "sync": "full", "auto-dismiss": false,
            }}));
            targets.push(name);
        }
        let done = match laid {
            Ok(()) => self.make_copies((actions, &targets), memory).await,
            Err(error) => Err(error),
        };
        for target in targets {
            self.forget_job(&target).await;
        }
        done
    }

    /// Ends what is left of a job, also of one that was begun by another process of ours.
    pub async fn forget_job(&self, name: &str) {
        let id = node(name);
        if self.execute("job-cancel", json!({"id": id})).await.is_ok() {
            let _ = self.wait_for_jobs(std::slice::from_ref(&id)).await;
        }
        let _ = self.execute("job-dismiss", json!({"id": id})).await;
        self.drop_contents(name).await;
    }

    /// Makes the file of a copy, and shows it to QEMU.
    async fn lay(&self, copy: &Copied, name: &str) -> Result<(), Error> {
        let size = self.size(&copy.disk).await?;
        let doing = || Error::io(format!("copy the disk {}", copy.disk));
        let file = File::options().read(true).write(true).create_new(true).open(&copy.to);
        let file = file.map_err(doing())?;
        file.set_len(size).map_err(doing())?;
        let target = Disk {
            name: name.to_owned(),
            file: copy.to.clone(),
            base: None,
            boot_order: None,
            is_read_only: false,
            media: Media::Disk,
        };
        self.add_contents(&target, Contents { file, base: None }).await
    }

    /// The instant is when the copies begin: what is written later is kept from them.
    async fn make_copies(
        &self,
        (actions, targets): (Vec<Value>, &[String]),
        memory: Option<&Path>,
    ) -> Result<Quiet, Error> {
        let begin = self.execute("transaction", json!({"actions": actions}));
        let quiet = match memory {
            Some(file) => {
                // While it is held nothing is written, so that all is of one instant.
                let held = self.hold().await?;
                let kept = match begin.await {
                    Ok(_) => self.keep_memory(file).await,
                    Err(error) => Err(error),
                };
                if held == Held::ByUs {
                    self.let_go_on().await?;
                }
                kept?;
                Quiet::Kept
            }
            None => {
                let is_frozen = self.freeze().await;
                let begun = begin.await;
                if is_frozen {
                    self.thaw().await;
                }
                begun?;
                if is_frozen { Quiet::Frozen } else { Quiet::Unasked }
            }
        };
        let jobs: Vec<String> = targets.iter().map(|name| node(name)).collect();
        self.wait_for_jobs(&jobs).await?;
        Ok(quiet)
    }

    pub async fn wait_for_jobs(&self, ids: &[String]) -> Result<(), Error> {
        let mut happened = self.happened.subscribe();
        let deadline = Instant::now() + COPY_MAX;
        loop {
            let jobs = self.execute("query-jobs", json!({})).await?;
            let of_ours = |job: &&Value| ids.iter().any(|id| job["id"] == id.as_str());
            let jobs: Vec<&Value> = jobs.as_array().into_iter().flatten().filter(of_ours).collect();
            if let Some(said) = jobs.iter().find_map(|job| job["error"].as_str()) {
                let command = jobs[0]["type"].as_str().unwrap_or_default().to_owned();
                let said = said.to_owned();
                return Err(Error::Refused { command, said });
            }
            if jobs.iter().all(|job| job["status"] == "concluded") {
                return Ok(());
            }
            if timeout_at(deadline, happened.changed()).await.is_err() {
                return Err(Error::NotAnswered { command: "a job".to_owned() });
            }
        }
    }
}
