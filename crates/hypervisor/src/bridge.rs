//! Bridges of this machine that guests are connected to. One that we made goes with its last
//! guest; one that was there is never taken away.

use std::fs::{self, File};
use std::path::Path;

use crate::error::Error;
use crate::system;

/// Holds the names of bridges that we made.
const MADE: &str = "bridges";

/// Connects a new interface of a guest to a bridge, which is made if there is none.
pub fn connect(directory: &Path, bridge: &str) -> Result<File, Error> {
    let doing = || Error::io(format!("connect a machine to the bridge {bridge}"));
    let (file, tap) = system::open_tap().map_err(doing())?;
    if !Path::new("/sys/class/net").join(bridge).exists() {
        // Noted first: what is noted and not made is made by the next, or forgotten.
        let made = directory.join(MADE);
        fs::create_dir_all(&made).map_err(doing())?;
        File::create(made.join(bridge)).map_err(doing())?;
        system::add_bridge(bridge).map_err(doing())?;
        system::set_up(bridge).map_err(doing())?;
    }
    system::join_bridge(bridge, &tap).map_err(doing())?;
    system::set_up(&tap).map_err(doing())?;
    Ok(file)
}

/// Takes away the bridges that we made and that nobody is connected to.
pub fn remove_unused(directory: &Path) {
    for entry in fs::read_dir(directory.join(MADE)).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let ports = Path::new("/sys/class/net").join(&name).join("brif");
        let is_used = fs::read_dir(ports).is_ok_and(|mut ports| ports.next().is_some());
        if is_used {
            continue;
        }
        if let Err(error) = system::remove_bridge(&name)
            && error.raw_os_error() != Some(libc::ENODEV)
            && error.raw_os_error() != Some(libc::ENXIO)
        {
            tracing::warn!(bridge = name, %error, "bridge not removed");
            continue;
        }
        let _ = fs::remove_file(entry.path());
    }
}
