//! A registry of images that has one image, under whatever name it is asked for, and lets in
//! whoever knows the password, if there is one.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use crate::directory::Directory;
use crate::engine::{pack, shell_root};
use crate::error::Error;

const HEAD_BYTES_MAX: usize = 64 << 10;
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// It serves until the process ends.
pub struct Registry {
    pub address: SocketAddr,
}

struct Served {
    config: Blob,
    layer: Blob,
    manifest: Blob,
    /// What a request has to carry.
    credentials: Option<String>,
}

struct Blob {
    digest: String,
    bytes: Vec<u8>,
}

impl Registry {
    /// The image is busybox, made larger by so many bytes.
    pub fn start(filler_bytes: usize, login: Option<(&str, &str)>) -> Result<Registry, Error> {
        let doing = || "start a registry".to_owned();
        let directory = Directory::create("registry")?;
        let served = make(directory.path(), filler_bytes, login).map_err(Error::io(doing()))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::io(doing()))?;
        let address = listener.local_addr().map_err(Error::io(doing()))?;
        let served = Arc::new(served);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let served = served.clone();
                thread::spawn(move || answer(stream, &served).ok());
            }
        });
        Ok(Registry { address })
    }

    /// The name of its image.
    pub fn image(&self) -> String {
        format!("{}/shell:1", self.address)
    }
}

fn make(place: &Path, filler_bytes: usize, login: Option<(&str, &str)>) -> io::Result<Served> {
    let (root, archive) = (place.join("root"), place.join("layer.tar"));
    shell_root(&root, &archive)?;
    fs::write(root.join("filler"), vec![b'x'; filler_bytes])?;
    pack(&root, &archive)?;
    let layer = blob(place, fs::read(&archive)?)?;
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let config = format!(
        "{{\"architecture\":\"{architecture}\",\"os\":\"linux\",\
         \"config\":{{\"Env\":[\"PATH=/bin\"]}},\
         \"rootfs\":{{\"type\":\"layers\",\"diff_ids\":[\"{}\"]}}}}",
        layer.digest
    );
    let config = blob(place, config.into_bytes())?;
    let part = |kind: &str, blob: &Blob| {
        let (size, digest) = (blob.bytes.len(), &blob.digest);
        format!("{{\"mediaType\":\"{kind}\",\"size\":{size},\"digest\":\"{digest}\"}}")
    };
    let manifest = format!(
        "{{\"schemaVersion\":2,\"mediaType\":\"{MANIFEST}\",\"config\":{},\"layers\":[{}]}}",
        part("application/vnd.oci.image.config.v1+json", &config),
        part("application/vnd.oci.image.layer.v1.tar", &layer)
    );
    let manifest = blob(place, manifest.into_bytes())?;
    let credentials = match login {
        Some((user, password)) => Some(encoded(place, &format!("{user}:{password}"))?),
        None => None,
    };
    Ok(Served { config, layer, manifest, credentials })
}

fn blob(place: &Path, bytes: Vec<u8>) -> io::Result<Blob> {
    let file = place.join("blob");
    fs::write(&file, &bytes)?;
    let sum = Command::new("sha256sum").arg(&file).output()?;
    let sum = String::from_utf8_lossy(&sum.stdout).into_owned();
    let digest = format!("sha256:{}", sum.split(' ').next().unwrap_or_default());
    Ok(Blob { digest, bytes })
}

/// As a header has a password.
fn encoded(place: &Path, text: &str) -> io::Result<String> {
    let file = place.join("login");
    fs::write(&file, text)?;
    let told = Command::new("base64").args(["-w", "0"]).arg(&file).output()?;
    Ok(format!("Basic {}", String::from_utf8_lossy(&told.stdout).trim()))
}

fn answer(mut stream: TcpStream, served: &Served) -> io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD_BYTES_MAX {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut words = head.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let shown = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("authorization").then(|| value.trim().to_owned())
    });
    let last = path.rsplit('/').next().unwrap_or_default();
    let found = [&served.config, &served.layer, &served.manifest];
    let found = found.into_iter().find(|blob| blob.digest == last);
    let (status, kind, blob) = match found {
        _ if served.credentials.is_some() && shown != served.credentials => {
            ("401 Unauthorized", "application/json", None)
        }
        _ if path == "/v2/" => ("200 OK", "application/json", None),
        _ if path.contains("/manifests/") => ("200 OK", MANIFEST, Some(&served.manifest)),
        Some(blob) => ("200 OK", "application/octet-stream", Some(blob)),
        None => ("404 Not Found", "application/json", None),
    };
    let bytes = blob.map_or(&b"{}"[..], |blob| &blob.bytes);
    let digest = blob.map_or("", |blob| blob.digest.as_str());
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Docker-Distribution-Api-Version: registry/2.0\r\nDocker-Content-Digest: {digest}\r\n\
         WWW-Authenticate: Basic realm=\"images\"\r\nConnection: close\r\n\r\n",
        bytes.len()
    )?;
    if method != "HEAD" {
        stream.write_all(bytes)?;
    }
    Ok(())
}
