//! What an engine tells of a container, in our words, and how one that is there is taken up.

use std::path::{Path, PathBuf};

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::client::{Client, encode};
use super::{Docker, Pause, Run, create, logs, machine, tasks};
use crate::pod::confinement::signal;
use crate::runtime::{Container, ContainerId, Exit, State};

impl Docker {
    /// Takes up a container as the engine tells of it.
    pub(super) async fn find_again(&self, told: &Value) {
        let labels = &told["Config"]["Labels"];
        let label = |name: &str| labels[name].as_str().unwrap_or_default();
        let native = told["Id"].as_str().unwrap_or_default().to_owned();
        let state = &told["State"];
        if has_not_run(state) {
            // Somebody was killed between making and starting it.
            return self.delete(&native).await;
        }
        if label(create::KIND) == create::SANDBOX {
            let pid = state["Pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).unwrap_or(0);
            let host_network = label(create::HOST_NETWORK) == "true";
            let is_running = state["Running"] == true;
            let pod = label(create::POD_UID);
            let is_known = self.options.network.as_ref().is_none_or(|it| it.find(pod).is_some());
            let is_whole = is_running && (is_known || host_network);
            let pause = Pause { native, pid, is_running, is_whole, host_network };
            self.lock().pauses.insert(pod.to_owned(), pause);
            return;
        }
        let attempt = label(create::ATTEMPT).parse().unwrap_or(0);
        let id = ContainerId::new(label(create::POD_UID), label(create::NAME), attempt);
        let is_terminal = told["Config"]["Tty"] == true;
        let log = self.log_path((label(create::POD_NAMESPACE), label(create::POD_NAME)), &id);
        let run = Run {
            container: Container {
                id: id.clone(),
                image: label(create::IMAGE).to_owned(),
                image_id: told["Image"].as_str().unwrap_or_default().to_owned(),
                native_id: Some(native.clone()),
                failures: label(create::FAILURES).parse().unwrap_or(0),
                state: state_of(state),
            },
            output: self.follow_output(&native, &log, is_terminal),
            native,
            log,
            stop_signal: stop_signal(&told["Config"]),
            is_terminal,
            ended: watch::Sender::new(state["Running"] != true),
        };
        self.lock().runs.insert(id, run);
    }

    pub(super) fn follow_output(
        &self,
        native: &str,
        log: &Path,
        is_terminal: bool,
    ) -> Option<logs::Output> {
        if self.engine.is_podman {
            return None;
        }
        let followed = logs::Followed {
            client: self.client.clone(),
            native: native.to_owned(),
            path: log.to_owned(),
            is_terminal,
        };
        Some(logs::Output::of(followed))
    }

    pub(super) fn log_path(
        &self,
        (namespace, pod_name): (&str, &str),
        id: &ContainerId,
    ) -> PathBuf {
        let ContainerId { pod, name, attempt } = id;
        let folder = format!("{namespace}_{pod_name}_{pod}");
        self.options.directory.join("logs").join(folder).join(name).join(format!("{attempt}.log"))
    }
}

pub fn has_not_run(state: &Value) -> bool {
    matches!(state["Status"].as_str(), Some("created" | "configured" | "initialized"))
}

pub fn state_of(state: &Value) -> State {
    let time = |field: &str| state[field].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let began = time("StartedAt").unwrap_or(Timestamp::UNIX_EPOCH);
    if state["Running"] == true {
        return State::Running { since: began };
    }
    let code = state["ExitCode"].as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or(137);
    let reason = (state["OOMKilled"] == true).then_some("OOMKilled");
    let ended = time("FinishedAt").unwrap_or(began).max(began);
    State::Exited(Exit { began, ended, code, signal: None, reason })
}

/// What asks a container to end: what its pod says, else its image, else the usual.
pub fn stop_signal(config: &Value) -> i32 {
    let own = config["Labels"][create::STOP_SIGNAL].as_str().and_then(|text| text.parse().ok());
    let of_image = || match &config["StopSignal"] {
        // Podman tells numbers, and images may have them too, or names without their beginning.
        Value::Number(number) => number.as_i64().and_then(|number| i32::try_from(number).ok()),
        Value::String(text) => {
            let number = text.parse().ok();
            number.or_else(|| signal(text)).or_else(|| signal(&format!("SIG{text}")))
        }
        _ => None,
    };
    own.or_else(of_image).filter(|number| *number > 0).unwrap_or(libc::SIGTERM)
}

/// Somebody removed it.
pub fn vanished(began: Timestamp) -> Exit {
    let ended = tasks::now().max(began);
    Exit { began, ended, code: 137, signal: None, reason: Some("ContainerStatusUnknown") }
}

/// How many containers of a node go on. Nothing is changed.
pub async fn count_running(directory: &Path, socket: &Path) -> usize {
    let cluster = machine::engine(directory, false).cluster;
    let labels = [
        format!("{}={cluster}", create::CLUSTER),
        format!("{}={}", create::KIND, create::CONTAINER),
    ];
    let filters = json!({"label": labels}).to_string();
    let client = Client { socket: socket.to_owned() };
    let list = client.get(&format!("/containers/json?filters={}", encode(&filters))).await;
    list.ok().and_then(|list| list.as_array().map(Vec::len)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_asked_to_end_as_its_pod_or_its_image_says() {
        let told = |own: Value, image: Value| {
            stop_signal(&json!({"Labels": {create::STOP_SIGNAL: own}, "StopSignal": image}))
        };
        assert_eq!(told(Value::Null, json!("SIGQUIT")), libc::SIGQUIT);
        assert_eq!(told(Value::Null, json!("WINCH")), libc::SIGWINCH);
        assert_eq!(told(Value::Null, json!("SIGRTMIN+3")), 37);
        assert_eq!(told(Value::Null, json!("3")), libc::SIGQUIT);
        assert_eq!(told(Value::Null, json!(3)), libc::SIGQUIT);
        assert_eq!(told(json!("10"), json!("SIGQUIT")), libc::SIGUSR1);
        for unknown in [json!(""), json!(0), json!("SIGNONE"), Value::Null] {
            assert_eq!(told(Value::Null, unknown), libc::SIGTERM);
        }
    }
}
