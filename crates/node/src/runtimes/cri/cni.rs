//! What sandboxes need beside the runtime: an image, and a plugin of CNI.
//!
//! The network of pods is the node's own. A runtime insists on a plugin that makes one, so where
//! none is configured it gets one that only says yes. What others configured stays as it is.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::messages::{StatusRequest, StatusResponse};
use super::{Inner, archive};

/// How long a runtime may take to notice its plugin.
const NOTICE_MAX: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(100);
const PLUGIN: &str = "setpoint";
/// Every sandbox has it besides; ours brings that interface up itself.
const LOOPBACK: &str = "loopback";
/// The last of all, so that whatever else is put there comes first.
const LIST: &str = "99-setpoint.conflist";
/// What it was called before.
const FORMER_LIST: &str = "10-setpoint.conflist";
const LIST_TEXT: &str = r#"{"cniVersion": "0.4.0", "name": "setpoint",
 "plugins": [{"type": "setpoint"}]}
"#;
const PLUGIN_TEXT: &str = r#"#!/bin/sh
# Made by setpoint: its node gives pods their network itself, and this plugin only says yes.
version=$(sed -n 's/.*"cniVersion": *"\([0-9.]*\)".*/\1/p')
case "$CNI_COMMAND" in
ADD) printf '{"cniVersion":"%s","interfaces":[{"name":"%s","sandbox":"%s"}],' \
  "${version:-0.4.0}" "$CNI_IFNAME" "$CNI_NETNS"
  printf '"ips":[{"version":"4","interface":0,"address":"169.254.1.1/32"}],"dns":{}}' ;;
VERSION) printf '{"cniVersion":"0.4.0","supportedVersions":["0.3.0","0.3.1","0.4.0"]}' ;;
esac
"#;

/// What the runtime tells of itself.
struct Told {
    is_connected: bool,
    /// Why not.
    why: String,
    programs: Option<PathBuf>,
    lists: Option<PathBuf>,
    image: String,
}

