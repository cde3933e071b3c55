//! A guest, as one who sits before it sees it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hypervisor::images::{self, Import, Source};
use hypervisor::seed::Seed;
use hypervisor::{Connection, Disk, Hypervisor, Interface, Machine, Media, Network};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

/// How long a guest may take to boot on a slow machine that does other things too.
const BOOT_MAX: Duration = Duration::from_secs(120);
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// A directory that goes with the test.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("hypervisor-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    /// Guests outlive whoever started them; a test that fails must leave none.
    fn drop(&mut self) {
        for entry in std::fs::read_dir(self.0.join("machines")).into_iter().flatten().flatten() {
            let record = std::fs::read(entry.path().join("process.json")).unwrap_or_default();
            let record: serde_json::Value = serde_json::from_slice(&record).unwrap_or_default();
            let pid = record["pid"].to_string();
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            if String::from_utf8_lossy(&line).contains("qemu-system") {
                let _ = std::process::Command::new("kill").args(["-9", &pid]).status();
            }
        }
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn image() -> PathBuf {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    servers::guest_image(&target).unwrap()
}

/// A disk to boot from.
pub async fn bootable(disk: &Path, bytes: u64) {
    let (source, disk) = (Source::File(image()), disk.to_owned());
    let import = Import { source, checksum: None, disk, bytes };
    images::import(import, std::sync::Arc::new(|_| ())).await.unwrap();
}

pub fn machine(id: &str, disk: &Path, told: &str) -> Machine {
    Machine {
        id: id.to_owned(),
        name: format!("test_{id}"),
        uuid: "6a1a24a1-4061-4607-8bf4-a3963d0c5895".to_owned(),
        processors: 1,
        processors_max: 3,
        memory_bytes: 160 << 20,
        disks: vec![self::disk("root", disk, Some(1))],
        seed: Some(Seed {
            meta_data: "{\"instance-id\": \"1\"}".to_owned(),
            user_data: told.to_owned(),
            network_config: None,
        }),
        interfaces: vec![interface("02:00:00:00:00:01", Network::Own)],
        has_screen: true,
        has_serial: true,
        starts_paused: false,
        goes_on_from: None,
    }
}

pub fn disk(name: &str, file: &Path, boot_order: Option<u32>) -> Disk {
    let (name, file) = (name.to_owned(), file.to_owned());
    Disk { name, file, base: None, boot_order, is_read_only: false, media: Media::Disk }
}

pub fn interface(address: &str, network: Network) -> Interface {
    let (name, hardware_address) = ("default".to_owned(), address.to_owned());
    Interface { name, hardware_address, network }
}

/// The serial console of a guest whose shell answers.
pub struct Console(Box<dyn Connection>);

impl Console {
    pub async fn open(hypervisor: &dyn Hypervisor, id: &str) -> Console {
        let mut console = Console(hypervisor.serial(id).await.unwrap());
        let deadline = Instant::now() + BOOT_MAX;
        let mut seen = String::new();
        // What is typed before the shell is there is lost.
        while !seen.contains("/ # ") {
            assert!(Instant::now() < deadline, "the guest does not answer: {seen}");
            console.0.write_all(b"\n").await.unwrap();
            let until = Instant::now() + Duration::from_secs(1);
            let _ = timeout_at(until, console.read_until(&mut seen, "/ # ")).await;
        }
        console
    }

    /// What a command says.
    pub async fn run(&mut self, command: &str) -> String {
        let line = format!("{command}; echo end-$((40+2))\n");
        self.0.write_all(line.as_bytes()).await.unwrap();
        let mut seen = String::new();
        let read = timeout(ANSWER_MAX, self.read_until(&mut seen, "end-42"));
        assert!(read.await.is_ok(), "{command} is not answered: {seen}");
        seen
    }

    async fn read_until(&mut self, seen: &mut String, what: &str) {
        let mut bytes = [0; 4_096];
        while !seen.contains(what) {
            let read = self.0.read(&mut bytes).await.unwrap();
            assert!(read > 0, "the console ended: {seen}");
            seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    }
}
