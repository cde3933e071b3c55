//! Images that come in over HTTP, beside a conversion of the same file that is already here. Both
//! count when what was written is on the disk.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hypervisor::images::{self, Import, Reach, Source};
use store::{Environment, System};

use crate::api::report::{Aim, Report};
use crate::statistics::{Samples, now};

const IMAGE_BYTES: u64 = 512 << 20;
/// What of the image is not zeros, and cannot be packed.
const FULL_BYTES: usize = 256 << 20;
const TIMES: usize = 3;
const RATIO_MIN: f64 = 0.8;

pub async fn run(directory: &Path, report: &mut Report) -> Result<()> {
    let place = directory.join(format!(".bench-{:016x}", System.random()));
    fs::create_dir_all(&place)?;
    let measured = measure(&place.canonicalize()?, report).await;
    fs::remove_dir_all(&place)?;
    measured
}

async fn measure(place: &Path, report: &mut Report) -> Result<()> {
    let raw = place.join("raw");
    let mut bytes = vec![0; FULL_BYTES];
    for piece in bytes.chunks_mut(8) {
        piece.copy_from_slice(&System.random().to_le_bytes()[..piece.len()]);
    }
    fs::write(&raw, bytes)?;
    File::options().write(true).open(&raw)?.set_len(IMAGE_BYTES)?;
    let packed = place.join("qcow2");
    convert(&raw, &packed, "qcow2")?;
    for (what, file) in [("raw", &raw), ("qcow2", &packed)] {
        let (mut ours, mut alone) = (Samples::default(), Samples::default());
        for _ in 0..TIMES {
            let to = place.join("converted");
            let begin = now();
            convert(file, &to, "raw")?;
            File::open(&to)?.sync_all()?;
            alone.push(begin.elapsed());
            fs::remove_file(&to)?;
            ours.push(import(file, &place.join("imported")).await?);
        }
        let (ours, alone) = (ours.percentile(0.5), alone.percentile(0.5));
        let speed = |took: Duration| FULL_BYTES as f64 / 1e6 / took.as_secs_f64();
        report.row(&format!("{what} image converted alone"), (speed(alone), "MB/s"), Aim::None, "");
        report.row("  brought in over HTTP", (speed(ours), "MB/s"), Aim::None, "");
        let ratio = speed(ours) / speed(alone);
        report.row("  of the conversion alone", (ratio, "x"), Aim::AtLeast(RATIO_MIN), "");
    }
    Ok(())
}

fn convert(from: &Path, to: &Path, format: &str) -> Result<()> {
    let mut command = Command::new("qemu-img");
    let done = command.args(["convert", "-O", format]).arg(from).arg(to).status();
    ensure!(done.context("could not run qemu-img")?.success(), "qemu-img failed");
    Ok(())
}

async fn import(file: &Path, disk: &Path) -> Result<Duration> {
    let url = serve(file.to_owned())?;
    let source = Source::Http { url, reach: Reach::Everything };
    let disk: PathBuf = disk.to_owned();
    let order = Import { source, checksum: None, disk: disk.clone(), bytes: IMAGE_BYTES };
    let begin = now();
    images::import(order, Arc::new(|_| ())).await?;
    let took = begin.elapsed();
    fs::remove_file(disk)?;
    Ok(took)
}

/// Serves a file once.
fn serve(file: PathBuf) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/image", listener.local_addr()?);
    std::thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        let _ = stream.read(&mut [0; 4_096])?;
        let mut file = File::open(file)?;
        let length = file.metadata()?.len();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        std::io::copy(&mut file, &mut stream).map(drop)
    });
    Ok(url)
}
