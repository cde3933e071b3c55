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
                path if path.starts_with("token?service=s&scope=repository:closed:pull") => {
                    b"HTTP/1.1 200 O\r\ncontent-length: 14\r\n\r\n{\"token\": \"t\"}".to_vec()
                }
                path if path.starts_with("v2/closed") && !asked.contains("Bearer t\r\n") => {
                    let realm = format!("Bearer realm=\"http://{address}/token\",service=\"s\"");
                    format!(
                        "HTTP/1.1 401 U\r\nwww-authenticate: {realm}\r\ncontent-length: 0\r\n\r\n"
                    )
                    .into_bytes()
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

/// Images of one disk that QEMU has made in every way in which tables and data may lie: what one
/// says is what QEMU says of it.
#[tokio::test]
async fn an_image_is_laid_out_as_qemu_does_it_however_it_is_written() {
    let world = World::new("layouts");
    let directory = &world.directory.0;
    let mut raw = vec![0; 3 * MIB - 512];
    let mut state = 7_u64;
    for range in [300_000..1_900_000, 2_500_000..raw.len()] {
        for piece in raw[range].chunks_mut(8) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            piece.copy_from_slice(&state.to_le_bytes()[..piece.len()]);
        }
    }
    std::fs::write(directory.join("raw"), &raw).unwrap();
    let ways = [
        "",
        "-o compat=0.10",
        "-o cluster_size=512",
        "-o cluster_size=2M",
        "-o preallocation=metadata",
        "-o preallocation=full",
        "-o extended_l2=on",
        "-o lazy_refcounts=on",
        "-c",
        "-c -o compression_type=zstd",
    ];
    let mut images = Vec::new();
    for (number, way) in ways.iter().enumerate() {
        let name = format!("way-{number}");
        run(directory, &format!("qemu-img convert -O qcow2 {way} raw {name}"));
        images.push(name);
    }
    // Written from its end to its beginning, kept, written over, and in part given back.
    let later = "qemu-img convert -O qcow2 raw later; qemu-img create -q -f qcow2 back 2900K; \
        for at in 2048 1024 512 0; do \
        qemu-io -c \"write -q -P $((at / 100 + 1)) ${at}k 200k\" back; \
        qemu-img snapshot -c s$at back; \
        qemu-io -c \"write -q -P $((at / 90 + 1)) ${at}k 70k\" -c 'discard -q 512k 64k' back; done; \
        qemu-io -c 'write -q -z 1M 64k' -c 'write -q -P 9 192k 100k' later";
    run(directory, later);
    images.extend(["back".to_owned(), "later".to_owned()]);
    for name in images {
        run(directory, &format!("qemu-img convert -f qcow2 -O raw {name} expected"));
        let mut expected = std::fs::read(directory.join("expected")).unwrap();
        expected.resize(3 * MIB, 0);
        let disk = world.import(&name, |_| ()).await;
        let disk = disk.unwrap_or_else(|fault| panic!("{name}: {fault}"));
        let differs = disk.iter().zip(&expected).position(|(one, other)| one != other);
        assert_eq!(differs, None, "{name} differs at");
        assert_eq!(disk.len(), expected.len(), "{name}");
    }
    run(directory, "head -c 700000 way-0 > cut; head -c 200000 way-0 > cut-tables");
    for name in ["cut", "cut-tables"] {
        let said = world.import(name, |_| ()).await.unwrap_err().to_string();
        assert_eq!(said, "the image is broken: the image is cut off", "{name}");
    }
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

/// A registry that may ask for leave, and layers that are what they are called, or not.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_a_registry_is_what_it_says() {
    let world = World::new("registry");
    let make = |files: &str, name: &str| {
        let make = format!(
            "mkdir -p v2/{name}/blobs v2/{name}/manifests root/disk root/other; \
             rm -f root/disk/*; {files}; tar -C root -cf layer .; \
             sum=sha256:$(sha256sum < layer | cut -d' ' -f1); \
             printf '{{\"layers\": [{{\"digest\": \"%s\", \"size\": %s}}]}}' \
                 $sum $(stat -c %s layer) > v2/{name}/manifests/latest; \
             mv layer v2/{name}/blobs/$sum"
        );
        run(&world.directory.0, &make);
    };
    make("cp raw root/disk/disk.img", "good");
    make("cp qcow2 root/disk/disk.img", "closed");
    make("true", "empty");
    make("cp raw root/disk/a; cp raw root/disk/b", "two");
    make("cp raw root/disk/a", "changed");
    run(
        &world.directory.0,
        "for one in v2/changed/blobs/*; do printf x | dd of=$one conv=notrunc; done",
    );
    make("rmdir root/disk", "none");
    let bring = async |name: &str| {
        let disk = world.directory.0.join(format!("disk-{name}"));
        let url = format!("docker://{}/{name}", world.address);
        let source = Source::Registry { url, reach: Reach::Everything };
        let order = Import { source, checksum: None, disk: disk.clone(), bytes: 3 * MIB as u64 };
        images::import(order, Arc::new(|_| ())).await.map(|()| std::fs::read(disk).unwrap())
    };
    for name in ["good", "closed"] {
        let found = bring(name).await.unwrap();
        assert!(found[..world.raw.len()] == world.raw, "it is the disk");
    }
    for (name, why) in [
        ("empty", "/disk directory is empty"),
        ("two", "/disk contains more than one file"),
        ("changed", "the checksum is sha256:"),
        ("none", "image directory does not exist"),
        ("missing", "answered with 404"),
    ] {
        let said = bring(name).await.unwrap_err().to_string();
        assert!(said.contains(why), "{name}: {said}");
    }
    let left = run(&world.directory.0, "ls disk-*");
    assert_eq!(left.split_whitespace().collect::<Vec<_>>(), ["disk-closed", "disk-good"]);
}
