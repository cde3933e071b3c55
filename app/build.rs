//! Puts the built console into the program, compressed. Node is not needed for that: where
//! `cargo xtask console` has not been run there is nothing to put, and the program says so.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

/// Where the console is built; the directory is always there.
const BUILT: &str = "../console/dist";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={BUILT}");
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from);
    let out = out.ok_or_else(|| io::Error::other("cargo must say where to write"))?;
    let mut files = Vec::new();
    collect(Path::new(BUILT), &mut files)?;
    files.sort();
    let mut table = "&[\n".to_owned();
    for (number, path) in files.iter().enumerate() {
        let compressed = out.join(format!("console-{number}.gz"));
        let mut encoder = GzEncoder::new(fs::File::create(&compressed)?, Compression::best());
        encoder.write_all(&fs::read(path)?)?;
        encoder.finish()?;
        let name = path.strip_prefix(BUILT).map_err(io::Error::other)?;
        table += &format!("    ({name:?}, include_bytes!({compressed:?})),\n");
    }
    table += "]\n";
    fs::write(out.join("console.rs"), table)
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), files)?;
        } else if !entry.file_name().to_string_lossy().starts_with('.') {
            files.push(entry.path());
        }
    }
    Ok(())
}
