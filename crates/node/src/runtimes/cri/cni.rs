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
const LIST: &str = "10-setpoint.conflist";
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
    if !told.image.is_empty() && inner.find_image(&told.image).await?.is_none() {
        let file = inner.options.directory.join("pause.tar");
        let write = || -> io::Result<()> {
            fs::create_dir_all(&inner.options.directory)?;
            fs::write(&file, archive::pause(&told.image).ok_or(io::ErrorKind::Unsupported)?)
        };
        write().map_err(|error| {
            format!(
                "the image of sandboxes, {}, is not there and could not be made: {error}",
                told.image
            )
        })?;
        inner.load_archive(&file).await?;
        let _ = fs::remove_file(&file);
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
