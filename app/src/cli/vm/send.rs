//! Sends a file of this machine to a DataVolume that waits for one, over the connection to the
//! server: nothing of this machine need be reachable from the cluster.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use aws_lc_rs::digest;
use node::machines::upload::{Answer, Order};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use super::cluster::Cluster;

const CHUNK_BYTES: usize = 256 << 10;
/// What the answer may have.
const ANSWER_BYTES_MAX: u64 = 8 << 10;

/// A file, and what it should be.
pub struct Sent<'a> {
    pub file: &'a Path,
    pub checksum: String,
}

/// Says after each piece which part of the file was sent.
pub async fn send(
    cluster: &Cluster,
    name: &str,
    sent: &Sent<'_>,
    mut told: impl FnMut(f64) -> Result<()>,
) -> Result<()> {
    let reading = || format!("could not read {}", sent.file.display());
    let mut file = File::open(sent.file).with_context(reading)?;
    let length = file.metadata().with_context(reading)?.len();
    let connection = cluster.join("datavolumes", name, "upload").await?;
    let (from, mut to) = tokio::io::split(connection);
    let order = Order { length, checksum: sent.checksum.clone() };
    let line = serde_json::to_string(&order)? + "\n";
    let sending = async {
        to.write_all(line.as_bytes()).await?;
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut left = length;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(CHUNK_BYTES);
            let read = file.read(&mut chunk[..most]).with_context(reading)?;
            if read == 0 {
                bail!("{} became shorter while it was sent", sent.file.display());
            }
            to.write_all(&chunk[..read]).await?;
            left -= read as u64;
            told(1.0 - left as f64 / length.max(1) as f64)?;
        }
        to.flush().await?;
        Ok(())
    };
    let mut answer = String::new();
    let mut from = BufReader::new(from.take(ANSWER_BYTES_MAX));
    {
        let mut answering = std::pin::pin!(from.read_line(&mut answer));
        // Who refuses an image does not wait until all of it was sent.
        tokio::select! {
            sent = sending => {
                // Why it could not be sent is better said by who did not take it.
                if answering.await.is_err() {
                    sent?;
                }
            }
            _ = &mut answering => {}
        }
    }
    let said: Answer =
        serde_json::from_str(&answer).context("the server did not take the image")?;
    match said.refused {
        None => Ok(()),
        Some(why) => bail!("the image was not taken: {why}"),
    }
}

/// `sha256:…` of a file.
pub fn checksum(file: &Path) -> io::Result<String> {
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