/// Makes what is missing.
pub async fn prepare(inner: &Inner) -> Result<(), String> {
    let told = ask(inner).await?;
    if !told.image.is_empty() {
        make_image(inner, &told.image).await?;
    }
    if told.is_connected || inner.network().is_none() {
        return Ok(());
    }
    let (Some(programs), Some(lists)) = (&told.programs, &told.lists) else {
        return Err(format!(
            "{} has no network for pods: {}; configure a plugin of CNI",
            inner.answer.name, told.why
        ));
    };
    install(programs, lists).map_err(|error| {
        format!(
            "{} has no network for pods, and no plugin could be put into {} and {}: {error}",
            inner.answer.name,
            programs.display(),
            lists.display()
        )
    })?;
    let began = Instant::now();
    while !ask(inner).await?.is_connected {
        if began.elapsed() > NOTICE_MAX {
            return Err(format!("{} does not take its plugin: {}", inner.answer.name, told.why));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// Makes the image of sandboxes, unless it is there.
pub async fn make_image(inner: &Inner, name: &str) -> Result<(), String> {
    if inner.find_image(name).await?.is_some() {
        return Ok(());
    }
    let file = inner.options.directory.join("pause.tar");
    let write = || -> io::Result<()> {
        fs::create_dir_all(&inner.options.directory)?;
        fs::write(&file, archive::pause(name).ok_or(io::ErrorKind::Unsupported)?)
    };
    write().map_err(|error| {
        format!("the image of sandboxes, {name}, is not there and could not be made: {error}")
    })?;
    inner.load_archive(&file).await?;
    let _ = fs::remove_file(&file);
    Ok(())
}

/// The image of sandboxes that a runtime lacks, as it complains of that. Not every runtime tells
/// its name before: containerd 2 does not.
pub fn image_in(complaint: &str) -> Option<&str> {
    let (_, rest) = complaint.split_once("sandbox image \"")?;
    let (name, _) = rest.split_once('"')?;
    (!name.is_empty()).then_some(name)
}

async fn ask(inner: &Inner) -> Result<Told, String> {
    let request = StatusRequest { verbose: true };
    let status: StatusResponse = inner
        .client
        .runtime("Status", request)
        .await
        .map_err(|status| status.message().to_owned())?;
    let conditions = status.status.unwrap_or_default().conditions;
    let network = conditions.into_iter().find(|one| one.kind == "NetworkReady");
    let network = network.unwrap_or_default();
    let config = status.info.get("config").map_or("", String::as_str);
    let config: Value = serde_json::from_str(config).unwrap_or_default();
    let path = |name: &str| config["cni"][name].as_str().map(PathBuf::from);
    Ok(Told {
        is_connected: network.status,
        why: network.message,
        programs: path("binDir"),
        lists: path("confDir"),
        image: config["sandboxImage"].as_str().unwrap_or_default().to_owned(),
    })
}

/// Takes away what was put beside the runtime here; what others put there stays.
pub async fn remove_plugin(inner: &Inner) {
    let Ok(told) = ask(inner).await else { return };
    if let (Some(programs), Some(lists)) = (&told.programs, &told.lists) {
        uninstall(programs, lists);
    }
}

fn uninstall(programs: &Path, lists: &Path) {
    let list = |name: &str| (lists.join(name), LIST_TEXT);
    let program = |name: &str| (programs.join(name), PLUGIN_TEXT);
    // The list first: a plugin that is named must be there.
    for (path, text) in [list(LIST), list(FORMER_LIST), program(PLUGIN), program(LOOPBACK)] {
        if fs::read(&path).is_ok_and(|found| found == text.as_bytes()) {
            let _ = fs::remove_file(path);
        }
    }
}

fn install(programs: &Path, lists: &Path) -> io::Result<()> {
    fs::create_dir_all(programs)?;
    fs::create_dir_all(lists)?;
    for name in [PLUGIN, LOOPBACK] {
        let file = programs.join(name);
        if name == PLUGIN || !file.exists() {
            // Under its name only when it is whole.
            let beside = programs.join(format!(".{name}.new"));
            fs::write(&beside, PLUGIN_TEXT)?;
            fs::set_permissions(&beside, fs::Permissions::from_mode(0o755))?;
            fs::rename(beside, file)?;
        }
    }
    fs::write(lists.join(LIST), LIST_TEXT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::process::tests::directory;

    #[test]
    fn the_image_that_a_runtime_lacks_is_read_from_its_complaint() {
        let complaint = "failed to start sandbox \"a\": failed to get sandbox image \
                         \"registry.k8s.io/pause:3.10\": failed to pull image \
                         \"registry.k8s.io/pause:3.10\": not found";
        assert_eq!(image_in(complaint), Some("registry.k8s.io/pause:3.10"));
        assert_eq!(image_in("failed to setup network for sandbox \"a\""), None);
    }

    #[test]
    fn what_was_put_beside_a_runtime_goes_and_the_rest_stays() {
        let directory = directory("cni");
        let (programs, lists) = (directory.0.join("bin"), directory.0.join("conf"));
        fs::create_dir_all(&programs).unwrap();
        fs::write(programs.join(LOOPBACK), "of others").unwrap();
        install(&programs, &lists).unwrap();
        fs::write(lists.join("10-other.conflist"), "{}").unwrap();
        fs::write(lists.join(FORMER_LIST), LIST_TEXT).unwrap();
        uninstall(&programs, &lists);
        let names = |path: &Path| -> Vec<String> {
            let entries = fs::read_dir(path).unwrap().flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(
            (names(&programs), names(&lists)),
            (vec![LOOPBACK.to_owned()], vec!["10-other.conflist".to_owned()])
        );
        install(&programs, &lists).unwrap();
        // What somebody changed is not ours any more.
        fs::write(lists.join(LIST), "{}").unwrap();
        uninstall(&programs, &lists);
        assert!(lists.join(LIST).exists() && !programs.join(PLUGIN).exists());
    }
}
