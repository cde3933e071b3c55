//! Images that are made here, as archives of `docker save`: that of sandboxes, which is one small
//! program that waits. Pure.

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::json;

const BLOCK: usize = 512;

/// A file of an image.
struct File<'a> {
    path: &'a str,
    mode: u32,
    bytes: &'a [u8],
}

/// The image of sandboxes under a name, if this kind of machine has one.
pub fn pause(name: &str) -> Option<Vec<u8>> {
    let program = program()?;
    let files = [File { path: "pause", mode: 0o755, bytes: &program }];
    Some(image(name, &files, &["/pause"]))
}

/// An archive of one image of one layer.
fn image(name: &str, files: &[File<'_>], entrypoint: &[&str]) -> Vec<u8> {
    let layer = tar(files);
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let config = json!({
        "architecture": architecture,
        "os": "linux",
        "config": {"Entrypoint": entrypoint, "Env": ["PATH=/usr/bin:/bin:/usr/sbin:/sbin"]},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", hash(&layer))]},
        "history": [{"created_by": "setpoint"}],
    });
    let config = config.to_string().into_bytes();
    let config_name = format!("{}.json", hash(&config));
    let manifest =
        json!([{"Config": config_name, "RepoTags": [name], "Layers": ["layer/layer.tar"]}]);
    let manifest = manifest.to_string().into_bytes();
    let file = |path, bytes| File { path, mode: 0o644, bytes };
    tar(&[
        file(&config_name, &config),
        file("layer/layer.tar", &layer),
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
        put(100, format!("{:07o}\0", file.mode).as_bytes());
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

/// The program: it has the kernel forget children that end, and waits for ever. In Linux's words:
/// `rt_sigaction(SIGCHLD, SIG_IGN)`, then `pause()` again and again.
fn program() -> Option<Vec<u8>> {
    #[rustfmt::skip]
    const CODE: [u8; 72] = [
        0xb8, 13, 0, 0, 0,                   // mov eax, 13
        0xbf, 17, 0, 0, 0,                   // mov edi, 17
        0x48, 0x8d, 0x35, 0x17, 0, 0, 0,     // lea rsi, [rip + 23]
        0x31, 0xd2,                          // xor edx, edx
        0x41, 0xba, 8, 0, 0, 0,              // mov r10d, 8
        0x0f, 0x05,                          // syscall
        0xb8, 34, 0, 0, 0,                   // mov eax, 34
        0x0f, 0x05,                          // syscall
        0xeb, 0xf7,                          // jmp -9
        0x0f, 0x1f, 0x40, 0,                 // nop
        1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    const BASE: u64 = 0x40_0000;
    const HEAD: u64 = 64 + 56;
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let size = HEAD + CODE.len() as u64;
    let mut elf = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut put = |bytes: &[u8]| elf.extend_from_slice(bytes);
    // A program for x86-64, version 1; where it begins, and where its one segment is described.
    put(&2_u16.to_le_bytes());
    put(&62_u16.to_le_bytes());
    put(&1_u32.to_le_bytes());
    put(&(BASE + HEAD).to_le_bytes());
    put(&64_u64.to_le_bytes());
    put(&0_u64.to_le_bytes());
    put(&0_u32.to_le_bytes());
    for half in [64_u16, 56, 1, 64, 0, 0] {
        put(&half.to_le_bytes());
    }
    // The segment: to be loaded, to be read and run; all of the file.
    put(&1_u32.to_le_bytes());
    put(&5_u32.to_le_bytes());
    for word in [0, BASE, BASE, size, size, 0x1000] {
        put(&word.to_le_bytes());
    }
    put(&CODE);
    Some(elf)
}
