//! Follows what happens to our containers: by the engine's events, and for those that are missed by
//! a look at everything now and then. When the engine is gone, what was known stays known until it
//! is back.

use std::collections::BTreeSet;
use std::sync::{PoisonError, Weak};
use std::time::Duration;

use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::client::{Error, encode};
use super::logs::Output;
use super::{Docker, create, tasks};

/// How often everything is looked at.
const LOOK: Duration = Duration::from_secs(10);
/// How long until an engine that does not answer is asked again.
const RETRY: Duration = Duration::from_millis(500);
/// The longest event.
const LINE_BYTES_MAX: usize = 1 << 20;
/// What may have ended a container.
const ENDS: [&str; 6] = ["die", "died", "destroy", "remove", "cleanup", "stop"];

/// Runs until the runtime is dropped.
pub async fn follow(runtime: Weak<Docker>) {
    loop {
        let Some(docker) = runtime.upgrade() else { return };
        let since = tasks::now().as_second() - 1;
        match docker.look_at_all().await {
            Ok(()) => docker.is_well(),
            Err(error) => {
                docker.is_unwell(&error);
                drop(docker);
                tokio::time::sleep(RETRY).await;
                continue;
            }
        }
        let listen = listen(runtime.clone(), docker.events_path(since));
        drop(docker);
        // Events end with the connection; a look follows either way.
        let _ = tokio::time::timeout(LOOK, listen).await;
    }
}

async fn listen(runtime: Weak<Docker>, path: String) {
    let Some(client) = runtime.upgrade().map(|docker| docker.client.clone()) else { return };
    let Ok(mut answer) = client.stream((Method::GET, &path), &[]).await else {
        return tokio::time::sleep(RETRY).await;
    };
    let mut held = Vec::new();
    while let Some(Ok(frame)) = answer.frame().await {
        held.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        while let Some(end) = held.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = held.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line).unwrap_or(Value::Null);
            let action = event["Action"].as_str().or(event["status"].as_str()).unwrap_or_default();
            let native = event["Actor"]["ID"].as_str().or(event["id"].as_str());
            if let (true, Some(native)) = (ENDS.contains(&action), native) {
                let Some(docker) = runtime.upgrade() else { return };
                // One that takes its time holds up nobody.
                let native = native.to_owned();
                tasks::spawn(async move { docker.settle(&native).await });
            }
        }
        if held.len() > LINE_BYTES_MAX {
            return;
        }
    }
}

impl Docker {
    fn events_path(&self, since: i64) -> String {
        let label = format!("{}={}", create::CLUSTER, self.engine.cluster);
        let filters = json!({"label": [label], "type": ["container"]}).to_string();
        format!("/events?since={since}&filters={}", encode(&filters))
    }

    /// Finds out what ended while nobody told.
    pub(super) async fn look_at_all(&self) -> Result<(), Error> {
        let list = self.list().await?;
        let is_running = |one: &&Value| one["State"] == "running" || one["State"] == "paused";
        let running: BTreeSet<&str> =
            list.iter().filter(is_running).filter_map(|one| one["Id"].as_str()).collect();
        let believed = self.believed_running();
        for native in believed.iter().filter(|native| !running.contains(native.as_str())) {
            self.settle(native).await;
        }
        self.follow_again(&running);
        let left = std::mem::take(&mut self.lock().left);
        for native in left {
            self.delete(&native).await;
        }
        if let Ok(images) = self.images.list().await {
            self.lock().images = images;
        }
        Ok(())
    }

    /// Follows the output of those that run and are not followed: the engine ended the connection,
    /// which it does when it is started anew.
    fn follow_again(&self, running: &BTreeSet<&str>) {
        let mut held = self.lock();
        let runs = held.runs.values_mut().filter(|run| running.contains(run.native.as_str()));
        for run in runs.filter(|run| run.container.is_running()) {
            if run.output.as_ref().is_some_and(Output::is_written) {
                run.output = self.follow_output(&run.native, &run.log, run.is_terminal);
            }
        }
    }

    fn is_well(&self) {
        let was = self.lock().trouble.take();
        if was.is_some() {
            tracing::info!(engine = self.name, "the engine answers again");
            self.tell_all();
        }
    }

    fn is_unwell(&self, error: &Error) {
        let before = self.lock().trouble.replace(error.message.clone());
        if before.is_none() {
            tracing::warn!(engine = self.name, error = error.message, "the engine does not answer");
        }
    }

    pub(super) fn tell_all(&self) {
        let pods: BTreeSet<String> = {
            let held = self.lock();
            let of_runs = held.runs.keys().map(|id| id.pod.clone());
            of_runs.chain(held.pauses.keys().cloned()).collect()
        };
        pods.iter().for_each(|pod| self.tell(pod));
    }

    pub(super) fn tell(&self, pod: &str) {
        let listener = self.listener.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(listener) = listener {
            listener(pod);
        }
    }
}
