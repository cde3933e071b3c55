//! The image of sandboxes, made here as an archive of `docker save`. Pure.

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::json;

use crate::runtimes::pause;

const BLOCK: usize = 512;

/// A file of an archive.
struct File<'a> {
    path: &'a str,
    bytes: &'a [u8],
}

/// The image of sandboxes under a name, if this kind of machine has one.
pub fn pause(name: &str) -> Option<Vec<u8>> {
    Some(image(name, &pause::root()?))
}

/// An archive of one image of one layer.
fn image(name: &str, layer: &[u8]) -> Vec<u8> {
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let config = json!({
        "architecture": architecture,
        "os": "linux",
        "config": {"Entrypoint": [pause::PATH]},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", hash(layer))]},
        "history": [{"created_by": "setpoint"}],
    });
    let config = config.to_string().into_bytes();
    let config_name = format!("{}.json", hash(&config));
    let manifest =
        json!([{"Config": config_name, "RepoTags": [name], "Layers": ["layer/layer.tar"]}]);
    let manifest = manifest.to_string().into_bytes();
    let file = |path, bytes| File { path, bytes };
    tar(&[
        file(&config_name, &config),
        file("layer/layer.tar", layer),
        file("manifest.json", &manifest),
    ])
}

fn hash(bytes: &[u8]) -> String {
    let hash = digest(&SHA256, bytes);
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Files in the format of tar, as POSIX has it.
fn tar(files: &[File<'_>]) -> Vec<u8> {
    let mut all = Vec::new();
    for file in files {
        let mut head = [0; BLOCK];
        let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &file.path.as_bytes()[..file.path.len().min(99)]);
        put(100, b"0000644\0");
        put(108, b"0000000\0");
        put(116, b"0000000\0");
        put(124, format!("{:011o}\0", file.bytes.len()).as_bytes());
        put(136, b"00000000000\0");
        // The sum is counted as if spaces were in its place.
        put(148, b"        ");
        put(156, b"0");
        put(257, b"ustar\x0000");
        let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
        head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        all.extend_from_slice(&head);
        all.extend_from_slice(file.bytes);
        all.resize(all.len().next_multiple_of(BLOCK), 0);
    }
    all.resize(all.len() + 2 * BLOCK, 0);
    all
}
