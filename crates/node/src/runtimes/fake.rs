//! A runtime that runs nothing: tests say what becomes of its containers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::runtime::{
    Container, ContainerId, ContainerSpec, Executed, Exit, Listener, PodRuntime, Refusal, Sandbox,
    SandboxSpec, State,
};

/// Containers run from when they are started until `finish` or `stop`.
#[derive(Default)]
pub struct Fake {
    held: Mutex<BTreeMap<ContainerId, Container>>,
    listener: RwLock<Option<Listener>>,
    /// What was started, in order.
    pub started: Mutex<Vec<ContainerSpec>>,
}

impl Fake {
    /// Lets a container end.
    pub fn finish(&self, id: &ContainerId, code: i32) {
        if let Some(container) = self.lock().get_mut(id) {
            let now = Timestamp::UNIX_EPOCH;
            let exit = Exit { began: now, ended: now, code, signal: None, reason: None };
            container.state = State::Exited(exit);
        }
        self.tell(&id.pod);
    }

    fn tell(&self, pod: &str) {
        let listener = self.listener.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(listener) = &*listener {
            listener(pod);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ContainerId, Container>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait::async_trait]
impl PodRuntime for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn version(&self) -> String {
        "1".to_owned()
    }

    fn listen(&self, listener: Listener) {
        *self.listener.write().unwrap_or_else(PoisonError::into_inner) = Some(listener);
    }

    async fn sandbox(&self, _: &SandboxSpec) -> Result<Sandbox, Refusal> {
        Ok(Sandbox::default())
    }

    fn sandbox_of(&self, _: &str) -> Option<Sandbox> {
        Some(Sandbox::default())
    }

    fn containers(&self) -> BTreeMap<String, Vec<Container>> {
        let mut all: BTreeMap<String, Vec<Container>> = BTreeMap::new();
        for (id, container) in self.lock().iter() {
            all.entry(id.pod.clone()).or_default().push(container.clone());
        }
        all
    }

    fn of_pod(&self, pod: &str) -> Vec<Container> {
        self.containers().remove(pod).unwrap_or_default()
    }

    async fn start(&self, spec: &ContainerSpec) -> Result<(), Refusal> {
        let state = State::Running { since: Timestamp::UNIX_EPOCH };
        let (id, image) = (spec.id.clone(), spec.image.clone());
        let container = Container { id, image, failures: spec.failures, state };
        self.lock().entry(spec.id.clone()).or_insert(container);
        self.started.lock().unwrap_or_else(PoisonError::into_inner).push(spec.clone());
        Ok(())
    }

    async fn stop(&self, id: &ContainerId, _: Duration) -> Result<(), Refusal> {
        if self.lock().get(id).is_some_and(Container::is_running) {
            self.finish(id, 143);
        }
        Ok(())
    }

    async fn ended(&self, id: &ContainerId) {
        if self.lock().get(id).is_some_and(Container::is_running) {
            std::future::pending::<()>().await;
        }
    }

    async fn remove(&self, id: &ContainerId) {
        self.lock().remove(id);
    }

    async fn remove_pod(&self, pod: &str) {
        self.lock().retain(|id, _| id.pod != pod);
    }

    fn log(&self, _: &ContainerId) -> PathBuf {
        PathBuf::new()
    }

    async fn exec(&self, _: &ContainerId, _: &[String]) -> Result<Executed, Refusal> {
        Ok(Executed { code: 0, output: Vec::new() })
    }
}
