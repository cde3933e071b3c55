//! Images from a server of HTTP: what is brought in, and what is refused.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use hypervisor::images::{self, Fault, Import, Reach, Source};

use crate::console::Directory;

const MIB: usize = 1 << 20;

/// Serves the files of a directory, each connection one.
fn serve(directory: &Path) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let directory = directory.to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut asked = vec![0; 4_096];
            let read = stream.read(&mut asked).unwrap_or(0);
            let asked = String::from_utf8_lossy(&asked[..read]).into_owned();
            let path = asked.split(' ').nth(1).unwrap_or("/").trim_start_matches('/').to_owned();
            let answer = match path.as_str() {
                "away" => b"HTTP/1.1 302 F\r\nlocation: /raw\r\ncontent-length: 0\r\n\r\n".to_vec(),
                "metadata" => {
                    b"HTTP/1.1 302 F\r\nlocation: http://169.254.169.254/x\r\n\r\n".to_vec()
                }
                path => match std::fs::read(directory.join(path)) {
                    Ok(bytes) => {
                        let head = format!("HTTP/1.1 200 O\r\ncontent-length: {}\r\n", bytes.len());
                        [format!("{head}connection: close\r\n\r\n").into_bytes(), bytes].concat()
                    }
                    Err(_) => b"HTTP/1.1 404 N\r\ncontent-length: 0\r\n\r\n".to_vec(),
                },
            };
            let _ = stream.write_all(&answer);
        }
    });
    address
}

fn run(directory: &Path, line: &str) -> String {
    let output = Command::new("sh").args(["-ec", line]).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

struct World {
    directory: Directory,
    address: SocketAddr,
    raw: Vec<u8>,
}

impl World {
    fn new(name: &str) -> World {
        let directory = Directory::new(name);
        let mut raw = vec![0; 2 * MIB];
        raw[MIB..MIB + 5].copy_from_slice(b"hello");
        std::fs::write(directory.0.join("raw"), &raw).unwrap();
        let make = "qemu-img convert -O qcow2 raw qcow2; gzip -k raw; xz -k raw; xz -k qcow2; \
            qemu-img create -q -f qcow2 -b qcow2 -F qcow2 backed; \
            qemu-img create -q -f qcow2 huge 1T; head -c 1000 raw.gz > cut.gz";
        run(&directory.0, make);
        let address = serve(&directory.0);
        World { directory, address, raw }
    }

    async fn import(&self, path: &str, change: impl FnOnce(&mut Import)) -> Result<Vec<u8>, Fault> {
        let disk = self.directory.0.join("target/disk.img");
        let _ = std::fs::remove_dir_all(disk.parent().unwrap());
        let url = format!("http://{}/{path}", self.address);
        let source = Source::Http { url, reach: Reach::Everything };
        let mut order = Import { source, checksum: None, disk, bytes: 3 * MIB as u64 };
        change(&mut order);
        let disk = order.disk.clone();
        let told = Arc::new(Mutex::new(0.0));
        let last = told.clone();
        let done = images::import(order, Arc::new(move |part| *last.lock().unwrap() = part)).await;
        let left: Vec<_> =
            std::fs::read_dir(disk.parent().unwrap()).into_iter().flatten().collect();
        assert_eq!(left.len(), usize::from(done.is_ok()), "{path} leaves something: {left:?}");
        done?;
        assert!((*told.lock().unwrap() - 1.0).abs() < 0.001, "{path} was told to the end");
        Ok(std::fs::read(disk).unwrap())
    }
}

#[tokio::test]
async fn every_format_becomes_the_same_disk() {
    let world = World::new("imports");
    let sum = run(&world.directory.0, "sha256sum raw.gz | cut -d' ' -f1");
    for path in ["raw", "raw.gz", "raw.xz", "qcow2", "qcow2.xz", "away"] {
        let disk =
            world.import(path, |_| ()).await.unwrap_or_else(|fault| panic!("{path}: {fault}"));
        assert_eq!(disk.len(), 3 * MIB, "{path}");
        assert!(disk[..2 * MIB] == world.raw && disk[2 * MIB..].iter().all(|byte| *byte == 0));
    }
    let checked = |order: &mut Import| order.checksum = Some(format!("sha256:{}", sum.trim()));
    world.import("raw.gz", checked).await.unwrap();
}

#[tokio::test]
async fn what_is_wrong_or_dangerous_is_refused_and_leaves_nothing() {
    let world = World::new("refused");
    let said = |fault: Result<Vec<u8>, Fault>| fault.unwrap_err().to_string();
    let small = |order: &mut Import| order.bytes = MIB as u64;
    let needs = "virtual image size 2097152 is larger than the reported available storage 1048576. \
        A larger PVC is required";
    for path in ["raw", "raw.gz", "qcow2"] {
        assert_eq!(said(world.import(path, small).await), needs, "{path}");
    }
    let backed = said(world.import("backed", |_| ()).await);
    assert_eq!(backed, "the image needs another file (a backing file), which is not followed");
    let huge = said(world.import("huge", |_| ()).await);
    assert!(huge.starts_with("virtual image size 1099511627776 is larger"), "{huge}");
    assert!(said(world.import("cut.gz", |_| ()).await).starts_with("the image is broken"));
    let missing = world.import("nothing", |_| ()).await.unwrap_err();
    assert!(matches!(missing, Fault::Status { status: 404, .. }) && missing.is_final());
    let zeros = format!("sha256:{}", "0".repeat(64));
    let wrong = world.import("raw", |order| order.checksum = Some(zeros)).await.unwrap_err();
    assert!(matches!(wrong, Fault::Checksum { .. }) && wrong.is_final(), "{wrong}");
    let form = world.import("raw", |order| order.checksum = Some("md5:1".to_owned())).await;
    assert!(matches!(form, Err(Fault::ChecksumForm(_))));
}

#[tokio::test]
async fn this_machine_and_metadata_are_not_reached_unless_allowed() {
    let world = World::new("reach");
    let source = |url: String| Source::Http { url, reach: Reach::Others };
    let port = world.address.port();
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "169.254.169.254"] {
        let from = source(format!("http://{host}:{port}/raw"));
        let refused = world.import("raw", |order| order.source = from).await.unwrap_err();
        assert!(matches!(refused, Fault::Forbidden { .. }) && refused.is_final(), "{refused}");
    }
    for url in ["file:///etc/passwd", "ftp://x/y", "nonsense", "http://"] {
        let from = source(url.to_owned());
        let refused = world.import("raw", |order| order.source = from).await.unwrap_err();
        assert!(matches!(refused, Fault::Url(_)), "{url}: {refused}");
    }
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let from = Source::Http { url: format!("http://{closed}/"), reach: Reach::Everything };
    let refused = world.import("raw", |order| order.source = from).await.unwrap_err();
    assert!(matches!(refused, Fault::Unreachable { .. }) && !refused.is_final(), "{refused}");
}
