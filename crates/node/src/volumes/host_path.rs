//! A path of this machine as a volume, if it is what it is said to be.

use std::fs::{self, File, FileType};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Refuses paths in the directories of the server, which hold its keys and the files of all pods.
pub fn check_private(volume: &Value, private: &[PathBuf]) -> Result<(), String> {
    let path = Path::new(volume["path"].as_str().unwrap_or_default());
    // A path that does not exist yet is where its nearest parent is.
    let existing = path.ancestors().find_map(|path| fs::canonicalize(path).ok());
    let existing = existing.unwrap_or_else(|| path.to_owned());
    let private = private.iter().filter_map(|path| fs::canonicalize(path).ok());
    match private.into_iter().find(|private| existing.starts_with(private)) {
        Some(private) => Err(format!(
            "hostPath {:?} is in {}, which holds keys and the files of other pods; use another \
             path, or a PersistentVolumeClaim",
            path.display().to_string(),
            private.display()
        )),
        None => Ok(()),
    }
}

pub fn check(volume: &Value) -> Result<PathBuf, String> {
    let path = PathBuf::from(volume["path"].as_str().unwrap_or_default());
    let kind = volume["type"].as_str().unwrap_or_default();
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    match kind {
        "DirectoryOrCreate" if !path.exists() => {
            fs::create_dir_all(&path).map_err(failed)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(failed)?;
        }
        "FileOrCreate" if !path.exists() => {
            File::create(&path).map_err(failed)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).map_err(failed)?;
        }
        // Runtimes make a directory of what is not there.
        "" if !path.exists() => fs::create_dir_all(&path).map_err(failed)?,
        _ => {}
    }
    let found = fs::metadata(&path).map(|meta| meta.file_type()).ok();
    let is = |test: fn(&FileType) -> bool| found.as_ref().is_some_and(test);
    let (holds, what) = match kind {
        "" => (true, ""),
        "Directory" | "DirectoryOrCreate" => (is(FileType::is_dir), "directory"),
        "File" | "FileOrCreate" => (is(FileType::is_file), "file"),
        "Socket" => (is(FileType::is_socket), "socket file"),
        "CharDevice" => (is(FileType::is_char_device), "character device"),
        "BlockDevice" => (is(FileType::is_block_device), "block device"),
        other => return Err(format!("{other} is an invalid volume type")),
    };
    match holds {
        true => Ok(path),
        false => Err(format!("hostPath type check failed: {} is not a {what}", path.display())),
    }
}
