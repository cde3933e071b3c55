//! Offers one file of this machine to a cluster that reads images from servers: under a name that
//! nobody can guess, and only while the command runs.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use aws_lc_rs::{digest, rand};

const REQUEST_BYTES_MAX: usize = 8 << 10;
/// How long whoever connects may say nothing.
const SILENCE_MAX: Duration = Duration::from_secs(30);
const CHUNK_BYTES: usize = 256 << 10;
/// An address of documents, which nothing is sent to: it tells the way out.
const ELSEWHERE: (&str, u16) = ("192.0.2.1", 9);

/// A file that is offered.
pub struct Offer {
    pub url: String,
    /// `sha256:…` of what is read.
    pub checksum: String,
}

/// Offers a file until the program ends.
pub fn offer(file: &Path) -> Result<Offer> {
    let reading = || format!("could not read {}", file.display());
    let checksum = checksum(file).with_context(reading)?;
    let host = own_address().context("this machine has no address that a cluster could reach")?;
    let listener = TcpListener::bind(SocketAddr::new(host, 0)).context("could not listen")?;
    let mut secret = [0; 16];
    rand::fill(&mut secret).context("could not make a name")?;
    let secret: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let url = format!("http://{}/{secret}", listener.local_addr()?);
    let (file, path) = (file.to_owned(), format!("/{secret}"));
    std::thread::spawn(move || serve(&listener, &file, &path));
    Ok(Offer { url, checksum })
}

fn own_address() -> io::Result<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(ELSEWHERE)?;
    Ok(socket.local_addr()?.ip())
}

fn checksum(file: &Path) -> io::Result<String> {
    let mut file = File::open(file)?;
    let mut sum = digest::Context::new(&digest::SHA256);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match file.read(&mut chunk)? {
            0 => break,
            read => sum.update(&chunk[..read]),
        }
    }
    let hex: String = sum.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("sha256:{hex}"))
}

fn serve(listener: &TcpListener, file: &Path, path: &str) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else { continue };
        if let Err(error) = answer(stream, file, path) {
            eprintln!("the image was not sent: {error}");
        }
    }
}

fn answer(mut stream: TcpStream, file: &Path, path: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    let mut asked = Vec::new();
    while !asked.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut piece = [0; 1_024];
        let read = stream.read(&mut piece)?;
        if read == 0 || asked.len() > REQUEST_BYTES_MAX {
            return Ok(());
        }
        asked.extend_from_slice(&piece[..read]);
    }
    let wanted = format!("GET {path} HTTP/1.1\r\n");
    if !asked.starts_with(wanted.as_bytes()) {
        return stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
    }
    let mut file = File::open(file)?;
    let length = file.metadata()?.len();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    io::copy(&mut file, &mut stream).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_knows_the_name_gets_the_file() {
        let file = std::env::temp_dir().join(format!("setpoint-offer-{}", std::process::id()));
        std::fs::write(&file, "image").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let offered = file.clone();
        std::thread::spawn(move || serve(&listener, &offered, "/secret"));
        let get = |path: &str| {
            let mut stream = TcpStream::connect(address).unwrap();
            write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
            let mut said = String::new();
            stream.read_to_string(&mut said).unwrap();
            said
        };
        assert!(get("/secret").ends_with("\r\n\r\nimage"));
        assert!(get("/secre").starts_with("HTTP/1.1 404"));
        assert!(get("/").starts_with("HTTP/1.1 404"));
        let sum = checksum(&file).unwrap();
        assert!(sum.starts_with("sha256:") && sum.len() == 7 + 64);
        std::fs::remove_file(file).unwrap();
    }
}
