//! Takes an image that somebody sends for a DataVolume, into a file beside the disk. The import
//! (`import.rs`) reads it from there, so a crash at any point is an upload or an import once more.
//!
//! Who sends says first, on one line of JSON, how long the image is and what its checksum is. Then
//! comes the image, and one line is answered: that it was taken, or why not.

use std::fs::{self, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use hypervisor::images::{self, Access};
use reconcile::plan::Target;
use reconcile::{Context, Name};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::MANAGER;
use super::kinds::{CLAIM, DATA_VOLUME};
use super::volumes;

/// Annotates a claim whose image was taken, with its checksum.
pub const TAKEN: &str = "setpoint.dev/upload-checksum";
/// What the first line may have.
const ORDER_BYTES_MAX: usize = 1_024;
/// What is sent may be larger than the disk by what formats need for themselves.
const OVERHEAD_BYTES: u64 = 64 << 20;
const BUFFER_BYTES: usize = 256 << 10;

/// What is said before an image is sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    pub length: u64,
    /// `sha256:…` of what is sent.
    pub checksum: String,
}

/// What is answered when it was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Why it was not taken.
    pub refused: Option<String>,
}

/// Where an image that was taken waits to be read.
pub fn taken(disk: &Path) -> PathBuf {
    disk.with_extension("uploaded")
}

/// Why nothing can be sent: a code of HTTP, and a text.
pub type Refusal = (u16, String);

/// The node that a volume is on, if it is on one alone.
pub async fn node_of(context: &Context, name: &Name) -> Result<Option<String>, Refusal> {
    let found = volumes::node_of(context, name).await;
    found.map_err(|failure| (500, failure.said()))
}

/// A connection that an image can be sent over.
///
/// # Errors
/// If the volume does not wait for an upload on this node.
#[expect(clippy::disallowed_methods, reason = "it ends with its connection")]
pub async fn take(context: &Context, node: &str, name: &Name) -> Result<DuplexStream, Refusal> {
    let found = context.get_live(DATA_VOLUME, name).await;
    let found = found.map_err(|error| (500, error.said()))?;
    let missing = || (404, format!("datavolumes.cdi.kubevirt.io {:?} not found", name.name));
    let volume = found.ok_or_else(missing)?;
    if !volume.value["spec"]["source"]["upload"].is_object() {
        let why = format!("DataVolume {name} is not for uploads: its source must be upload");
        return Err((400, why));
    }
    let phase = volume.value["status"]["phase"].as_str().unwrap_or_default();
    if phase != "UploadReady" {
        let why = format!("DataVolume {name} is in phase {phase:?}, and takes nothing then");
        return Err((409, why));
    }
    let claimed = volumes::find(context, name, node).await;
    let claimed = claimed.map_err(|failure| (503, failure.said()))?;
    if claimed.claim.controller() != Some(&volume.uid) {
        return Err((409, format!("PVC {name} belongs to another owner")));
    }
    let (ours, theirs) = tokio::io::duplex(BUFFER_BYTES);
    let context = context.clone();
    tokio::spawn(async move {
        let mut stream = theirs;
        let received = receive(&mut stream, &claimed.disk, claimed.bytes).await;
        let told = match received {
            Ok(checksum) => {
                let patch = json!({"metadata": {"annotations": {TAKEN: checksum}}});
                let requests = context.requests(MANAGER, Default::default());
                let target = Target::of(CLAIM, &claimed.claim);
                requests.patch(&target, &patch).await.map(drop).map_err(|error| error.said())
            }
            Err(why) => Err(why),
        };
        let answer = serde_json::to_string(&Answer { refused: told.err() }).unwrap_or_default();
        let _ = stream.write_all(format!("{answer}\n").as_bytes()).await;
        let _ = stream.shutdown().await;
    });
    Ok(ours)
}

