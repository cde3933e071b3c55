//! Bridges of this machine that guests are connected to. One that we made goes with its last
//! guest; one that was there is never taken away.

use std::fs::{self, File};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::error::Error;
use crate::system;

/// Holds the names of bridges that we made.
const MADE: &str = "bridges";
/// A bridge that was just made is not connected yet: meanwhile nobody looks whether it is used.
static TURN: Mutex<()> = Mutex::new(());

/// What the kernel takes for the name of an interface. It becomes the name of a file here, and `%`
/// would ask for another name.
pub fn check(name: &str) -> Result<(), Error> {
    let is_known = |byte: u8| byte.is_ascii_graphic() && !b"/:%".contains(&byte);
    let is_short = (1..libc::IFNAMSIZ).contains(&name.len());
    match is_short && name != "." && name != ".." && name.bytes().all(is_known) {
        true => Ok(()),
        false => Err(Error::Invalid(format!(
            "{name:?} is no name of a bridge: it has 1 to {} characters, without `/`, `:`, `%` and \
             blanks",
            libc::IFNAMSIZ - 1
        ))),
    }
}

/// Connects a new interface of a guest to a bridge, which is made if there is none.
pub fn connect(directory: &Path, bridge: &str) -> Result<File, Error> {
    check(bridge)?;
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
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
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_name_of_a_bridge_makes_no_file() {
        let place = std::env::temp_dir().join(format!("hypervisor-bridge-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let kept = place.join("kept");
        fs::write(&kept, "kept").unwrap();
        let outside = kept.display().to_string();
        for name in ["", ".", "..", "../kept", outside.as_str(), "a b", "br%d", "br-0123456789012"]
        {
            let said = connect(&place, name).unwrap_err().to_string();
            assert!(said.contains("is no name of a bridge"), "{said}");
        }
        assert_eq!(fs::read_to_string(&kept).unwrap(), "kept");
        assert!(!place.join(MADE).exists());
        assert!(check("br-012345678901").is_ok());
        fs::remove_dir_all(place).unwrap();
    }
}
