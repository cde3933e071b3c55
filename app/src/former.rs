//! What has run the containers of this node until now. Under `auto` it goes on to do so, also while
//! it does not answer; where another is named, what it runs is ended first. Else the same pods
//! would run twice, once in each.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use node::network::Network;
use node::runtime::PodRuntime;
use node::runtimes::process;
use serde_json::{Value, json};

use crate::node_agent::{DIRECTORY, open_engine, open_process, stop_all};
use crate::podman;
use crate::runtimes::{Chosen, Runtime, Wanted};

/// In the node's directory: which engine has its containers, and where that listens.
const RECORD: &str = "engine.json";

/// An engine that has, or had, the containers of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    pub runtime: Runtime,
    pub socket: PathBuf,
}

/// What the containers of a data directory are to be run by, if nobody says otherwise.
pub fn of(data: &Path) -> Option<Wanted> {
    let directory = data.join(DIRECTORY);
    if process::count_running(&directory) > 0 {
        return Some(Wanted { runtime: Runtime::Process, socket: None });
    }
    let Engine { runtime, socket } = recorded(&directory)?;
    Some(Wanted { runtime, socket: Some(socket) })
}

/// Remembers which engine has the containers.
pub fn keep(directory: &Path, chosen: &Chosen) {
    let Some(socket) = &chosen.socket else { return };
    let record = json!({"runtime": chosen.runtime.name(), "socket": socket});
    let path = directory.join(RECORD);
    if let Err(error) = fs::write(&path, record.to_string()) {
        tracing::warn!(path = %path.display(), %error, "it is not kept which engine is used");
    }
}

/// Which engine that is.
pub fn recorded(directory: &Path) -> Option<Engine> {
    let text = fs::read_to_string(directory.join(RECORD)).ok()?;
    let record: Value = serde_json::from_str(&text).ok()?;
    let runtime = Runtime::parse(record["runtime"].as_str()?)?;
    Some(Engine { runtime, socket: PathBuf::from(record["socket"].as_str()?) })
}

/// No engine has containers any more.
pub fn forget(directory: &Path) {
    let _ = fs::remove_file(directory.join(RECORD));
}

/// The engine that had the containers, if it is not the one that is chosen.
pub fn other(data: &Path, chosen: &Chosen) -> Option<Engine> {
    let engine = recorded(&data.join(DIRECTORY))?;
    let is_same = chosen.socket.as_ref().is_some_and(|it| resolved(it) == resolved(&engine.socket));
    (!is_same).then_some(engine)
}

/// A socket without the links that lead to it; it need not be there.
fn resolved(socket: &Path) -> PathBuf {
    let whole = fs::canonicalize(socket).ok();
    let folder = || fs::canonicalize(socket.parent()?).ok().zip(socket.file_name());
    whole
        .or_else(|| folder().map(|(folder, name)| folder.join(name)))
        .unwrap_or_else(|| socket.to_owned())
}

/// Ends what others than the chosen one run for this node. An error is for people.
pub async fn leave(data: &Path, chosen: &Chosen, network: Option<Arc<Network>>) -> Result<()> {
    let directory = data.join(DIRECTORY);
    if chosen.runtime != Runtime::Process && process::count_running(&directory) > 0 {
        tracing::info!("what ran as plain processes is ended");
        end(&*open_process(&directory, network.clone(), Vec::new())?).await?;
    }
    let Some(engine) = other(data, chosen) else { return Ok(()) };
    let _podman = podman::serve_again(&engine, &directory).await;
    let former = open_engine(&engine, &directory, network).await;
    let former = former.with_context(|| silence(&engine, &directory))?;
    tracing::info!(engine = engine.runtime.name(), "what ran there is ended");
    end(&*former).await?;
    forget(&directory);
    Ok(())
}

/// What is said when the engine that has the containers does not answer, and what to do.
pub fn silence(engine: &Engine, directory: &Path) -> String {
    let (name, record) = (engine.runtime.name(), directory.join(RECORD));
    format!(
        "containers of this node may run in {name}, which does not answer; start it, or remove {} \
         if it is gone for good",
        record.display()
    )
}

async fn end(runtime: &dyn PodRuntime) -> Result<()> {
    stop_all(runtime).await?;
    for pod in runtime.containers().into_keys() {
        runtime.remove_pod(&pod).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_engine_that_has_the_containers_is_waited_for() {
        let name = format!("setpoint-former-{}", std::process::id());
        let data = std::env::temp_dir().join(name);
        let directory = data.join(DIRECTORY);
        fs::create_dir_all(&directory).expect("a directory");
        assert_eq!(of(&data), None);
        let socket = data.join("engine.sock");
        let named = |runtime, socket: &Path| Wanted { runtime, socket: Some(socket.to_owned()) };
        let docker = named(Runtime::Docker, &socket).choose().await;
        keep(&directory, &docker);
        let chosen = Wanted::default().choose_after(of(&data)).await;
        assert_eq!((chosen.runtime, chosen.socket.as_ref()), (Runtime::Docker, Some(&socket)));
        assert!(chosen.to_string().contains("does not answer yet"), "{chosen}");
        assert_eq!(other(&data, &chosen), None);
        // One that is named is taken, and the other has to be heard first.
        let process = Wanted { runtime: Runtime::Process, socket: None };
        let process = process.choose_after(of(&data)).await;
        assert_eq!(process.runtime, Runtime::Process);
        assert_eq!(other(&data, &process).map(|it| it.runtime), Some(Runtime::Docker));
        let error = leave(&data, &process, None).await.expect_err("nobody answers");
        assert!(format!("{error:#}").contains("may run in docker"), "{error:#}");
        let elsewhere = named(Runtime::Auto, &data.join("other.sock"));
        assert_eq!(elsewhere.choose_after(of(&data)).await.runtime, Runtime::Process);
        forget(&directory);
        leave(&data, &process, None).await.expect("nothing is left");
        fs::remove_dir_all(&data).expect("it goes");
    }
}
