//! Opens disks that are there. Whoever may write where they lie could have put something else in
//! their place: what leads elsewhere is not followed, and only files are opened.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::fault::Fault;
use crate::system;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    /// As `Write`; a file that is not there is made.
    Make,
}

/// Opens a file of ours.
pub fn open(path: &Path, access: Access) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(access != Access::Read).create(access == Access::Make);
    // What is no file could make us wait for ever.
    let opened = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => not_a_file(path),
        _ => error,
    })?;
    if !file.metadata()?.is_file() {
        return Err(not_a_file(path));
    }
    system::let_wait(&file)?;
    Ok(file)
}

fn not_a_file(path: &Path) -> io::Error {
    let why = format!("{} is not a file", path.display());
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// A disk that no machine can begin to write while this is there.
#[derive(Debug)]
pub struct Idle {
    /// What is locked is while it is open.
    _file: File,
}

impl Idle {
    /// # Errors
    /// If a machine has it.
    pub fn hold(disk: &Path) -> Result<Idle, Fault> {
        let doing = || Fault::io(format!("lock {}", disk.display()));
        let file = open(disk, Access::Read).map_err(doing())?;
        match system::refuse_writers(&file).map_err(doing())? {
            true => Ok(Idle { _file: file }),
            false => Err(Fault::InUse(disk.display().to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_leads_elsewhere_is_not_opened() {
        let place = std::env::temp_dir().join(format!("hypervisor-open-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let (secret, disk) = (place.join("secret"), place.join("disk.img"));
        fs::write(&secret, "secret").unwrap();
        std::os::unix::fs::symlink(&secret, &disk).unwrap();
        for access in [Access::Read, Access::Write, Access::Make] {
            let said = open(&disk, access).unwrap_err().to_string();
            assert!(said.ends_with("is not a file"), "{said}");
            assert!(open(&place, access).is_err());
        }
        let made = std::process::Command::new("mkfifo").arg(place.join("pipe")).status();
        assert!(made.unwrap().success());
        assert!(open(&place.join("pipe"), Access::Read).is_err());
        assert!(super::super::grow(&disk, 1 << 20).is_err());
        assert!(super::super::copy(&disk, &place.join("copy.img"), 1 << 20).is_err());
        assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
        open(&secret, Access::Write).unwrap();
        fs::remove_dir_all(place).unwrap();
    }
}