/// Reads an image into its file. Says what its checksum is to be.
async fn receive(stream: &mut DuplexStream, disk: &Path, bytes: u64) -> Result<String, String> {
    let order = order(stream).await?;
    if order.length > bytes.saturating_add(OVERHEAD_BYTES) {
        return Err(format!(
            "virtual image size {} is larger than the reported available storage {bytes}. A \
             larger PVC is required",
            order.length
        ));
    }
    let said = |error: io::Error| format!("could not keep what was sent: {error}");
    let part = disk.with_extension("upload");
    let mut file = images::open(&part, Access::Make).map_err(said)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err("another upload is under way".to_owned()),
        Err(TryLockError::Error(error)) => return Err(said(error)),
    }
    // What an attempt before left is written over.
    file.set_len(0).map_err(said)?;
    let mut left = order.length;
    let mut buffer = vec![0; BUFFER_BYTES];
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let read = stream.read(&mut buffer[..most]).await.map_err(said)?;
        if read == 0 {
            let _ = fs::remove_file(&part);
            return Err(format!("the upload ended {left} bytes too early"));
        }
        file.write_all(&buffer[..read]).map_err(said)?;
        left -= read as u64;
    }
    // It takes long, and others wait for this thread. The file stays locked until it has its name.
    let synced = tokio::task::spawn_blocking(move || file.sync_all().map(|()| file));
    let _locked = synced.await.map_err(io::Error::other).flatten().map_err(said)?;
    fs::rename(&part, taken(disk)).map_err(said)?;
    Ok(order.checksum)
}

/// The first line.
async fn order(stream: &mut DuplexStream) -> Result<Order, String> {
    let mut line = Vec::new();
    loop {
        let byte =
            stream.read_u8().await.map_err(|_| "nothing was said of the image".to_owned())?;
        if byte == b'\n' {
            break;
        }
        if line.len() >= ORDER_BYTES_MAX {
            return Err(format!("the first line has more than {ORDER_BYTES_MAX} bytes"));
        }
        line.push(byte);
    }
    let said: Value = serde_json::from_slice(&line).unwrap_or_default();
    let wrong = |error| format!("the first line must say length and checksum: {error}");
    serde_json::from_value(said).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of sending this.
    async fn sent(disk: &Path, bytes: &[u8]) -> Result<String, String> {
        let (mut ours, mut theirs) = tokio::io::duplex(4_096);
        let receiving = receive(&mut theirs, disk, 10);
        let sending = async {
            let _ = ours.write_all(bytes).await;
            drop(ours);
        };
        tokio::join!(receiving, sending).0
    }

    #[tokio::test]
    async fn an_image_is_taken_whole_or_not_at_all() {
        let place = std::env::temp_dir().join(format!("node-upload-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let disk = place.join("disk.img");
        let order = |length: u64| format!("{{\"length\": {length}, \"checksum\": \"sha256:x\"}}\n");
        let whole = sent(&disk, format!("{}image", order(5)).as_bytes()).await;
        assert_eq!(whole.unwrap(), "sha256:x");
        assert_eq!(fs::read(taken(&disk)).unwrap(), b"image");
        fs::remove_file(taken(&disk)).unwrap();
        for (bytes, why) in [
            (format!("{}im", order(5)), "the upload ended 3 bytes too early"),
            (order(1 << 40), "virtual image size 1099511627776 is larger"),
            ("nonsense\n".to_owned(), "the first line must say length and checksum"),
            ("x".repeat(2_000), "the first line has more than 1024 bytes"),
            (String::new(), "nothing was said of the image"),
        ] {
            let said = sent(&disk, bytes.as_bytes()).await.unwrap_err();
            assert!(said.starts_with(why), "{said}");
        }
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0, "nothing is left");
        // Whoever may write there leads it elsewhere.
        let kept = place.with_extension("kept");
        fs::write(&kept, "kept").unwrap();
        std::os::unix::fs::symlink(&kept, disk.with_extension("upload")).unwrap();
        let said = sent(&disk, format!("{}image", order(5)).as_bytes()).await.unwrap_err();
        assert!(said.ends_with("is not a file"), "{said}");
        assert_eq!(fs::read_to_string(&kept).unwrap(), "kept");
        fs::remove_file(kept).unwrap();
        fs::remove_file(disk.with_extension("upload")).unwrap();
        fs::remove_dir(place).unwrap();
    }
}
